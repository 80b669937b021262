"""Generation without a cache: the whole text so far runs through the model for each token."""

import numpy as np
import pandas as pd

from profkit.patterns._rows import calling_line, fitting, having, per_step, time, trains
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_LEAST_LENGTH = 16
_LEAST_GROWTHS = 2
_KEYS = "Keep the keys and values of earlier tokens, and give the model the new token alone"
_STATES = (
    "Keep the state of each layer behind the earlier tokens, as of its convolution and its "
    "recurrence, and give the model the new token alone."
)
_ATTENDS, _WEIGHTS = r"scaled_dot_product|attention", r"softmax"
_OF_TOKENS = 3
"""Sizes of attention's weights at least; the softmax that a token is drawn from has fewer."""
_IN_TRANSFORMERS = ": `past_key_values` with `use_cache=True`, or `model.generate`."
_IN_PROGRAM = ": attention appends its keys and values to those that it has."
_MOSTLY = 0.8
"""Share of the calls of a generation that have one token more: requests begin in the others."""


@pattern(
    title="Generation without a cache",
    source="https://huggingface.co/docs/transformers/kv_cache",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find embeddings of texts that are one token longer from each call to the next."""
    lookups = having(cpu_ops, r"^aten::embedding$")
    if not lookups.any() or trains(cpu_ops):
        return None
    length = growing_length(cpu_ops[lookups].sort_values("start_ns"))
    if length < _LEAST_LENGTH:
        return None
    of_model = having(cpu_ops, "^aten::")
    stacks = cpu_ops["stack"][of_model].astype(str)
    is_of_program = (stacks != "").any() and not stacks.str.contains("transformers/").any()
    weights = having(cpu_ops, _WEIGHTS)
    weights &= fitting(cpu_ops, "input_shapes", lambda text: len(shape(text)) >= _OF_TOKENS)
    attends = (having(cpu_ops, _ATTENDS) | weights).any()
    of_program = _KEYS + _IN_PROGRAM if attends else _STATES
    return Match(
        cause="gpu_computing" if len(kernels) else "cpu_operators",
        advice=of_program if is_of_program else _KEYS + _IN_TRANSFORMERS,
        gain_ns=time(cpu_ops, of_model, kernels) * (1 - 1 / length),
        place=calling_line(stacks),
        evidence={"tokens": round(length), "lookups_per_step": per_step(lookups, step.count)},
    )


def growing_length(lookups: pd.DataFrame) -> float:
    """Return the mean length of the texts of a table's `lookups` if they grow; 0 if none do."""
    shapes = lookups["input_shapes"].astype(str)
    tables = shapes.map(lambda text: str(shape(text)))
    for _, of_table in shapes.groupby(tables, sort=False):
        lengths = [ids[-1] for text in of_table if len(ids := shape(str(text), 1)) > 1]
        growths = int((np.diff(lengths) == 1).sum())
        if growths >= max(_LEAST_GROWTHS, _MOSTLY * (len(lengths) - 1)):
            return float(np.mean(lengths))
    return 0.0
