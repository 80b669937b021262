"""Switch CUDA's profiler on for chosen steps, for tools outside the process."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass
class ProfiledSteps:
    """Calls ``cudaProfilerStart`` and ``cudaProfilerStop`` around steps; see `Recorder`.

    The switch is the process's: unlike an NVTX range it also holds for the threads that run the
    backward pass.
    """

    steps: Collection[int]
    """Indices of the steps, from 0."""
    index: int = -1
    is_on: bool = False

    def begin(self) -> None:
        """See `Recorder.begin`."""
        self.step()

    def step(self) -> None:
        """See `Recorder.step`."""
        self.index += 1
        wanted = self.index in self.steps
        if wanted != self.is_on:
            self.is_on = wanted
            _switch(on=wanted)


def _switch(*, on: bool) -> None:
    # Late: the process that starts the tool does not need torch.
    import torch

    # Kernels that were launched before the switch must not run, and be counted, after it.
    torch.cuda.synchronize()
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    torch.cuda.check_error(runtime.cudaProfilerStart() if on else runtime.cudaProfilerStop())
