"""Odd sizes: half-precision products whose sizes keep them off the fast kernels."""

import pandas as pd

from profkit.patterns._attention_products import in_single_operators
from profkit.patterns._rows import belonging, cause, fitting, having, place
from profkit.patterns._shapes import HALF, MATMULS, operands
from profkit.patterns.base import Match, charged, pattern

_UNIT = 8
_GAIN = 0.5
"""Kernels for aligned sizes took about half the time in NVIDIA's guide."""


@pattern(
    title="Matrix products of odd sizes",
    source="https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/"
    "index.html",
)
def match(kernels: pd.DataFrame, cpu_ops: pd.DataFrame) -> Match | None:
    """Find half-precision products whose rows have a length that is no multiple of 8.

    A fused kernel of attention makes no scores, so theirs need no padding.
    """
    products = having(cpu_ops, MATMULS) & having(cpu_ops, HALF.pattern, "input_types")
    products &= fitting(cpu_ops, "input_shapes", _is_odd)
    if products.any():
        products &= ~in_single_operators(cpu_ops)
    slow = belonging(kernels, cpu_ops, products)
    if not slow.any():
        return None
    worst = cpu_ops["input_shapes"][products].astype(object).value_counts().index[0]
    return Match(
        cause=cause(cpu_ops, products, kernels),
        advice=f"Pad the sizes of {worst} to multiples of 8 (64 is better): vocabulary, sequence "
        "or features.",
        gain_ns=charged(kernels, slow) * _GAIN,
        place=place(cpu_ops, products),
        evidence={"kernels": int(slow.sum()), "input_shapes": worst},
    )


def _is_odd(text: str) -> bool:
    """Say whether the length of a row in memory is odd; the number of rows may be."""
    return any(matrix[-1] % _UNIT for matrix in operands(text) if matrix)
