"""Short operators: on a CPU, calling each of them costs as much as what it computes."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.formatting import duration
from profkit.patterns._gradients import STEPS
from profkit.patterns._parameter_loops import GRADIENT, IS_UPDATE, UPDATE, of_parameters
from profkit.patterns._parameter_loops import advice as loop_advice
from profkit.patterns._python_calls import OWN_ALONE, contained, function_of, innermost_line
from profkit.patterns._rows import (
    Chosen,
    called,
    equal,
    fitting,
    having,
    inside,
    per_step,
    place,
    time,
    within,
)
from profkit.patterns._shapes import AT_ONCE, LAYER_PRODUCTS, rows_of_left
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
_FOR_A_PARAMETER = 4
"""Operators that a layer calls for each of its parameters, such as products and activations."""

_READS = r"^aten::_local_scalar_dense$"
_FUSED = r"^aten::(lstm|gru|rnn_tanh|rnn_relu)$"
_CELL = r"_cell$"
"""Of a recurrent layer's time step, whichever it is."""
_GATES = rf"^aten::sigmoid_?$|{_CELL}", rf"^aten::tanh_?$|{_CELL}"


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
    own = ~inside(cpu_ops, having(cpu_ops, UPDATE) | _of_fused_layers(cpu_ops))
    short = called(cpu_ops) & (lasted < _MOST_NS * step.slowdown) & own
    if per_step(short, step.count) < _LEAST_OPERATORS:
        return None
    usual = _usually_brief(cpu_ops, step.slowdown) & own
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
    count = per_step(chosen, step.count)
    many = f"{count:,.0f} operators per step take {duration(mean_ns)} each, mostly call overhead"
    if is_update:
        advice, of_python = f"{many}, {loop_advice(cpu_ops, beside)}", {}
        gain_ns = time(cpu_ops, inside(cpu_ops, beside))
    else:
        between = f", and Python between them takes {duration(between_ns / step.count)}"
        said = _of_loops(cpu_ops, python_calls, lines, own, step)
        advice = f"{said} {many}{between if between_ns else ''}."
        of_python = {"python": between_ns}
    return Match(
        cause="cpu_operators",
        advice=advice,
        gain_ns=gain_ns + sum(of_python.values()),
        also=of_python,
        place=str(python_calls["name"][lines].iloc[0]) if lines.any() else place(cpu_ops, chosen),
        evidence={
            "operators_per_step": count,
            "mean_ns": round(mean_ns),
            **(IS_UPDATE if is_update else {}),
        },
    )


def _of_fused_layers(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose what backward calls for recurrent layers, each time step by itself."""
    steps = cpu_ops["op"][inside(cpu_ops, having(cpu_ops, _FUSED))]
    return np.asarray(cpu_ops["forward"].isin(steps), dtype=np.bool_)


def _of_loops(
    cpu_ops: pd.DataFrame, python_calls: pd.DataFrame, at_line: Chosen, own: Chosen, step: Step
) -> str:
    """Return what to do about a loop that calls the model, or operators, many times in a step.

    `at_line` are the calls at its line, and `own` the operators outside of optimizers, which read
    numbers themselves. What acts with each answer may have lines beside that of the model.
    """
    ranges = equal(cpu_ops, "kind", "annotation")
    calls, passes = (having(cpu_ops, name) & ranges for name in (_MODEL_CALLED, _BACKWARD))
    many, lines = per_step(calls, step.count), python_calls[at_line]
    of_each = passes.sum() > _MOSTLY * calls.sum()
    are_single = not of_each and not _are_batches(cpu_ops)
    functions = {function_of(name) for name in lines["name"].astype(str).unique()}
    around = fitting(python_calls, "name", lambda name: function_of(name) in functions)
    if many >= _MANY_CALLS and _are_of_the_model(
        python_calls[around] if are_single else lines, cpu_ops[calls]
    ):
        if of_each and (having(cpu_ops, STEPS) & ranges).sum() > _MOSTLY * passes.sum():
            return (
                f"Train the {many:,.0f} models together, as by `torch.func.stack_module_state` and "
                "`torch.vmap`, with one optimizer: each has a forward, a backward and an update of "
                "its own in each step."
            )
        if of_each:
            return (
                "Take fewer and larger micro-batches, as far as memory allows: the model is called "
                f"{many:,.0f} times a step, each with a backward pass of its own."
            )
        if are_single:
            return (
                f"Give the model more inputs in each of its {many:,.0f} calls per step "
                "(`torch.vmap`, several environments by `gymnasium.vector`); where each call needs "
                "the one before, compile it or make fewer."
            )
        if not having(cpu_ops, _CELL).any():
            return (
                f"Call the model less often than {many:,.0f} times a step, as with fewer steps of "
                "a solver or sampler, or compile the loop with `torch.compile`."
            )
    if _are_layers(cpu_ops, own):
        return (
            "Its layers compute little each: give them larger batches, or compile the model with "
            "`torch.compile`, which makes few kernels of many operators."
        )
    is_written_out = all(having(cpu_ops, gate).any() for gate in _GATES)
    is_recurrent = is_written_out and not having(cpu_ops, _FUSED).any()
    layer = "use a fused layer such as `torch.nn.LSTM`, " if is_recurrent else ""
    mine = own if lines.empty else own & within(cpu_ops, lines)
    reads = per_step(having(cpu_ops, _READS) & mine, step.count)
    whole = f", without its {reads:,.0f} `.item()` per step" if reads >= _MANY_CALLS else ""
    return (
        "Put what a loop goes through, as time steps or samples, into one tensor and call each "
        f"operator once, {layer}or compile the loop with `torch.compile`{whole}."
    )


def _are_of_the_model(lines: pd.DataFrame, calls: pd.DataFrame) -> bool:
    """Tell whether calls at a line are made by calls of the model, or make these."""
    if lines.empty:
        return True
    made = contained(calls, lines["start_ns"]).sum() >= _MOSTLY * len(lines)
    return bool(made or contained(lines, calls["start_ns"]).sum() >= _MOSTLY * len(calls))


def _are_layers(cpu_ops: pd.DataFrame, own: Chosen) -> bool:
    """Tell whether operators outside of optimizers are no more than layers call once each.

    Each parameter gets its gradient once, however often a loop uses it.
    """
    parameters = equal(cpu_ops, "name", GRADIENT).sum()
    forward = own & called(cpu_ops) & ~equal(cpu_ops, "phase", "backward")
    return bool(forward.sum() <= _FOR_A_PARAMETER * parameters)


def _are_batches(cpu_ops: pd.DataFrame) -> bool:
    """Tell whether most products of layers have as many rows as one is worth calling for."""
    products = having(cpu_ops, LAYER_PRODUCTS)
    many = fitting(cpu_ops, "input_shapes", lambda text: rows_of_left(text) >= AT_ONCE)
    return bool((products & many).sum() > _MOSTLY * products.sum())


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
