"""Stacks of a snapshot, each distinct one once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profkit.convert.memory_snapshot.checked_values import text, whole
from profkit.tables.frame_files import is_library
from profkit.tables.tree_paths import joined

NONE = -1
"""Index of the stack that was not recorded."""


# Frames of the interpreter and of PyTorch's dispatcher, which are in every stack.
_INTERNAL_NAMES = (
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_PyEval_",
    "PyEval_",
    "PyObject_",
    "_PyObject",
    "PyFunction_",
    "_PyFunction",
    "__libc_start",
    "_start",
    "clone3",
    "start_thread",
)
_INTERNAL_FILES = (
    "core/boxing",
    "/Register",
    "/Redispatch",
    "ceval.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pythonrun.c",
    "Modules/main.c",
    "cpython/abstract.h",
)

_MOST_CHARACTERS = 1 << 30
"""Of all stacks together: a small file can repeat one long name in a million of them."""
_MOST_FRAMES = 100_000

Frame = tuple[str, int, str]
"""File, line and function."""


@dataclass(slots=True)
class Stacks:
    """Numbers stacks from 0 by their content.

    Entries share the objects of their frames, so a stack is looked up by the identity of its
    frames first, which is much cheaper than by their text.
    """

    known: list[tuple[Frame, ...]] = field(default_factory=list)
    """Frames of each stack, from the innermost to the root."""

    _by_objects: dict[tuple[int, ...], int] = field(default_factory=dict)
    _by_content: dict[tuple[Frame, ...], int] = field(default_factory=dict)
    _alive: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    _characters: int = 0

    def number(self, frames: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the number of a stack, `NONE` for one that was not recorded.

        Raises OverflowError for stacks that are too long to be those of a program.
        """
        if not frames:
            return NONE
        if len(frames) > _MOST_FRAMES:
            raise OverflowError(f"a stack of {len(frames):,} frames")
        key = tuple(map(id, frames))
        found = self._by_objects.get(key)
        if found is None:
            # Kept, so that the identities stay theirs.
            self._alive.append(frames)
            content = tuple(_frame(frame) for frame in frames)
            self._characters += sum(len(file) + len(function) for file, _, function in content)
            if self._characters > _MOST_CHARACTERS:
                raise OverflowError(f"stacks of more than {_MOST_CHARACTERS:,} characters")
            found = self._by_content.setdefault(content, len(self.known))
            if found == len(self.known):
                self.known.append(content)
            self._by_objects[key] = found
        return found

    def names(self, number: int) -> tuple[str, ...]:
        """Return the frames outside of interpreter and dispatcher, from the root."""
        if number == NONE:
            return ("(no stack recorded)",)
        shown = [named(frame) for frame in reversed(self.known[number]) if not is_internal(frame)]
        return tuple(shown) or ("(no Python frame)",)

    def folded(self) -> list[str]:
        """Return each stack as one text: the frames that `names` gives, joined by semicolons."""
        return [joined(self.names(number)) for number in range(len(self.known))]

    def lines(self) -> list[str]:
        """Return for each stack the innermost line that is the user's own, or of Python at all."""
        return [_line(stack) for stack in self.known]


def _frame(frame: Mapping[str, Any]) -> Frame:
    return text(frame["filename"]), whole(frame["line"]), text(frame["name"])


def named(frame: Frame) -> str:
    """Return a frame as text, for example ``forward (model.py:12)``."""
    file, line, function = frame
    if not file or file == "??":
        return function
    return f"{function} ({file}:{line})"


def is_internal(frame: Frame) -> bool:
    """Say whether a frame belongs to the interpreter or the dispatcher."""
    file, _, function = frame
    return any(part in function for part in _INTERNAL_NAMES) or any(
        part in file for part in _INTERNAL_FILES
    )


def _line(stack: Sequence[Frame]) -> str:
    python = [frame for frame in stack if frame[0].endswith(".py")]
    own = [frame for frame in python if not is_library(frame[0])]
    return next((named(frame) for frame in (*own, *python)), "")
