"""Unfused attention: a softmax between two batched matrix products."""

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._attention_products import PRODUCT, products_of_fused_ns
from profkit.patterns._rows import Chosen, cause, having, inside, per_step, place, time
from profkit.patterns._shapes import MATRIX, operands, shape
from profkit.patterns.base import Match, Step, pattern

_OF_MODULE = r"^aten::_native_multi_head_attention$"
_DROPOUT = r"^aten::(?:native_dropout|bernoulli_)$"
_SOFTMAX = r"^aten::_softmax(?:_backward_data)?$"

_USE = (
    "Use `torch.nn.functional.scaled_dot_product_attention`{}: it keeps no matrix of scores in "
    "memory."
)
_USE_WITHOUT_DROPOUT = (
    "Use `torch.nn.functional.scaled_dot_product_attention`{} with `dropout_p=0`: it keeps no "
    "matrix of scores in memory, but with dropout no CPU has a kernel for it."
)
_CALL_WITHOUT = (
    "Call `nn.MultiheadAttention` with `need_weights=False`{}: it then uses "
    "`scaled_dot_product_attention`, which keeps no matrix of scores in memory."
)
"""Of the module of PyTorch, which computes the scores to return their mean."""

_LEAVE_FAST_PATH = (
    "Call `torch.backends.mha.set_fastpath_enabled(False)`, and `nn.MultiheadAttention` with "
    "`need_weights=False`{}: it then uses `scaled_dot_product_attention`, which keeps no matrix of "
    "scores in memory. On a CPU the fast path for inference does not use it."
)


@pattern(
    title="Unfused attention",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.functional.scaled_dot_product_attention.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find softmaxes of scores that one batched product made and the next one reads."""
    # Where the function was called, its backend is what takes the time: see `attention_math`.
    called = inside(cpu_ops, having(cpu_ops, r"^aten::_scaled_dot_product_attention_math"))
    softmax = having(cpu_ops, _SOFTMAX) & ~called
    if not (softmax & having(cpu_ops, r"^aten::_softmax$")).any():
        return None
    found, between = _between_products(cpu_ops, softmax)
    if not (found & having(cpu_ops, r"^aten::_softmax$")).any():
        return None
    where = place(cpu_ops, found)
    chosen = inside(cpu_ops, between)
    staying_ns = products_of_fused_ns(cpu_ops, between, kernels)
    in_module = bool(inside(cpu_ops, having(cpu_ops, _OF_MODULE))[found].all())
    drops = kernels.empty and (between & having(cpu_ops, _DROPOUT)).any()
    use = _USE_WITHOUT_DROPOUT if drops else _USE
    if in_module:
        use = _LEAVE_FAST_PATH if kernels.empty else _CALL_WITHOUT
    widest = max((shape(str(text)) for text in cpu_ops["input_shapes"][found]), default=[])
    return Match(
        cause=cause(cpu_ops, inside(cpu_ops, found), kernels),
        advice=use.format(f" in {where}" if where else ""),
        gain_ns=time(cpu_ops, chosen, kernels) - staying_ns,
        place=where,
        confidence=Confidence.HIGH,
        evidence={"softmax_per_step": per_step(found, step.count), "scores": str(widest)},
    )


def _between_products(cpu_ops: pd.DataFrame, softmax: Chosen) -> tuple[Chosen, Chosen]:
    """Choose the softmaxes between two products, and all that starts from one to the other."""
    rows = cpu_ops[["repeat", "tid", "start_ns", "input_shapes"]].reset_index(drop=True)
    key = rows[softmax | having(cpu_ops, PRODUCT)].sort_values(["repeat", "tid", "start_ns"])
    at = key.index.to_numpy()
    is_softmax = softmax[at]
    scores = (
        key["input_shapes"].astype(object).map(lambda text: len(shape(text)) != MATRIX).to_numpy()
    )
    same = (key[["repeat", "tid"]].diff().fillna(1) == 0).all(axis=1).to_numpy()
    middle = np.flatnonzero(is_softmax[1:-1] & scores[1:-1]) + 1
    middle = middle[same[middle] & same[middle + 1]]
    middle = middle[~is_softmax[middle - 1] & ~is_softmax[middle + 1]]
    texts = key["input_shapes"].astype(object).to_numpy()
    made = [_are_made(str(texts[row]), str(texts[row - 1])) for row in middle]
    middle = middle[np.array(made, dtype=bool)]
    found, between = (np.zeros(len(rows), dtype=bool) for _ in range(2))
    found[at[middle]] = True
    first, last = at[middle - 1], at[middle + 1]
    start = rows["start_ns"].to_numpy(np.int64)
    order = np.lexsort((start, rows["tid"], rows["repeat"]))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    for low, high in zip(position[first], position[last], strict=True):
        between[order[low : high + 1]] = True
    return found, between


def _are_made(scores: str, product: str) -> bool:
    """Tell whether a product makes scores of that shape, as far as shapes are known.

    Scores that are sums, as those of additive attention, have no product of their size.
    """
    made, wanted = operands(product)[1][-1:], shape(scores)[-1:]
    return not (made and wanted) or made == wanted
