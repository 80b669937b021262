"""The matrix products of attention, of which a fused kernel leaves out the memory traffic alone."""

import numpy as np
import pandas as pd

from profkit.patterns._dropout import DROPOUT
from profkit.patterns._rows import Chosen, belonging, fitting, having, inside
from profkit.patterns._shapes import MATRIX, elements, listed, operands, shape
from profkit.patterns.base import charged
from profkit.tables.kernel_names import uses_tensor_cores

_PRODUCT = r"^aten::(?:bmm|baddbmm)$"
_SOFTMAX = r"^aten::_softmax(?:_backward_data)?$"
_OWN_SOFTMAX = r"^aten::exp_?$"
"""Of a program that calls no softmax: what it has in the middle of one, between two products."""

_CHANGES = r"^aten::(?:mul|div|add|sub)_?$"

MATH = r"^aten::_scaled_dot_product_attention_math"
"""The backend of the function that computes in single operators."""


def products_of_fused_ns(cpu_ops: pd.DataFrame, chosen: Chosen, kernels: pd.DataFrame) -> float:
    """Return the time of the products among the `chosen` that a fused kernel takes as well, in ns.

    Those on tensor cores mostly wait for their scores to be in memory, which it does not.
    """
    products = inside(cpu_ops, chosen & having(cpu_ops, _PRODUCT))
    if kernels.empty:
        return charged(cpu_ops, products)
    theirs = kernels[belonging(kernels, cpu_ops, products)]
    return charged(theirs, ~fitting(theirs, "name", uses_tensor_cores))


def in_single_operators(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose all operators of attention for which no fused kernel is called."""
    _, between = unfused(cpu_ops)
    return inside(cpu_ops, between | having(cpu_ops, MATH))


def unfused(cpu_ops: pd.DataFrame) -> tuple[Chosen, Chosen]:
    """Choose softmaxes of scores between two products, and all from one of these to the other.

    Not those of `scaled_dot_product_attention`, whose backend is then what takes the time.
    """
    named = having(cpu_ops, _SOFTMAX)
    named = named if named.any() else having(cpu_ops, _OWN_SOFTMAX)
    softmax = named & ~inside(cpu_ops, having(cpu_ops, MATH))
    if not softmax.any():
        return softmax, softmax
    return _between_products(cpu_ops, softmax)


def _between_products(cpu_ops: pd.DataFrame, softmax: Chosen) -> tuple[Chosen, Chosen]:
    """Choose the softmaxes between two products, and all that starts from one to the other."""
    rows = cpu_ops[["repeat", "tid", "start_ns", "input_shapes"]].reset_index(drop=True)
    key = rows[softmax | having(cpu_ops, _PRODUCT)].sort_values(["repeat", "tid", "start_ns"])
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
    changes = _changing(cpu_ops)[order]
    is_own = having(cpu_ops, _OWN_SOFTMAX)[order]
    for low, softmax_at, high in zip(
        position[first], position[at[middle]], position[last], strict=True
    ):
        if changes[softmax_at:high].any() and not is_own[softmax_at]:
            found[order[softmax_at]] = False
        else:
            near = order[low : high + 1]
            least = elements(shape(str(rows["input_shapes"].iloc[order[softmax_at]])))
            are_less = [_is_less(str(text), least) for text in rows["input_shapes"].iloc[near]]
            between[near[~np.array(are_less)]] = True
            between[[order[low], order[high]]] = True
    return found, between


def _changing(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose what changes weights one by one, as by a sign: no fused kernel does that.

    Dropout does it too, and is a part of the fused kernel. A mask within a softmax of one's own
    looks the same.
    """
    changes = having(cpu_ops, _CHANGES) & ~inside(cpu_ops, having(cpu_ops, DROPOUT))
    texts = cpu_ops["input_shapes"][changes].astype(object)
    changes[changes] = [_is_by_matrix(str(text)) for text in texts]
    return changes


def _is_by_matrix(text: str) -> bool:
    weights, others = shape(text), shape(text, 1)
    return len(weights) >= MATRIX and weights[-2:] == others[-2:]


def _is_less(text: str, least: int) -> bool:
    """Tell whether an operator has no input of as many elements as scores: it may make a mask."""
    sizes = [elements(shape(text, number)) for number in range(len(listed(text)))]
    return bool(sizes) and max(sizes) < least


def _are_made(scores: str, product: str) -> bool:
    """Tell whether a product makes scores of that shape, as far as shapes are known.

    Scores that are sums, as those of additive attention, have no product of their size.
    """
    made, wanted = operands(product)[1][-1:], shape(scores)[-1:]
    return not (made and wanted) or made == wanted
