"""Files of YAML, read as fast as the installed PyYAML can."""

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C takes a sixth of the time; not every build of PyYAML has it."""


def read_yaml(path: Path) -> Any:
    """Return the plain values in the file at `path`; None if it is empty."""
    return yaml.load(path.read_bytes(), Loader=_LOADER)  # noqa: S506 - a safe one
