"""Checks of a recording that failed, in a few words each."""

import re
from collections.abc import Iterable

from profkit.core.verdict import Trust

_DIFFERENT = "The two runs differ: "
_SLOWER = re.compile(r"The same steps( take [\d.]+ times as long with the profiler)")
SHORT = {
    "steps": "too few steps",
    "few steps": "only two steps were traced",
    "usual steps": "the traced steps are slower than most",
    "whole steps": "recording ended within a step",
    "variation": "step times vary",
    "sizes": "step times vary with the sizes of tensors",
    "ranks": "ranks were not recorded",
    "named ranks": "other ranks ran than the command names",
    "late rank": "one step decides which rank is late",
    "clocks": "the clocks of the ranks differ",
    "ends": "ends of collectives differ",
    "cut off": "the file is cut off",
    "lost events": "events were lost",
    "repeated steps": "step numbers repeat",
    "overlaps": "operators end after the ones around them",
    "odd times": "some times are impossible",
    "misplaced kernels": "kernels lie far from their launch",
    "excerpt": "little was recorded",
    "GPU": "the GPU was not recorded",
    "MPS": "the GPU was not recorded",
    "kernels": "rows of GPU work are missing",
    "graphs": "kernels of CUDA graphs are missing",
    "CPU": "the CPU was not recorded",
    "operators": "no operator was recorded",
    "launches": "launches of kernels were not recorded",
    "GPU work": "the GPU work of most launches was not recorded",
    "machine": "the machine was busy",
    "cores": "more threads than cores",
    "program": "no PyTorch was found",
    "threads": "threads call the model at the same time",
    "stacks": "recording Python stacks slows the CPU",
    "ranges": "NVTX ranges slow the CPU",
    "profiler overhead": "steps differ with the profiler",
    "other steps": "the profiled run differs",
}
"""By the name of the check, for those that are about how a program was recorded."""


def in_short_of(checks: Iterable[Trust]) -> str:
    """Return what failed of a recording, each check in a few words."""
    return ", ".join(_short(check) for check in checks)


def _short(check: Trust) -> str:
    if slower := _SLOWER.match(check.message):
        return f"steps{slower[1]}"
    if check.message.startswith(_DIFFERENT):
        return "the two runs differ"
    return SHORT.get(check.check, check.check)
