"""Frames of stacks as flame graphs name them, each with whose code it is."""

import re
from functools import lru_cache

from profkit.tables.frame_files import imported_library, is_profkits, library
from profkit.tables.python_frames import is_foreign
from profkit.tables.tree_paths import SEPARATOR

PROGRAM, LIBRARY = "program", "library"
"""Kinds; behind that of a library stand a colon and its package."""

NATIVE = "C and C++"

Frame = tuple[str, str]
"""Kind and text."""

NOT_RECORDED: Frame = ("other", "(stack not recorded)")

_CALL = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)
_SAMPLE = re.compile(r".*\((.+):\d+\)", re.DOTALL)
_STARTS = ("<frozen runpy>", "runpy.py", "threading.py")
_OPERATOR = re.compile(r"\w+::\w+")
_MODULE = "nn.Module: "
_BROUGHT = "profkit/"


def of_call(text: str) -> Frame | None:
    """Return the frame of ``file.py(line): function``, None for what starts a program."""
    found = _CALL.fullmatch(text)
    file = found[1] if found else text
    if is_profkits(file) or file.endswith(_STARTS):
        return None
    package = imported_library(file)
    if not package and is_foreign(text) and not file.startswith(_BROUGHT):
        package = "Python"
    kind = f"{LIBRARY}:{package}" if package else PROGRAM
    return kind, f"{found[3]} ({found[1]}:{found[2]})" if found else text


def of_stack(stack: str) -> list[Frame]:
    """Return the frames of a stack of ``function (file:line)``, modules and operators.

    Those that start or watch a program are left out.
    """
    found = (_of_sample(text) for text in stack.split(SEPARATOR) if text)
    return [frame for frame in found if frame] or [NOT_RECORDED]


# Stacks have few frames that differ, again and again.
@lru_cache(1 << 16)
def _of_sample(text: str) -> Frame | None:
    if text.startswith(_MODULE):
        return "module", text.removeprefix(_MODULE)
    if _OPERATOR.fullmatch(text):
        return "operator", text
    found = _SAMPLE.fullmatch(text)
    file = found[1] if found else ""
    if is_profkits(file) or file.endswith(_STARTS):
        return None
    package = library(file) if file.endswith(".py") or file.startswith("<") else NATIVE
    return (f"{LIBRARY}:{package}" if package else PROGRAM), text
