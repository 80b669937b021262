"""Tokenizers in the loop: text turned into tokens while training waits."""

import re

import numpy as np
import pandas as pd

from profkit.patterns._python_calls import MODEL, contained, serves, spent_in
from profkit.patterns._rows import Chosen, having
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"tokeniz(?:ation|er)\w*\.py|sentencepiece|tiktoken"
    r"|: (?:batch_)?(?:tokenize|encode(?:_plus|_batch|_ordinary))$|: batch_encode$"
)
# Python's own modules encode as well, json for one, and so do models.
_ENCODES = r"^(?!json/|encodings/).*: encode$"
_AHEAD = (
    "Tokenize ahead: `dataset.map(tokenize, batched=True)` once, and store the tokens; or do it in "
    "workers of the DataLoader."
)
_SERVED = (
    "Take a tokenizer that is not written in Python (`use_fast=True`), cut texts before they are "
    "tokenized, or tokenize in processes beside the one that has the model."
)
"""For a program that answers requests."""
_COMPUTES = r"^aten::(?:\w*mm|linear|matmul|einsum|\w*conv\w*)$"


@pattern(
    title="Text tokenized in the loop",
    source="https://huggingface.co/docs/datasets/process",
    calls=rf"{_FUNCTIONS}|{_ENCODES}",
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in tokenizers of the process that trains."""
    encoding = _without_model(python_calls, cpu_ops)
    names = sorted({re.escape(str(name)) for name in python_calls["name"][encoding]})
    fitting = "|".join([_FUNCTIONS, *(f"^{name}$" for name in names)])
    spent = spent_in(fitting, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice=_SERVED if serves(python_calls, cpu_ops) else _AHEAD,
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )


def _without_model(python_calls: pd.DataFrame, cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the functions that encode and compute nothing, as those of an autoencoder do."""
    inside = (python_calls[having(python_calls, MODEL)], cpu_ops[having(cpu_ops, _COMPUTES)])
    begun = pd.concat([rows["start_ns"] for rows in inside])
    is_without = contained(python_calls, begun) == 0
    return np.asarray(having(python_calls, _ENCODES) & is_without, dtype=np.bool_)
