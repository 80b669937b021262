"""The overrides that Snakemake is given, and those of the last selection with its runs."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from profkit.core.atomic_write import write_atomically
from profkit.core.errors import ConfigError, InputError
from profkit.core.settings import nearest

# A job on another host gets the name of a plan instead.
_KEYS = ("overrides", "plan")
_LAST = Path("results/.profkit/last.json")
_LAST_RUNS = Path("results/.profkit/last_runs.json")
_OVERRIDE = re.compile(r"[+~]|[\w.@/]+=")


def is_override(word: str) -> bool:
    """Say whether `word` is no path; a file may well be called ``lr=0.1.json``."""
    return bool(_OVERRIDE.match(word)) and not os.path.exists(word)  # noqa: PTH110 - or a text


def check_config(config: Mapping[str, object]) -> None:
    """Raise `ConfigError` for keys of Snakemake's ``--config`` that mean nothing here."""
    for key in config:
        if key not in _KEYS:
            raise ConfigError(
                f"--config {key}: no such key; {nearest(key, ['overrides'])}",
                hint=f'write --config overrides="{key}={config[key]}"',
            )


def override_list(overrides: object) -> tuple[str, ...]:
    """Return `overrides`, one string as on a command line or a list, as words."""
    if isinstance(overrides, list) and all(isinstance(word, str) for word in overrides):
        return tuple(overrides)
    if not isinstance(overrides, str):
        raise ConfigError(
            f"overrides: not text but {overrides!r}",
            hint="quote what YAML takes for its own, such as a colon with a space",
        )
    try:
        return tuple(shlex.split(overrides))
    except ValueError as error:
        raise ConfigError(f"overrides: {error}: {overrides}", hint="close the quotes") from None


def save_selection(words: tuple[str, ...], runs: Iterable[str]) -> None:
    """Keep `words` as the overrides of the last selection, and the names of its `runs`."""
    for path, names in ((_LAST, words), (_LAST_RUNS, tuple(runs))):
        content = json.dumps(names).encode()
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)


@contextmanager
def selected_when_done() -> Iterator[None]:
    """Have the last selection back if what takes its place ends by an exception."""
    before = last_overrides(), last_runs()
    try:
        yield
    except BaseException:
        if before[1]:
            save_selection(*before)
        raise


def last_overrides() -> tuple[str, ...]:
    """Return the overrides of the last selection; none if there was none."""
    if not _LAST.is_file():
        return ()
    try:
        return msgspec.json.decode(_LAST.read_bytes(), type=tuple[str, ...])
    except msgspec.MsgspecError:
        raise InputError(f"{_LAST}: is damaged", hint="name the overrides") from None


def last_runs() -> tuple[str, ...]:
    """Return the names of the runs of the last selection; none if that is not known."""
    try:
        return msgspec.json.decode(_LAST_RUNS.read_bytes(), type=tuple[str, ...])
    except (FileNotFoundError, msgspec.MsgspecError):
        return ()
