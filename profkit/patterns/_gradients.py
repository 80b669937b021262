"""Gradients of parameters that backward computes, and what optimizers update."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from profkit.patterns._parameter_loops import GRADIENT, ON_ONE
from profkit.patterns._rows import Chosen, equal, having, inside
from profkit.patterns._shapes import listed

STEPS = r"^Optimizer\.step#"
_NODES = r"^autograd::engine::evaluate_function"
_ON_LISTS = r"^aten::_(?:fused|foreach)_"
"""Operators on lists; PyTorch records no shape of lists of more than 30 tensors."""
_UPDATES = rf"{_ON_LISTS}|{ON_ONE}"

Shape = tuple[int, ...]


def backward_of(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose what backward does; nothing where gradients are differentiated again.

    For that, inputs need their own.
    """
    backward = inside(cpu_ops, having(cpu_ops, _NODES))
    forward = cpu_ops["forward"][cpu_ops["forward"] >= 0]
    again = backward & cpu_ops["op"].isin(forward).to_numpy()
    return np.zeros(len(cpu_ops), dtype=np.bool_) if again.any() else backward


def passes_of(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the marks of backward passes."""
    return equal(cpu_ops, "name", "backward") & equal(cpu_ops, "kind", "annotation")


def gradients_of(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the gradients of parameters."""
    return equal(cpu_ops, "name", GRADIENT)


def updates_of(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the operators that optimizers call on parameters, and on what they keep of them.

    Nothing where the shapes of some are not known.
    """
    return with_shapes(cpu_ops, inside(cpu_ops, having(cpu_ops, STEPS)) & having(cpu_ops, _UPDATES))


def with_shapes(cpu_ops: pd.DataFrame, chosen: Chosen) -> Chosen:
    """Choose the same operators, or nothing where one is on a list of unknown shapes."""
    lists = chosen & having(cpu_ops, _ON_LISTS)
    are_known = all(shapes(text) for text in texts(cpu_ops, lists))
    return chosen if are_known else np.zeros(len(cpu_ops), dtype=np.bool_)


def texts(cpu_ops: pd.DataFrame, chosen: Chosen) -> Counter[str]:
    """Return how often each text of inputs occurs in the `chosen` rows."""
    return Counter(cpu_ops["input_shapes"][chosen].astype(object))


def shapes(text: str) -> list[Shape]:
    """Return the shapes of the tensors that are the first input, without those of scalars."""
    first: list[Any] = next(iter(listed(text)), [])
    each = first if first and isinstance(first[0], list) else [first]
    return [tuple(one) for one in each if one]
