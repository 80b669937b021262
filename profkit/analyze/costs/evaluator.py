"""Evaluate the formulas of a convention for every operator of a table, each distinct call once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from profkit.analyze.costs.call import Call, Formula, UncountedError, Work

_INPUTS = ["input_shapes", "input_types", "inputs"]
_UNKNOWN = Work(np.nan, np.nan, np.nan)
COLUMNS = ("type", "flops", "recomputed_flops", "bytes")


def evaluated(
    ops: pd.DataFrame, formulas: Mapping[str, Formula], wanted: Sequence[str] = COLUMNS
) -> pd.DataFrame:
    """Return for each row of `ops` the `wanted` of type, flops, recomputed_flops and bytes.

    `formulas` are those of one convention, by the name of the operator. ``type`` is that of the
    first tensor, "" where it is not known. Numbers are NaN where there is no formula, or where the
    recorded inputs do not fit it. Reads name, input_shapes, inputs and, for types and bytes,
    input_types where `ops` has it.
    """
    known = ops["name"].isin(formulas).to_numpy()
    columns = ["name", *(name for name in _INPUTS if name in ops)]
    inputs = ops.loc[known, columns]
    # Without sorting, groups are numbered as they first appear: as drop_duplicates keeps them.
    call = inputs.groupby(columns, observed=True, sort=False).ngroup().to_numpy()
    distinct = inputs.drop_duplicates().astype(object).to_dict("records")
    costs = [_cost(formulas[row["name"]], *(row.get(name, "") for name in _INPUTS))
             for row in distinct]  # fmt: skip
    cost_of_row = np.full(len(ops), len(costs), dtype=np.int32)
    cost_of_row[known] = call
    unknown = ("", *(np.nan for _ in COLUMNS[1:]))
    rows = pd.DataFrame([*costs, unknown], columns=list(COLUMNS))
    # One by one: all at once they are copied more than once.
    return pd.DataFrame({name: rows[name].array[cost_of_row] for name in wanted}, copy=False)


def _cost(
    formula: Formula, shapes: str, types: str, values: str
) -> tuple[str, float, float, float]:
    """Return type, FLOPs, those of them that are recomputed, and bytes of one call."""
    dtype, work = "", _UNKNOWN
    # Shapes of other versions of PyTorch may be too few, too many or not lists of numbers.
    with suppress(UncountedError, ArithmeticError, ValueError, TypeError, IndexError):
        call = Call.read(shapes, types, values)
        tensors = call.tensors() if call.types else []
        dtype = str(call.types[tensors[0]]) if tensors else ""
        work = formula(call) if shapes else _UNKNOWN
    return dtype, work.flops, work.recomputed_flops, work.size_bytes
