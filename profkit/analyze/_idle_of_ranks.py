"""What is kept of the idle time of some ranks when the next ones are read."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, kw_only=True, slots=True)
class OfSteps:
    """What is kept of the steps of some ranks."""

    steps: pd.DataFrame
    gaps: pd.DataFrame
    """The largest, see `largest`."""

    drained_ns: "pd.Series[int]"
    """By rank, in gaps that began while the CPU waited for the GPU."""

    host_work: pd.DataFrame
    waited_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OfRanks:
    """What is kept of some ranks."""

    work: int
    """Kernels, copies and sets."""

    unknown: int
    """Those of them whose launch was not recorded."""

    threads: pd.DataFrame
    streams: pd.DataFrame
    of_steps: OfSteps | None
