"""The manifest of a run, read as what it may be: a file from a stranger."""

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec

from profkit.core import program_variables
from profkit.core.errors import InputError

# As long as a folder's name can be.
_RUN = re.compile(r"\w[\w.+-]{0,254}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
# Of the variables that a manifest has, those that name code to load or a program to start.
_LOADS_CODE = (
    *("LD_PRELOAD", "*PATH*", "*PLUGIN*", "*LIB*", "*HOME*", "*INJECTION*", "*NVCC*"),
    *("*COMPILER*", "*COMMAND*", "*_DIR", "*_FILE", "*URL*"),
)
# Numbers, words and lists of them: no path and no command.
_PLAIN_VALUE = re.compile(r"[\w.,:=+^{}()*-]*")


class Commit(TypedDict):
    """The state of a repository in one of several captures, {} where there was none."""

    commit: NotRequired[str]


class Repository(TypedDict):
    """The state of one repository."""

    folder: str
    commit: str
    untracked: list[str]
    diff: NotRequired[str]
    diff_is_cut: NotRequired[bool]
    diff_sha256: NotRequired[str]


class Capture(TypedDict):
    """One capture of the run."""

    repeat: int


class Manifest(TypedDict):
    """What is needed of ``manifest.json`` to make the run again, and to compare."""

    run: str
    started: str
    cwd: str
    overrides: list[str]
    behaviour: dict[str, Any]
    tools: dict[str, Any]
    hardware: dict[str, Any]
    captures: list[Capture]
    machine: dict[str, Any]
    versions: dict[str, Any]
    packages: dict[str, Any]
    environment: dict[str, Any]
    git: dict[str, Repository | list[Commit | None]]
    script: dict[str, Any]


def read(path: Path) -> Manifest:
    """Return the manifest at `path`; raises `InputError` if no run can be made of it."""
    try:
        # Unlike `json` it refuses what no text can hold.
        manifest = msgspec.json.decode(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is damaged: {error}") from None
    if not isinstance(manifest, dict):
        raise InputError(f"{path}: is damaged: no JSON object")
    if isinstance(manifest.get("behaviour"), dict) and "imported" in manifest["behaviour"]:
        hint = str(manifest.get("command", ""))
        raise InputError(f"{path}: was imported, not captured", hint=hint)
    if missing := [key for key in Manifest.__annotations__ if key not in manifest]:
        raise InputError(
            f"{path}: does not say {', '.join(missing)}",
            hint="an older profkit made it; delete it, and profkit run makes it anew",
        )
    try:
        checked = msgspec.convert(manifest, Manifest)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: is no manifest of profkit: {error}") from None
    if reason := "; ".join(_reasons_against(checked)):
        raise InputError(
            f"{path}: is no manifest of profkit: {reason}",
            hint="nothing was run; ask who gave it to you",
        )
    return checked


def _reasons_against(manifest: Manifest) -> Iterator[str]:
    """Yield what no manifest of profkit has, and what could do harm."""
    if not _RUN.fullmatch(manifest["run"]):
        yield f"run: {manifest['run']!r} cannot name a folder"
    if not manifest["captures"]:
        yield "captures: there are none"
    for word in manifest["overrides"]:
        if word.startswith("-"):
            yield f"overrides: {word!r} is an option and no override"
        elif not word.isprintable():
            yield f"overrides: {word!r} holds characters that cannot be shown"
    yield from _reasons_against_names(manifest)


def _reasons_against_names(manifest: Manifest) -> Iterator[str]:
    for name in manifest["environment"]:
        if not _VARIABLE.fullmatch(name):
            yield f"environment: {name!r} cannot name a variable"
    for name, state in manifest["git"].items():
        if not _RUN.fullmatch(name):
            yield f"git: {name!r} cannot name a repository"
        if isinstance(state, dict) and not _COMMIT.fullmatch(state["commit"]):
            yield f"git.{name}.commit: {state['commit']!r} is no commit"


def overrides(then: Manifest) -> list[str]:
    """Return the overrides that select the run, with as many repeats as there were."""
    repeats = 1 + max(capture["repeat"] for capture in then["captures"])
    words = then["overrides"]
    if "baseline" in then["tools"]:
        # Analyses, which are no part of a run, may have asked for it.
        words = [re.sub(r"^tool=\[(?!.*\bbaseline\b)", "tool=[baseline,", word) for word in words]
    return [*words, f"repeats={repeats}"]


def environment(then: Manifest) -> dict[str, str]:
    """Return the variables that all captures shared and that can be set without a second look."""
    shared = _shared(then)
    return {
        name: value
        for name, value in program_variables.recorded(shared).items()
        if not _needs_a_look(name, value)
    }


def left_out(then: Manifest) -> list[str]:
    """Return the names of the other variables that all captures shared."""
    return sorted(_shared(then).keys() - environment(then).keys())


def _shared(then: Manifest) -> dict[str, str]:
    return {name: value for name, value in then["environment"].items() if isinstance(value, str)}


def _needs_a_look(name: str, value: str) -> bool:
    is_code = any(fnmatch.fnmatchcase(name, pattern) for pattern in _LOADS_CODE)
    return is_code or not _PLAIN_VALUE.fullmatch(value)
