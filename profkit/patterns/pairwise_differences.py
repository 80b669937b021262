"""Distances by differences: rows are subtracted from all others, and features summed up then."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, equal, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import elements, listed, shape
from profkit.patterns.base import Match, Step, pattern

_DIFFERENCES = r"^aten::r?sub_?$"
_ABSOLUTE = r"^aten::(?:abs_?|l1_loss)$"
_OF_EACH = rf"^aten::(?:pow_?|square_?|linalg_vector_norm|norm)$|{_ABSOLUTE}"
_SUMS = r"^aten::(?:sum|mean|linalg_vector_norm|norm)$"
_ALLOWED = (
    rf"{_OF_EACH}|{_SUMS}|{_DIFFERENCES}|^aten::(?:empty_like|result_type|view|reshape|to|detach"
    r"|linalg_norm|as_strided|resolve_conj|contiguous|expand|unsqueeze)$|^(?!aten::)"
)
"""Operators on differences of which nothing but distances is made."""
_BY_PRODUCT = (
    "squared ones are `a.square().sum(-1, keepdim=True) - 2 * a @ b.mT + b.square().sum(-1)[..., "
    "None, :]`, less precise for rows that are nearly the same"
)
_LEAST_SIZES = 3
_FEWEST = 16
"""Rows of each side: of fewer the differences are small."""


@pattern(
    title="Distances by differences of all pairs",
    source="https://docs.pytorch.org/docs/stable/generated/torch.cdist.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find differences of all pairs of rows that are squared, and summed over their features.

    Not where anything else is done to them: then they are needed.
    """
    differences = having(cpu_ops, _DIFFERENCES)
    differences &= fitting(cpu_ops, "input_shapes", lambda text: bool(_pairs(text)))
    if not differences.any():
        return None
    texts = cpu_ops["input_shapes"][differences].astype(object).unique()
    pairs = max((_pairs(str(text)) for text in texts), key=elements)
    differences &= fitting(cpu_ops, "input_shapes", lambda text: _pairs(text) == pairs)
    of_pairs = fitting(cpu_ops, "input_shapes", lambda text: pairs in listed(text))
    forward = of_pairs & ~equal(cpu_ops, "phase", "backward")
    are_distances = all((forward & having(cpu_ops, names)).any() for names in (_OF_EACH, _SUMS))
    if not are_distances or (forward & ~having(cpu_ops, _ALLOWED)).any():
        return None
    chosen = inside(cpu_ops, differences | of_pairs)
    are_absolute = bool((forward & having(cpu_ops, _ABSOLUTE)).any())
    *_, first, second, features = pairs
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"`torch.cdist(a, b{', p=1' * are_absolute})` takes the distances of {first:,} and "
        f"{second:,} rows without the {features:,} differences of each pair"
        + ("." if are_absolute else f"; {_BY_PRODUCT}."),
        gain_ns=time(cpu_ops, chosen, kernels) * (1 - 1 / features),
        place=place(cpu_ops, differences),
        confidence=Confidence.MEDIUM,
        evidence={"differences_per_step": per_step(differences, step.count), "pairs": str(pairs)},
    )


def _pairs(text: str) -> list[int]:
    """Return the shape of the differences of all pairs of rows, empty for others."""
    left, right = shape(text), shape(text, 1)
    sizes = max(len(left), len(right))
    left, right = ([1] * (sizes - len(one)) + one for one in (left, right))
    if sizes < _LEAST_SIZES or left[-1] != right[-1] or left[-1] < 2:  # noqa: PLR2004 - features
        return []
    rows, others = (
        {at for at in range(sizes) if one[at] >= _FEWEST and other[at] == 1}
        for one, other in ((left, right), (right, left))
    )
    fits = all(one == other or 1 in {one, other} for one, other in zip(left, right, strict=True))
    return [max(both) for both in zip(left, right, strict=True)] if fits and rows and others else []
