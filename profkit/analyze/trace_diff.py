"""Differences of traces: operators added, removed, changed in count and time, along their tree."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._merged_trees import KINDS, Merged, merged
from profkit.analyze.base import analysis
from profkit.analyze.shared import calltree
from profkit.core.formatting import duration
from profkit.core.result import Chart, Finding, Result, Severity, Table, table
from profkit.core.settings import Settings

_NAME_LENGTH = 80
_PARTS = ("own", "all")
_CHANGES_OF_TIME = ["host_change_ns", "device_change_ns"]
_WORDS = {
    "added": "added",
    "removed": "removed",
    "more": "called more often",
    "fewer": "called less often",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/trace_diff.yaml``."""

    base: str = ""
    """Run that the others are compared with; empty for the first of the selection."""

    rank: int = -1
    """Rank that is compared in every run; -1 for the mean of all."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    tolerance: float = 0.01
    """Change of a count, as a share of it, under which it counts as the same."""

    max_rows: int = 200
    """Rows kept of each table for each comparison."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """One side of a comparison: a run, or a rank of the only run."""

    label: str
    rows: NDArray[np.bool_]
    """Rows of the merged tree."""
    passes: int
    """Steps of all ranks that the rows come from; ranks, if no step is known."""


@analysis(title="Differences of traces", across="runs")
def analyze(
    cpu_ops: pd.DataFrame, runtime_calls: pd.DataFrame, kernels: pd.DataFrame, config: Config
) -> Result:
    """Match operators, runtime calls and kernels by the names of all that encloses them.

    Several runs are compared with the first, each as the mean over its ranks and steps; of a
    single run each rank is compared with the lowest. What was added or removed is listed where it
    begins: not also what it encloses. Counts are per step of a rank. Times by path leave out what
    is enclosed (kernels are listed by themselves), those by name do not, as in HTA's comparison.
    """
    tree = merged(cpu_ops, runtime_calls, kernels)
    sides = list(_sides(tree.where, config))
    if len(sides) < 2:  # noqa: PLR2004 - a comparison needs two
        return Result.abstain(
            "differences", "there is one run of one rank: name another run, or capture every rank"
        )
    nodes = _nodes(tree)
    (base, before), *others = [(side, _measured(tree, nodes, side)) for side in sides]
    pairs = [(side.label, _compared(nodes, before, after, config)) for side, after in others]
    pairs = [(label, rows) for label, rows in pairs if len(rows)]
    if not pairs:
        reason = f"all {len(sides)} have the same operators, as often and as long"
        return Result.abstain("differences", reason)
    names = [(side.label, _by_name(tree, base, side, config)) for side, _ in others]
    return Result(
        findings=tuple(_findings(base.label, pairs)),
        tables=_tables(tree, base.label, pairs, names, config),
        charts=(
            Chart(
                kind="bar",
                title="Largest changes of time by name",
                table="by_name",
                x="name",
                y=("change_ns",),
                color="compared",
                horizontal=True,
            ),
        ),
    )


def _sides(where: pd.DataFrame, config: Config) -> Iterator[_Side]:
    """Yield the sides of the comparison, the base first."""
    step = where["step"].to_numpy()
    chosen = np.ones(len(where), dtype=np.bool_)
    if config.rank >= 0:
        chosen = (where["rank"] == config.rank).to_numpy()
    runs = [str(run) for run in where["run"].cat.categories if (where["run"] == run).any()]
    if len(runs) > 1:
        runs.sort(key=lambda run: run != config.base)
        masks = {run: chosen & (where["run"] == run).to_numpy() for run in runs}
    else:
        masks = {
            f"rank {rank}": (where["rank"] == rank).to_numpy()
            for rank in sorted(where["rank"].unique())
        }
    for label, mask in masks.items():
        counts = mask & (step >= config.skip_first)
        kept = counts if counts.any() else mask & (step >= 0)
        kept = kept if kept.any() else mask
        passes = where.loc[kept, ["rank", "repeat", "step"]].drop_duplicates()
        if len(passes):
            yield _Side(label=label, rows=kept, passes=len(passes))


def _nodes(tree: Merged) -> pd.DataFrame:
    """Return name, kind and parent of each node."""
    kind = np.zeros(len(tree.paths.above), dtype=np.int64)
    kind[tree.paths.node[tree.counted]] = tree.kind[tree.counted]
    names = [tree.names[name] for name in tree.paths.name]
    return pd.DataFrame({"above": tree.paths.above, "kind": kind, "name": names})


def _measured(tree: Merged, nodes: pd.DataFrame, side: _Side) -> pd.DataFrame:
    """Return count and time in ns of each node per step of the side, on CPU and GPU.

    Columns ``own_`` leave out enclosed nodes, ``all_`` contain them.
    """
    rows = np.where(side.rows & tree.counted, tree.paths.node, -1)
    above = nodes["above"].to_numpy()
    result = {"count": calltree.sums(rows, np.ones(len(rows), dtype=np.int64), len(nodes))}
    own = calltree.sums(rows, tree.own_ns, len(nodes))
    on_device = (nodes["kind"] == KINDS.index("kernel")).to_numpy()
    for where, times_ns in (("host", own * ~on_device), ("device", own * on_device)):
        result[f"own_{where}_ns"] = times_ns
        result[f"all_{where}_ns"] = calltree.subtree_sums(np.arange(len(nodes)), times_ns, above)
    return pd.DataFrame(result) / side.passes


def _compared(
    nodes: pd.DataFrame, base: pd.DataFrame, other: pd.DataFrame, config: Config
) -> pd.DataFrame:
    """Return the topmost changed nodes with the change of their time, the largest first."""
    change = _change(base["count"].to_numpy(), other["count"].to_numpy(), config.tolerance)
    around = np.append(change, "")[nodes["above"].to_numpy()]
    # A node that changes in the same way as its parent follows from that.
    follows = (change == around) & (change != "")
    gone = np.isin(change, ("added", "removed"))
    rows = nodes.assign(
        change=change, base_count=base["count"], other_count=other["count"], node=nodes.index
    )
    for where in ("host", "device"):
        own, every = (other[f"{part}_{where}_ns"] - base[f"{part}_{where}_ns"] for part in _PARTS)
        rows[f"{where}_change_ns"] = np.where(gone, every, own)
    times = rows[["host_change_ns", "device_change_ns"]].abs().max(axis=1)
    kept = ~follows & ((change != "") | (times > 0).to_numpy())
    return _by_size(rows[kept], times[kept])


def _change(
    base: NDArray[np.float64], other: NDArray[np.float64], tolerance: float
) -> NDArray[np.object_]:
    """Return for each pair of counts added, removed, more, fewer, or "" for the same."""
    result = np.full(len(base), "", dtype=object)
    apart = np.abs(other - base) > tolerance * np.maximum(base, other)
    result[apart & (other > base)] = "more"
    result[apart & (other < base)] = "fewer"
    result[(base == 0) & (other > 0)] = "added"
    result[(base > 0) & (other == 0)] = "removed"
    return result


def _by_name(tree: Merged, base: _Side, other: _Side, config: Config) -> pd.DataFrame:
    """Return counts and durations of each name and kind on both sides, as HTA compares them."""
    key = tree.name * len(KINDS) + tree.kind
    size = len(tree.names) * len(KINDS)
    sides = {}
    for label, side in (("base", base), ("other", other)):
        keys = np.where(side.rows, key, -1)
        ones = np.ones(len(keys), dtype=np.int64)
        sides[f"{label}_count"] = calltree.sums(keys, ones, size) / side.passes
        sides[f"{label}_ns"] = calltree.sums(keys, tree.total_ns, size) / side.passes
    found = np.flatnonzero((sides["base_count"] > 0) | (sides["other_count"] > 0))
    before, after = (sides[f"{label}_count"][found] for label in ("base", "other"))
    rows = pd.DataFrame(
        {
            "name": [tree.names[code // len(KINDS)] for code in found],
            "kind": [KINDS[code % len(KINDS)] for code in found],
            "change": _change(before, after, config.tolerance),
            **{name: values[found] for name, values in sides.items()},
        }
    )
    rows["change_ns"] = rows["other_ns"] - rows["base_ns"]
    return _by_size(rows, rows["change_ns"].abs())


def _by_size(rows: pd.DataFrame, size: "pd.Series[float]") -> pd.DataFrame:
    ordered: pd.DataFrame = rows.iloc[np.argsort(-size.to_numpy(), kind="stable")]
    return ordered


def _tables(
    tree: Merged,
    base: str,
    pairs: list[tuple[str, pd.DataFrame]],
    names: list[tuple[str, pd.DataFrame]],
    config: Config,
) -> dict[str, Table]:
    by_path = [
        rows.head(config.max_rows).assign(
            compared=label,
            path=lambda rows: tree.paths.texts(rows["node"].to_numpy(), tree.names),
            kind=lambda rows: [KINDS[kind] for kind in rows["kind"]],
        )
        for label, rows in pairs
    ]
    by_name = [rows.head(config.max_rows).assign(compared=label) for label, rows in names]
    note = f"Per step of a rank, against {base}; the first {config.max_rows} of each comparison."
    counts = ["base_count", "other_count"]
    return {
        "by_path": table(
            pd.concat(by_path)[["compared", "path", *_CHANGES_OF_TIME, *counts, "change", "kind"]],
            title="What changed, where it begins in the tree",
            note=f"{note} Times of what was added or removed contain what it encloses.",
        ),
        "by_name": table(
            pd.concat(by_name)[
                ["compared", "name", "base_ns", "other_ns", "change_ns", *counts, "change", "kind"]
            ],
            title="What changed by name",
            note=f"{note} Times contain what is enclosed.",
        ),
    }


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"


def _findings(base: str, pairs: list[tuple[str, pd.DataFrame]]) -> Iterator[Finding]:
    for label, rows in pairs:
        kinds = rows["change"].value_counts()
        counted = ", ".join(f"{int(kinds.get(kind, 0))} {word}" for kind, word in _WORDS.items())
        worst = rows.iloc[0]
        where = max(("device", "host"), key=lambda processor: abs(worst[f"{processor}_change_ns"]))
        change = float(worst[f"{where}_change_ns"])
        more = "more" if change > 0 else "less"
        yield Finding(
            severity=Severity.INFO,
            message=f"{label} against {base}: {counted} (places in the tree of operators, not "
            "counting what these enclose); the largest change of time is "
            f"{_short(worst['name'])} with {duration(abs(change))} {more} {where} time a step.",
            metric="trace_diff.largest_change_ns",
            value=change,
            unit="ns",
            evidence={"name": str(worst["name"]), "compared": label, "base": base},
        )
