"""Names of the devices that memory was allocated on."""

from collections.abc import Mapping

import numpy as np

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.stored import Columns, Held
from profkit.convert.linking.coded import Coded
from profkit.convert.linking.link import threads

# c10::DeviceType: a name's position is its number.
_DEVICE_TYPES = (
    *("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla"),
    *("vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"),
)


def device_names(memory: Columns) -> Coded:
    """Return ``cuda:0`` and the like for the numbers of c10's device types and their indices."""
    texts = Text()

    def codes(part: Mapping[str, Column]) -> Column:
        kind, index = part["device_type"], part["device_id"]
        _, first, which = np.unique(threads(index, kind), return_index=True, return_inverse=True)
        pairs = zip(kind[first].tolist(), index[first].tolist(), strict=True)
        return texts.codes(_device(*each) for each in pairs)[which]

    return Coded(texts, Held.of(memory.spill, memory.count, map(codes, memory.parts())))


def _device(kind: int, index: int) -> str:
    if kind < 0:
        return ""
    name = _DEVICE_TYPES[kind] if kind < len(_DEVICE_TYPES) else f"device type {kind}"
    return f"{name}:{index}" if index >= 0 else name
