"""Where the workflow and the configuration lie: in a checkout, in an installed wheel, in yours."""

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_SHIPPED = _PACKAGE / "_shipped"
_HOME = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent

CONF = _HOME / "conf"
"""Folder of the configuration groups."""

SNAKEFILE = _HOME / "Snakefile"
"""The workflow."""

PROFILES = _HOME / "profiles"
"""Folders of Snakemake's settings, one for each kind of machine."""

PROFILE = PROFILES / "default"
"""Snakemake's settings for every machine; it finds them itself beside the workflow."""

PROFILE_FILE = "config.yaml"
"""Name of the file of settings in the folder of a profile."""


def own_conf() -> Path:
    """Return the folder where users keep options of their own, in the folder that they stand in."""
    return Path.cwd() / "conf"


def cluster_profiles() -> dict[str, Path]:
    """Return the folder of each profile of a cluster by name, the user's own before profkit's."""
    files = (
        path
        for folder in (PROFILES, Path.cwd() / "profiles")
        for path in folder.glob(f"*/{PROFILE_FILE}")
    )
    found = {path.parent.name: path.parent for path in files}
    found.pop(PROFILE.name, None)
    return found


def folders(group: str = "", conf: Path = CONF) -> list[Path]:
    """Return the folders of configuration group `group` that exist, the user's own first."""
    both = dict.fromkeys((own_conf().resolve(), conf.resolve()))
    return [folder / group for folder in both if (folder / group).is_dir()]


def options(group: str) -> Iterator[Path]:
    """Yield the file of each option of `group` by name; of two of a name, the user's own."""
    files: dict[str, Path] = {}
    for folder in folders(group):
        for path in folder.glob("*.yaml"):
            files.setdefault(path.stem, path)
    yield from (files[name] for name in sorted(files))
