"""Representative ranks: the slowest, the median one, a whole host, one of each parallel stage."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import Columns, analysis
from profkit.analyze.shared.step_times import with_step_times
from profkit.core.formatting import counted, duration
from profkit.core.result import Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings
from profkit.tables.rank_clocks import matched_collectives

_CALLS = Columns(
    "rank repeat step kind operation sequence group group_ranks group_size start_ns end_ns call_ns"
    " size_bytes dtype"
)
_STAGES = {"pp": "pipeline stage", "ep": "expert group"}
_SHOWN = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/representative_ranks.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    most_ranks_of_host: PositiveInt = 8
    """Ranks of the host of the slowest rank that are recorded beside it, where there are several
    hosts."""


@analysis(title="Representative ranks", compares_ranks=True)
def analyze(
    steps: pd.DataFrame,
    collectives: Annotated[pd.DataFrame, _CALLS],
    hosts: pd.DataFrame,
    config: Config,
) -> Result:
    """Which few ranks should a heavy tool record, so that they tell what all ranks do?

    Ranks are compared by the mean of their step times less what they waited for other ranks in
    collectives: steps of ranks that wait for one another are equally long. Recorded are the rank
    with the most and that with the median time; of several hosts, that of the slowest rank, whole
    up to a number of ranks; and of each pipeline stage and expert group that none of these is of,
    the rank with the median time. Tools with ``ranks=representative`` read this before they begin.
    """
    counted_steps = with_step_times(steps, config.skip_first)
    counted_steps = counted_steps if len(counted_steps) else with_step_times(steps, 0)
    if counted_steps.empty:
        return Result.abstain("representative ranks", "no step was recorded")
    times = _own_times(counted_steps, collectives)
    known = _placed(times, hosts)
    reasons: dict[int, list[str]] = {}
    for rank, reason in _chosen(known, config.most_ranks_of_host):
        reasons.setdefault(rank, []).append(reason)
    for rank, reason in _of_stages(known, list(reasons)):
        reasons.setdefault(rank, []).append(reason)
    rows = known.loc[sorted(reasons)].reset_index()
    shown = rows.assign(reason=["; ".join(reasons[rank]) for rank in rows["rank"]])
    return Result(
        findings=(_finding(known, sorted(reasons)),),
        metrics={
            "chosen_ranks": Metric(
                value=float(len(rows)),
                unit="count",
                title="Ranks that stand for all",
            )
        },
        tables={
            "ranks": table(
                shown.replace(-1, None),
                title="Ranks that stand for all, and why",
                note="Own time is the mean step time less waiting for other ranks in collectives.",
            )
        },
    )


def _own_times(steps: pd.DataFrame, collectives: pd.DataFrame) -> pd.DataFrame:
    """Return for each rank its mean step time, and that without what it waited for others."""
    times = steps.groupby("rank")["step_time_ns"].mean()
    seen = steps[["repeat", "step"]].drop_duplicates()
    rows = matched_collectives(collectives).rows.merge(seen, on=["repeat", "step"])
    recorded = max(len(rows[["repeat", "step"]].drop_duplicates()), 1)
    waits = rows.groupby("rank")["wait_ns"].sum().reindex(times.index).fillna(0) / recorded
    own = (times - waits).clip(lower=0)
    columns = {"step_time_ns": times, "own_time_ns": own}
    return pd.DataFrame(columns).round().astype(np.int64).sort_index()


def _placed(times: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Return `times` by rank with host and coordinates, as far as they are known."""
    of_rank = hosts.drop_duplicates("rank").set_index("rank")
    names = of_rank["host"].astype(object).reindex(times.index).fillna("")
    axes = {
        axis: of_rank[axis].reindex(times.index).fillna(-1) for axis in ("dp", "tp", "pp", "ep")
    }
    return times.assign(host=names, **{axis: own.astype(np.int64) for axis, own in axes.items()})


def _chosen(known: pd.DataFrame, most_of_host: int) -> Iterator[tuple[int, str]]:
    """Yield the slowest rank, the median one, and those of the host of the slowest, with why."""
    times = known["own_time_ns"]
    slowest, median = int(times.index.to_numpy(np.int64)[times.argmax()]), _median(known)
    ahead = float(times.max() - times[median])
    if slowest != median:
        yield slowest, f"slowest: {duration(ahead)} per step more than the median rank"
    yield median, "median"
    hosts = known["host"].unique().tolist()
    host = str(known["host"][slowest])
    if len(hosts) > 1 and host:
        own = known.index[known["host"] == host].to_numpy(np.int64)
        others = own[own != slowest]
        kept = min(len(others), most_of_host - 1)
        even = np.linspace(0, max(len(others) - 1, 0), kept).astype(np.int64)
        which = "all" if kept == len(others) else f"{kept + 1}"
        for rank in sorted([slowest, *others[even].tolist()]):
            yield int(rank), f"host {host}, {which} of its {counted(len(own), 'rank')}"


def _of_stages(known: pd.DataFrame, chosen: list[int]) -> Iterator[tuple[int, str]]:
    """Yield a rank of each pipeline stage and expert group that no `chosen` one is of, with why."""
    for axis, title in _STAGES.items():
        for number in sorted({*known[axis].tolist()} - {-1}):
            own = known[(known[axis] == number).to_numpy()]
            if not {*own.index} & {*chosen}:
                rank = _median(own)
                chosen.append(rank)
                yield rank, f"{title} {number}"


def _median(known: pd.DataFrame) -> int:
    """Return the rank with the median of the times, of an even number the faster of the two."""
    ordered = known["own_time_ns"].sort_values(kind="stable").index
    return int(ordered[(len(ordered) - 1) // 2])


def _finding(known: pd.DataFrame, chosen: list[int]) -> Finding:
    names = ", ".join(map(str, chosen[:_SHOWN])) + (", ..." if len(chosen) > _SHOWN else "")
    return Finding(
        severity=Severity.INFO,
        message=f"Ranks {names} stand for all {counted(len(known), 'rank')}.",
        metric="representative_ranks.chosen_ranks",
        value=float(len(chosen)),
        unit="count",
        evidence={"table": "ranks"},
    )
