"""Dense gradients of large tables: all rows of an embedding updated where few were looked up."""

from typing import Any

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import GRADIENT
from profkit.patterns._rows import Chosen, cause, equal, fitting, having, inside, per_step, time
from profkit.patterns._shapes import MATRIX, elements, listed, shape
from profkit.patterns.base import Match, Step, pattern

_LEAST_ROWS = 5_000
_ROWS_PER_LOOKUP = 20
_NAMED = 2
_TAKES_SPARSE = r"^Optimizer\.step#(SGD|Adagrad)\.step$"
_ON_LISTS = r"^aten::_(?:fused|foreach)_"
"""Operators on lists of tensors; PyTorch records no shapes of long ones."""


@pattern(
    title="Dense gradient of a large embedding",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find tables with far more rows than lookups, and what is done to all of their rows."""
    lookups = having(cpu_ops, r"^aten::(?:embedding|_embedding_bag)$")
    dense = having(cpu_ops, r"^aten::(?:embedding|_embedding_bag)_dense_backward$")
    shapes = cpu_ops["input_shapes"].astype(object)
    used = zip(shapes[lookups], cpu_ops["name"][lookups].astype(str), strict=True)
    tables = [(shape(text), name) for text, name in used if _is_sparse_use(text)]
    tables = [(table, name) for table, name in tables if not _is_tied(cpu_ops, table, step)]
    if not dense.any() or not tables:
        return None
    table, name = max(tables)
    module = "EmbeddingBag" if name.endswith("_bag") else "Embedding"
    distinct = sorted({tuple(one) for one, _ in tables}, reverse=True)
    share = shapes.map(lambda text: min(sum(_share(text, [*one]) for one in distinct), 1.0))
    update = inside(cpu_ops, having(cpu_ops, r"^Optimizer\.step#|^Optimizer\.zero_grad"))
    own = update & (share > 0).to_numpy(dtype=bool)
    backward = inside(cpu_ops, dense)
    gain = time(cpu_ops, backward, kernels) + _shared(cpu_ops, own, share, kernels)
    rows = " and ".join(f"{one[0]:,}" for one in distinct[:_NAMED])
    which = f"the table of {rows} rows" if len(distinct) == 1 else f"the tables of {rows} rows"
    sparse = (
        f"Create {which} with `torch.nn.{module}(..., sparse=True)`"
        f"{_updated(cpu_ops)}: only the rows looked up are touched."
    )
    unused = (
        f"No optimizer updates the table of {table[0]:,} rows: set `requires_grad_(False)` on its "
        "weight, or give it to the optimizer."
    )
    return Match(
        cause=cause(cpu_ops, own | backward, kernels),
        advice=unused if _others_are_updated(cpu_ops, update, table) else sparse,
        gain_ns=gain,
        confidence=Confidence.HIGH,
        evidence={"table": str(table), "lookups_per_step": per_step(lookups, step.count)},
    )


def _is_tied(cpu_ops: pd.DataFrame, table: list[int], step: Step) -> bool:
    """Tell whether a layer has the table as its weights, whose gradient has all rows anyway."""
    layers = having(cpu_ops, "^aten::linear$")
    layers &= fitting(cpu_ops, "input_shapes", lambda text: shape(text, 1) == table)
    gradients = equal(cpu_ops, "name", GRADIENT)
    gradients &= fitting(cpu_ops, "input_shapes", lambda text: shape(text) == table)
    return bool(layers.any()) and per_step(gradients, step.count) <= 1


def _updated(cpu_ops: pd.DataFrame) -> str:
    """Return how to update a table by sparse gradients, which few optimizers take."""
    found = cpu_ops["name"].astype(str).str.extract(_TAKES_SPARSE)[0].dropna()
    if found.empty:
        return ", updated by `torch.optim.SparseAdam`"
    return f", whose gradients `torch.optim.{found.iloc[0]}` takes without weight decay"


def _others_are_updated(cpu_ops: pd.DataFrame, update: Chosen, table: list[int]) -> bool:
    """Tell whether all that the optimizer updates is known, and is not the `table`."""
    given = [listed(text) for text in cpu_ops["input_shapes"][update].astype(object).unique()]
    lists = update & having(cpu_ops, _ON_LISTS)
    of_lists = cpu_ops["input_shapes"][lists].astype(object).unique()
    is_known = any(given) and all(listed(text)[:1] not in ([], [[]]) for text in of_lists)
    return is_known and not any(table in (one[:1] + _first(one)) for one in given)


def _first(shapes: list[Any]) -> list[Any]:
    return shapes[0] if shapes and isinstance(shapes[0], list) else []


def _shared(
    cpu_ops: pd.DataFrame, own: Chosen, share: "pd.Series[float]", kernels: pd.DataFrame
) -> float:
    """Return the time of the operators `own` themselves, each by the `share` of its inputs."""
    parts = share.to_numpy()
    return sum(
        float(part) * time(cpu_ops, own & (parts == part), kernels) for part in set(parts[own])
    )


def _is_sparse_use(text: str) -> bool:
    table, indices = shape(text, 0), shape(text, 1)
    least = max(_LEAST_ROWS, _ROWS_PER_LOOKUP * elements(indices))
    return len(table) == MATRIX and table[0] >= least


def _share(text: str, table: list[int]) -> float:
    """Return the part of the first input (a tensor or a list of them) that is the `table`."""
    given = listed(text)
    if not given or not isinstance(given[0], list):
        return 0.0
    if given[0] == table:
        return 1.0
    sizes: list[int] = [elements(one) for one in given[0] if isinstance(one, list)]
    return elements(table) / max(sum(sizes), 1) if table in given[0] else 0.0
