"""Random numbers from the CPU: drawn there in each step and copied to the GPU."""

import pandas as pd

from profkit.patterns._rows import (
    GIVES_WORK,
    belonging,
    having,
    inside,
    operators_of,
    parents,
    per_step,
    place,
    time,
)
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Random numbers drawn on the CPU",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#create-tensors-directly-on-the-target-device",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, runtime_calls: pd.DataFrame, step: Step
) -> Match | None:
    """Find random operators that launch nothing, in a program that uses a GPU.

    Of a GPU whose work was not recorded the calls tell that launch it.
    """
    draws = having(cpu_ops, r"^aten::(?:randn|rand|randint|randperm|normal_|uniform_|bernoulli_)$")
    calls = runtime_calls[having(runtime_calls, GIVES_WORK)]
    work, cause = (calls, "cpu_operators") if kernels.empty else (kernels, "gpu_idle")
    if not draws.any() or work.empty:
        return None
    launching = operators_of(work, cpu_ops)
    # A draw on the GPU launches a kernel below it.
    while (above := parents(cpu_ops, launching) & ~launching).any():
        launching |= above
    chosen = inside(cpu_ops, draws & ~launching)
    if not chosen.any() or belonging(work, cpu_ops, chosen).any():
        return None
    return Match(
        cause=cause,
        advice='Draw them where they are used: `torch.randn(..., device="cuda")`, with a '
        '`torch.Generator("cuda")` for a seed of their own.',
        gain_ns=time(cpu_ops, chosen),
        place=place(cpu_ops, draws),
        evidence={"draws_per_step": per_step(draws & ~launching, step.count)},
    )
