"""Environment variables that change how a program runs: with others, a capture is another one.

Those of libraries count by their names, others where the program's own files read them. What is
compared are hashes; the values of those of libraries are in the record as well.
"""

import fnmatch
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

# No other value of the environment is ever written: it is full of secrets.
_ALLOWED = (
    *("CUDA_*", "CUBLAS_*", "CUDNN_*", "NCCL_*", "NVIDIA_TF32_OVERRIDE", "NVIDIA_VISIBLE_DEVICES"),
    *("TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "GLOO_*", "UCX_*", "FI_*"),
    *("HIP_*", "ROCR_*", "HSA_*", "RCCL_*", "MIOPEN_*"),
    *("OMP_*", "MKL_*", "KMP_*", "GOMP_*", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("DS_ACCELERATOR", "DS_SKIP_CUDA_CHECK", "ACCELERATE_*", "FSDP_*", "HF_HUB_OFFLINE"),
    *("PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONNOUSERSITE", "PYTHONGC"),
    *("LD_PRELOAD", "MALLOC_*", "LC_ALL", "LANG", "TZ", "CONDA_DEFAULT_ENV"),
)
_IS_ALLOWED = re.compile("|".join(map(fnmatch.translate, _ALLOWED)))
_OF_PLACES = re.compile(
    r"\w+_(?:DIR|HOME|PATH|CACHE|ROOT|FILE)|LC_ALL|LANG|TZ|PYTHONNOUSERSITE|OPENBLAS_NUM_THREADS"
)
"""Those that say where files lie or whose machine it is, and the one that profkit sets itself."""

_READS = re.compile(r"""(?:environ(?:\.get)?|getenv)\s*[\[(]\s*[rbuRBU]?["'](\w+)["']""")
_SHELLS = {".sh", ".bash", ".zsh", ".ksh"}
_SHELL_READS = re.compile(r"\$\{?([A-Za-z_]\w*)")
_SHELL_SETS = re.compile(
    r"(?:^|[;&|({]|\b(?:do|then|else|export|local|readonly|declare))[ \t]*([A-Za-z_]\w*)"
    r"""\+?=("[^"]*"|'[^']*'|[^\s;&|]*)"""
    r"|\b(?:for|read)[ \t]+(?:-\w+[ \t]+)*([A-Za-z_]\w*)",
    re.MULTILINE,
)
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


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of libraries, with their values, that may be in a record."""
    return {
        name: environment[name]
        for name in sorted(environment)
        if _IS_ALLOWED.match(name) and not is_secret_name(name)
    }


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
    given = recorded(environment)
    return [name for name in given if not _OF_PLACES.fullmatch(name) and _counts(name)]


def hashed(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the hash of a variable's value; `UNSET` if it is not there."""
    if (value := environment.get(name)) is None:
        return UNSET
    return hashlib.sha256(f"{name}={value}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _read_by(path: Path) -> Iterator[str]:
    """Yield the names of variables that a file of Python or of a shell reads."""
    if not path.is_file() or path.stat().st_size > _MAX_BYTES:
        return
    text = path.read_text(errors="replace") if path.suffix in {".py", "", *_SHELLS} else ""
    first, _, _ = text.partition("\n")
    if path.suffix == ".py" or (first.startswith("#!") and "python" in first):
        yield from filter(_counts, _READS.findall(text))
    elif path.suffix in _SHELLS or (first.startswith("#!") and "sh" in first):
        yield from filter(_counts, {*_SHELL_READS.findall(text)} - {*_set_in(text)})


def _set_in(text: str) -> Iterator[str]:
    """Yield the variables that a script sets itself, of nothing that they were before."""
    for name, value, counted in _SHELL_SETS.findall(text):
        if not name or name not in _SHELL_READS.findall(value):
            yield name or counted


def _counts(name: str) -> bool:
    return not (_OF_SESSIONS.fullmatch(name) or is_secret_name(name))
