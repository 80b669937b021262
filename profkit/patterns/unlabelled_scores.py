"""Scores of tokens that have no label: all are computed, and the loss ignores most."""

import pandas as pd

from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import (
    Chosen,
    calling_line,
    cause,
    fitting,
    having,
    inside,
    place,
    time,
)
from profkit.patterns._shapes import MATRIX, are_scores, elements, shape
from profkit.patterns.base import Match, pattern

_LEAST = 0.15


@pattern(
    title="Scores of tokens without a label",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, given_labels: pd.DataFrame) -> Match | None:
    """Find losses over as many tokens as were looked up, of which many have a label to be ignored.

    How many was counted in the first batches, so that those that were traced may have others.
    """
    labels, ignored = (int(given_labels[name].sum()) for name in ("labels", "ignored"))
    if ignored < _LEAST * labels or not labels:
        return None
    share = ignored / labels
    tokens = max(_sizes(cpu_ops, having(cpu_ops, r"^aten::embedding$"), 1), default=[])
    scores = max(_sizes(cpu_ops, having(cpu_ops, r"^aten::_?log_softmax$"), 0), default=[])
    if not (tokens and scores) or scores[0] < (1 - share / 2) * elements(tokens):
        return None
    count, words = scores
    most = max(count, elements(tokens))
    of_scores = fitting(cpu_ops, "input_shapes", lambda text: are_scores(count, most, words, text))
    of_scores &= ~inside(cpu_ops, having(cpu_ops, UPDATE))
    layers = of_scores & having(cpu_ops, "^aten::(?:linear|addmm|mm|matmul)$")
    chosen = inside(cpu_ops, of_scores)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"{share:.0%} of the labels are ignored by the loss, and all {count:,} tokens are "
        f"scored against {words:,} words: give the last layer the tokens that have a label alone "
        "(`hidden[labels >= 0]`, with labels shifted as the loss shifts them), and the loss their "
        "labels; in transformers call `base_model`, then the head.",
        gain_ns=time(cpu_ops, chosen, kernels) * share,
        place=calling_line(cpu_ops["stack"][layers].astype(str)) or place(cpu_ops, layers),
        evidence={"ignored_share": round(share, 3), "tokens": count, "words": words},
    )


def _sizes(cpu_ops: pd.DataFrame, chosen: Chosen, number: int) -> list[list[int]]:
    """Return the matrices that one input of the operators that are `chosen` is."""
    texts = cpu_ops["input_shapes"][chosen].astype(object).unique()
    found = (shape(str(text), number) for text in texts)
    return [sizes for sizes in found if len(sizes) == MATRIX and elements(sizes)]
