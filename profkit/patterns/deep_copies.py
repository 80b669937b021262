"""Deep copies: the weights copied in Python in each step."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import trains
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r"copy\.py\(\d+\): (?:deepcopy|_deepcopy_\w+|_reconstruct)$|: (?:load_)?state_dict$"


@pattern(
    title="Weights copied in each step",
    source="https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find deep copies and state dictionaries that are made in the steps that count."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Copy weights only where the copy is kept, as the best so far, or every 100 steps; "
        "average them with `torch.optim.swa_utils.AveragedModel`."
        if trains(cpu_ops) or cpu_ops.empty
        else "Load or copy the model once, before the first request: several can use it at the "
        "same time, as `torch.inference_mode()` changes nothing in it.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
