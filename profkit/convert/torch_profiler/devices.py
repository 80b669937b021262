"""The devices that a trace describes beside its events."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.columns.numbering import Text
from profkit.convert.linking.origin import Origin
from profkit.convert.torch_profiler.header import Header
from profkit.core.formatting import agreeing

# Each column with the keys of CUDA and, where they differ, of HIP.
_SIZES = {
    "device": ("id",),
    "memory_bytes": ("totalGlobalMem",),
    "processors": ("numSms",),
    "threads_per_processor": ("maxThreadsPerMultiprocessor",),
    "warp_threads": ("warpSize",),
    "registers_per_processor": ("regsPerMultiprocessor",),
    "shared_memory_bytes": ("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
}
_LARGEST = 2**31


def devices(header: Header, origin: Origin) -> pa.Table:
    """Return the table `devices` of one trace; empty where it describes none."""
    given = header.deviceProperties
    found = (
        [device for device in given if isinstance(device, dict)] if isinstance(given, list) else []
    )
    columns: dict[str, Any] = {
        "name": _texts(str(device.get("name", "")) for device in found),
        "capability": _texts(map(_capability, found)),
    }
    limits = {"memory_bytes": _LARGEST**2}
    for column, keys in _SIZES.items():
        largest = limits.get(column, _LARGEST)
        sizes = [_size([device.get(key) for key in keys], largest) for device in found]
        columns[column] = np.array(sizes, dtype=np.int64)
    return origin.table("devices", len(found), columns)


def faults(header: Header) -> Iterator[str]:
    """Yield what cannot be known of devices because their description holds something else."""
    given = [] if header.deviceProperties is None else header.deviceProperties
    wrong = sum(not _is_described(device) for device in (given if isinstance(given, list) else [0]))
    if wrong:
        yield agreeing(
            wrong,
            "{} of the devices in deviceProperties [has|have] values that are no numbers, no name"
            " or no id: unknown.",
        )


def _is_described(device: Any) -> bool:
    if not isinstance(device, dict) or not isinstance(device.get("name"), str):
        return False
    given = {
        column: [device[key] for key in keys if key in device] for column, keys in _SIZES.items()
    }
    sizes = [size for column in given.values() for size in column]
    return bool(given["device"]) and all(_size([size], _LARGEST**2) >= 0 for size in sizes)


def _texts(values: Iterable[str]) -> pa.DictionaryArray:
    texts = Text()
    return texts.decoded(texts.codes(values))


def _capability(device: dict[str, Any]) -> str:
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    return "" if major is None or minor is None else f"{major}.{minor}"


def _size(values: list[Any], largest: int) -> int:
    """Return the first that is a number of things, -1 if none is."""
    for value in values:
        if type(value) is int and 0 <= value < largest:
            return value
    return -1
