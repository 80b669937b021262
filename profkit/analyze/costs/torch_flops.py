"""FLOPs by the convention of ``torch.profiler``'s ``with_flops``.

Two operations per multiply-add, one per element of the first input for elementwise operators, and
only the operators below. Scaled dot-product attention is counted as ``torch.utils.flop_counter``
does, without a discount for causal masks. What is not below is NaN (unknown), never 0: an operator
is free only if it is known to be.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.costs import products
from profkit.analyze.costs.call import Call, Formula, Work
from profkit.analyze.costs.evaluator import evaluated

_MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def _elementwise(call: Call) -> Work:
    return Work(float(math.prod(call.shape(0))), math.nan)


FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {"aten::add": _elementwise, "aten::mul": _elementwise}
    | {name: products.MATMULS[name] for name in _MATMULS}
    | {"aten::conv2d": products.CONVOLUTIONS["aten::conv2d"]}
    | {
        name: formula
        for name, formula in products.ATTENTIONS.items()
        if name.startswith("aten::_scaled_dot_product")
    }
)
"""What the convention counts, by name of the operator; bytes are no part of it."""


def flops(ops: pd.DataFrame) -> NDArray[np.float64]:
    """Return the FLOPs of each row of `ops`, NaN where unknown, shape (len(ops),).

    Reads the columns `name`, `input_shapes` and `inputs`.
    """
    return evaluated(ops, FORMULAS, ["flops"])["flops"].to_numpy(np.float64)
