"""Frames of Python as recordings name them, ``file.py(line): function``: whose code they are."""

import re
import sys
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_SITE = re.compile(r".*/(?:site|dist)-packages/")
_PYTHON = re.compile(r"<|.*/lib/python3[^/]*/|.*: <(?:genexpr|\w+comp|lambda)>$")
_TOP = re.compile(r"(?:.*/)?(torch|profkit)(?:/|\.py\()|([^/(]*?)(?:/|\.py\()")


@cache
def is_foreign(frame: str) -> bool:
    """Say whether a frame belongs to Python, PyTorch or profkit, and not to the program.

    Nor is a part of a line that has no name: the function around it is the program's.
    """
    if _SITE.match(frame):
        # A program may be installed; what it calls of others cannot be told from it by path.
        return re.search(r"-packages/(?:torch|profkit|numpy|triton)/", frame) is not None
    if _PYTHON.match(frame):
        return True
    # Paths are shortened to what a program imports: a module of Python's own has its name alone.
    top = _TOP.match(frame)
    return top is not None and (top[1] is not None or top[2] in sys.stdlib_module_names)


def own_lines(python_calls: pd.DataFrame) -> NDArray[np.object_]:
    """Return for each of the calls of one rank the frame of the program that it is, or lies in.

    It is "" where there is none.
    """
    names = python_calls["name"].astype("category").cat
    skipped = np.array([*map(is_foreign, map(str, names.categories)), True])[names.codes.to_numpy()]
    skipped |= (python_calls["kind"] == "module").to_numpy()
    row, above = np.arange(len(python_calls)), _callers(python_calls)
    climbing = row
    while len(climbing := climbing[skipped[row[climbing]]]):
        row[climbing] = above[row[climbing]]
        climbing = climbing[row[climbing] >= 0]
    return np.append(python_calls["name"].astype(object).to_numpy(), "")[row]


def _callers(python_calls: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row of the caller of each call, -1 for none."""
    call, caller = (python_calls[name].to_numpy(np.int64) for name in ("call", "caller"))
    order = np.argsort(call, kind="stable")
    at = np.append(order, -1)[np.searchsorted(call, caller, sorter=order)]
    return np.where((at >= 0) & (call[at] == caller) & (caller >= 0), at, -1) if len(call) else at
