"""One rank of a built-in workload: its device, its process group, its data."""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset

from profkit.core.errors import ConfigError
from profkit.core.formatting import agreeing
from profkit.workloads.models.base import ModelFamily, Sample
from profkit.workloads.runtime.request import Request

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One rank with its device and its request."""

    request: Request
    rank: int
    device: torch.device

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype of the configured precision."""
        return _DTYPES[self.request.precision]

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context that computes in the configured precision."""
        if self.request.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.compute_dtype)

    def compile(self, model: nn.Module) -> None:
        """Have `model` compiled at its first call, if that is configured."""
        if self.request.compile != "none":
            model.compile(mode=self.request.compile)

    def batches(self, family: ModelFamily, workers: int) -> Iterator[Sample]:
        """Yield all batches of the run, made by a DataLoader with `workers` processes."""
        dataset = Synthetic(family, self.request, self.rank)
        loader = DataLoader(
            dataset,
            batch_size=self.request.batch,
            num_workers=workers,
            pin_memory=self.device.type == "cuda",
        )
        return iter(loader)

    def to_device(self, batch: Sample) -> Sample:
        """Return `batch` on the device; copies of pinned memory are asynchronous."""
        inputs, targets = batch
        moved = {name: tensor.to(self.device, non_blocking=True) for name, tensor in inputs.items()}
        return moved, targets.to(self.device, non_blocking=True)


class Synthetic(Dataset[Sample]):
    """Random samples, seeded by their index, so that every repeat has the same data."""

    def __init__(self, family: ModelFamily, request: Request, rank: int) -> None:
        self.family = family
        self.length = request.samples * request.steps
        self.first_seed = (request.seed + rank) * self.length

    def __len__(self) -> int:
        """Return the number of samples of the whole run."""
        return self.length

    def __getitem__(self, index: int) -> Sample:
        """Return sample `index`; the DataLoader makes batches of them."""
        generator = torch.Generator().manual_seed(self.first_seed + index)
        return self.family.sample(generator)


@contextmanager
def joined(request: Request) -> Iterator[Process]:
    """Join the process group as the rank of the launcher's environment."""
    rank, local_rank = launched_rank(request, os.environ)
    process = Process(request=request, rank=rank, device=device(request, local_rank))
    torch.manual_seed(request.seed)
    if process.device.type == "cuda":
        torch.cuda.set_device(process.device)
    if request.world_size == 1:
        yield process
        return
    backend = "nccl" if process.device.type == "cuda" else "gloo"
    distributed.init_process_group(backend)
    try:
        yield process
    finally:
        distributed.destroy_process_group()


def launched_rank(request: Request, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return rank and local rank; raises `ConfigError` if the launcher started another number."""
    started = int(environment.get("WORLD_SIZE", "1"))
    if started != request.world_size:
        raise ConfigError(
            f"world_size is {request.world_size}, but "
            + agreeing(started, "{} rank[s] [was|were] started"),
            hint=f"start it with torchrun --nproc-per-node {request.world_size}",
        )
    return int(environment.get("RANK", "0")), int(environment.get("LOCAL_RANK", "0"))


def device(request: Request, local_rank: int) -> torch.device:
    """Return the device of a rank; raises `ConfigError` if there is none for it."""
    available = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if request.device == "cpu" or (request.device == "auto" and not available):
        return torch.device("cpu")
    if local_rank >= available:
        raise ConfigError(
            f"rank {local_rank} of this host needs a GPU of its own, and there are {available}",
            hint="lower world_size, or set device=cpu",
        )
    return torch.device("cuda", local_rank)
