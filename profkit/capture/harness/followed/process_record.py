"""What a followed process says of itself: who it is, and which rank of which program."""

import json
import multiprocessing
import os
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from profkit.capture.base import Rank
from profkit.process import parent_watch

SUFFIX = ".process.json"

# Rank, number of ranks and rank on this host: what torchrun, accelerate and DeepSpeed set; Open
# MPI; MPICH and Intel's MPI; Slurm.
_VARIABLES = (
    ("environment", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)

# accelerate and torchrun share variables: the first one counts.
_LAUNCHERS = (
    ("accelerate", "ACCELERATE_MIXED_PRECISION"),
    ("torchrun", "TORCHELASTIC_RUN_ID"),
    ("deepspeed", "CROSS_RANK"),
    ("mpirun", "OMPI_COMM_WORLD_RANK"),
    ("mpiexec", "PMI_RANK"),
    ("srun", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRank(Rank):
    """A rank whose files have the number of its process in their names until the end."""

    process: int
    numbering: str

    @property
    def label(self) -> str:
        """See `Rank.label`."""
        # Another host or container may have a process of the same number, and the same folder.
        return f"rank{zlib.crc32(self.numbering.encode())}{self.process:07}_dp0_tp0_pp0"


@dataclass(kw_only=True, slots=True)
class ProcessRecord:
    """A process that has imported torch."""

    process: int
    numbering: str
    """Where that is its number: the host and, in a container, that."""

    parent: int
    begun_ns: int
    """When it imported torch, or was forked, in unix ns."""

    command: list[str]
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    numbered_by: str = ""
    """What says which rank it is; "" if nothing does."""

    launcher: str = ""
    """What started it, as far as it says."""

    steps: int = 0
    is_training: bool = False
    step_is: str = ""
    """What its steps are where they are none of an optimizer: forward pass, backward pass."""

    first_passes: int = 0
    """Passes of a model before there was an optimizer, which are a part of its first step."""

    unstepped_passes: int = 0
    """Passes of a model while there was an optimizer that has made no step."""

    has_several_threads: bool = False
    """Whether several threads call the model."""

    round: dict[str, Any] | None = None
    """What a step of several optimizers was, if that is known."""

    ended_ns: int = 0
    """When its recording ended; 0 if it was killed before."""

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the record of this process, as its environment numbers it."""
        record = cls(
            process=os.getpid(),
            numbering=parent_watch.numbering(),
            parent=os.getppid(),
            begun_ns=time.time_ns(),
            command=[sys.executable, *sys.orig_argv[1:]],
        )
        for source, *names in _VARIABLES:
            values = [os.environ.get(name, "") for name in names]
            if all(map(str.isdigit, values)):
                record.rank, record.world_size, record.local_rank = map(int, values)
                record.numbered_by = source
                break
        return record

    def locate(self) -> None:
        """Take the numbers of this process from the program, if it has set up its ranks."""
        # Not before: a process that is forked has another parent only a little later.
        self.launcher = _launcher()
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return
        if distributed.is_initialized():
            was_numbered = bool(self.numbered_by)
            self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
            self.numbered_by = self.numbered_by or "torch.distributed"
            if not was_numbered:
                # On one host, as far as anything says.
                self.local_rank = self.rank

    def as_rank(self) -> ProcessRank:
        """Return the rank that this process is, with the name that its files have meanwhile."""
        return ProcessRank(
            process=self.process,
            numbering=self.numbering,
            rank=self.rank,
            world_size=self.world_size,
            local_rank=self.local_rank,
        )

    def write(self, out: Path) -> None:
        """Write it beside the other files of this process."""
        path = out / f"{self.as_rank().label}{SUFFIX}"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)


def _launcher() -> str:
    """Return what started this process, by the variables that each launcher sets."""
    if multiprocessing.parent_process() is not None:
        return "multiprocessing"
    known = (name for name, variable in _LAUNCHERS if variable in os.environ)
    return next(known, "python")


def main_folder() -> Path:
    """Return the folder of the program that runs in this process."""
    stated = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(stated).absolute().parent if stated else Path.cwd()


def read(out: Path) -> list[ProcessRecord]:
    """Return the records in `out`, in the order in which the processes began."""
    found = [ProcessRecord(**json.loads(path.read_text())) for path in out.glob(f"*{SUFFIX}")]
    return sorted(found, key=lambda record: (record.begun_ns, record.process))
