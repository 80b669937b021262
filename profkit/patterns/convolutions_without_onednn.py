"""Convolutions without oneDNN: the general code of PyTorch, where a library has a faster one."""

import math

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_CALLS = r"^aten::(?:_?slow_conv(?:2d|3d|_dilated[23]d)|thnn_conv2d)(?:_forward|_backward)?$"
_SMALL = 20_480
"""Numbers in a single image for which PyTorch takes no oneDNN by itself."""

_MANY_IMAGES, _SPATIAL = 16, 2
"""Images of a batch from which on it takes oneDNN for weights of one element as well, and where the
sizes of these begin."""

_RATE = 2.0
"""How many times as fast oneDNN is, about: 1.0 to 3.6 were measured, most where channels are few.
"""


@pattern(
    title="Convolutions without oneDNN",
    source="https://docs.pytorch.org/docs/stable/backends.html#torch.backends.mkldnn",
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, step: Step) -> Match | None:
    """Find convolutions of more than a small image that PyTorch computes by itself.

    Not those of one element for few images, for which it takes no oneDNN on one thread.
    """
    calls = having(cpu_ops, _CALLS) & fitting(cpu_ops, "input_shapes", _is_large)
    if not calls.any():
        return None
    chosen = inside(cpu_ops, calls)
    return Match(
        cause=cause(cpu_ops, chosen, cpu_ops.iloc[:0]),
        advice="Leave `torch.backends.mkldnn` on and use float32. A Mac has no oneDNN: move the "
        'model and its inputs to its GPU, `.to("mps")`.',
        gain_ns=time(cpu_ops, chosen) * (1 - 1 / _RATE),
        place=place(cpu_ops, calls),
        confidence=Confidence.MEDIUM,
        evidence={"calls_per_step": per_step(calls, step.count)},
    )


def _is_large(text: str) -> bool:
    sizes = shape(text)
    # The weights come after the input, in backward after its gradient as well.
    others = [shape(text, number) for number in (1, 2)]
    is_of_one = any(
        len(one) == len(sizes) > _SPATIAL and {*one[_SPATIAL:]} == {1} for one in others
    )
    if is_of_one and sizes[0] < _MANY_IMAGES:
        return False
    return not sizes or sizes[0] > 1 or math.prod(sizes) > _SMALL
