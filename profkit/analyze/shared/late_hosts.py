"""Whether a late rank is late with its whole host, or alone there."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profkit.tables.rank_clocks import MatchedCollectives

_WHERE = ["repeat", "rank"]
_COLUMNS = ["host", "ranks", "late_ranks", "late_ns", "caused_by_rank", "offset_ns", "residual_ns"]
_STEP = ["repeat", "step"]
_MOSTLY = 0.5


def by_host(matched: MatchedCollectives, hosts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per host with how many of its ranks are late, those of all hosts side by side.

    A rank is late by what it comes later to collectives than the other hosts do, summed over those
    of the median step; a late one is late by more than the clocks disagree, and by half of what the
    last rank of its host is. `late_ns` is the median of the late ones. Where one rank holds up its
    host in collectives within it, the others are late because of that one, which is
    `caused_by_rank`; -1 if there is none. `offset_ns` is what the clock of the host is ahead of the
    common one, `residual_ns` how much its clocks and the common one disagree. No row if fewer than
    two hosts are known.
    """
    if hosts["host"].nunique() < 2:  # noqa: PLR2004
        return pd.DataFrame(columns=_COLUMNS)
    known = [*_WHERE, "host"]
    rows = matched.rows.merge(hosts[known].astype({"host": object}), on=_WHERE)
    clocks = matched.clocks.merge(hosts[known].astype({"host": object}), on=_WHERE)
    doubt = clocks.groupby("rank")["residual_ns"].max()
    late = _lateness(rows)
    found = []
    for host, own in clocks.groupby("host"):
        of_ranks = late.reindex(pd.unique(own["rank"])).fillna(0)
        certain = of_ranks > doubt.reindex(of_ranks.index)
        is_late = certain & (of_ranks >= _MOSTLY * of_ranks.max())
        found.append(
            {
                "host": host,
                "ranks": len(of_ranks),
                "late_ranks": int(is_late.sum()),
                "late_ns": float(of_ranks[is_late].median()) if is_late.any() else 0.0,
                "caused_by_rank": _alone(rows[rows["host"] == host], of_ranks[is_late]),
                "offset_ns": int(own["offset_ns"].median()),
                "residual_ns": float(own["residual_ns"].max()),
            }
        )
    return pd.DataFrame(found, columns=_COLUMNS)


def is_one_host(hosts: pd.DataFrame, ranks: "pd.Series[int]") -> bool:
    """Say whether all `ranks` are known to have run on the same one of `hosts`."""
    theirs = hosts[hosts["rank"].isin(ranks) & (hosts["host"] != "")]
    return bool(ranks.isin(theirs["rank"]).all()) and len(set(theirs["host"])) == 1


def _lateness(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return how much later each rank came than the middle one of other hosts, in ns per step."""
    arrived = rows.pivot_table("arrival_ns", "meeting", "host", "median")
    times = arrived.to_numpy(np.float64)
    ordered = np.sort(times, axis=1)
    count = np.sum(~np.isnan(times), axis=1)
    met = count > 1
    times, ordered, middle = times[met], ordered[met], (count[met] - 2) // 2
    at = np.arange(len(ordered))
    # Without a host that is itself among the earlier half, the middle one is the next.
    earlier, later = ordered[at, middle][:, None], ordered[at, middle + 1][:, None]
    others = pd.DataFrame(np.where(times <= earlier, later, earlier), index=arrived.index[met])
    others.columns = arrived.columns
    found = rows[rows["meeting"].isin(others.index).to_numpy()]
    meeting = others.index.get_indexer(pd.Index(found["meeting"]))
    host = others.columns.get_indexer(pd.Index(found["host"]))
    late = found["arrival_ns"].to_numpy() - others.to_numpy()[meeting, host]
    of_steps = found.assign(late_ns=late).groupby(["rank", *_STEP])["late_ns"].sum()
    return of_steps.groupby(level="rank").median()


def _alone(rows: pd.DataFrame, late: "pd.Series[float]") -> int:
    """Return the rank of a host because of which its other ranks are late; -1 if none is.

    Within the host it makes the others wait for most of what they are late to other hosts.
    """
    if len(late) == 1:
        return int(late.index[0])
    within = rows[(rows.groupby("meeting")["rank"].transform("size") == rows["ranks"]).to_numpy()]
    if late.empty or within.empty:
        return -1
    is_last = within["last"].to_numpy(bool)
    last = within[is_last].set_index("meeting")["rank"]
    waits = within[~is_last].groupby("meeting")["wait_ns"].mean()
    caused = waits.groupby(last.reindex(waits.index)).sum() / len(rows[_STEP].drop_duplicates())
    is_most = float(caused.max()) >= _MOSTLY * float(late.median())
    return int(str(caused.idxmax())) if is_most else -1


def late_ranks(host: Mapping[Any, Any]) -> str:
    """Say in words how many of the ranks of a host are late, of a row of `by_host`."""
    rank, ranks, late = (host[name] for name in ("caused_by_rank", "ranks", "late_ranks"))
    if ranks == 1:
        return f"its only rank is late (rank {rank})"
    if late == 1:
        return f"only rank {rank} of its {ranks} ranks is late"
    if rank is not None and rank >= 0:
        return f"rank {rank} of its {ranks} ranks holds up the others"
    return f"{'all' if late == ranks else f'{late} of'} its {ranks} ranks are late"
