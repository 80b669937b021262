"""Options of ``conf/``, parsed once: a selection reads most of them again for each of its parts."""

import pickle
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin

from profkit.core import resources

_parsed: dict[tuple[str, int, int], bytes] = {}


class OptionFiles(FileConfigSource):
    """Hydra's source of files, which parses a file again only after it was changed."""

    @staticmethod
    def scheme() -> str:
        """See Hydra's `ConfigSource`."""
        return "options"

    def load_config(self, config_path: str) -> ConfigResult:
        """See Hydra's `ConfigSource`."""
        path = Path(self.path, self._normalize_file_name(config_path))
        state = path.stat()
        key = (str(path), state.st_mtime_ns, state.st_size)
        if key not in _parsed:
            _parsed[key] = pickle.dumps(super().load_config(config_path))
        # Hydra changes what it gets; this takes a twentieth of the time of YAML.
        result: ConfigResult = pickle.loads(_parsed[key])  # noqa: S301 - written above
        return result


class OwnOptions(SearchPathPlugin):
    """Lets the options in the user's ``conf/`` be found, before those of the same name here."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """See Hydra's `SearchPathPlugin`."""
        for element in search_path.get_path():
            if element.provider == "main" and element.path:
                folder = element.path.removeprefix("file://")
                element.path = f"{OptionFiles.scheme()}://{folder}"
        own = f"{OptionFiles.scheme()}://{resources.own_conf()}"
        search_path.prepend("own", own, anchor="main")
