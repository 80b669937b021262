"""Logging in steps: metrics written or printed in each step."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"logging/__init__\.py|wandb/|tensorboard/|mlflow/|tensorboardX/"
    r"|(?:lightning/pytorch|pytorch_lightning)/(?:core/module\.py\(\d+\): log(?:_dict)?$|loggers/)"
    r"|tqdm/std\.py\(\d+\): (?!__iter__)"  # in which what is iterated over runs
    r"|<built-in (?:function print|method (?:flush|write) )|: log_metrics?$"
)


@pattern(
    title="Logging in each step",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in loggers, progress bars and `print`."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Log every 50 to 100 steps, and values that are on the CPU already; a progress bar "
        "needs no more than a refresh a second (`tqdm(mininterval=1)`).",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
