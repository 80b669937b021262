"""Floating point operations of operators, as ``torch.profiler``'s ``with_flops`` counts them.

Two operations per multiply-add, one per element of the first input for elementwise operators, and
only the operators below. Scaled dot-product attention is counted as ``torch.utils.flop_counter``
does, without a discount for causal masks. What is not below is NaN (unknown), never 0: an operator
is free only if it is known to be.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.costs import products
from profkit.analyze.costs.call import Call, UncountedError


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
        return float(formula(Call.read(shapes, "", inputs)))
    except (UncountedError, ArithmeticError, ValueError, TypeError, IndexError):
        # Shapes come from a trace of whatever version: too few, too many or not lists of numbers.
        return math.nan


def _elementwise(call: Call) -> float:
    return call.elements(0)


def _product(formula: products.Formula) -> Callable[[Call], float]:
    return lambda call: formula(call)[0]


_PRODUCTS = {
    **{name: products.MATMULS[f"aten::{name}"] for name in ("mm", "addmm", "bmm", "baddbmm")},
    "conv2d": products.CONVOLUTIONS["aten::conv2d"],
}

FORMULAS: Mapping[str, Callable[[Call], float]] = MappingProxyType(
    {"aten::add": _elementwise, "aten::mul": _elementwise}
    | {f"aten::{name}": _product(formula) for name, formula in _PRODUCTS.items()}
    | {
        name: _product(formula)
        for name, formula in products.ATTENTIONS.items()
        if name.startswith("aten::_scaled_dot_product")
    }
)
"""What is counted, by name of the operator."""
