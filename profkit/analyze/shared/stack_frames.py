"""Call stacks by frame: self and total values of each function and line."""

import re
from functools import lru_cache

import numpy as np
import pandas as pd

from profkit.tables.frame_files import is_profkits

_LINE = re.compile(r":\d+(?=\)$)")
_FILE = re.compile(r"\((.+):\d+\)$")
_STARTS_PROGRAM = ("<frozen runpy>", "runpy.py:", "threading.py:", "memray/commands/")
_IMPORTS = "<frozen importlib."
_SPINS = re.compile(r"(?:blas_thread_server|gomp_\w*wait\w*|_*kmp_\w*(?:wait|barrier)\w*)\b")
"""Functions in which threads of OpenBLAS and OpenMP look for work, again and again."""


def of_program(rows: pd.DataFrame, *, imports: bool) -> pd.DataFrame:
    """Return the rows whose ``stack`` is of the program that was profiled, from its first frame on.

    What profkit does before, beside and around it is left out, and its frames within the stacks
    are; so are threads of libraries that look for work, and what runs while modules are loaded,
    unless `imports`.
    """
    texts = rows["stack"].astype(object)
    stacks = {text: _of_program(str(text).split(";"), imports=imports) for text in texts.unique()}
    kept = texts.map(lambda text: bool(stacks[text])).to_numpy(dtype=bool)
    own = texts[kept].map(lambda text: ";".join(stacks[text]))
    return rows[kept].assign(stack=own)


def _of_program(frames: list[str], *, imports: bool) -> list[str]:
    """Return the frames of the program; none if it is not on the stack."""
    if _SPINS.match(frames[-1]) and not any(".py:" in frame for frame in frames):
        return []
    if not imports and any(_IMPORTS in frame for frame in frames):
        return []
    own = [_is_profkits(frame) for frame in frames]
    begin = next((row for row, frame in enumerate(frames) if not _is_outer(frame)), len(frames))
    # What profkit calls itself is its own as well; a program it starts through Python.
    is_profkits_call = any(own[:begin]) and own[begin - 1]
    loads = begin < len(frames) and _IMPORTS in frames[begin]
    if own[-1] or (is_profkits_call and not loads):
        return []
    pairs = zip(frames[begin:], own[begin:], strict=True)
    return [frame for frame, is_own in pairs if not is_own]


def _is_outer(frame: str) -> bool:
    return _is_profkits(frame) or any(part in frame for part in _STARTS_PROGRAM)


# Stacks have few frames that differ, again and again.
@lru_cache(1 << 16)
def _is_profkits(frame: str) -> bool:
    found = _FILE.search(frame)
    return found is not None and is_profkits(found[1])


def lines_of_stacks(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a row for each distinct line of each stack of `sampled_stacks` or `host_stacks`.

    ``own`` is `column` where the line is innermost and else 0. ``total_line`` and
    ``total_function`` are `column` once for each stack with the line or the function.
    ``of_rank`` is the sum of the rank. All are means over the rank's repeats.
    """
    by_rank = rows.groupby("rank", observed=True)
    repeats, of_rank = by_rank["repeat"].nunique(), by_rank[column].sum()
    stacks = [_distinct(str(text).split(";")) for text in rows["stack"].astype(object)]
    # One line to a row, of the stack at this position.
    position = np.repeat(np.arange(len(rows)), [len(frames) for frames in stacks])
    flat = [frame for frames in stacks for frame in frames]
    made = pd.DataFrame(flat, columns=["line", "function", "is_leaf", "is_first"])
    own = rows[["rank", column]].iloc[position].reset_index(drop=True)
    value = own[column] / own["rank"].map(repeats)
    return pd.DataFrame(
        {
            "rank": own["rank"],
            "line": made["line"],
            "function": made["function"],
            "own": value * made["is_leaf"],
            "total_line": value,
            "total_function": value * made["is_first"],
            "of_rank": own["rank"].map(of_rank / repeats),
        }
    )


def _distinct(frames: list[str]) -> list[tuple[str, str, bool, bool]]:
    """Return each distinct line: its function, whether innermost, whether the function's first."""
    seen: set[str] = set()
    found: dict[str, tuple[str, str, bool, bool]] = {}
    for frame in frames:
        function = _function(frame)
        if frame not in found:
            found[frame] = frame, function, frame == frames[-1], function not in seen
        seen.add(function)
    return list(found.values())


@lru_cache(1 << 16)
def _function(line: str) -> str:
    return _LINE.sub("", line)


def self_and_total(lines: pd.DataFrame, key: list[str], unit: str) -> pd.DataFrame:
    """Return self and total of each `key`, whose last column is line or function, most first.

    `unit` is the suffix of their names; shares are of all of the rank.
    """
    sums = lines.groupby(key, observed=True).agg(
        own=("own", "sum"), total=(f"total_{key[-1]}", "sum"), of_rank=("of_rank", "first")
    )
    ordered = sums.sort_values(["own", "total"], ascending=False, kind="stable").reset_index()
    whole = ordered.pop("of_rank")
    ordered = ordered.rename(columns={"own": "self"})
    for name in ("self", "total"):
        ordered[f"{name}_share"] = ordered[name] / whole.where(whole > 0)
        ordered[name] = ordered[name].round().astype(np.int64)
    return ordered.rename(columns={name: f"{name}_{unit}" for name in ("self", "total")})
