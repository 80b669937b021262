"""What operators were given: shapes and types of their inputs, as they were recorded."""

import json
import math
import re
from functools import lru_cache
from typing import Any

HALF = re.compile(r"BFloat16|Half")
MATMULS = r"^aten::(?:mm|addmm|bmm|baddbmm|_grouped_mm)$"
"""Operators that are matrix products, not those that call them."""

LAYER_PRODUCTS = r"^aten::(?:addmm|mm)$"
"""Those of linear layers."""
AT_ONCE = 8
"""Rows that take little longer than one."""

CONVOLUTIONS = r"^aten::(?:cudnn_|miopen_|mkldnn_|thnn_|slow_)?_?convolution(?:_backward)?"
ELEMENTWISE_KERNEL = r"elementwise_kernel|CatArrayBatchedCopy|reduce_kernel"


MATRIX = 2
"""Number of sizes of a matrix."""

_ALIKE = 1.02
"""How many times as many rows as a loss has those of the last layer may have: of texts with one
token more, which has nothing to predict, as well."""


@lru_cache(maxsize=4096)
def listed(text: str) -> list[Any]:
    """Return the JSON list that a column holds; empty if nothing was recorded."""
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []


def elements(of: list[int]) -> int:
    """Return how many elements a tensor of this shape has."""
    return math.prod(of)


def shape(text: str, number: int = 0) -> list[int]:
    """Return the shape of one input; empty if it is a scalar, a list or not recorded."""
    shapes = listed(text)
    found = shapes[number] if number < len(shapes) else []
    return found if isinstance(found, list) and all(isinstance(n, int) for n in found) else []


def operands(text: str) -> tuple[list[int], list[int]]:
    """Return the shapes of the two matrices of a product; empty if they were not recorded."""
    # `addmm` and `baddbmm` add to the product what they are given first.
    for number in (1, 0):
        left, right = shape(text, number), shape(text, number + 1)
        if len(left) > 1 and len(right) > 1 and left[-1] == right[-2]:
            return left, right
    return [], []


def rows_of_left(text: str) -> int:
    """Return how many rows the left one of two matrices has; 0 if that was not recorded."""
    left, _ = operands(text)
    return left[-2] if len(left) > 1 else 0


def has_one_row(text: str) -> bool:
    """Tell whether the left one of two matrices has one row, as a single sample gives."""
    return rows_of_left(text) == 1


def are_scores(count: int, most: int, words: int, text: str) -> bool:
    """Tell whether one has scores of `words` for `count` to `most` tokens, or makes them."""
    given = [shape(text, number) for number in range(len(listed(text)))]
    shapes = [sizes for sizes in given if sizes and elements(sizes)]
    features = {size for sizes in shapes if words in sizes for size in sizes} - {words}
    rows = {elements(sizes) / sizes[-1] for sizes in shapes if sizes[-1] in features}
    rows |= {elements(sizes) / words for sizes in shapes if words in sizes}
    return any(count <= number <= most * _ALIKE for number in rows)
