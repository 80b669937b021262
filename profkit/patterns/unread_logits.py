"""Unread logits: the last layer gives scores for every position, and those of few are read."""

from collections.abc import Container
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import (
    Chosen,
    calling_line,
    cause,
    equal,
    fitting,
    having,
    inside,
    place,
    time,
    trains,
)
from profkit.patterns._shapes import MATRIX, are_scores, shape
from profkit.patterns.base import Match, pattern
from profkit.patterns.prefix_computed_again import growing_length

_LEAST_POSITIONS = 8
_FEW = 2
"""Positions for each that is read, at least."""

_OF_SEQUENCE = 3
"""Sizes of what a last layer is given: batch, positions, features."""

_READS_ONE = r"^aten::(?:select|slice|index|index_select|gather)$"
_READS_NONE = (
    rf"{_READS_ONE}|^aten::(?:as_strided|view|_unsafe_view|reshape|alias|detach|t|transpose|to"
    r"|_to_copy|copy_|empty_like|contiguous|clone|resolve_conj|lift_fresh)$|^(?!aten::)"
)
"""Operators that only name, copy or convert what they are given."""


@pattern(
    title="Scores of positions that are not read",
    source="https://huggingface.co/docs/transformers/main_classes/text_generation",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame) -> Match | None:
    """Find last layers over a vocabulary of whose scores a part is selected, and no more read.

    In training the others have gradients of zero, unless what is left are most of the positions.
    """
    lookups = cpu_ops[having(cpu_ops, r"^aten::embedding$")].sort_values("start_ns")
    if lookups.empty or growing_length(lookups):
        return None
    is_training, forward = trains(cpu_ops), ~equal(cpu_ops, "phase", "backward")
    of_weights = inside(cpu_ops, having(cpu_ops, rf"^aten::embedding|{UPDATE}"))
    sizes = (shape(str(text))[:1] for text in lookups["input_shapes"].unique())
    layers = _last_layers(cpu_ops, {*chain.from_iterable(sizes)})
    for scores, chosen in layers.items():
        reads = forward & fitting(cpu_ops, "input_shapes", partial(_begins_with, scores))
        if not (reads & having(cpu_ops, _READS_ONE)).any():
            continue
        if (reads & ~having(cpu_ops, _READS_NONE)).any():
            continue
        rows, positions, words = scores
        unread = chosen | reads
        if is_training:
            most = rows * positions
            of_scores = partial(are_scores, most // _FEW, most, words)
            unread |= fitting(cpu_ops, "input_shapes", of_scores) & ~of_weights
            if (unread & forward & ~inside(cpu_ops, chosen) & ~having(cpu_ops, _READS_NONE)).any():
                continue
        unread = inside(cpu_ops, unread)
        line = calling_line(cpu_ops["stack"][chosen].astype(str))
        return Match(
            cause=cause(cpu_ops, inside(cpu_ops, chosen), kernels),
            advice=f"Scores of {words:,} words for {positions} positions are computed, and a "
            "part of them is selected: select the positions before the last layer, in transformers "
            "by `logits_to_keep=1`.",
            gain_ns=time(cpu_ops, unread, kernels) * (1 - 1 / positions),
            place=line or place(cpu_ops, chosen),
            evidence={"positions": positions, "words": words},
        )
    return None


def _begins_with(scores: tuple[int, ...], text: str) -> bool:
    return tuple(shape(text)) == scores


def _last_layers(
    cpu_ops: pd.DataFrame, vocabularies: Container[int]
) -> dict[tuple[int, ...], Chosen]:
    """Return the calls of linear layers that score each word of a vocabulary, by what they give."""
    layers: dict[tuple[int, ...], Chosen] = {}
    for at in np.flatnonzero(having(cpu_ops, "^aten::linear$")):
        text = str(cpu_ops["input_shapes"].iloc[at])
        given, weight = shape(text), shape(text, 1)
        is_last = len(weight) == MATRIX and weight[0] in vocabularies
        if len(given) == _OF_SEQUENCE and is_last and given[1] >= _LEAST_POSITIONS:
            scores = (given[0], given[1], weight[0])
            layers.setdefault(scores, np.zeros(len(cpu_ops), dtype=bool))[at] = True
    return layers
