"""Unused gradients: of models or layers that are not trained, and still take part in backward."""

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from profkit.patterns._communication import of_kind
from profkit.patterns._gradients import (
    STEPS,
    Shape,
    backward_of,
    gradients_of,
    passes_of,
    shapes,
    texts,
    updates_of,
)
from profkit.patterns._rows import Chosen, cause, equal, having, inside, time
from profkit.patterns._shapes import elements, shape
from profkit.patterns.base import Match, Step, pattern

_ONCE = r"^aten::(?:_fused_|_foreach_addcdiv_?$|addcdiv_?$)"
"""Operators that optimizers call once for each parameter, or list of them."""
_SGD = "Optimizer.step#SGD.step"
_ADDS, _MULTIPLIES = r"^aten::(?:_foreach_)?add_$", r"^aten::(?:_foreach_)?mul_$"
_FEWEST = 4
"""Gradients of inputs are wanted, as for adversarial examples, and are few."""
_LEAST_SHARE = 0.1


@pattern(
    title="Gradients that no optimizer uses",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html"
    "#locally-disabling-gradient-computation",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, collectives: pd.DataFrame, step: Step
) -> Match | None:
    """Find gradients of more parameters of a shape than the optimizers update."""
    backward, gradients = backward_of(cpu_ops), gradients_of(cpu_ops)
    updates = updates_of(cpu_ops)
    if not (backward.any() and gradients.any() and updates.any()):
        return None
    # Where ranks share out the parameters, another one updates the others and hands them over.
    if not of_kind(collectives, "allreduce").all():
        return None
    given, updated = _given(cpu_ops, gradients), _updated(cpu_ops, updates)
    # Parts of parameters, or copies in one piece, have shapes of their own: nothing is known then.
    if not updated or not updated.keys() <= given.keys():
        return None
    passes = int(passes_of(cpu_ops).sum())
    tables = {tuple(shape(text)) for text in texts(cpu_ops, having(cpu_ops, "^aten::embedding$"))}
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


def _given(cpu_ops: pd.DataFrame, gradients: Chosen) -> Counter[Shape]:
    """Return how many gradients of each shape there are; none where shapes were not recorded."""
    found: Counter[Shape] = Counter()
    for text, count in texts(cpu_ops, gradients).items():
        if own := shape(text):
            found[tuple(own)] += count
    return found


def _updated(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[Shape]:
    """Return how many parameters of each shape are updated by all optimizers, at most."""
    names = cpu_ops["name"].astype(object)
    kinds = set(names[having(cpu_ops, STEPS)])
    found = (
        (_updated_by_sgd if kind == _SGD else _updated_by_one)(
            cpu_ops, updates & inside(cpu_ops, equal(cpu_ops, "name", kind))
        )
        for kind in kinds
    )
    return sum(found, Counter())


def _updated_by_sgd(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[Shape]:
    """Return the same of SGD, which adds once to each parameter and once to each momentum.

    Each momentum is multiplied once as well. Fused SGD is one operator.
    """
    added, multiplied = (
        _first_shapes(cpu_ops, updates & having(cpu_ops, name)) for name in (_ADDS, _MULTIPLIES)
    )
    return added - multiplied or _updated_by_one(cpu_ops, updates)


def _updated_by_one(cpu_ops: pd.DataFrame, updates: Chosen) -> Counter[Shape]:
    """Return the same of one kind of optimizer."""
    once = updates & having(cpu_ops, _ONCE)
    names = cpu_ops["name"].astype(object)
    most: Counter[Shape] = Counter()
    for name in set(names[once if once.any() else updates]):
        most |= _first_shapes(cpu_ops, updates & (names == name).to_numpy(bool))
    return most


def _first_shapes(cpu_ops: pd.DataFrame, chosen: Chosen) -> Counter[Shape]:
    """Return how many tensors of each shape the `chosen` operators have as their first input."""
    found: Counter[Shape] = Counter()
    for text, count in texts(cpu_ops, chosen).items():
        for one in shapes(text):
            found[one] += count
    return found


def _weight(counts: Mapping[Shape, float]) -> float:
    """Return how many elements tensors of these shapes have."""
    return sum(count * elements(list(one)) for one, count in counts.items())
