"""Stragglers: which rank the others wait for, in which step, and what made it late."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._compared_ranks import BEFORE
from profkit.analyze._late_rank import OF_SOME_RANKS
from profkit.analyze._lateness import Cause, fell_behind
from profkit.analyze.base import Columns, analysis
from profkit.analyze.division.known_names import CALLING, COMMUNICATING
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.late_hosts import by_host, late_ranks
from profkit.analyze.shared.matrix import values
from profkit.analyze.shared.step_windows import positions_by_repeat
from profkit.core.drawing import Drawing
from profkit.core.formatting import duration
from profkit.core.result import Abstention, Finding, Metric, Result, Severity, Table, table
from profkit.core.settings import Settings
from profkit.tables.rank_clocks import (
    MATCHED_OPERATIONS,
    UNMATCHED,
    MatchedCollectives,
    matched_collectives,
)

_WHERE = ["repeat", "rank"]
_PEER = ["rank", "arrival_ns", "start_ns", "call_ns", "offset_ns"]
_LATE = ["late_ns", "caused_wait_ns"]
_HOST_COMMUNICATION = (*COMMUNICATING, *CALLING)
_MOSTLY = 0.5
_OTHERS = 2**31 - 1
_MOST_CELLS = 12_000
_Timelines = Mapping[tuple[int, int], pd.DataFrame]
"""Rows by rank and repeat."""
_COMPARED = ["step", "name", "start_ns", "end_ns"]
_MOST_NAMES = 1 << 32
_INSIDE = "in the step"
_OPS = Columns("rank repeat tid name start_ns end_ns step")
_KERNELS = Columns("rank repeat stream name kind start_ns end_ns step")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/stragglers.yaml``."""

    max_causes: int = 20
    """Collectives, those with the longest waits, in which the cause is looked for."""

    max_rows: int = 1000
    """Rows kept of each table."""

    most_late: int = 40
    """Ranks that others wait for which are drawn by themselves; the rest is one column."""


@analysis(title="Stragglers", compares_ranks=True)
def analyze(
    collectives: pd.DataFrame,
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    hosts: pd.DataFrame,
    config: Config,
) -> Result:
    """Which rank comes last to collectives, and how long do the others wait for it?

    The clocks of the ranks are put side by side by the ends of collectives; a rank that is late by
    less than these disagree is not called late. What made it late is looked for on its CPU if its
    call came late, else on its GPU: its operators or kernels of that step are compared with
    those of the rank that came in the middle of the others, and the cause is what ran when the
    delay came to half of the lateness. Where several hosts are known, the ranks of each host are
    compared with those of the others, in the sum over a step: all are late if it is the host.
    """
    if collectives.empty:
        return Result.abstain("stragglers", "no communication call was recorded")
    matched = matched_collectives(collectives)
    if matched.rows.empty:
        is_matchable = collectives["operation"].isin(MATCHED_OPERATIONS).any()
        reason = (
            "no call could be matched with one on another rank: capture every rank"
            if is_matchable
            else UNMATCHED
        )
        return Result.abstain("stragglers", reason)
    late, close = _late(matched)
    size = _incomplete(matched)
    missing = _abstentions(close, matched, size)
    if late.empty:
        return Result(abstentions=missing)
    total = int((matched.rows["wait_ns"] + matched.rows["transfer_ns"]).sum())
    causes = _causes(late.head(config.max_causes), cpu_ops, kernels)
    ranks, steps = _summed(late, ["rank"]), _summed(late, ["step", "rank"])
    of_hosts = _by_host(late, matched, hosts)
    return Result(
        findings=tuple(_host_findings(of_hosts)),
        metrics=_metrics(late, ranks, total),
        tables=_tables(_with_hosts(ranks, hosts), steps, causes, of_hosts, config),
        drawings={"rank_waits": _drawing(matched, late, config)},
        abstentions=missing,
    )


