"""Sliding buffers: all rows of a queue are copied to put a few new ones in."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import differentiated
from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import elements, listed, shape
from profkit.patterns.base import Match, Step, pattern

_TIMES = 8
"""As many elements as what is put in, at least."""

_LEAST_ELEMENTS = 1 << 17
_EACH_STEP = 0.9


@pattern(
    title="Buffer copied to add rows",
    source="https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find concatenations of a large tensor with a small one, of the same sizes in each step.

    Those with gradients are a part of the model. What is cut off again is often copied once more.
    """
    joins = having(cpu_ops, r"^aten::cat$") & ~differentiated(cpu_ops)
    joins &= fitting(cpu_ops, "input_shapes", lambda text: bool(_buffer(text)))
    texts = cpu_ops["input_shapes"][joins].astype(object)
    steady = texts.value_counts() >= _EACH_STEP * step.count
    buffers = [_buffer(str(text)) for text in steady.index[steady]]
    if not buffers:
        return None
    joins &= fitting(cpu_ops, "input_shapes", lambda text: _buffer(text) in buffers)
    copies = having(cpu_ops, r"^aten::(?:contiguous|clone)$") & ~differentiated(cpu_ops)
    copies &= fitting(cpu_ops, "input_shapes", lambda text: shape(text) in buffers)
    chosen = inside(cpu_ops, joins | copies)
    largest = max(buffers, key=elements)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"`torch.cat` copies a tensor of {' x '.join(f'{size:,}' for size in largest)} to "
        "add little to it: make a buffer once, and write what is new over what is oldest "
        "(`buffer[at:at + n] = rows`), where the order of rows does not matter.",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, joins),
        confidence=Confidence.MEDIUM,
        evidence={"concatenations_per_step": per_step(joins, step.count)},
    )


def _buffer(text: str) -> list[int]:
    """Return the shape of the large one of two tensors that are joined, empty if there is none."""
    given = listed(text)
    parts = given[0] if given and isinstance(given[0], list) else []
    if len(parts) != 2 or not all(isinstance(one, list) and one for one in parts):  # noqa: PLR2004
        return []
    small, large = sorted(parts, key=elements)
    is_large = elements(large) >= max(_TIMES * elements(small), _LEAST_ELEMENTS)
    return large if is_large and elements(small) else []
