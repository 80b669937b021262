"""A short training program with one thing added, timed first and then recorded.

It knows nothing of profkit. A stopwatch measures what was added, in the steps that were recorded.
"""

import gc
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WARM, TIMED, RECORDED = 4, 30, 10
BATCH, WIDTH = 128, 512
_SCHEDULE = {"wait": 0, "warmup": 2, "active": RECORDED, "repeat": 1}


@dataclass
class Added:
    """What is added to the program; nothing by default."""

    sleep_ms: float = 0.0
    matmuls: int = 0
    copies: int = 0
    threads: int = 1
    bucket_mb: float = 25.0
    ranks: int = 1


@dataclass
class Measured:
    """What the stopwatch saw, in ms."""

    steps: list[float] = field(default_factory=list)
    """Unprofiled steps..."""

    done: list[float] = field(default_factory=list)
    """...and those in turn with them, in which the intervention was done."""

    added: list[float] = field(default_factory=list)
    """What was added to each recorded step."""


class Samples(Dataset[torch.Tensor]):
    """Random samples; the first of a batch takes as long as is added to the loader."""

    def __init__(self, added: Added, watch: "Stopwatch") -> None:
        self.added, self.watch = added, watch
        self.data = torch.randn(BATCH, WIDTH)

    def __len__(self) -> int:
        return BATCH * (WARM + TIMED + RECORDED + 4)

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % BATCH == 0 and self.added.sleep_ms:
            with self.watch:
                time.sleep(self.added.sleep_ms / 1000)
        return self.data[index % BATCH]


class Stopwatch:
    """Adds up what runs inside of it."""

    def __init__(self) -> None:
        self.start = 0.0
        self.total_ms = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.total_ms += (time.perf_counter() - self.start) * 1000

    def taken(self) -> float:
        """Return the time so far, and begin anew."""
        total, self.total_ms = self.total_ms, 0.0
        return total


def run(added: Added, done: Added, folder: str, rank: int = 0) -> None:
    """Train with a clock, every second step as `done` has it, then with a profiler; leave both."""
    torch.set_num_threads(added.threads)
    torch.manual_seed(0)
    if added.ranks > 1:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=added.ranks)
    layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model: nn.Module = nn.Sequential(*layers)
    if added.ranks > 1:
        model = DistributedDataParallel(model, bucket_cap_mb=added.bucket_mb)
    watch, measured = Stopwatch(), Measured()
    samples = Samples(added, watch)
    train = Step(samples, model, watch)
    gc.collect()
    for number in range(WARM + TIMED):
        samples.added = done if number % 2 else added
        start = time.perf_counter()
        train()
        if number >= WARM:
            times = measured.done if number % 2 else measured.steps
            times.append((time.perf_counter() - start) * 1000)
    samples.added = added
    schedule = torch.profiler.schedule(**_SCHEDULE)
    activities = [torch.profiler.ProfilerActivity.CPU]
    trace = f"{folder}/rank{rank}.json"
    with torch.profiler.profile(
        activities=activities,
        schedule=schedule,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(trace),
    ) as profiler:
        for number in range(_SCHEDULE["warmup"] + RECORDED):
            watch.taken()
            train()
            profiler.step()
            if number >= _SCHEDULE["warmup"]:
                measured.added.append(watch.taken())
    Path(folder, f"measured{rank}.json").write_text(json.dumps(asdict(measured)))
    if added.ranks > 1:
        dist.destroy_process_group()


class Step:
    """One step of training, with what is added to it."""

    def __init__(self, samples: Samples, model: nn.Module, watch: Stopwatch) -> None:
        self.samples, self.model, self.watch = samples, model, watch
        self.loader = iter(DataLoader(samples, BATCH))
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.factors = torch.randn(1, 256, 256)
        self.block = torch.randn(1 << 19)

    def __call__(self) -> None:
        """Take the step."""
        inputs = next(self.loader)
        with self.watch:
            for _ in range(self.samples.added.matmuls):
                torch.bmm(self.factors, self.factors)
            for _ in range(self.samples.added.copies):
                self.block.clone()
        self.model(inputs).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
