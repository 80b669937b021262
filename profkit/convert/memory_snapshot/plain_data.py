"""An unpickler for plain data, and a process that tries a pickle before this one opens it.

A pickle of a few bytes can ask for gigabytes, or for years: its opcodes name sizes and slots of
memory, and keys that are compared piece by piece. C code does that, and nothing can interrupt it
but the end of its process. So a process of its own, with limits that follow the file's size, reads
the file first; it needs nothing but the standard library.
"""

import gc
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_MEMORY_BYTES = 1 << 30
_MEMORY_TIMES = 64
"""How much memory a pickle may take: this, and so many times its size; a real one takes ten."""
_SECONDS = 20
_BYTES_PER_S = 4 << 20
"""How long it may take: this, and a second for so many bytes; a real one needs one for 80 MB."""
_TOO_LARGE = 3


class Refused(pickle.UnpicklingError):
    """The pickle names a class or function."""


class PlainData(pickle.Unpickler):
    """Loads lists, dicts, texts and numbers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse to import anything."""
        raise Refused(f"{module}.{name}")

    def persistent_load(self, pid: object) -> Any:
        """Refuse to look anything up."""
        raise Refused(f"persistent object {str(pid)[:80]!r}")


def beyond_limits(path: Path) -> str:
    """Return which limit reading the pickle at `path` goes beyond, "" for none."""
    size = path.stat().st_size
    memory, seconds = _MEMORY_BYTES + _MEMORY_TIMES * size, _SECONDS + size // _BYTES_PER_S
    # -I and -S: nothing of the user's or of packages is looked for, so it starts in 20 ms.
    command = [sys.executable, "-I", "-S", __file__, str(path), str(memory), str(seconds)]
    status = subprocess.run(command, check=False, capture_output=True).returncode
    if status == _TOO_LARGE:
        return f"more than {memory >> 20:,} MiB of memory"
    return f"more than {seconds} s" if status < 0 else ""


def _try(path: str, memory: int, seconds: int) -> int:
    """Read the pickle within limits and return whether it is too large; all else can wait."""
    gc.disable()  # it would take two thirds of the time
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        with Path(path).open("rb") as file:
            PlainData(file).load()
    except MemoryError:
        return _TOO_LARGE
    except Exception:  # noqa: BLE001 - who reads it next says what it is
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(_try(sys.argv[1], *map(int, sys.argv[2:])))
