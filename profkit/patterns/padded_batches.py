"""Padded batches: much of what the model computes is of tokens that only fill up the rows."""

import pandas as pd

from profkit.patterns._rows import calling_line, cause, fitting, having, inside, place, time, trains
from profkit.patterns._shapes import MATRIX, elements, listed, shape
from profkit.patterns.base import Match, pattern

_LEAST = 0.15
_MOSTLY = 0.5
_LOOKUP = "^aten::embedding$"
_OF_MODEL = "^(?:forward|backward)$"
_LONGEST = 'pad to the longest text of each batch (`padding="longest"`) instead of a fixed length, '
_BUCKETS = (
    "batch texts of similar length (a sampler that sorts them; of `Trainer` "
    '`train_sampling_strategy="group_by_length"`, `group_by_length=True` before version 5), or '
    "pack several into each row."
)
_ALIKE = "put texts of similar length into one batch, or pack several into each row."


@pattern(
    title="Batches of much padding",
    source="https://huggingface.co/docs/transformers/pad_truncation",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, padded_inputs: pd.DataFrame
) -> Match | None:
    """Find operators on whole batches of tokens, of which many are padding.

    How many was counted in the first batches, so that those that were traced may have others.
    """
    tokens = int((padded_inputs["rows"] * padded_inputs["length"]).sum())
    padding = int(padded_inputs["padding"].sum())
    if padding < _LEAST * tokens or not tokens:
        return None
    lookups = having(cpu_ops, _LOOKUP)
    known = {tuple(shape(str(text), 1)) for text in cpu_ops["input_shapes"][lookups].unique()}
    known |= set(padded_inputs[["rows", "length"]].itertuples(index=False, name=None))
    batches = [sizes for sizes in known if len(sizes) == MATRIX and sizes[0] > 1]
    of_tokens = having(cpu_ops, "^aten::") & having(cpu_ops, _OF_MODEL, "phase")
    of_tokens &= fitting(cpu_ops, "input_shapes", lambda text: _are_of(batches, text))
    if not of_tokens.any():
        return None
    chosen = inside(cpu_ops, of_tokens)
    is_fixed = (padded_inputs["longest"] < padded_inputs["length"]).mean() > _MOSTLY
    longest = _LONGEST if is_fixed else ""
    share = padding / tokens
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"{share:.0%} of the tokens are padding: {longest}"
        f"{_BUCKETS if trains(cpu_ops) else _ALIKE}",
        gain_ns=time(cpu_ops, chosen, kernels) * share,
        place=calling_line(cpu_ops["stack"][chosen].astype(str)) or place(cpu_ops, lookups),
        evidence={"padding_share": round(share, 3), "batches": len(padded_inputs)},
    )


def _are_of(batches: list[tuple[int, ...]], text: str) -> bool:
    """Say whether an operator of these shapes has an input with all tokens of one of `batches`."""
    shapes = [sizes for sizes in listed(text) if sizes and isinstance(sizes[0], int)]
    return any(_is_of(rows, length, sizes) for rows, length in batches for sizes in shapes)


def _is_of(rows: int, length: int, sizes: list[int]) -> bool:
    """Say whether a tensor has the tokens as a dimension, or rows, or heads of them, by length."""
    if len(sizes) < MATRIX:
        return elements(sizes) == rows * length
    by_length = sizes[0] % rows == 0 and length in sizes[1:]
    in_time = sizes[0] == length and sizes[1] % rows == 0
    return rows * length in sizes or by_length or in_time
