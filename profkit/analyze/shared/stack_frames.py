"""Call stacks by frame: self and total values of each function and line."""

import re

import numpy as np
import pandas as pd

_LINE = re.compile(r":\d+(?=\)$)")


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
        function = _LINE.sub("", frame)
        if frame not in found:
            found[frame] = frame, function, frame == frames[-1], function not in seen
        seen.add(function)
    return list(found.values())


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
