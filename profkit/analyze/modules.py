"""Modules: time, memory and FLOPs along the tree of nn.Modules, forward and backward."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import Columns, analysis
from profkit.analyze.costs.torch_flops import flops
from profkit.analyze.shared import calltree
from profkit.analyze.shared.large_table import LargeTable, batches, joined, parts
from profkit.analyze.shared.step_windows import WHERE, filtered
from profkit.core.formatting import counted
from profkit.core.result import Abstention, Chart, Metric, Result, Table, table
from profkit.core.settings import Settings
from profkit.tables.tree_paths import SEPARATOR

_PHASES = ("forward", "backward")
_TIMES = ("cpu", "device")
_MEASURES = [f"{phase}_{time}_ns" for time in _TIMES for phase in _PHASES]
_MEMORY = ["allocated_bytes", "kept_bytes"]
_FLOPS = [f"{phase}_flops" for phase in _PHASES]
_PYTHON = Columns("rank repeat call caller kind start_ns end_ns step module")
_KERNELS = Columns("rank step start_ns end_ns module phase")
_MEMORY_EVENTS = Columns("rank repeat device op step size_bytes time_ns")
_OPS = Columns(
    "rank repeat op parent name start_ns end_ns step input_shapes inputs forward module phase"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/modules.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    max_rows: int = 2000
    """Modules kept, those with the most time."""


@analysis(title="Modules")
def analyze(
    python_calls: Annotated[LargeTable, _PYTHON],
    cpu_ops: Annotated[LargeTable, _OPS],
    kernels: Annotated[LargeTable, _KERNELS],
    memory_events: Annotated[LargeTable, _MEMORY_EVENTS],
    config: Config,
) -> Result:
    """How much time does each nn.Module take, with the gradients of its calls?

    Numbers are means over the steps of a rank. CPU time of the forward pass is the time of the
    module's calls, that of the backward pass the time of the backward operators whose forward
    operator ran in the module. GPU time is the sum of the durations of the kernels, copies and
    sets launched there. Own numbers leave out modules inside. Gradients that are accumulated, and
    the optimizer, belong to no module.
    """
    calls = _module_calls(python_calls)
    if calls.empty:
        return Result.abstain(
            "modules", "calls of modules are recorded only if with_stack of torch.profiler is set"
        )
    steps = calls.loc[calls["step"] >= 0, "step"]
    first = min(0, len(steps) - 1)  # without steps: what is outside of steps
    if (steps >= config.skip_first).any():
        first = config.skip_first
    passes = len(calls.loc[calls["step"] >= first, [*WHERE, "step"]].drop_duplicates())
    own = _own(calls, cpu_ops, kernels, memory_events, first) / passes
    tree = _with_inner(own.drop(index="", errors="ignore"))
    tree = tree.sort_values(
        [f"{time}_ns" for time in reversed(_TIMES)], ascending=False, kind="stable"
    )
    device = bool(tree["device_ns"].any())
    missing = _abstentions(any(memory_events.groups()), tree, len(steps))
    return Result(
        metrics=_metrics(own),
        tables=_tables(tree, passes, config),
        charts=_charts("device" if device else "cpu"),
        abstentions=missing,
    )


def _module_calls(python_calls: LargeTable) -> pd.DataFrame:
    """Return the calls of modules, the caller of each being the module that it is called in."""
    above = calltree.NearestAbove()
    found = []
    for rows in python_calls.portions():
        is_module = (rows["kind"] == "module").to_numpy()
        callers = above.of(rows, is_module)
        found.append(rows[is_module].assign(caller=callers[is_module]))
    return joined(found)


def _own(
    calls: pd.DataFrame,
    cpu_ops: LargeTable,
    kernels: LargeTable,
    memory_events: LargeTable,
    first: int,
) -> pd.DataFrame:
    """Return the numbers of each module without those inside it, by path; "" is outside of all."""
    on_host = all(map(_is_on_host, memory_events.narrowed(["device"]).portions()))
    found = []
    for own, work in batches(LargeTable.of(calls), kernels):
        found += [_calls(own, first), _device(work, first)]
    for rows in parts({"cpu_ops": cpu_ops, "memory_events": memory_events}):
        ops = rows["cpu_ops"]
        found += [
            _backward(ops, first),
            _allocated(**rows, first=first, on_host=on_host),
            _counted(ops, first),
        ]
    columns = ["calls", *_MEASURES, *_MEMORY, *_FLOPS]
    return pd.concat(found).groupby(level=0).sum().reindex(columns=columns, fill_value=0)


def _by_path(rows: pd.DataFrame, values: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """Return the sums of `values` by the module of each of `rows`."""
    path = rows["module"].astype(object).to_numpy()
    return pd.DataFrame(values, index=range(len(rows))).groupby(path).sum()


def _calls(calls: pd.DataFrame, first: int) -> pd.DataFrame:
    """Return calls of modules, and their time less that of the modules that they call."""
    numbered = calls.rename(columns={"call": "op"})
    around = calltree.rows_of(numbered, numbered, "caller")
    took = _duration(calls)
    own = took - calltree.sums(around, took, len(took))
    counts = (calls["step"] >= first).to_numpy()
    values = {"calls": np.ones(len(calls), dtype=np.int64), "forward_cpu_ns": own}
    return _by_path(calls[counts], {name: value[counts] for name, value in values.items()})


def _backward(cpu_ops: pd.DataFrame, first: int) -> pd.DataFrame:
    """Return the time of the outermost backward operators."""
    parent = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    backward = (cpu_ops["forward"] >= 0).to_numpy()
    inside = np.append(backward, False)[parent]  # row -1 is not
    counts = backward & ~inside & (cpu_ops["step"] >= first).to_numpy()
    rows = cpu_ops[counts]
    return _by_path(rows, {"backward_cpu_ns": _duration(rows)})


def _device(kernels: pd.DataFrame, first: int) -> pd.DataFrame:
    rows = kernels[(kernels["step"] >= first).to_numpy()]
    backward = (rows["phase"] == "backward").to_numpy()
    took = _duration(rows)
    return _by_path(
        rows, {"forward_device_ns": took * ~backward, "backward_device_ns": took * backward}
    )


def _is_on_host(memory_events: pd.DataFrame) -> bool:
    return bool((memory_events["device"] == "cpu").all())


def _allocated(
    cpu_ops: pd.DataFrame, memory_events: pd.DataFrame, first: int, *, on_host: bool
) -> pd.DataFrame:
    """Return the bytes that forward operators allocated on the GPU (without one, on the CPU)."""
    where = (memory_events["device"] == "cpu").to_numpy() == on_host
    counted = where & (memory_events["step"] >= first).to_numpy()
    events = filtered(memory_events[[*WHERE, "op", "size_bytes"]], counted)
    row = calltree.rows_of(cpu_ops, events)
    known = row >= 0
    ops, size = (
        cpu_ops[["phase", "module"]].iloc[row[known]],
        events["size_bytes"].to_numpy(np.int64)[known],
    )
    forward = (ops["phase"] != "backward").to_numpy()
    return _by_path(
        ops[forward],
        {"allocated_bytes": size[forward].clip(min=0), "kept_bytes": size[forward]},
    )


def _counted(cpu_ops: pd.DataFrame, first: int) -> pd.DataFrame:
    """Return the FLOPs of the outermost of the operators whose FLOPs are counted."""
    counts = flops(cpu_ops)
    known = ~np.isnan(counts)
    parent = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    outermost = known & (calltree.nearest(parent, parent, ~known) < 0)
    kept = outermost & (cpu_ops["step"] >= first).to_numpy()
    backward = (cpu_ops["phase"] == "backward").to_numpy()[kept]
    rows, counts = cpu_ops[kept], counts[kept]
    return _by_path(
        rows, {"forward_flops": counts * ~backward, "backward_flops": counts * backward}
    )


def _duration(rows: pd.DataFrame) -> NDArray[np.int64]:
    return (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)


def _with_inner(own: pd.DataFrame) -> pd.DataFrame:
    """Return one row per module with sums over the modules inside it, and its own times."""
    prefixes = {path: _prefixes(path) for path in own.index}
    every = list(dict.fromkeys(prefix for ancestors in prefixes.values() for prefix in ancestors))
    pairs = pd.DataFrame(
        [(prefix, path) for path, ancestors in prefixes.items() for prefix in ancestors],
        columns=["module", "path"],
    )
    total = pairs.join(own, on="path").drop(columns="path").groupby("module").sum().loc[every]
    itself = own.reindex(every, fill_value=0)
    total["calls"] = itself["calls"]
    for time in _TIMES:
        names = [f"{phase}_{time}_ns" for phase in _PHASES]
        total[f"{time}_ns"] = total[names].sum(axis=1)
        total[f"own_{time}_ns"] = itself[names].sum(axis=1)
    return total


def _prefixes(path: str) -> list[str]:
    names = path.split(SEPARATOR)
    return [SEPARATOR.join(names[: count + 1]) for count in range(len(names))]


def _kind(path: str) -> str:
    """Return the class of the module at `path`: its name without the number."""
    return path.rpartition(SEPARATOR)[2].rpartition("_")[0] or path


def _tables(tree: pd.DataFrame, passes: int, config: Config) -> dict[str, Table]:
    times = [name for time in _TIMES for name in (f"{time}_ns", f"own_{time}_ns")]
    shown = [*times, *_MEASURES, *_MEMORY, *_FLOPS]
    used = [name for name in shown if tree[name].any()]
    note = f"Means over {counted(passes, 'step')} of a rank."
    by_class = tree.groupby([_kind(path) for path in tree.index])[
        ["calls", *(f"own_{time}_ns" for time in _TIMES)]
    ].sum()
    order = [f"own_{time}_ns" for time in reversed(_TIMES)]
    by_class = by_class.sort_values(order, ascending=False, kind="stable")
    by_class = by_class.rename_axis("class").reset_index()
    kept = [name for name in by_class.columns if name == "class" or by_class[name].any()]
    return {
        "by_module": table(
            tree[["calls", *used]].rename_axis("module").reset_index(),
            title="Modules, each with those inside it",
            note=f"{note} Memory is that of the forward pass: allocated, and less what was freed.",
            limit=config.max_rows,
        ),
        "by_class": table(
            by_class[kept],
            title="Modules by class, without those inside them",
            note=note,
            limit=config.max_rows,
            sums=("calls", "own_cpu_ns", "own_device_ns"),
        ),
    }


def _metrics(own: pd.DataFrame) -> dict[str, Metric]:
    device = own[["forward_device_ns", "backward_device_ns"]].sum(axis=1)
    if not device.sum() > 0:
        return {}
    inside = float(device.drop(index="", errors="ignore").sum() / device.sum())
    title = "GPU time that belongs to a module, of all in the steps"
    return {"attributed_share": Metric(value=inside, unit="share", title=title)}


_WORDS = {"cpu": "CPU time", "device": "GPU time"}


def _charts(time: str) -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title=f"{_WORDS[time]} by class of module",
            table="by_class",
            x="class",
            y=(f"own_{time}_ns",),
            horizontal=True,
        ),
    )


def _abstentions(has_memory: bool, tree: pd.DataFrame, steps: int) -> tuple[Abstention, ...]:
    reasons = (
        (
            not has_memory,
            "memory of modules",
            "no allocation was recorded: set profile_memory",
        ),
        (
            not tree[_FLOPS].any(axis=None),
            "FLOPs of modules",
            "no operator that is counted was recorded with its shapes: set record_shapes",
        ),
        (not steps, "numbers per step", "no step was marked: they are those of all recorded"),
    )
    return tuple(Abstention(what=what, reason=reason) for holds, what, reason in reasons if holds)
