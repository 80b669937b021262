"""Tokenizers in the loop: text turned into tokens while training waits."""

import pandas as pd

from profkit.patterns._python_calls import spent_in
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"tokeniz(?:ation|er)\w*\.py|sentencepiece|tiktoken"
    # Python's own modules encode as well, json for one.
    r"|^(?!json/|encodings/).*: (?:batch_)?(?:encode|tokenize)(?:_plus|_batch|_ordinary)?$"
)


@pattern(
    title="Text tokenized in the loop",
    source="https://huggingface.co/docs/datasets/process",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find time in tokenizers of the process that trains."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Tokenize ahead: `dataset.map(tokenize, batched=True)` once, and store the tokens; "
        "or do it in workers of the DataLoader.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
