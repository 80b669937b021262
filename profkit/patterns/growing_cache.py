"""Growing caches: keys and values that are copied to make room for one more."""

import pandas as pd

from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import listed
from profkit.patterns.base import Match, Step, pattern

_LEAST_LENGTH = 16
_MOSTLY = 0.5


@pattern(
    title="Growing key-value cache",
    source="https://huggingface.co/docs/transformers/kv_cache",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find concatenations of a long tensor with one of a single position."""
    joins = having(cpu_ops, r"^aten::cat$")
    joins &= fitting(cpu_ops, "input_shapes", _appends_one)
    if not joins.any():
        return None
    chosen = inside(cpu_ops, joins)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Allocate the cache once and write into it (`cache[:, :, position] = new`, or "
        "`StaticCache` in transformers) instead of `torch.cat` for each token.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, joins, _MOSTLY),
        evidence={"concatenations_per_step": per_step(joins, step.count)},
    )


def _appends_one(text: str) -> bool:
    """Say whether a tensor and one position of its second last size are joined."""
    given = listed(text)
    parts = given[0] if given and isinstance(given[0], list) else []
    match parts:
        case [[*_, int(long), _], [*_, 1, _]]:
            return long >= _LEAST_LENGTH
    return False
