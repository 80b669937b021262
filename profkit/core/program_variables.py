"""Environment variables that change how a program runs: with others, a capture is another one.

Those of libraries count by their names, others where the program's own files read them. Kept are
hashes: what a value is, no record says.
"""

import hashlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from profkit.core.secret_names import is_secret_name

UNSET = ""
"""Stands for the hash of a variable that is not there."""

_OF_LIBRARIES = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NCCL|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|GLOO|HIP|HSA|ROCR|RCCL|MIOPEN"
    r"|OMP|MKL|KMP|GOMP|ACCELERATE|FSDP|MALLOC)_\w+"
    r"|NVIDIA_TF32_OVERRIDE|TOKENIZERS_PARALLELISM|PYTHONOPTIMIZE|PYTHONMALLOC|LD_PRELOAD"
)
_OF_PLACES = re.compile(r"\w+_(?:DIR|HOME|PATH|CACHE|ROOT|FILE)")
_READS = re.compile(r"""(?:environ(?:\.get)?|getenv)\s*[\[(]\s*[rbuRBU]?["'](\w+)["']""")
_OF_SESSIONS = re.compile(
    r"(?:SLURM|SSH|XDG|PROFKIT|CONDA|LSB|PBS|KUBERNETES|TORCHELASTIC|OMPI|PMI\w*)_\w+"
    r"|(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)|MASTER_\w+|HOME|USER\w*|LOGNAME|PATH|PYTHONPATH"
    r"|PWD|OLDPWD|HOST\w*|TMP\w*|TEMP|TERM\w*|SHELL|SHLVL|DISPLAY|COLUMNS|LINES|_"
)
"""Those that differ with each login, or that launchers set."""

_MAX_BYTES = 1 << 20


def captured(
    environment: Mapping[str, str], added: Iterable[str], sources: Iterable[Mapping[str, str]]
) -> dict[str, str]:
    """Return the hashes of the variables that a capture depends on, by name.

    They are those of the `environment` that its command starts with, without those that are `added`
    to the caller's own, as its settings say these; `sources` are the files of the program.
    """
    read = {name for source in sources for name in _read_by(Path(source["path"]))}
    names = {*read, *of_libraries(environment)} - {*added}
    return {name: hashed(name, environment) for name in sorted(names)}


def changes(record: Mapping[str, Any], now: Iterable[str]) -> Iterator[str]:
    """Yield which variables are other ones than those of the capture of `record`, in words.

    `now` are the names of those of libraries. Captures of other hosts had variables of their own.
    """
    then = record.get("variables")
    if then is None or record.get("machine", {}).get("hostname") != socket.gethostname():
        return
    for name in sorted({*then, *now} - {*record.get("environment_added", ())}):
        if hashed(name) != then.get(name, UNSET):
            yield f"the variable {name} has changed since it was captured"


def of_libraries(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of variables of libraries that change how they work."""
    return [
        name
        for name in environment
        if _OF_LIBRARIES.fullmatch(name) and not _OF_PLACES.fullmatch(name) and _counts(name)
    ]


def hashed(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the hash of a variable's value; `UNSET` if it is not there."""
    if (value := environment.get(name)) is None:
        return UNSET
    return hashlib.sha256(f"{name}={value}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _read_by(path: Path) -> Iterator[str]:
    """Yield the names of variables that a Python file reads."""
    if path.suffix == ".py" and path.is_file() and path.stat().st_size <= _MAX_BYTES:
        yield from filter(_counts, _READS.findall(path.read_text(errors="replace")))


def _counts(name: str) -> bool:
    return not (_OF_SESSIONS.fullmatch(name) or is_secret_name(name))
