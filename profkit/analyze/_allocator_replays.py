"""Replays of recorded allocations with other settings, where with the recorded ones they agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze._allocator import Policy, Replayed, replayed
from profkit.analyze.shared.allocation_origins import WHERE
from profkit.core.formatting import size
from profkit.core.result import Abstention

_MIB = 1 << 20
_TOLERANCE = 0.02
_RECORDED = "recorded"
_COLUMNS = (*WHERE, "policy", "is_other", "reserved_bytes", "saved_bytes", "needed_bytes")

Changes = Sequence[tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Replays:
    """What allocators with other settings would have reserved."""

    rows: pd.DataFrame
    """A row for each GPU and policy: what was recorded, and replays of its settings and of
    others (`is_other`); ``needed_bytes`` is what a request that failed would have needed, with all
    that was unused given back, -1 if none failed."""

    missing: tuple[Abstention, ...]

    def fitting(self, shortages: pd.DataFrame) -> list[str]:
        """Return the policy with which each request would have fitted, "" for none.

        It must not fit with the recorded settings: then the replay does not explain the failure.
        """
        return [self._fitting(shortage) for shortage in shortages.to_dict("records")]

    def _fitting(self, shortage: Any) -> str:
        own = _of(self.rows, [shortage[name] for name in WHERE])
        limit = shortage["reserved_bytes"] + shortage["free_bytes"]
        same = own[(own["is_other"] == 0) & (own["policy"] != _RECORDED)]
        others = own[(own["is_other"] == 1) & own["needed_bytes"].between(0, limit)]
        if shortage["free_bytes"] < 0 or others.empty or (same["needed_bytes"] <= limit).any():
            return ""
        return str(others.sort_values("needed_bytes", kind="stable")["policy"].iloc[0])


def replays(  # noqa: PLR0913 - what is replayed, and what it is compared with
    allocations: pd.DataFrame,
    peaks: pd.DataFrame,
    shortages: pd.DataFrame,
    settings: pd.DataFrame,
    *,
    limits_mib: Sequence[int],
    most: int,
) -> Replays:
    """Replay the allocations of each device in `peaks` that has at most so many."""
    rows: list[dict[str, Any]] = []
    missing = []
    for peak in peaks.to_dict("records"):
        where = [peak[name] for name in WHERE]
        own = _of(allocations, where)
        failed = _of(shortages, where).to_dict("records")
        policy = _policy(settings, peak)
        if reason := _hindrance(peak, len(own), most):
            missing.append(_unknown(where, reason))
            continue
        changes = list(_changes(own))
        known = dict(zip(WHERE, where, strict=True))
        recorded = int(peak["reserved_bytes"])
        same = _replayed(changes, own, policy, failed)
        rows.append(known | _row(_RECORDED, recorded, same.peak_bytes))
        rows.append(known | _row(policy.name, same.peak_bytes, same.peak_bytes, same.needed_bytes))
        if abs(same.peak_bytes - recorded) > _TOLERANCE * recorded:
            reason = (
                f"a replay of the settings of the run reserves {size(same.peak_bytes)}, "
                f"where {size(recorded)} were reserved"
            )
            missing.append(_unknown(where, reason))
            continue
        for other in _others(policy, limits_mib):
            found = _replayed(changes, own, other, failed)
            row = _row(other.name, found.peak_bytes, same.peak_bytes, found.needed_bytes)
            rows.append(known | row | {"is_other": 1})
    return Replays(rows=pd.DataFrame(rows, columns=[*_COLUMNS]), missing=tuple(missing))


def _of(rows: pd.DataFrame, where: Sequence[Any]) -> pd.DataFrame:
    return rows[(rows[WHERE] == list(where)).all(axis=1)]


def _hindrance(peak: Any, count: int, most: int) -> str:
    if not peak["recorded"]:
        return "the snapshot has no history"
    return "" if 0 < count <= most else f"{count:,} allocations, and max_replayed is {most:,}"


def _unknown(where: Sequence[Any], reason: str) -> Abstention:
    what = f"what other allocator settings would reserve of {where[-1]} on rank {where[0]}"
    return Abstention(what=what, reason=reason)


def _policy(settings: pd.DataFrame, peak: Any) -> Policy:
    own = settings[(settings["rank"] == peak["rank"]) & (settings["repeat"] == peak["repeat"])]
    names, values = own["name"].astype(str), own["value"].astype(str)
    return Policy.of(dict(zip(names, values, strict=True)))


def _others(recorded: Policy, limits_mib: Sequence[int]) -> Iterator[Policy]:
    """Yield the policies that differ from the recorded one."""
    if not recorded.expandable:
        yield Policy(name="expandable_segments:True", expandable=True)
    for limit in limits_mib:
        policy = Policy(name=f"max_split_size_mb:{limit}", max_split_bytes=limit * _MIB)
        if replace(recorded, name=policy.name) != policy:
            yield policy


def _row(policy: str, reserved: int, same: int, needed: int = -1) -> dict[str, Any]:
    return {
        "policy": policy,
        "is_other": 0,
        "reserved_bytes": reserved,
        "saved_bytes": same - reserved,
        "needed_bytes": needed,
    }


def _replayed(
    changes: Changes, own: pd.DataFrame, policy: Policy, failed: Sequence[Any]
) -> Replayed:
    """Return the peak of the whole history, and what the request that failed would have needed."""
    found = replayed(changes, policy)
    if not failed or failed[0]["asked_bytes"] <= 0:
        return replace(found, needed_bytes=-1)
    asked = (len(own), int(failed[0]["asked_bytes"]), 0)
    before = list(_changes(own, before=int(failed[0]["event"])))
    return replace(found, needed_bytes=replayed([*before, asked], policy).needed_bytes)


def _changes(own: pd.DataFrame, before: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield number, bytes (-1 for a free) and stream of each change, in the order of time.

    `before` is the entry of the history at which to stop.
    """
    own = own[(own["size_bytes"] >= 0).to_numpy()]
    start, end = own["start_event"].to_numpy(), own["end_event"].to_numpy()
    until = np.inf if before is None else before
    begun = np.flatnonzero(start < until)
    ended = np.flatnonzero((end >= 0) & (end < until) & (start < until))
    number = np.concatenate([begun, ended])
    sizes = np.concatenate([own["size_bytes"].to_numpy()[begun], np.full(len(ended), -1)])
    order = np.argsort(np.concatenate([start[begun], end[ended]]), kind="stable")
    streams = own["stream"].to_numpy()[number]
    columns = (number[order], sizes[order], streams[order])
    return zip(*(column.tolist() for column in columns), strict=True)
