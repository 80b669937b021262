"""Forward repeated: a model is called again with the very tensors of the call before."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import contained
from profkit.patterns._rows import calling_line, cause, equal, having, place, time, within
from profkit.patterns.base import Match, Step, pattern

_EACH = 0.45
"""Calls that repeat one, for each that does not, from which on most steps have one."""

_FEWEST = 4
"""Calls with new tensors: of fewer, each step may be given the same ones."""

DRAWS = r"^aten::(?:native_dropout|_fused_dropout|(?:bernoulli|normal|uniform|randn?)\w*)$"
_FOR_METRICS = (
    "The model is called again with the tensors of the call before, and no gradient follows: take "
    "what it gave then, as for metrics."
)
_IN_A_ROW = (
    "The model is called {:.2g} times in a row with the same tensors and weights: call it once and "
    "keep what it gives, unless the program tells it something else in between."
)


@pattern(
    title="Model called again with the same input",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, repeated_inputs: pd.DataFrame, step: Step
) -> Match | None:
    """Find forward passes of a training that give what is known, by calls that were counted.

    What draws random numbers gives something else each time. Where the weights have changed since,
    a pass counts if no gradient follows, as one for metrics behind the update.
    """
    calls, again, after = (int(repeated_inputs[name].sum()) for name in ("calls", "again", "after"))
    fresh = calls - again - after
    passes = cpu_ops[having(cpu_ops, "^forward$") & equal(cpu_ops, "kind", "annotation")]
    linked = cpu_ops["op"].isin(cpu_ops.loc[cpu_ops["forward"] >= 0, "forward"])
    if again + after * (fresh >= _FEWEST) < _EACH * max(fresh, 1) or not linked.any():
        return None
    trained = contained(passes, cpu_ops["start_ns"][linked]) > 0
    is_idle = (~trained).sum() >= _EACH * trained.sum()
    chosen = within(cpu_ops, passes[~trained] if is_idle else passes)
    if not is_idle:
        chosen |= equal(cpu_ops, "phase", "backward")
        if again < _EACH * (calls - again) or (chosen & having(cpu_ops, DRAWS)).any():
            return None
    share = 1.0 if is_idle else again / calls
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_FOR_METRICS if is_idle else _IN_A_ROW.format(1 / (1 - share)),
        gain_ns=time(cpu_ops, chosen, kernels) * share,
        place=calling_line(cpu_ops["stack"][chosen].astype(str)) or place(cpu_ops, chosen),
        confidence=Confidence.MEDIUM,
        evidence={
            "passes_per_step": round(len(passes) / step.count, 1),
            "repeated_calls": again + after,
        },
    )
