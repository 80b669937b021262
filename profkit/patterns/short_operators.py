"""Short operators: on a CPU, calling each of them costs as much as what it computes."""

import pandas as pd

from profkit.core.formatting import duration
from profkit.patterns._parameter_loops import UPDATE, of_parameters
from profkit.patterns._parameter_loops import advice as loop_advice
from profkit.patterns._python_calls import OWN_ALONE, innermost_line
from profkit.patterns._rows import called, equal, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_MOST_NS = 30_000
_LEAST_OPERATORS = 500
_LEAST_SHARE = 0.25
_MOSTLY = 0.5
_FOR_LOOPS = (
    ": compute all time steps, experts or samples in one, use a fused layer such as "
    "`torch.nn.LSTM`, or compile the loop with `torch.compile`."
)


@pattern(
    title="Many short operators",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
    calls=OWN_ALONE,
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, python_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find steps of which short operators outside the optimizer take much, as those of a loop do.

    Their place is the line that makes most of them in the forward pass, or in a loop over
    parameters where these are most.
    """
    lasted = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy()
    short = called(cpu_ops) & (lasted < _MOST_NS) & ~inside(cpu_ops, having(cpu_ops, UPDATE))
    count = per_step(short, step.count)
    gain_ns = time(cpu_ops, inside(cpu_ops, short))
    if count < _LEAST_OPERATORS or gain_ns < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    forward = short & ~equal(cpu_ops, "phase", "backward")
    beside = forward & of_parameters(cpu_ops)
    # What backward calls follows from the forward pass.
    is_update = beside.sum() > _MOSTLY * forward.sum()
    chosen = beside if is_update else short
    lines = innermost_line(python_calls, cpu_ops["start_ns"][chosen & forward])
    count, mean_ns = per_step(chosen, step.count), float(lasted[chosen].mean())
    return Match(
        cause="cpu_operators",
        advice=f"{count:,.0f} operators per step take {duration(mean_ns)} each, mostly the call"
        + (f", {loop_advice(cpu_ops, beside)}" if is_update else _FOR_LOOPS),
        gain_ns=time(cpu_ops, inside(cpu_ops, beside)) if is_update else gain_ns,
        place=str(python_calls["name"][lines].iloc[0]) if lines.any() else place(cpu_ops, chosen),
        evidence={"operators_per_step": count, "mean_ns": round(mean_ns)},
    )
