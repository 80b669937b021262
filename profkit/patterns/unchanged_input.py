"""Unchanged input: one of the models of each step is given what the step before gave it."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import contained
from profkit.patterns._rows import calling_line, cause, equal, having, place, time, within
from profkit.patterns.base import Match, Step, pattern
from profkit.patterns.forward_repeated import DRAWS

_MOSTLY, _EACH = 0.6, 0.45
"""Part of the calls at a place that give what is known, where others give new tensors, and from
which on most steps have one: a model may be given what changes and what does not in turn."""

_FEWEST = 4
"""Calls at a place in a step of which one can tell what most are given."""
_FIRST_CALLS = 2
"""Calls without one before: places of calls are known from the second step on."""

_KEEP = "Call it once for each new input, before the loop, and keep what it gives."
_KEEP_UNLESS_MEASURED = (
    "Call it once, before the loop, and keep what it gives, unless one input stands for others "
    "here, as in a benchmark."
)


@pattern(
    title="Model called in each step with an unchanged input",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, repeated_inputs: pd.DataFrame, step: Step
) -> Match | None:
    """Find forward passes that give what those of the step before gave, by calls that were counted.

    Such as of a text encoder in each step of a sampler. Where all models of a step are given what
    they were given before, the whole step is what is measured.
    """
    counts = repeated_inputs[repeated_inputs["calls"] >= _FEWEST].set_index("place")
    share = counts["across"] / counts["calls"]
    known = counts[["again", "across"]].max(axis=1) + counts["after"]
    repeated = share[share >= _EACH]
    changes = (counts["calls"] - counts["across"])[repeated.index]
    if repeated.empty or not (known < _MOSTLY * counts["calls"]).any():
        return None
    passes = cpu_ops[having(cpu_ops, "^forward$") & equal(cpu_ops, "kind", "annotation")]
    at = passes.sort_values("start_ns").groupby("step").cumcount().reindex(passes.index)
    linked = cpu_ops["op"].isin(cpu_ops.loc[cpu_ops["forward"] >= 0, "forward"])
    untrained = contained(passes, cpu_ops["start_ns"][linked]) == 0
    chosen, gain_ns = pd.Series(data=False, index=cpu_ops.index).to_numpy(), 0.0
    for number, part in repeated.items():
        own = within(cpu_ops, passes[(at == number).to_numpy() & untrained])
        if not (own & having(cpu_ops, DRAWS)).any():
            chosen = chosen | own
            gain_ns += time(cpu_ops, own, kernels) * float(part)
    if not chosen.any():
        return None
    line = calling_line(cpu_ops["stack"][chosen].astype(str)) or place(cpu_ops, chosen)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_KEEP if changes.max() > _FIRST_CALLS else _KEEP_UNLESS_MEASURED,
        gain_ns=gain_ns,
        place=line,
        confidence=Confidence.MEDIUM,
        evidence={
            "passes_per_step": round(len(passes) / step.count, 1),
            "unchanged_inputs": round(float(repeated.max()), 2),
        },
    )
