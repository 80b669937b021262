"""Deep copies: the weights copied in Python in each step, or a model made in each request."""

import pandas as pd

from profkit.patterns._python_calls import calling_place, spent_in
from profkit.patterns._rows import trains
from profkit.patterns.base import Match, Step, pattern

_COPIES = r"copy\.py\(\d+\): (?:deepcopy|_deepcopy_\w+|_reconstruct)$|: (?:load_)?state_dict$"
_MAKES = (
    r"^torch/(?:serialization\.py\(\d+\): load$|nn/init\.py"
    r"|nn/modules/\w+\.py\(\d+\): _?reset_parameters$)"
)
"""Functions that make a model or read it from a file, in each request."""


@pattern(
    title="Weights copied or made in each step",
    source="https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema",
    calls=rf"{_COPIES}|{_MAKES}",
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find deep copies, state dictionaries and new weights that are made in each step."""
    is_training = trains(cpu_ops) or cpu_ops.empty
    functions = _COPIES if is_training else rf"{_COPIES}|{_MAKES}"
    spent = spent_in(functions, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Copy weights only where the copy is kept, as the best so far, or every 100 steps; "
        "average them with `torch.optim.swa_utils.AveragedModel`."
        if is_training
        else "Make, load or copy the model once, before the first request, and keep it: several "
        "can use it at the same time, as `torch.inference_mode()` changes nothing in it.",
        gain_ns=spent.gain_ns,
        place=calling_place(python_calls, spent.place),
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
