"""What operators cost: FLOPs and bytes from the shapes, types and values of their inputs.

FLOPs of products (matmul, convolution, attention) are what models are counted by; those of the
others are for rooflines. Bytes are the least that memory must move if nothing stays in a cache
between operators. What no formula is for is NaN (unknown), never 0.
"""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

import numpy as np
import pandas as pd

from profkit.analyze.costs import products, streams
from profkit.analyze.costs.call import Call, UncountedError

FORMULAS: Mapping[str, Mapping[str, products.Formula]] = MappingProxyType(
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
"""Operators that leave the work to one inside them, which has the types after autocast."""

_KINDS = {name: kind for kind, formulas in FORMULAS.items() for name in formulas}
_BY_NAME = {name: each for formulas in FORMULAS.values() for name, each in formulas.items()}
_CALL = ["name", "input_shapes", "input_types", "inputs"]


def costs(ops: pd.DataFrame) -> pd.DataFrame:
    """Return for each row of `ops` the columns kind, type, flops, recomputed_flops and bytes.

    `kind` is a key of `FORMULAS`, or "" for operators that there is no formula for; `type` is that
    of the first tensor. Numbers are NaN where unknown. Each distinct call is worked out once.
    """
    names = ops["name"].cat.categories
    code = ops["name"].cat.codes.to_numpy()
    counted = np.array([*(name in _KINDS for name in names), False], dtype=np.bool_)[code]
    inputs = ops.loc[counted, _CALL]
    # Without sorting, groups are numbered as they first appear: as drop_duplicates keeps them.
    call = inputs.groupby(_CALL, observed=True, sort=False).ngroup().to_numpy()
    distinct = inputs.drop_duplicates().astype(object).itertuples(index=False)
    columns = ["kind", "type", "flops", "recomputed_flops", "bytes"]
    found = pd.DataFrame([cost(*each) for each in distinct], columns=columns)
    place = np.full(len(ops), -1)
    place[counted] = call
    rows = found.reindex(place).reset_index(drop=True)
    return rows.fillna({"kind": "", "type": ""})


def cost(name: str, shapes: str, types: str, inputs: str) -> tuple[str, str, float, float, float]:
    """Return kind, type, FLOPs, those of them that are recomputed, and bytes of one call."""
    dtype, work = "", (np.nan, np.nan, np.nan)
    # Shapes come from a trace of whatever version: too few, too many or not lists of numbers.
    with suppress(UncountedError, ArithmeticError, ValueError, TypeError, IndexError):
        call = Call.read(shapes, types, inputs)
        dtype = next((str(call.types[each]) for each in call.tensors()), "") if call.types else ""
        work = _BY_NAME[name](call) if shapes else work
    return _KINDS[name], dtype, *work
