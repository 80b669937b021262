"""Costs of operators: FLOPs and bytes from the shapes, types and values of their inputs.

FLOPs of products (matmul, convolution, attention) are those that models are counted by; those of
the others are for rooflines. Bytes are the least that memory must move if nothing stays in a cache
between operators. An operator without a formula has NaN (unknown), never 0. `torch_flops` has the
other convention, that of PyTorch's profiler; `evaluator` evaluates both.
"""

from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd

from profkit.analyze.costs import products, streams
from profkit.analyze.costs.call import Formula
from profkit.analyze.costs.evaluator import evaluated

FORMULAS: Mapping[str, Mapping[str, Formula]] = MappingProxyType(
    {
        "matmul": products.MATMULS,
        "convolution": products.CONVOLUTIONS,
        "attention": products.ATTENTIONS,
        "normalisation": streams.NORMALISATIONS,
        "softmax": streams.SOFTMAXES,
        "elementwise": streams.ELEMENTWISE,
        "reduction": streams.REDUCTIONS,
        "embedding": streams.EMBEDDINGS,
        "optimizer": streams.OPTIMIZERS,
    }
)
"""Formulas by kind of work and name of the operator."""

PRODUCTS = ("matmul", "convolution", "attention")
"""Kinds whose FLOPs count as those of a model."""

WRAPPERS = frozenset(
    {"aten::linear", "aten::mkldnn_linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"}
)
"""Operators that leave the work to an inner one, which has the types after autocast."""

_KINDS = {name: kind for kind, formulas in FORMULAS.items() for name in formulas}
_BY_NAME = {name: formula for formulas in FORMULAS.values() for name, formula in formulas.items()}


def costs(ops: pd.DataFrame) -> pd.DataFrame:
    """Return for each row of `ops` the columns kind, type, flops, recomputed_flops and bytes.

    `kind` is a key of `FORMULAS`, or "" for operators without a formula; the others are those of
    `evaluated`.
    """
    rows = evaluated(ops, _BY_NAME)
    names = ops["name"].cat
    # A missing name has the code -1, and so takes the last entry.
    kinds = pd.Index([*(_KINDS.get(name, "") for name in names.categories), ""], dtype="str")
    rows.insert(0, "kind", kinds[names.codes.to_numpy()])
    return rows
