"""Whether a GPU worked, of which a recording holds no kernel."""

import re

import numpy as np
import pandas as pd

from profkit.analyze.division import charges, cpu, gpu
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree
from profkit.analyze.shared.large_table import LargeTable
from profkit.patterns.unused_gpu import OF_CPUS, QUEUED, lasting, own_ns, starts_device

WORKED = "The GPU worked and was not recorded."
LOST = "Rows of GPU work are missing, although calls that launch it were recorded."
MAY_HAVE_WORKED = "There is a GPU, and no work of it was recorded."
OF_APPLE = "Apple's GPU (MPS) worked, and torch.profiler does not record it."

_NOTHING = (
    "no operator and no kernel was recorded: see the notes, and start the profiler in the process"
    " that works, before the work, and stop it after"
)
_ASKED = (
    "GPU work was launched, and neither that work nor operators were recorded: see the diagnostics"
    " of the profiler; drivers of WSL and of virtual GPUs may record nothing"
)
_MISPLACED = (
    "no operator was recorded, and all kernels lie far from their launches, as after a second"
    " profiler session: record in a process that starts the profiler once"
)
_MOSTLY, _MUCH = 0.5, 0.3
_BEGINS_WORK = re.compile(r"Launch|Memcpy|Memset")
_OF_GPUS = re.compile(
    r"(?<!_use_)(?:cudnn|miopen)(?!_is_acceptable)|nccl|cuda|record_stream|_pin_memory"
    r"|_efficient_attention|_flash_attention(?!_for_cpu)"
)
"""In names of operators, or parts of them, that GPUs alone carry out; CPUs ask whether cuDNN would
be used."""

_OF_APPLES = re.compile(r"^aten::linear_backward$|(?:^|::|_)mps(?:_|$)")
"""In names of operators that only MPS has."""

_OF_CPUS = re.compile(OF_CPUS)
_OF_COMPILERS = re.compile(r"^pass\.|dynamo_timed|compile_id=")
"""In names of what Inductor does, which asks on any machine whether something is for CUDA."""


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
    if any(map(_BEGINS_WORK.search, made)):
        return LOST
    if any(map(_OF_APPLES.search, names)):
        return OF_APPLE
    if any(_OF_GPUS.search(name) and not _OF_COMPILERS.search(name) for name in names):
        return WORKED
    are_of_cpus = any(map(_OF_CPUS.search, names)) or _work_lasts(cpu_ops)
    if len(devices) and not made and not are_of_cpus:
        return MAY_HAVE_WORKED
    return ""


def why_nothing(kernels: LargeTable, calls: LargeTable) -> str:
    """Return why a recording without operators cannot be divided, and what to do."""
    if any(map(len, kernels.groups())):
        return _MISPLACED
    return _ASKED if any(map(_BEGINS_WORK.search, _names(calls))) else _NOTHING


def _work_lasts(cpu_ops: LargeTable) -> bool:
    """Tell whether operators take much of the time that would only ask a GPU for work.

    Not where one starts a GPU, which others of the same names may have asked.
    """
    if sum(sum(group.values()) for group in cpu_ops.groups()) >= QUEUED:
        return False
    names = ["rank", "repeat", "name", "op", "parent", "start_ns", "end_ns"]
    rows = pd.concat(cpu_ops.narrowed(names).portions())
    for _, own in rows.groupby(["rank", "repeat"], observed=True):
        if starts_device(own).any():
            return False
        time = own_ns(own)
        if time[lasting(own)].sum() > _MUCH * time.sum():
            return True
    return False


def known_anyway(rank: RecordedRank, time: Partition) -> frozenset[str]:
    """Return the causes of `time` that are known whatever a GPU did that was not recorded.

    Those are communication that the CPU carries out, and operators of which most of the time is in
    such as make no call to a GPU: where calls were recorded, these work on the CPU.
    """
    known = set()
    rows = rank.communication
    if rows is not None and (rows["kind"] == "host").any():
        known.add(gpu.EXPOSED)
    if len(rank.calls):
        own = charges.of_ops(rank, time.spans(cpu.COMPUTING))
        calling = calltree.positions(
            *(one["op"].to_numpy(np.int64) for one in (rank.ops, rank.calls))
        )
        calls = np.zeros(len(rank.ops) + 1, dtype=np.bool_)
        above = np.append(rank.op_parents, -1)
        while not calls[calling].all():
            calls[calling] = True
            calling = above[calling]
        if own[~calls[:-1]].sum() > _MOSTLY * own.sum():
            known.add(cpu.COMPUTING)
    return frozenset(known)


def _names(table: LargeTable) -> set[str]:
    """Return the names of all rows."""
    return {
        name for rows in table.narrowed(["name"]).portions() for name in rows["name"].cat.categories
    }
