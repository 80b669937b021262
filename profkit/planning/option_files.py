"""Options of ``conf/``, parsed once: a selection reads most of them again for each of its parts."""

import copy
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ConfigDefault, GroupDefault
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from profkit.core import resources
from profkit.core.errors import ConfigError

MAIN = "profkit_config"
"""Name of profkit's own config.yaml: a user's program may well have one of that name in conf/."""

# What Hydra would add for the programs that it starts, to each configuration.
_OF_PROGRAMS = (
    *("env", "help", "hydra_help", "hydra_logging"),
    *("job_logging", "launcher", "output", "sweeper"),
)

_parsed: dict[tuple[str, int, int], bytes] = {}


class OptionFiles(FileConfigSource):
    """Hydra's source of files, which parses a file again only after it was changed."""

    @staticmethod
    def scheme() -> str:
        """See Hydra's `ConfigSource`."""
        return "options"

    def is_config(self, config_path: str) -> bool:
        """See Hydra's `ConfigSource`."""
        return super().is_config(self._name(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        """See Hydra's `ConfigSource`."""
        name = self._name(config_path)
        path = Path(self.path, self._normalize_file_name(name))
        state = path.stat()
        key = (str(path), state.st_mtime_ns, state.st_size)
        if key not in _parsed:
            try:
                _parsed[key] = pickle.dumps(super().load_config(name))
            except OSError as error:  # OmegaConf's, for a file that holds a number
                hint = "write keys with their values, such as `batch: 4`"
                raise ConfigError(f"{path}: {error}", hint=hint) from None
        # Hydra changes what it gets; this takes a twentieth of the time of YAML.
        result: ConfigResult = pickle.loads(_parsed[key])  # noqa: S301 - written above
        return result

    def _name(self, config_path: str) -> str:
        return "config" if (self.provider, config_path) == ("main", MAIN) else config_path


class Options(ConfigRepository):
    """Hydra's options, of which those of many analyses are one: each takes its time to compose."""

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        """Copy what may change, the list of sources, and not all that Hydra has stored."""
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """See Hydra's `ConfigRepository`."""
        result = super().load_config(config_path)
        if result is None or result.defaults_list is None:
            return result
        if config_path == MAIN:
            groups = [f"hydra/{name}" for name in _OF_PROGRAMS]
            result.defaults_list += [GroupDefault(group=name, override=True) for name in groups]
        if config_path == "analysis/all":
            included = [one for one in result.defaults_list if isinstance(one, ConfigDefault)]
            content = self.of_analyses(str(option.path) for option in included)
            result.config = OmegaConf.create({"analyses": content})
            result.defaults_list = [one for one in included if str(one.path) not in content]
        return result

    def of_analyses(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the options of those analyses that are profkit's own and include no others."""
        found = {name: super(Options, self).load_config(f"analysis/{name}") for name in names}
        return {
            name: option.config
            for name, option in found.items()
            if option is not None
            and (option.provider, option.header["package"]) == ("main", f"analyses.{name}")
            and not option.defaults_list
        }


class OwnOptions(SearchPathPlugin):
    """Lets the options in the user's ``conf/`` be found, before those of the same name here."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """See Hydra's `SearchPathPlugin`."""
        for element in [*search_path.get_path()]:
            if element.provider == "main" and element.path:
                folder = element.path.removeprefix("file://")
                element.path = f"{OptionFiles.scheme()}://{folder}"
                if resources.own_conf().resolve() != Path(folder):
                    own = f"{OptionFiles.scheme()}://{resources.own_conf()}"
                    search_path.prepend("own", own, anchor="main")
