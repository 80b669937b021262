"""Checkpoints in steps: training waits until a file is written."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import trains
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"torch/serialization\.py\(\d+\): (?:_?save|_legacy_save)$"
    r"|: save_(?:checkpoint|pretrained|state)$"
)


@pattern(
    title="Checkpoints written in steps",
    source="https://docs.pytorch.org/tutorials/recipes/distributed_async_checkpoint_recipe.html",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find `torch.save` in the steps that count."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Save less often, or beside training with "
        "`torch.distributed.checkpoint.async_save`, which copies the state and goes on."
        if trains(cpu_ops) or cpu_ops.empty
        else "Where these are results, save many in one file, or on a thread beside the model.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
