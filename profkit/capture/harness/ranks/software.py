"""The Python, the PyTorch and the packages of a process.

A program may run with another Python than profkit's, in another virtual environment or container:
so each first rank writes its own, for the record of the capture.
"""

import importlib.util
import json
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from profkit.capture.base import Rank

_PART = ".software.json"
# How installers name the folder, or the file, that describes a package.
_DESCRIPTION = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(-py[\d.]+)?\.(dist|egg)-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class Software:
    """What a process runs with."""

    python: str
    """The version of Python."""

    packages: dict[str, str]
    """Versions of all packages, with their names in small letters and with hyphens."""

    builds: dict[str, str]
    """The versions of ``cuda`` and ``hip`` that torch is built for; ``cuda`` is "" for none."""

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the software of this process; imports nothing, torch alone would take seconds."""
        packages: dict[str, str] = {}
        for name, version in _described():
            # Of two, Python imports the first.
            packages.setdefault(_normal(name), version)
        torch = _torch()
        # One that was built here is in no folder of packages.
        packages |= {"torch": torch["__version__"]} if "__version__" in torch else {}
        builds = {"cuda": torch.get("cuda") or ""}
        builds |= {"hip": torch["hip"]} if torch.get("hip") else {}
        python = sys.version.partition(" ")[0]
        return cls(python=python, packages=dict(sorted(packages.items())), builds=builds)

    def version(self, package: str) -> str:
        """Return the version of a package; "" if it is not there."""
        return self.packages.get(_normal(package), "")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _described() -> Iterator[tuple[str, str]]:
    """Yield name and version of each package that Python finds here."""
    for folder in sys.path:
        # One that is none, or may not be listed, has no package for Python either.
        with suppress(OSError):
            for path in Path(folder).iterdir():
                if found := _DESCRIPTION.fullmatch(path.name):
                    yield found["name"], found["version"]


def _torch() -> dict[str, str]:
    """Return what torch states of its version; nothing if it is not installed."""
    stated = vars(sys.modules["torch.version"]) if "torch.version" in sys.modules else _in_file()
    known = ("__version__", "cuda", "hip")
    return {name: str(value) for name in known if (value := stated.get(name))}


def _in_file() -> dict[str, Any]:
    """Return the same of a torch that is not imported.

    `runpy` changes ``sys.argv`` for a moment: no program of the user's has begun then.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).with_name("version.py")
    return runpy.run_path(str(path)) if path.is_file() else {}


def write(out: Path, rank: Rank) -> None:
    """Write the software of this process to `out`, if it is a first rank."""
    if rank.rank == 0:
        text = json.dumps(asdict(Software.of_this_process()))
        (out / f"{rank.label}{_PART}").write_text(text)


def collect(out: Path) -> Software | None:
    """Return what the first rank wrote, and remove the ranks' files; None if none wrote any."""
    parts = sorted(out.glob(f"*{_PART}"))
    found = [Software(**json.loads(path.read_text())) for path in parts]
    for path in parts:
        path.unlink()
    return found[0] if found else None
