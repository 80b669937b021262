"""Unfused optimizers: one kernel for each operation and parameter in the optimizer's step."""

import re
from collections import Counter

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import ON_ONE
from profkit.patterns._python_calls import Spent, outermost, spent_on_cpu
from profkit.patterns._rows import Chosen, cause, having, inside, per_step, time
from profkit.patterns._shapes import MATMULS
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import own_lines

_STEP = r"^Optimizer\.step#(?!Fused|Sparse)(\w+)\.step"
"""Of gradients that are sparse there is no fused step, and compiled it is as slow."""

_STEP_CALLS = r"torch/optim/(?!sparse_)\w+\.py\(\d+\): step$"
_OTHER_WORK = rf"{MATMULS}|^c10d::|^record_param_comms|^(?:nccl|rccl|gloo|ucc):|^Torch-Compiled"
"""Of an optimizer's step: products, communication, and what is compiled already."""

_LEAST_OPERATORS = 16
_MOST_ON_GPU, _OF_LAUNCHES = 2 / 3, 0.9
"""Shares that are gained at most: of what a GPU computes, as it reads and writes the parameters
once, and of the time that it waits for launches, of which hardly any are left."""
_FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
_FOREACH = frozenset({"Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"})


@pattern(
    title="Unfused optimizer",
    source="https://docs.pytorch.org/docs/stable/optim.html",
    calls=_STEP_CALLS,
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find optimizer steps with many operators on single tensors."""
    steps = having(cpu_ops, _STEP)
    if not steps.any():
        return None
    chosen = inside(cpu_ops, steps)
    # A closure runs the model within the step, as LBFGS needs it: most of that is no update. On
    # the CPU a fused optimizer still counts its steps, with an `add_` for each parameter.
    if (chosen & having(cpu_ops, "^autograd::engine::evaluate_function|^aten::_fused_")).any():
        return None
    single = chosen & having(cpu_ops, ON_ONE)
    foreach = chosen & having(cpu_ops, "_foreach_")
    if single.sum() < _LEAST_OPERATORS * step.count or foreach.sum() * 2 > single.sum():
        return None
    gained = _gained(cpu_ops["name"][single])
    name = str(cpu_ops["name"][steps].astype(object).iloc[0])
    optimizer = found.group(1) if (found := re.search(_STEP, name)) else ""
    calls = having(python_calls, _STEP_CALLS)
    chosen &= ~inside(cpu_ops, having(cpu_ops, _OTHER_WORK))
    gain_ns, waits_ns = time(cpu_ops, chosen, kernels), time(cpu_ops, chosen)
    spent = Spent(cause=cause(cpu_ops, chosen & ~steps, kernels), gain_ns=gain_ns, place="")
    if kernels.empty and calls.any():
        # What Python does between the operators goes with them, where samples saw all of it.
        seen = spent_on_cpu(python_calls, outermost(python_calls, calls), cpu_ops, causes)
        spent = seen if seen.gain_ns >= gain_ns else spent
    return Match(
        cause=spent.cause,
        also=spent.also,
        advice=_advice(optimizer, has_gpu=not kernels.empty),
        gain_ns=waits_ns * _OF_LAUNCHES + (gain_ns - waits_ns) * min(gained, _MOST_ON_GPU)
        if len(kernels)
        else spent.gain_ns * gained,
        place=_line(python_calls, calls) or f"optimizer {optimizer}".strip(),
        confidence=Confidence.HIGH,
        evidence={"operators_per_step": per_step(single, step.count)},
    )


def _gained(names: pd.Series) -> float:
    """Return the share of the operators that is saved if one is left of those of a parameter.

    The operator that is called most is called for each parameter, in many optimizers twice: what
    one pass over the parameters still reads and writes takes about as long as two operators.
    """
    return 1.0 - float(names.astype(object).value_counts().iloc[0]) / len(names)


def _line(python_calls: pd.DataFrame, calls: Chosen) -> str:
    """Return the program's line from which most of the calls come; "" where none is known."""
    lines = own_lines(python_calls, calls) if calls.any() else ()
    return next((line for line, _ in Counter(filter(None, lines)).most_common(1)), "")


def _advice(optimizer: str, *, has_gpu: bool) -> str:
    if optimizer in _FUSED and not (optimizer == "Adagrad" and has_gpu):
        return (
            f"Where it is created, write `torch.optim.{optimizer}(..., fused=True)`: one kernel "
            "for many parameters."
        )
    if optimizer in _FOREACH | _FUSED:
        return (
            f"Where it is created, write `torch.optim.{optimizer}(..., foreach=True)`, or compile "
            "its step: `torch.compile(optimizer.step)`."
        )
    return (
        "Write its step with `torch._foreach_*`, or compile it: `torch.compile(optimizer.step)`; "
        "or take an optimizer of `torch.optim` with `fused=True`."
    )
