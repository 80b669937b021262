"""Whether a GPU worked, of which a recording holds no kernel."""

import re

import pandas as pd

from profkit.analyze.shared.large_table import LargeTable

WORKED = "The GPU worked and was not recorded."
MAY_HAVE_WORKED = "There is a GPU, and no work of it was recorded."

_BEGINS_WORK = re.compile(r"Launch|Memcpy|Memset")
_OF_GPUS = re.compile(
    r"(?<!_use_)(?:cudnn|miopen)(?!_is_acceptable)|nccl|cuda|record_stream|_pin_memory"
    r"|_efficient_attention|_flash_attention(?!_for_cpu)"
)
"""In names of operators, or parts of them, that GPUs alone carry out; CPUs ask whether cuDNN would
be used."""

_OF_CPUS = re.compile(r"mkldnn|onednn|fbgemm|_for_cpu")
"""In names of operators that CPUs alone carry out."""


def unrecorded_gpu(
    cpu_ops: LargeTable, kernels: LargeTable, calls: LargeTable, devices: pd.DataFrame
) -> str:
    """Return what is missing of a GPU where there is no kernel; "" if nothing tells of one.

    Profilers name the GPUs of the machine, which a program may leave alone: it did where calls for
    one were recorded and none of them begins work.
    """
    if any(map(len, kernels.groups())):
        return ""
    names, made = _names(cpu_ops), _names(calls)
    if any(map(_BEGINS_WORK.search, made)) or any(map(_OF_GPUS.search, names)):
        return WORKED
    if len(devices) and not made and not any(map(_OF_CPUS.search, names)):
        return MAY_HAVE_WORKED
    return ""


def _names(table: LargeTable) -> set[str]:
    """Return the names of all rows."""
    return {
        name for rows in table.narrowed(["name"]).portions() for name in rows["name"].cat.categories
    }
