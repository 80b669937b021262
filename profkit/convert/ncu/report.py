"""Reports (.ncu-rep) of any version, opened by NVIDIA's own reader in a process of its own.

The reader is native code that follows what a file says: a damaged one may take its process down,
and must not take the conversion with it.
"""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from profkit.convert.ncu.launches import Launch
from profkit.convert.ncu.report_blocks import cut_behind
from profkit.core.errors import InputError

UNREADABLE = 3
"""Exit status of the process that reads when there is nothing that it could read."""

_READER = "profkit.convert.ncu.reader_process"
_TIMEOUT_S = 1800


def read(path: Path) -> list[Launch]:
    """Return the launches in the report at `path`; raises `InputError` with the reason.

    Of one that is cut off, these are the launches that are there as a whole: the reader takes what
    is there of the last one for all of it.
    """
    if (whole := cut_behind(path)) is None:
        return _launches(path)
    with NamedTemporaryFile(suffix=path.suffix) as part:
        shutil.copyfile(path, part.name)
        os.truncate(part.name, whole)
        try:
            return _launches(Path(part.name))
        except InputError:
            raise InputError(
                f"{path}: it is cut off before the end of its first launch",
                hint="copy it again, or measure again: see whether the disk is full",
            ) from None


def _launches(path: Path) -> list[Launch]:
    """Return what NVIDIA's reader finds in the report at `path`."""
    command = [sys.executable, "-m", _READER, str(path.resolve())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise _unreadable(path, f"reading takes more than {_TIMEOUT_S} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise _unreadable(path, f"NVIDIA's reader crashes on it ({name})")
    if done.returncode == UNREADABLE:
        raise _unreadable(path, "NVIDIA's reader finds nothing in it")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise _unreadable(path, f"NVIDIA's reader fails: {lines[-1]}")
    launches = msgspec.json.decode(done.stdout, type=list[Launch])
    if not launches:
        raise InputError(
            f"{path}: no kernel was measured",
            hint="its filters matched no launch: see the settings kernel, launch_skip and steps",
        )
    return launches


def _unreadable(path: Path, why: str) -> InputError:
    version = importlib.metadata.version("ncu-report")
    return InputError(
        f"{path}: {why}: it is damaged, cut off, or newer than ncu-report {version} can read",
        hint="pip install --upgrade ncu-report, or export it with the ncu that wrote it:"
        " ncu --import FILE --csv --page raw",
    )
