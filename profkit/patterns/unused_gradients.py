"""Unused gradients: of models or layers that are not trained, and still take part in backward."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from profkit.patterns._communication import of_kind
from profkit.patterns._parameter_loops import GRADIENT, ON_ONE
from profkit.patterns._rows import Chosen, cause, equal, having, inside, time
from profkit.patterns._shapes import elements, listed, shape
from profkit.patterns.base import Match, Step, pattern

_STEPS = r"^Optimizer\.step#"
_NODES = r"^autograd::engine::evaluate_function"
_ONCE = r"^aten::(?:_fused_|_foreach_addcdiv_?$|addcdiv_?$)"
"""Operators that optimizers call once for each parameter, or list of them."""
_ON_LISTS = r"^aten::_(?:fused|foreach)_"
"""Operators on lists; PyTorch records no shape of lists of more than 30 tensors."""
_UPDATES = rf"{_ON_LISTS}|{ON_ONE}"
_SGD = "Optimizer.step#SGD.step"
_ADDS, _MULTIPLIES = r"^aten::(?:_foreach_)?add_$", r"^aten::(?:_foreach_)?mul_$"
_FEWEST = 4
"""Gradients of inputs are wanted, as for adversarial examples, and are few."""
_LEAST_SHARE = 0.1

_Shape = tuple[int, ...]


@pattern(
    title="Gradients that no optimizer uses",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html"
    "#locally-disabling-gradient-computation",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, collectives: pd.DataFrame, step: Step
) -> Match | None:
    """Find gradients of more parameters of a shape than the optimizers update."""
    backward = inside(cpu_ops, having(cpu_ops, _NODES))
    # Where ranks share out the parameters, another one updates the others and hands them over.
    if _are_wanted(cpu_ops, backward) or not of_kind(collectives, "allreduce").all():
        return None
    gradients = equal(cpu_ops, "name", GRADIENT)
    updates = inside(cpu_ops, having(cpu_ops, _STEPS)) & having(cpu_ops, _UPDATES)
    if not gradients.any() or not updates.any():
        return None
    lists = updates & having(cpu_ops, _ON_LISTS)
    if any(not _shapes(text) for text in _texts(cpu_ops, lists)):
        return None
    given, updated = _given(cpu_ops, gradients), _updated(cpu_ops, updates)
    # Parts of parameters, or copies in one piece, have shapes of their own: nothing is known then.
    if not updated or not updated.keys() <= given.keys():
        return None
    passes = int((equal(cpu_ops, "name", "backward") & equal(cpu_ops, "kind", "annotation")).sum())
    tables = {tuple(shape(text)) for text in _texts(cpu_ops, having(cpu_ops, "^aten::embedding$"))}
    counts = {
        one: count / (passes or step.count) for one, count in given.items() if one not in tables
    }
    unused = {
        one: count - updated[one] / step.count
        for one, count in counts.items()
        # How often backward ran in a step is not known without marks.
        if count * step.count > updated[one] and (passes or not updated[one])
    }
    share = _weight(unused) / max(_weight(counts), 1.0)
    number = round(sum(unused.values()))
    if number < _FEWEST or share < _LEAST_SHARE:
        return None
    return Match(
        cause=cause(cpu_ops, backward, kernels),
        advice=f"Backward computes the gradients of {number} tensors that no optimizer updates: "
        "call that model under `torch.no_grad()`, or `requires_grad_(False)` on what is not "
        "trained. If it is to be trained, give it to the optimizer.",
        gain_ns=time(cpu_ops, backward, kernels) * share,
        evidence={
            "unused_gradients": number,
            "share_of_parameters": share,
            "largest": str(list(max(unused, key=lambda one: elements(list(one))))),
        },
    )


def _are_wanted(cpu_ops: pd.DataFrame, backward: Chosen) -> bool:
    """Tell whether gradients are differentiated again, for which inputs need their own."""
    forward = cpu_ops["forward"][cpu_ops["forward"] >= 0]
    return bool((backward & cpu_ops["op"].isin(forward).to_numpy()).any())


def _texts(cpu_ops: pd.DataFrame, chosen: Chosen) -> Counter[str]:
    """Return how often each text of inputs occurs in the `chosen` rows."""
    return Counter(cpu_ops["input_shapes"][chosen].astype(object))


def _given(cpu_ops: pd.DataFrame, gradients: Chosen) -> Counter[_Shape]:
    """Return how many gradients of each shape there are; none where shapes were not recorded."""
    found: Counter[_Shape] = Counter()
    for text, count in _texts(cpu_ops, gradients).items():
        if own := shape(text):
            found[tuple(own)] += count
    return found


def _updated(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[_Shape]:
    """Return how many parameters of each shape are updated by all optimizers, at most."""
    names = cpu_ops["name"].astype(object)
    kinds = set(names[having(cpu_ops, _STEPS)])
    found = (
        (_updated_by_sgd if kind == _SGD else _updated_by_one)(
            cpu_ops, updates & inside(cpu_ops, equal(cpu_ops, "name", kind))
        )
        for kind in kinds
    )
    return sum(found, Counter())


def _updated_by_sgd(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[_Shape]:
    """Return the same of SGD, which adds once to each parameter and once to each momentum.

    Each momentum is multiplied once as well. Fused SGD is one operator.
    """
    added, multiplied = (
        _first_shapes(cpu_ops, updates & having(cpu_ops, name)) for name in (_ADDS, _MULTIPLIES)
    )
    return added - multiplied or _updated_by_one(cpu_ops, updates)


def _updated_by_one(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[_Shape]:
    """Return the same of one kind of optimizer."""
    once = updates & having(cpu_ops, _ONCE)
    names = cpu_ops["name"].astype(object)
    most: Counter[_Shape] = Counter()
    for name in set(names[once if once.any() else updates]):
        most |= _first_shapes(cpu_ops, updates & (names == name).to_numpy(bool))
    return most


def _first_shapes(cpu_ops: pd.DataFrame, chosen: Chosen) -> Counter[_Shape]:
    """Return how many tensors of each shape the `chosen` operators have as their first input."""
    found: Counter[_Shape] = Counter()
    for text, count in _texts(cpu_ops, chosen).items():
        for one in _shapes(text):
            found[one] += count
    return found


def _shapes(text: str) -> list[_Shape]:
    """Return the shapes of the tensors that are the first input, without those of scalars."""
    first: list[Any] = next(iter(listed(text)), [])
    each = first if first and isinstance(first[0], list) else [first]
    return [tuple(one) for one in each if one]


def _weight(counts: Mapping[_Shape, float]) -> float:
    """Return how many elements tensors of these shapes have."""
    return sum(count * elements(list(one)) for one, count in counts.items())
