"""Floating point operations of operators, from the shapes of their inputs.

The convention is that of ``torch.profiler``'s ``with_flops``: two operations per multiply-add,
one per element of the first input for elementwise operators, and only the operators below.
Scaled dot-product attention is counted as ``torch.utils.flop_counter`` does, without a discount
for causal masks. What is not below is NaN (unknown), never 0: an operator is free only if it is
known to be.
"""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Shape = list[int]


class _UncountedError(Exception):
    """These inputs are not what the formula is for."""


def flops(ops: pd.DataFrame) -> NDArray[np.float64]:
    """Return the FLOPs of each row of `ops`, NaN where unknown, shape (len(ops),).

    Reads the columns `name`, `input_shapes` and `inputs`; each distinct triple is computed once.
    """
    if ops.empty:
        return np.empty(0)
    counted = ops["name"].isin(FORMULAS).to_numpy()
    result = np.full(len(ops), np.nan)
    inputs = ops.loc[counted, ["name", "input_shapes", "inputs"]]
    # Without sorting, groups are numbered as they first appear: as drop_duplicates keeps them.
    call = inputs.groupby(list(inputs.columns), observed=True, sort=False).ngroup().to_numpy()
    distinct = inputs.drop_duplicates().astype(object).itertuples(index=False)
    result[counted] = np.array([count(*each) for each in distinct], dtype=np.float64)[call]
    return result


def count(name: str, shapes: str, inputs: str) -> float:
    """Return the FLOPs of one call, or NaN; `shapes` and `inputs` are JSON lists, or empty."""
    formula = FORMULAS.get(name)
    if formula is None or not shapes:
        return math.nan
    try:
        dims, scalars = json.loads(shapes), json.loads(inputs) if inputs else []
        return float(formula(dims, scalars))
    except (_UncountedError, ValueError, TypeError, IndexError):
        # Shapes come from a trace of whatever version: too few, too many or not lists of numbers.
        return math.nan


def _product(shape: Shape) -> int:
    return math.prod(_numbers(shape))


def _numbers(shape: Shape, size: int = -1) -> Shape:
    if not all(isinstance(each, int) for each in shape) or (size >= 0 and len(shape) != size):
        raise _UncountedError
    return shape


def _elementwise(shapes: list[Shape], _: list[object]) -> int:
    return _product(shapes[0])


def _matmul(first: int, dims: int) -> Callable[[list[Shape], list[object]], int]:
    """Return the formula for a product of the inputs `first` and the next, of `dims` dimensions."""

    def formula(shapes: list[Shape], _: list[object]) -> int:
        left = _numbers(shapes[first], dims)
        right = _numbers(shapes[first + 1], dims)
        return 2 * _product(left) * right[-1]

    return formula


def _conv2d(shapes: list[Shape], inputs: list[object]) -> int:
    batch, channels, *size = _numbers(shapes[0], 4)
    out_channels, _, *kernel = _numbers(shapes[1], 4)
    stride, padding, dilation = (_pair(inputs[position]) for position in (3, 4, 5))
    groups = int(str(inputs[6]))
    output = [
        (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in (0, 1)
    ]
    work = batch * math.prod(output) * math.prod(kernel) * channels * out_channels
    return 2 * work // groups


def _pair(text: object) -> Shape:
    """Return a pair of numbers recorded as text, for example ``[1, 1]``."""
    return _numbers(json.loads(str(text)), 2)


def _attention(first: int, matmuls: tuple[int, int]) -> Callable[[list[Shape], list[object]], int]:
    """Return the formula for attention whose query is input `first`.

    `matmuls` says how many products of size query x key contract over the dimension of the query,
    and how many over that of the value.
    """

    def formula(shapes: list[Shape], _: list[object]) -> int:
        batch, heads, queries, query_dim = _numbers(shapes[first], 4)
        keys = _numbers(shapes[first + 1], 4)[2]
        value_dim = _numbers(shapes[first + 2], 4)[3]
        scores = 2 * batch * heads * queries * keys
        return scores * (matmuls[0] * query_dim + matmuls[1] * value_dim)

    return formula


# Forward: scores from queries and keys, output from scores and values. Backward: the scores
# again and the gradients of queries and keys; the gradients of scores and values.
_FORWARD = _attention(0, (1, 1))
_BACKWARD = _attention(1, (3, 2))

FORMULAS: Mapping[str, Callable[[list[Shape], list[object]], int]] = MappingProxyType(
    {
        "aten::add": _elementwise,
        "aten::mul": _elementwise,
        "aten::mm": _matmul(0, 2),
        "aten::addmm": _matmul(1, 2),
        "aten::bmm": _matmul(0, 3),
        "aten::baddbmm": _matmul(1, 3),
        "aten::conv2d": _conv2d,
    }
    | {
        f"aten::_scaled_dot_product_{kind}{suffix}": formula
        for kind in (
            "flash_attention",
            "efficient_attention",
            "cudnn_attention",
            "flash_attention_for_cpu",
        )
        for suffix, formula in (("", _FORWARD), ("_backward", _BACKWARD))
    }
)
"""What is counted, by name of the operator."""
