"""The words of a whole command line: assignments, the program, and the script that it runs."""

import glob
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import accumulate, dropwhile
from pathlib import Path

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
# Programs that run another one; the script is among their words.
_STARTERS = re.compile(
    r"(python|pypy)[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|(ba|da|z|k)?sh"
    r"|uv|uvx|poetry|pipenv|pdm|hatch|rye|conda|mamba|micromamba|env|time|nice|taskset|numactl"
)
_READER = re.compile(r"(python|pypy)[\d.]*|(ba|da|z|k)?sh")
# Flags of Python and of shells that are not followed by what runs, unlike -c and -m.
_FLAG = re.compile(r"-[A-Zabdeilnpqsuvx]+")
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SCRIPT = re.compile(r".*\.(py|pyz|sh)")


def split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the assignments in front of a command, as in a shell, and the command itself."""
    variables: dict[str, str] = {}
    for index, word in enumerate(words):
        if (found := _ASSIGNMENT.fullmatch(word)) is None:
            return variables, list(words[index:])
        variables[found[1]] = found[2]
    return variables, []


def script(words: Sequence[str]) -> str:
    """Return the word that names what a command runs: a script, a module, or the program itself."""
    command = split(words)[1]
    if not command:
        return ""
    if not starts_another(command[0]):
        return command[1] if command[0] == "-m" and len(command) > 1 else command[0]
    for index, word in enumerate(command[1:], start=1):
        if word in ("-m", "--module") and index + 1 < len(command):
            return command[index + 1]
        if _SCRIPT.fullmatch(word) and "=" not in word:
            return word
    return command[0]


def starts_another(program: str) -> bool:
    """Say whether a program is one that runs another, as an interpreter or a launcher does."""
    return _STARTERS.fullmatch(Path(program).name) is not None


def reads_program(words: Sequence[str]) -> bool:
    """Say whether Python, or a shell, reads what it runs from its standard input: ``python -``."""
    command = split(words)[1]
    named = next((index for index, word in enumerate(command) if _names_program(word)), None)
    if named is None or not starts_another(command[0]):
        return False
    # Nothing but flags is behind it, as in `python -u`, unlike `python -c '...'`.
    behind = (word for word in command[named + 1 :] if word == "-" or not _FLAG.fullmatch(word))
    return bool(_READER.fullmatch(Path(command[named]).name)) and next(behind, "-") == "-"


def _names_program(word: str) -> bool:
    """Say whether `word` decides what runs: an interpreter, a script, or ``-m``."""
    is_reader = _READER.fullmatch(Path(word).name) is not None
    return is_reader or word in ("-m", "--module") or _SCRIPT.fullmatch(word) is not None


def missing_program(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return why the program of a command cannot be started from `folder`, or ""."""
    variables, command = split(words)
    if not command:
        return "it has assignments and no program" if variables else "it is empty"
    name = command[0]
    path = variables.get("PATH", environment.get("PATH", os.defpath))
    if os.sep in name or not name:
        found = folder / name
        if not os.path.isfile(found):  # noqa: PTH113 - it may be a text
            return f"no such program: {found}"
        return "" if os.access(found, os.X_OK) else f"{found} is not executable; {_start(found)}"
    if shutil.which(name, path=path):
        return _missing_script(command, folder)
    if os.path.isfile(folder / name):  # noqa: PTH113
        return f"{name} is no program on PATH; {_start(Path(name))}"
    return f"no program named {name!r} on PATH"


def _missing_script(command: Sequence[str], folder: Path) -> str:
    """Return that the script or module behind a plain ``python`` is not there, or ""."""
    if not _PYTHON.fullmatch(command[0]):
        return ""
    named = [*dropwhile(_FLAG.fullmatch, command[1:])]
    if named[:1] == ["-m"]:
        return _missing_module("".join(named[1:2]), folder)
    path = folder / (named or [""])[0]
    is_there = os.path.exists(path)  # noqa: PTH110
    return no_script(path) if _SCRIPT.fullmatch(path.name) and not is_there else ""


def _missing_module(name: str, folder: Path) -> str:
    """Return that a package in `folder` has no module of this name, or "".

    A folder that does not say that it is a package may be shadowed by one that is installed.
    """
    *packages, module = name.split(".")
    path = folder.joinpath(*packages)
    inner = accumulate(packages, Path.__truediv__, initial=folder)
    if not packages or not all((one / "__init__.py").is_file() for one in [*inner][1:]):
        return ""
    is_there = (path / module).is_dir() or any(path.glob(f"{glob.escape(module)}.*"))
    return "" if is_there else no_script(path / f"{module}.py")


def no_script(path: Path) -> str:
    """Return that there is no script at `path`, and which one beside it has a similar name."""
    import difflib

    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    return f"no such script: {path}{f'; is it {close[0]}?' if close else ''}"


def _start(path: Path) -> str:
    starter = {".py": "python ", ".sh": "bash "}.get(path.suffix)
    return f"write {starter}{path.name}" if starter else f"write ./{path.name}, or chmod +x it"
