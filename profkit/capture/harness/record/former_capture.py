"""The good capture that is there already, where the same is captured anew: kept until that is done.

A person who ends the program before anything was recorded loses nothing by it.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.capture.harness.record import capture_json
from profkit.core.capture_record import read_capture, was_cut_short

KEPT = "interrupted: what was recorded before is kept"
_FOLDER = ".before"
_REQUEST = ("tool", "repeat", "attempt", "settings", "workload")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormerCapture:
    """What the folder of a capture held before."""

    out: Path

    is_good: bool
    """Whether it was captured well, as the same attempt with the same settings."""

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Keep it aside while another one is made, and have it back if that ends by an exception.

        What is not good is removed.
        """
        if not self.is_good:
            capture_json.clear(self.out)
            yield
            return
        aside = self.out / _FOLDER
        aside.mkdir()
        for path in capture_json.own_files(self.out):
            path.rename(aside / path.name)
        try:
            yield
        except BaseException:
            self.comes_back()
            raise

    def comes_back(self) -> bool:
        """Put it in the place of what was made since, if it is there; say whether it is."""
        is_there = (self.out / _FOLDER).is_dir()
        if is_there:
            _bring_back(self.out)
        return is_there


def found(out: Path, requested: Mapping[str, Any]) -> FormerCapture:
    """Return what is in `out`, or was when an attempt to replace it was killed.

    What is `requested` now is as a record says it.
    """
    if (out / _FOLDER).is_dir():
        _bring_back(out)
    path = out / capture_json.NAME
    record = read_capture(path) if path.is_file() else {}
    is_good = record.get("status") == "ok" and not was_cut_short(record)
    asked = json.loads(json.dumps(requested))
    is_same = all(record.get(name) == asked[name] for name in _REQUEST)
    return FormerCapture(out=out, is_good=is_good and is_same)


def forget(out: Path) -> None:
    """Remove what was set aside in `out`, as there is another one."""
    shutil.rmtree(out / _FOLDER, ignore_errors=True)


def _bring_back(out: Path) -> None:
    capture_json.clear(out)
    aside = out / _FOLDER
    for path in aside.iterdir():
        path.rename(out / path.name)
    aside.rmdir()
