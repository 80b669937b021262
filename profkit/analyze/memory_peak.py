"""Peak of memory: when most of it was allocated on each GPU, and what filled it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze._attention_scores import scores_bytes
from profkit.analyze._memory_contents import with_contents
from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import (
    AFTER,
    BEFORE,
    UNKNOWN,
    WHERE,
    levels,
    live_at,
    peak_event,
    with_origins,
)
from profkit.analyze.shared.frame_kinds import of_stack
from profkit.analyze.shared.frame_tree import tree_of
from profkit.core.drawing import Detail, Drawing
from profkit.core.formatting import agreeing, size
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.tables.tree_paths import SEPARATOR, joined

_FEWEST = 20
_FEW = 0.1
"""Part of the allocations up to which an unknown origin matters little."""

_UNKNOWN = {
    BEFORE: "it was live before the history begins; record from the start "
    "(tools.memory_snapshot.start_up=true)",
    AFTER: "it came after the window, before memory ran out, as may more that Python cannot reach; "
    "record the steps in which it does (tools.memory_snapshot.first_step and steps)",
}
_SHARES = ("origin", "content", "line", "operator", "module", "step")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_peak.yaml``."""

    max_rows: PositiveInt = 100
    """Rows kept of each table, divided among the ranks."""

    stacks: PositiveInt = 400
    """Stacks kept of the peak, largest first, divided among the ranks."""

    max_frames: PositiveInt = 3000
    """Frames of the flame graph of a rank; of more the smallest are joined."""