def _late(matched: MatchedCollectives) -> tuple[pd.DataFrame, int]:
    """Return the last rank's row of each collective, and how many were too close to tell.

    `late_ns` is its arrival less that of the middle one of the other ranks.
    """
    rows = matched.rows.merge(matched.clocks[[*_WHERE, "residual_ns"]], on=_WHERE)
    others = rows[~rows["last"].to_numpy()].sort_values(["meeting", "arrival_ns"], kind="stable")
    middle = (others.groupby("meeting").cumcount() == (others["ranks"] - 2) // 2).to_numpy()
    peer = others[middle].set_index("meeting")[_PEER]
    last = rows[rows["last"].to_numpy()].merge(
        peer.add_prefix("peer_"), left_on="meeting", right_index=True
    )
    last["late_ns"] = last["arrival_ns"] - last["peer_arrival_ns"]
    last["caused_wait_ns"] = last["meeting"].map(rows.groupby("meeting")["wait_ns"].sum())
    doubt = last["meeting"].map(rows.groupby("meeting")["residual_ns"].max())
    certain = (last["late_ns"] > doubt).to_numpy()
    late = last[certain].sort_values("caused_wait_ns", ascending=False, kind="stable")
    return late.reset_index(drop=True), int((~certain).sum())


def _drawing(matched: MatchedCollectives, late: pd.DataFrame, config: Config) -> Drawing:
    """Return the matrix of who waits for whom, per step, in the collectives of `late`."""
    rows = matched.rows
    steps = max(len(rows[["repeat", "step"]].drop_duplicates()), 1)
    waits = rows[["meeting", "rank", "wait_ns"]].merge(
        late[["meeting", "rank"]].rename(columns={"rank": "late_rank"}), on="meeting"
    )
    count = min(config.most_late, max(_MOST_CELLS // rows["rank"].nunique(), 1))
    most = late.groupby("rank")["caused_wait_ns"].sum().nlargest(count).index
    kept = waits["late_rank"].isin(most)
    waits["late_rank"] = waits["late_rank"].where(kept, _OTHERS)
    sums = waits.pivot_table(
        index="rank", columns="late_rank", values="wait_ns", aggfunc="sum", fill_value=0
    )
    numbers = sums.columns.to_numpy(np.int64).tolist()
    names = ["others" if rank == _OTHERS else rank for rank in numbers]
    return Drawing(
        kind="matrix",
        title="Who waits for whom, per step",
        data={
            "rows": {"of": "rank", "names": sums.index.to_numpy(np.int64).tolist()},
            "columns": {"of": "for rank", "names": names},
            "layers": [{"title": "Waiting", "group": ""} | values(sums / steps)],
        },
    )


def _summed(late: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how often each rank was late and what waiting it caused, the most first."""
    since = {} if "step" in by else {"first_step": ("step", "min"), "last_step": ("step", "max")}
    rows = late.groupby(by, observed=True).agg(
        times_late=("late_ns", "size"),
        **since,
        longest_late_ns=("late_ns", "max"),
        caused_wait_ns=("caused_wait_ns", "sum"),
    )
    rows["wait_share"] = rows["caused_wait_ns"] / max(int(rows["caused_wait_ns"].sum()), 1)
    ordered = rows.sort_values("caused_wait_ns", ascending=False, kind="stable")
    return ordered.reset_index()


def _with_hosts(ranks: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Return the ranks with their hosts, where several are known."""
    if hosts["host"].nunique() < 2:  # noqa: PLR2004
        return ranks
    of_rank = hosts.drop_duplicates("rank").set_index("rank")["host"].astype(object)
    return ranks.assign(host=ranks["rank"].map(of_rank).fillna(""))


def _by_host(late: pd.DataFrame, matched: MatchedCollectives, hosts: pd.DataFrame) -> pd.DataFrame:
    """Return how late each host is, and what waiting its ranks caused, the most first."""
    rows = by_host(matched, hosts)
    caused = _with_hosts(late, hosts)
    if rows.empty:
        return rows
    sums = caused.groupby("host")["caused_wait_ns"].sum()
    rows["caused_wait_ns"] = rows["host"].map(sums).fillna(0).astype(np.int64)
    rows["wait_share"] = rows["caused_wait_ns"] / max(int(late["caused_wait_ns"].sum()), 1)
    return rows.sort_values("caused_wait_ns", ascending=False, kind="stable", ignore_index=True)


def _host_findings(hosts: pd.DataFrame) -> Iterator[Finding]:
    """Say of the host that is waited for most whether it is late as a whole."""
    for row in hosts.head(1).to_dict("records"):
        if row["wait_share"] > _MOSTLY and row["late_ranks"]:
            yield Finding(
                severity=Severity.INFO,
                message=f"{row['wait_share']:.0%} of waiting is for host {row['host']}: "
                f"{late_ranks(row)}, by {duration(row['late_ns'])} per step.",
                metric="stragglers.host_wait_share",
                value=float(row["wait_share"]),
                unit="share",
                evidence={"host": row["host"], "table": "by_host"},
            )


def _causes(late: pd.DataFrame, cpu_ops: LargeTable, kernels: LargeTable) -> pd.DataFrame:
    """Return one row per collective of `late`, with where its last rank fell behind."""
    # Inside a call of Gloo the rank waits: that is not the cause of its lateness.
    host = _timelines(late, cpu_ops, "tid", lambda ops: ~matching(ops["name"], _HOST_COMMUNICATION))
    device = _timelines(
        late, kernels, "stream", lambda work: (work["kind"] != "communication").to_numpy()
    )
    found = []
    for row in late.to_dict("records"):
        side = _late_at(row)
        timelines = host if side == "host" else device
        found.append((side, _cause(row, timelines, side) if side else None))
    columns = ["repeat", "step", "operation", "size_bytes", "rank", *_LATE]
    return (
        late[columns]
        .replace({"size_bytes": -1}, None)
        .assign(
            compared_with_rank=late["peer_rank"],
            place=[side for side, _ in found],
            since=[_since(cause) for _, cause in found],
            fell_behind_in=[cause.running if cause else "" for _, cause in found],
            fell_behind_after=[cause.after if cause else "" for _, cause in found],
        )
    )


def _timelines(
    late: pd.DataFrame,
    rows: LargeTable,
    thread: str,
    is_compared: Callable[[pd.DataFrame], NDArray[np.bool_]],
) -> _Timelines:
    """Return the steps of `late` of each rank and repeat that is compared in one of them.

    In the order of time, with a `key` for `fell_behind`. Threads are numbered as they first appear.
    """
    steps = set(late["step"])
    names: dict[str, int] = {}
    found = {}
    for rank in np.union1d(late["rank"], late["peer_rank"]).tolist():
        of_rank = rows.of_ranks({rank})
        of_rank = of_rank[is_compared(of_rank)]
        codes = [names.setdefault(name, len(names)) for name in of_rank["name"].cat.categories]
        for where, at in positions_by_repeat(of_rank).items():
            ordered = of_rank.iloc[at].sort_values("start_ns", kind="stable")
            name = np.array(codes, dtype=np.int64)[ordered["name"].cat.codes]
            key = pd.factorize(ordered[thread])[0] * _MOST_NAMES + name
            kept = ordered["step"].isin(steps).to_numpy()
            found[where] = ordered[_COMPARED].assign(key=key)[kept]
    return found


def _since(cause: Cause | None) -> str:
    """Return whether the rank fell behind before the step or in it; "" if unknown."""
    if cause is None:
        return ""
    return _INSIDE if cause.after else BEFORE


def _late_at(row: Mapping[Hashable, Any]) -> str:
    """Return whether the CPU's call was late ("host") or only its start ("device"); "": unknown."""
    if row["call_ns"] < 0 or row["peer_call_ns"] < 0:
        return ""
    called = (row["call_ns"] - row["offset_ns"]) - (row["peer_call_ns"] - row["peer_offset_ns"])
    # A late call does not matter if the GPU could not have started it sooner.
    at_once = row["start_ns"] - row["call_ns"] < row["late_ns"]
    if at_once and 2 * called >= row["late_ns"]:
        return "host"
    return "device" if row["kind"] == "device" else ""


def _cause(row: Mapping[Hashable, Any], timelines: _Timelines, side: str) -> Cause | None:
    """Return where the late rank fell behind its peer in the step; None if that is unknown."""
    until = "call_ns" if side == "host" else "start_ns"
    before = []
    for rank, end in ((row["rank"], row[until]), (row["peer_rank"], row[f"peer_{until}"])):
        timeline = timelines.get((rank, row["repeat"]))
        if timeline is None:
            return None
        same = timeline["step"] == row["step"]
        before.append(timeline[same & (timeline["start_ns"] < end)])
    ahead = row["offset_ns"] - row["peer_offset_ns"]
    return fell_behind(*before, late_ns=row["late_ns"], ahead_ns=ahead)


def _metrics(late: pd.DataFrame, ranks: pd.DataFrame, total: int) -> dict[str, Metric]:
    """Return the shares of waiting; `total` is the time of all ranks in collectives, in ns."""
    return {
        "largest_share": Metric(
            value=float(ranks["wait_share"].iloc[0]),
            unit="share",
            title="Waiting caused by the rank that causes most, of all waiting",
            better="lower",
        ),
        "wait_share": Metric(
            value=float(late["caused_wait_ns"].sum() / max(total, 1)),
            unit="share",
            title="Waiting for late ranks, of time in collectives",
            better="lower",
        ),
    }


def _incomplete(matched: MatchedCollectives) -> int:
    """Return the ranks of the largest group that was not recorded whole; 0 if all were."""
    rows = matched.rows
    return int(rows["group_size"].where(rows["ranks"] < rows["group_size"], 0).max())


def _tables(
    ranks: pd.DataFrame,
    steps: pd.DataFrame,
    causes: pd.DataFrame,
    hosts: pd.DataFrame,
    config: Config,
) -> dict[str, Table]:
    note = "Waiting is that of the other ranks, summed; shares are of all waiting for late ranks."
    of_hosts = table(
        hosts.replace({"caused_by_rank": -1}, None),
        title="By host: lateness and clocks",
        note="Late is a rank that comes to collectives later than the other hosts, in the sum over "
        "the median step, by more than the clocks disagree. Caused by a rank: it holds up the "
        "others of its host. Offset is what the host's clock is ahead, residual what the clocks "
        "disagree by after that.",
    )
    return {
        **({"by_host": of_hosts} if len(hosts) else {}),
        "by_rank": table(
            ranks,
            title="Ranks that came last",
            note=note,
            sums=("times_late", "caused_wait_ns", "wait_share"),
        ),
        "by_step": table(
            steps, title="Steps and ranks that came last", note=note, limit=config.max_rows
        ),
        "causes": table(
            causes,
            title="Where the last rank fell behind, by the waiting it caused",
            note="Late is after the rank that came in the middle of the others, which it is "
            "compared with. It fell behind in what ran there when the delay came to half of that; "
            "empty if nothing was recorded then: Python code, or another process.",
            limit=config.max_rows,
        ),
    }


def _abstentions(close: int, matched: MatchedCollectives, size: int) -> tuple[Abstention, ...]:
    calls, recorded = (matched.rows[name].nunique() for name in ("meeting", "rank"))
    doubt = duration(float(matched.clocks["residual_ns"].max()))
    reasons = (
        (
            close,
            f"the last rank of {close} of {calls} collectives",
            f"it came within what the clocks of the ranks disagree by ({doubt} at most)",
        ),
        (
            size,
            f"{OF_SOME_RANKS}{size} ranks",
            f"only {recorded} were recorded, and another may have come last: capture every rank",
        ),
    )
    return tuple(Abstention(what=what, reason=reason) for holds, what, reason in reasons if holds)
