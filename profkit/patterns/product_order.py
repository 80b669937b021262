"""The order of products: of three matrices, two may make one that is far larger than all of them.

As in linear attention, where the queries and keys of all positions are multiplied before the
values, although no softmax stands between.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import Chosen, cause, equal, having, inside, per_step, place, time
from profkit.patterns._shapes import elements, listed, operands, shape
from profkit.patterns.base import Match, Step, pattern

_PRODUCTS = r"^aten::(?:mm|bmm)$"
_KEEP = (
    r"^aten::(?:view|_unsafe_view|reshape|_reshape_alias|permute|transpose|t|expand|squeeze"
    r"|unsqueeze|as_strided|alias|detach|contiguous|clone|copy_|empty\w*|einsum|matmul|linear"
    r"|resolve_conj)$"
)
"""Operators that change no value of what they are given."""
_COMPILED = r"^triton_"
_MOST_LEFT = 0.5
"""Of the multiplications of both products: copies take back what is gained by more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chain:
    """Two products, one of what the other one made, without a change between them."""

    first: int
    second: int
    """Where they are in the table of operators."""

    left: float
    """The share of the multiplications that the other order takes."""

    made: tuple[int, ...]
    """The shape of what the first one makes."""

    is_from_left: bool
    """Whether that is the left one of the two that the second multiplies."""


@pattern(
    title="Products in a costly order",
    source="https://docs.pytorch.org/docs/stable/generated/torch.linalg.multi_dot.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find products of three matrices that take less than half in the other order.

    What the first product made may be needed for something else as well, which is not known.
    """
    # Kernels that a compiler has made may stand between products, and belong to no operator.
    is_hidden = having(kernels, _COMPILED).any() and not having(cpu_ops, _COMPILED).any()
    chains = [] if is_hidden else _chains(cpu_ops)
    if not chains:
        return None
    gain_ns, found, whole = 0.0, *(np.zeros(len(cpu_ops), dtype=bool) for _ in range(2))
    by_share: dict[float, list[int]] = {}
    for chain in chains:
        found[chain.first] = True
        by_share.setdefault(chain.left, []).extend((chain.first, chain.second))
    for left, at in by_share.items():
        own = np.zeros(len(cpu_ops), dtype=bool)
        own[at] = True
        own = _with_backward(cpu_ops, own) & ~whole
        whole |= own
        gain_ns += (1 - left) * time(cpu_ops, own, kernels)
    most = max(chains, key=lambda chain: elements([*chain.made]))
    said = ("a @ (b @ c)", "(a @ b) @ c")
    better, present = said if most.is_from_left else said[::-1]
    return Match(
        cause=cause(cpu_ops, whole, kernels),
        advice=f"Multiply the other two matrices first, `{better}` in place of `{present}`: that "
        f"takes {most.left:.0%} of the multiplications, and makes nothing of the shape "
        f"{[*most.made]}.",
        gain_ns=gain_ns,
        place=place(cpu_ops, found),
        confidence=Confidence.MEDIUM,
        evidence={"chains_per_step": per_step(found, step.count), "made": str([*most.made])},
    )


def _with_backward(cpu_ops: pd.DataFrame, products: Chosen) -> Chosen:
    """Choose the products, and what backward computes of them or of the calls that they are in."""
    again = cpu_ops["forward"].isin(cpu_ops["op"][products]).to_numpy(bool)
    return inside(cpu_ops, products | again)


def _chains(cpu_ops: pd.DataFrame) -> list[_Chain]:
    """Return the products of the forward pass whose order costs more than twice as much."""
    forward = ~equal(cpu_ops, "phase", "backward") & equal(cpu_ops, "kind", "operator")
    products = having(cpu_ops, _PRODUCTS) & forward
    other = forward & ~having(cpu_ops, _KEEP) & ~products
    columns = ["repeat", "tid", "start_ns", "input_shapes"]
    rows = cpu_ops[columns].reset_index(drop=True)[products | other]
    ordered = rows.sort_values(["repeat", "tid", "start_ns"], kind="stable")
    at = ordered.index.to_numpy()
    threads = ordered[["repeat", "tid"]].to_numpy(np.int64)
    texts = ordered["input_shapes"].astype(object).to_numpy()
    found: list[_Chain] = []
    of_products = np.flatnonzero(products[at]).tolist()
    for first, second in pairwise(of_products):
        between = [str(text) for text in texts[first + 1 : second]]
        if (threads[first] == threads[second]).all():
            where = (int(at[first]), int(at[second]))
            found += _chain(where, (str(texts[first]), str(texts[second])), between)
    return found


def _chain(where: tuple[int, int], both: tuple[str, str], between: list[str]) -> Iterator[_Chain]:
    """Yield the chain of two products if it is one whose order is costly."""
    left, right = operands(both[0])
    if not left:
        return
    rows, inner, columns = left[-2], left[-1], right[-1]
    made, given = [*left[:-2], rows, columns], operands(both[1])
    # Where an operand has that shape as well, as the input of several layers, it may be the other.
    if made in (left, right) or made not in given:
        return
    is_from_left = given[0] == made
    if is_from_left:
        outer = given[1][-1]
        then = inner * columns * outer + rows * inner * outer
    else:
        outer = given[0][-2]
        then = outer * rows * inner + outer * inner * columns
    now = rows * columns * (inner + outer)
    # An expert that gets no token multiplies nothing.
    if 0 < then <= _MOST_LEFT * now and not any(_reads(text, elements(made)) for text in between):
        yield _Chain(
            first=where[0],
            second=where[1],
            left=then / now,
            made=tuple(made),
            is_from_left=is_from_left,
        )


def _reads(text: str, size: int) -> bool:
    """Tell whether an operator is given as many elements as a product made, or may be."""
    given = range(len(listed(text)))
    return not given or any(elements(shape(text, number)) >= size for number in given)
