"""Weights made in calls: a layer computes its weight from what it stores each time it is called."""

import numpy as np
import pandas as pd

from profkit.patterns._rows import (
    Chosen,
    called,
    cause,
    having,
    inside,
    per_step,
    place,
    time,
    trains,
)
from profkit.patterns._shapes import MATRIX, elements, listed, operands, shape
from profkit.patterns.base import Match, Step, pattern

_LAYER = "aten::linear"
_CHANGES = frozenset({"aten::mul", "aten::add", "aten::sub", "aten::div"})
_PRODUCTS = frozenset({"aten::matmul", "aten::mm"})
_CONVERTS = "aten::to"
_QUANTISED = frozenset({"signed char", "unsigned char"})
_NORM = r"^aten::_weight_norm(?:_interface)?$"
_MOST = 8
"""Operators that make a weight."""

_OF_NORM = (
    "Take the norm of weights out of the trained model (`remove_parametrizations` of "
    "`torch.nn.utils.parametrize`, or `remove_weight_norm`): each call makes the same weights."
)


@pattern(
    title="Weights made in every call",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find what ends with the weight of a layer, right before that is called.

    While a model is trained, its weight may have to be made anew, but for a product that is added.
    """
    made, of_products = _made(cpu_ops)
    normed = having(cpu_ops, _NORM)
    chosen = of_products if trains(cpu_ops) else made | normed
    if not chosen.any():
        return None
    chosen = inside(cpu_ops, chosen)
    is_product = bool((of_products & chosen).any())
    is_normed = bool((normed & chosen).any())
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_OF_NORM if is_normed else _advice(cpu_ops, chosen, is_product=is_product),
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, chosen),
        evidence={"operators_per_step": per_step(chosen, step.count)},
    )


def _advice(cpu_ops: pd.DataFrame, chosen: Chosen, *, is_product: bool) -> str:
    if is_product:
        return (
            "Multiply the input by the small factors one after another, `(x @ A.T) @ B.T`, instead "
            "of adding their product to the weight in every call. To answer requests, add it once."
        )
    first = (listed(str(text))[:1] for text in cpu_ops["input_types"][chosen].unique())
    if any(_QUANTISED.issuperset(types) for types in first if types):
        return (
            "Multiply by the quantised weights as they are (`quantize_` of torchao), or keep the "
            "weights that are made of them in every call."
        )
    return "Compute the weight of the layer once and keep it: it is the same in every call."


def _made(cpu_ops: pd.DataFrame) -> tuple[Chosen, Chosen]:
    """Choose what makes weights of layers, and of that what makes them with a product."""
    made, of_products = (np.zeros(len(cpu_ops), dtype=bool) for _ in range(2))
    at = np.flatnonzero(called(cpu_ops))
    rows = cpu_ops.iloc[at][["repeat", "tid", "start_ns", "name", "input_shapes"]].reset_index(
        drop=True
    )
    rows = rows.sort_values(["repeat", "tid", "start_ns"], kind="stable")
    at = at[rows.index]
    names, texts = (rows[name].astype(str).tolist() for name in ("name", "input_shapes"))
    threads = [*zip(rows["repeat"].tolist(), rows["tid"].tolist(), strict=True)]
    for row in np.flatnonzero((rows["name"] == _LAYER).to_numpy()).tolist():
        weight, first = shape(texts[row], 1), row
        while (
            row - _MOST < first > 0
            and threads[first - 1] == threads[row]
            and _result(names[first - 1], texts[first - 1]) == weight
        ):
            first -= 1
        makes = names[first:row]
        if len(weight) == MATRIX and _CHANGES.intersection(makes):
            made[at[first:row]] = True
            of_products[at[first:row]] = bool(_PRODUCTS.intersection(makes))
    return made, of_products


def _result(name: str, shapes: str) -> list[int]:
    """Return the shape of what an operator makes; empty if it makes no weight."""
    if name in _PRODUCTS:
        left, right = operands(shapes)
        is_small = left and left[-1] < min(left[0], right[-1])
        return [left[0], right[-1]] if is_small and len(left) == len(right) == MATRIX else []
    if name in _CHANGES or name == _CONVERTS:
        return max(shape(shapes), shape(shapes, 1), key=elements)
    return []
