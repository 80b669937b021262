"""Names of the devices that memory was allocated on."""

from collections.abc import Mapping

import numpy as np

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.text_column import TextColumn
from profkit.convert.columns.values import Ints

# c10::DeviceType: a name's position is its number.
_DEVICE_TYPES = (
    *("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla"),
    *("vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"),
)


def device_names(memory: Columns) -> TextColumn:
    """Return ``cuda:0`` and the like for the numbers of c10's device types and their indices."""
    texts = Text()

    def codes(part: Mapping[str, Column]) -> Column:
        kind, index = part["device_type"], part["device_id"]
        _, first, which = np.unique(_pairs(index, kind), return_index=True, return_inverse=True)
        pairs = zip(kind[first].tolist(), index[first].tolist(), strict=True)
        return texts.codes(_device(*pair) for pair in pairs)[which]

    return TextColumn(texts, DiskColumn.of(memory.spill, memory.count, map(codes, memory.parts())))


def _device(kind: int, index: int) -> str:
    if kind < 0:
        return ""
    name = _DEVICE_TYPES[kind] if kind < len(_DEVICE_TYPES) else f"device type {kind}"
    return f"{name}:{index}" if index >= 0 else name


def _pairs(index: Ints, kind: Ints) -> Ints:
    """Return one number for each pair of index and type."""
    indices, position = _numbered(index)
    _, position_of_kind = _numbered(kind)
    return position_of_kind * len(indices) + position


def _numbered(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values and the number of each: by runs of equal ones, which are few."""
    first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    distinct, which = np.unique(values[first], return_inverse=True)
    return distinct, np.repeat(which, np.diff(first, append=len(values)))