@analysis(title="Peak of memory")
def analyze(allocations: pd.DataFrame, config: Config) -> Result:
    """When was most memory allocated on each GPU, and what was live then?

    Sizes are what the program asked for, from the allocator's own history, beginning with what
    was live before it. The details of a rank are those of its GPU and repeat with the highest
    peak. An origin is what the program was doing when it allocated, the content what that is: what
    forward leaves are activations, what backward leaves gradients, what the optimizer leaves its
    states, but for copies of weights and workspaces of libraries.
    """
    if allocations.empty:
        return Result.abstain("the peak of memory", "no allocation was recorded")
    rows = with_contents(with_origins(allocations))
    peaks = _peaks(rows)
    highest = _highest(rows, peaks)
    worst = highest[0]
    tables = _details(highest, config)
    rings, lines = _charts()
    # Rings of one part say nothing.
    charts = (rings, lines) if len(tables["parts"].rows) > len(highest) else (lines,)
    return Result(
        metrics=_metrics(peaks, worst.live),
        tables={
            "peaks": table(
                peaks.drop(columns="event").assign(step=_known(peaks["step"])),
                title="Peak of each GPU",
            ),
            "phases": table(
                _phases(rows), title="Most allocated in each phase, of the GPU with most"
            ),
            **tables,
        },
        charts=charts,
        drawings={"peak_frames": _frames(highest, config.max_frames)},
        abstentions=_abstentions(worst),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Highest:
    """The device and repeat of one rank that had the highest peak."""

    rank: int
    device: str
    peak_bytes: int
    step: int
    own: pd.DataFrame
    """All its allocations."""
    live: pd.DataFrame
    """Those of them that were live at the peak, the largest first."""


def _highest(rows: pd.DataFrame, peaks: pd.DataFrame) -> list[_Highest]:
    """Return the highest peak of each rank, the highest of all first."""
    found = []
    for rank, of_rank in peaks.groupby("rank"):
        peak = of_rank.to_dict("records")[int(of_rank["peak_bytes"].argmax())]
        own = rows[(rows[WHERE] == [peak[name] for name in WHERE]).all(axis=1)]
        live = live_at(own, int(peak["event"]))
        found.append(
            _Highest(
                rank=int(str(rank)),
                device=peak["device"],
                peak_bytes=int(peak["peak_bytes"]),
                step=int(peak["step"]),
                own=own,
                live=live.sort_values("size_bytes", ascending=False, kind="stable"),
            )
        )
    return sorted(found, key=lambda rank_peak: -rank_peak.peak_bytes)


def _details(highest: Sequence[_Highest], config: Config) -> dict[str, Table]:
    """Return the tables about the peak of each rank, with the rank in their first column."""
    rows, stacks = (
        max(limit // len(highest), _FEWEST) for limit in (config.max_rows, config.stacks)
    )
    live = [rank_peak.live for rank_peak in highest]

    def of_ranks(parts: Iterable[pd.DataFrame], limit: int, title: str) -> Table:
        return _of_ranks(highest, list(parts), limit, title)

    return {
        "largest": of_ranks(map(_largest, live), rows, "Largest allocations at the peak"),
        **{
            f"by_{name}": of_ranks(
                (_shares(allocations, name) for allocations in live),
                rows,
                f"Live at the peak by {name}",
            )
            for name in _SHARES
        },
        "parts": of_ranks(
            map(_parts, live), stacks, "Live at the peak by origin, module and operator"
        ),
        "stacks": of_ranks(map(_stacks, live), stacks, "Live at the peak by stack"),
    }


def _of_ranks(
    highest: Sequence[_Highest], parts: Sequence[pd.DataFrame], limit: int | None, title: str
) -> Table:
    """Return the first `limit` rows of each rank's part, as one table."""
    kept = [
        rows.head(len(rows) if limit is None else limit).assign(rank=rank_peak.rank)
        for rank_peak, rows in zip(highest, parts, strict=True)
    ]
    whole = pd.concat(kept, ignore_index=True)
    left = sum(map(len, parts)) - len(whole)
    more = "The first {rows} rows of each rank; {} more [is|are] left out."
    note = agreeing(left, more, rows=limit) if left else ""
    shown = table(whole[["rank", *parts[0].columns]], title=title, note=note)
    if len(highest) > 1 or "live_bytes" not in whole:
        return shown
    sums = {name: float(parts[0][name].sum()) for name in ("live_bytes", "count", "peak_share")}
    return replace(shown, sums=sums, left_out=left)


def _peaks(rows: pd.DataFrame) -> pd.DataFrame:
    found = []
    for where, own in rows.groupby(WHERE, observed=True):
        event, peak_bytes = peak_event(own)
        before = own["start_event"] < 0
        at = own[own["start_event"] == event]
        found.append(
            {
                **dict(zip(WHERE, where, strict=True)),
                "peak_bytes": peak_bytes,
                "before_bytes": int(own.loc[before, "size_bytes"].sum()),
                "at_end_bytes": int(own.loc[own["end_event"] < 0, "size_bytes"].sum()),
                "step": int(at["step"].iloc[0]) if len(at) else -1,
                "allocations": len(own),
                "from_history": int((~before).sum()),
                "of_training": _of_training(own[~before]),
                "scores_bytes": scores_bytes(own, live_at(own, event)),
                "event": event,
            }
        )
    return pd.DataFrame(found)


def _of_training(rows: pd.DataFrame) -> float:
    """Return how many allocations of a history backward and optimizers made, NaN if not known."""
    origin = rows["origin"].astype(str)
    if (origin == UNKNOWN).sum() > _FEW * len(rows) or rows.empty:
        return math.nan
    return int(origin.isin(["backward", "optimizer"]).sum())


def _phases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the most that was allocated just after each phase of a step allocated something."""
    found = []
    for _, own in rows.groupby(WHERE, observed=True):
        changes = levels(own)
        made = changes[~changes["is_free"]]
        phase = own["origin"].astype(object).to_numpy()[made["row"]]
        found.append(made["level_bytes"].groupby(phase).max())
    highest: pd.Series[int] = pd.concat(found).groupby(level=0).max()
    return highest.rename_axis("phase").rename("peak_bytes").reset_index()


def _shares(live: pd.DataFrame, name: str) -> pd.DataFrame:
    sums = live.groupby(name, observed=True)["size_bytes"].agg(["sum", "size"]).reset_index()
    sums.columns = pd.Index([name, "live_bytes", "count"])
    sums = sums.sort_values("live_bytes", ascending=False, ignore_index=True, kind="stable")
    sums["peak_share"] = sums["live_bytes"] / max(int(live["size_bytes"].sum()), 1)
    if name == "step":
        return sums.assign(step=_known(sums["step"]))
    sums[name] = sums[name].astype(object).replace("", "(not recorded)")
    return sums


def _known(steps: "pd.Series[int]") -> "pd.Series[float]":
    """Return the step numbers, NaN for allocations outside of steps."""
    return steps.where(steps >= 0).astype(float)


def _largest(live: pd.DataFrame) -> pd.DataFrame:
    columns = ["size_bytes", "line", "operator", "module", "origin", "annotation", "step", "stack"]
    rows = live[columns].copy()
    rows["stack"] = [_innermost(text) for text in rows["stack"].astype(object)]
    return rows.assign(step=_known(rows["step"]))


def _innermost(stack: str, frames: int = 12) -> str:
    """Return the last frames of a stack, the innermost first, as they fit into a table."""
    return " < ".join(stack.split(SEPARATOR)[: -frames - 1 : -1])


def _stacks(live: pd.DataFrame) -> pd.DataFrame:
    known = live[(live["stack"] != "").to_numpy()]
    sums = known.groupby("stack", observed=True)["size_bytes"].sum().reset_index()
    sums["stack"] = _from_fork([str(text) for text in sums["stack"]])
    return sums.sort_values("size_bytes", ascending=False, ignore_index=True, kind="stable")


def _from_fork(stacks: list[str]) -> list[str]:
    """Return stacks from the frame before the first in which they differ.

    The frames of the program's start are the same in all, and would take most of the drawing.
    """
    frames = [text.split(SEPARATOR) for text in stacks]
    # Frames by depth, as far down as the shortest stack goes.
    levels = zip(*frames, strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    shared = max(shared - 1, 0)
    return [SEPARATOR.join(stack[shared:]) for stack in frames]


def _frames(highest: Sequence[_Highest], most: int) -> Drawing:
    """Return the flame graph of what each rank held at its peak, by origin and stack."""
    details = []
    for peak in highest:
        sums = peak.live.groupby(["origin", "stack"], observed=True, sort=False)["size_bytes"].sum()
        origins, texts = (sums.index.get_level_values(level) for level in ("origin", "stack"))
        known = [str(text) for text in texts]
        shown = dict(zip(filter(None, known), _from_fork([*filter(None, known)]), strict=True))
        stacks = [
            ((str(origin),), of_stack(shown.get(text, "")), (size_bytes,))
            for origin, text, size_bytes in zip(origins, known, sums.tolist(), strict=True)
        ]
        details.append(Detail.of(f"rank {peak.rank}, {peak.device}", tree_of(stacks).plain(most)))
    measures = [{"title": "Bytes live at the peak", "column": 0}]
    look = {"unit": "bytes", "of": "Device", "measures": measures, "groups": ["Origin"]}
    return Drawing(
        kind="flame",
        title="Live at the peak by stack",
        data=look | {"total": len(details)},
        details=tuple(details),
    )


def _parts(live: pd.DataFrame) -> pd.DataFrame:
    """Return the bytes of each origin, module and operator, joined as paths of a tree."""
    keys = ["origin", "module", "operator"]
    rows = live[keys].astype(object).replace("", "(not recorded)")
    path = [joined(names) for names in rows.itertuples(index=False)]
    sums = live.groupby(pd.Index(path))["size_bytes"].sum().rename_axis("part").reset_index()
    return sums.sort_values("size_bytes", ascending=False, ignore_index=True, kind="stable")


def _metrics(peaks: pd.DataFrame, live: pd.DataFrame) -> dict[str, Metric]:
    by_repeat = peaks.groupby("repeat")["peak_bytes"].max()
    return {
        "peak_bytes": Metric(
            value=int(peaks["peak_bytes"].max()),
            unit="bytes",
            title="Peak of allocated memory",
            better="lower",
            by_repeat=dict(zip(by_repeat.index.tolist(), by_repeat.tolist(), strict=True)),
        ),
        "before_bytes": Metric(
            value=int(peaks["before_bytes"].max()),
            unit="bytes",
            title="Memory in use before the recording, of the GPU with the most",
        ),
        "live_at_peak": Metric(value=len(live), unit="count", title="Allocations live at the peak"),
    }


def _charts() -> tuple[Chart, Chart]:
    return (
        Chart(
            kind="sunburst",
            title="Live at the peak by origin, module and operator",
            table="parts",
            x="part",
            y=("size_bytes",),
            choose="rank",
        ),
        Chart(
            kind="bar",
            title="Live at the peak by line",
            table="by_line",
            x="line",
            y=("live_bytes",),
            horizontal=True,
            choose="rank",
        ),
    )


def _abstentions(worst: _Highest) -> tuple[Abstention, ...]:
    missing, live = [], worst.live
    for origin, reason in _UNKNOWN.items():
        if unknown := int(live.loc[live["origin"] == origin, "size_bytes"].sum()):
            what = f"who allocated {size(unknown)} of the peak"
            missing.append(Abstention(what=what, reason=reason))
    if worst.step == -1:
        reason = "the peak lies outside of all steps, or no step was marked"
        missing.append(Abstention(what="the step of the peak", reason=reason))
    return tuple(missing)
