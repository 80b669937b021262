"""Reports (.ncu-rep) of any version, opened by NVIDIA's own reader in a process of its own.

The reader is native code that follows what a file says: a damaged one may take its process down,
and must not take the conversion with it.
"""

import importlib.metadata
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from profkit.convert.ncu.launches import Launch
from profkit.core.errors import InputError

MAGIC = b"NVR\0"
"""How every report begins."""

UNREADABLE = 3
"""Exit status of the process that reads when there is nothing that it could read."""

_READER = "profkit.convert.ncu.reader_process"
_TIMEOUT_S = 1800


def read(path: Path) -> list[Launch]:
    """Return the launches in the report at `path`; raises `InputError` with the reason."""
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
