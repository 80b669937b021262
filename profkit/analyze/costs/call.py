"""One call of an operator as a trace records it, and the costs that formulas work out from it."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

ITEM_BYTES = {
    "double": 8,
    "float": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "long int": 8,
    "long": 8,
    "int": 4,
    "short int": 2,
    "short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
}
"""Bytes of an element, by the type as PyTorch records it."""

_LISTS = ("TensorList", "OptionalTensorList", "GenericList", "")


class UncountedError(Exception):
    """The formula does not cover these inputs."""


@dataclass(frozen=True, slots=True)
class Call:
    """The inputs of one call by position; reading a missing one raises `UncountedError`."""

    shapes: list[Any]
    """Dimensions of tensors, lists of dimensions for lists of tensors; [] for scalars, and for
    tensors whose shape was not known."""

    types: list[Any]
    """Element types of tensors; empty if not recorded."""

    values: list[Any]
    """Values of scalars as text; empty if not recorded."""

    @classmethod
    def read(cls, shapes: str, types: str, values: str) -> "Call":
        """Return the call that three JSON lists describe, each of which may be empty."""
        try:
            parts = [json.loads(text) if text else [] for text in (shapes, types, values)]
        except ValueError as error:
            raise UncountedError from error
        if not all(isinstance(part, list) for part in parts):
            raise UncountedError
        return cls(*parts)

    def shape(self, position: int, dims: int = -1) -> list[int]:
        """Return the dimensions of a tensor, `dims` of them unless that is negative."""
        found = self._at(self.shapes, position)
        if not isinstance(found, list) or not all(type(size) is int for size in found):
            raise UncountedError
        if dims >= 0 and len(found) != dims:
            raise UncountedError
        return found

    def elements(self, position: int) -> int:
        """Return the number of elements of a tensor of at least one dimension.

        Without any it may be one number, or of unknown shape: then nothing of it is counted.
        """
        shape = self.shape(position)
        if not shape:
            raise UncountedError
        return math.prod(shape)

    def item_bytes(self, position: int) -> float:
        """Return the bytes of an element of a tensor, NaN where the type is not known."""
        kind = self.types[position] if position < len(self.types) else ""
        return ITEM_BYTES.get(str(kind), math.nan)

    def size_bytes(self, position: int) -> float:
        """Return the bytes of a tensor, NaN where its type or its shape is not known."""
        shape = self.shape(position)
        return math.prod(shape) * self.item_bytes(position) if shape else math.nan

    def is_tensor(self, position: int) -> bool:
        """Tell whether an input is there and is a tensor, of no dimension included."""
        if position >= len(self.shapes):
            return False
        if self.types:
            return position < len(self.types) and self.types[position] in ITEM_BYTES
        return bool(self.shapes[position])

    def tensors(self) -> list[int]:
        """Return the positions of tensors."""
        return [position for position in range(len(self.shapes)) if self.is_tensor(position)]

    def listed(self, position: int) -> list[int]:
        """Return the number of elements of each tensor in a list of tensors."""
        found = self._at(self.shapes, position)
        is_list = position >= len(self.types) or self.types[position] in _LISTS
        if not is_list or not isinstance(found, list):
            raise UncountedError
        if not all(isinstance(shape, list) for shape in found):
            raise UncountedError
        return [math.prod(shape) for shape in found]

    def value(self, position: int) -> Any:
        """Return the value of a scalar or of a list of scalars."""
        text = str(self._at(self.values, position)).replace("True", "true")
        try:
            return json.loads(text.replace("False", "false"))
        except ValueError as error:
            raise UncountedError from error

    def numbers(self, position: int, count: int = -1) -> list[int]:
        """Return a list of integers, `count` of them unless that is negative.

        A single recorded number stands for all.
        """
        found = self.value(position)
        if not isinstance(found, list) or not all(isinstance(number, int) for number in found):
            raise UncountedError
        if count >= 0 and len(found) == 1:
            return found * count
        if count >= 0 and len(found) != count:
            raise UncountedError
        return found

    def _at(self, values: list[Any], position: int) -> Any:
        if position >= len(values):
            raise UncountedError
        return values[position]


class Work(NamedTuple):
    """What one call costs."""

    flops: float
    """Floating point operations."""

    size_bytes: float
    """Bytes read and written."""

    recomputed_flops: float = 0.0
    """Those of `flops` that repeat work of the forward pass."""


Formula = Callable[[Call], Work]
"""Returns the costs of a call; raises `UncountedError` where its inputs do not fit."""
