"""Short operators: on a CPU, calling each of them costs as much as what it computes."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.formatting import duration
from profkit.patterns._parameter_loops import IS_UPDATE, UPDATE, of_parameters
from profkit.patterns._parameter_loops import advice as loop_advice
from profkit.patterns._python_calls import OWN_ALONE, innermost_line
from profkit.patterns._rows import Chosen, called, equal, having, inside, per_step, place, time
from profkit.patterns.base import CHARGED, Match, Step, pattern

_MOST_NS = 30_000
_MOST_OF_ONE_NS = 100_000
"""Without a profiler, as the limit above."""

_LEAST_OPERATORS = 500
_LEAST_SHARE = 0.25
_MOSTLY = 0.5
_MODEL_CALLED = r"^(?:forward|evaluation)$"
_BACKWARD = r"^backward$"
_MANY_CALLS = 8
_FUSED = r"^aten::(lstm|gru|rnn_tanh|rnn_relu)$"
_GATES = r"^aten::sigmoid_?$|_cell$", r"^aten::tanh_?$|_cell$"


@pattern(
    title="Many short operators",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
    calls=OWN_ALONE,
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, python_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find steps of which short operators outside the optimizer take much, as those of a loop do.

    Their place is the line that makes most of them in the forward pass, or in a loop over
    parameters where these are most. What is done by fewer calls needs less Python between them too.
    """
    lasted = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy()
    updating = inside(cpu_ops, having(cpu_ops, UPDATE))
    short = called(cpu_ops) & (lasted < _MOST_NS * step.slowdown) & ~updating
    if per_step(short, step.count) < _LEAST_OPERATORS:
        return None
    usual = _usually_brief(cpu_ops, step.slowdown) & ~updating
    gain_ns = time(cpu_ops, inside(cpu_ops, short | usual))
    between_ns = _between_ns(cpu_ops, usual, step.slowdown)
    if gain_ns + between_ns < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    forward = short & ~equal(cpu_ops, "phase", "backward")
    beside = forward & of_parameters(cpu_ops)
    # What backward calls follows from the forward pass.
    is_update = beside.sum() > _MOSTLY * forward.sum()
    chosen = beside if is_update else short
    lines = innermost_line(python_calls, cpu_ops["start_ns"][chosen & forward])
    mean_ns = float(lasted[chosen].mean())
    if is_update:
        advice, of_python = f", {loop_advice(cpu_ops, beside)}", {}
        gain_ns = time(cpu_ops, inside(cpu_ops, beside))
    else:
        advice = _of_loops(cpu_ops, between_ns / step.count, step)
        of_python = {"python": between_ns}
    count = per_step(chosen, step.count)
    return Match(
        cause="cpu_operators",
        advice=f"{count:,.0f} operators per step take {duration(mean_ns)} each, mostly call"
        f" overhead{advice}",
        gain_ns=gain_ns + sum(of_python.values()),
        also=of_python,
        place=str(python_calls["name"][lines].iloc[0]) if lines.any() else place(cpu_ops, chosen),
        evidence={
            "operators_per_step": count,
            "mean_ns": round(mean_ns),
            **(IS_UPDATE if is_update else {}),
        },
    )


def _of_loops(cpu_ops: pd.DataFrame, between_ns: float, step: Step) -> str:
    """Return what to do about a loop in which `between_ns` pass between operators in a step."""
    between = f", and Python between them takes {duration(between_ns)}" if between_ns else ""
    ranges = equal(cpu_ops, "kind", "annotation")
    calls, passes = (having(cpu_ops, name) & ranges for name in (_MODEL_CALLED, _BACKWARD))
    if (many := per_step(calls, step.count)) >= _MANY_CALLS:
        if passes.sum() > _MOSTLY * calls.sum():
            return (
                f"{between}: the model is called {many:,.0f} times a step, each with a backward "
                "pass of its own, so take fewer and larger micro-batches as far as memory allows."
            )
        return (
            f"{between}: the model is called {many:,.0f} times a step, so give it more inputs in "
            "each call, all samples or tasks at once (`torch.vmap`) or states of several "
            "environments (`gymnasium.vector`), or compile it."
        )
    is_written_out = all(having(cpu_ops, gate).any() for gate in _GATES)
    is_recurrent = is_written_out and not having(cpu_ops, _FUSED).any()
    layer = "use a fused layer such as `torch.nn.LSTM`, " if is_recurrent else ""
    return (
        f"{between}: put what a loop goes through, as time steps or samples, into one tensor and "
        f"call each operator once, {layer}or compile the loop with `torch.compile`."
    )


def _outermost(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the operators that no other one encloses, nodes of backward among them."""
    operators = equal(cpu_ops, "kind", "operator")
    return operators & ~cpu_ops["parent"].isin(cpu_ops["op"][operators]).to_numpy(bool)


def _usually_brief(cpu_ops: pd.DataFrame, slowdown: float) -> Chosen:
    """Choose the outermost operators of names that mostly hold short ones only, but for long ones.

    What counts is the longest that one of them computes by itself.
    """
    order = _in_order(cpu_ops, equal(cpu_ops, "kind", "operator"))
    begins = np.flatnonzero(_outermost(cpu_ops)[order])
    chosen = np.zeros(len(cpu_ops), dtype=bool)
    if len(begins):
        outermost = cpu_ops.iloc[order[begins]]
        charges = cpu_ops[CHARGED].to_numpy(np.int64)[order]
        longest = pd.Series(np.maximum.reduceat(charges, begins), index=outermost.index)
        usual = longest.groupby(outermost["name"], observed=True).transform("median")
        is_brief = (usual < _MOST_NS * slowdown) & (longest < _MOST_OF_ONE_NS * slowdown)
        chosen[order[begins]] = is_brief.to_numpy()
    return chosen


def _between_ns(cpu_ops: pd.DataFrame, brief: Chosen, slowdown: float) -> float:
    """Return the time between outermost operators that soon follow each other, both `brief`, ns."""
    order = _in_order(cpu_ops, _outermost(cpu_ops))
    step, thread, start, end = (
        cpu_ops[name].to_numpy(np.int64)[order] for name in ("step", "tid", "start_ns", "end_ns")
    )
    both = brief[order][1:] & brief[order][:-1]
    both &= (step[1:] == step[:-1]) & (thread[1:] == thread[:-1])
    between = start[1:] - end[:-1]
    both &= (between > 0) & (between < _MOST_OF_ONE_NS * slowdown)
    return float(between[both].sum())


def _in_order(cpu_ops: pd.DataFrame, chosen: Chosen) -> NDArray[np.int64]:
    """Return where the `chosen` are, of each thread and step as they began, parents first."""
    rows = np.flatnonzero(chosen)
    end, start, thread, step = (
        cpu_ops[name].to_numpy(np.int64)[rows] for name in ("end_ns", "start_ns", "tid", "step")
    )
    return rows[np.lexsort((-end, start, thread, step))]
