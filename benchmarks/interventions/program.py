"""A short training program with one thing added, timed first and then recorded.

It knows nothing of profkit. A stopwatch measures what was added, in the steps that were recorded.
"""

import ctypes
import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARM, RECORDED = 4, 30
TURN, SETTLING = 8, 2
"""Steps that are timed in a row with one thing added, and how many of them do not count: what the
ones before it have left in caches and in the allocator is gone by then."""

ORDER = (0, 1, 1, 0, 1, 0, 0, 1)
"""What is added in each turn of one half of the timed steps, the first or the second of two things:
neither comes earlier than the other, as a process gets faster while it runs."""

BATCH, WIDTH = 128, 512
RECORDED_FROM = 2
"""Number of the first recorded step, as the profiler counts them."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt` of the C library."""

_SCHEDULE = {"wait": 0, "warmup": RECORDED_FROM, "active": RECORDED, "repeat": 1}


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

    steps: list[list[float]] = field(default_factory=list)
    """Unprofiled steps, by turn..."""

    done: list[list[float]] = field(default_factory=list)
    """...and those in turn with them, in which the intervention was done."""

    added: list[float] = field(default_factory=list)
    """What was added to each recorded step."""


class Samples(Dataset[torch.Tensor]):
    """Random samples; the first of a batch takes as long as is added to the loader."""

    def __init__(self, added: Added, watch: "Stopwatch") -> None:
        self.added, self.watch = added, watch
        self.data = torch.randn(BATCH, WIDTH)

    def __len__(self) -> int:
        return BATCH * (WARM + 2 * len(ORDER) * TURN + RECORDED + 4)

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


def run(added: Added, done: Added | None, folder: str, rank: int = 0) -> None:
    """Train with a clock, with a profiler and with a clock again, and leave what they saw.

    Of the steps without a profiler half of the turns are as `done` has it. They come before and
    after the recorded ones, so that all meet a machine that is as busy; none are without `done`.
    """
    _keep_freed_memory()
    torch.set_num_threads(added.threads)
    torch.manual_seed(0)
    if added.ranks > 1:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=added.ranks)
    layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model: nn.Module = nn.Sequential(*layers)
    watch, measured = Stopwatch(), Measured()
    samples = Samples(added, watch)
    train = Step(samples, model, watch)
    gc.collect()
    for _ in range(WARM):
        train()
    if done:
        _timed(train, samples, (added, done), measured)
    schedule = torch.profiler.schedule(**_SCHEDULE)
    activities = [torch.profiler.ProfilerActivity.CPU]
    trace = f"{folder}/rank{rank}.json"
    with torch.profiler.profile(
        activities=activities,
        schedule=schedule,
        # As profkit's own tool does.
        record_shapes=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(trace),
    ) as profiler:
        for number in range(RECORDED_FROM + RECORDED):
            watch.taken()
            train()
            profiler.step()
            if number >= RECORDED_FROM:
                measured.added.append(watch.taken())
    if done:
        _timed(train, samples, (added, done), measured)
    Path(folder, f"measured{rank}.json").write_text(json.dumps(asdict(measured)))
    if added.ranks > 1:
        dist.destroy_process_group()


def _keep_freed_memory() -> None:
    """Let the C library give no memory back.

    It does so by what was freed before: a program with copies keeps what the one without them takes
    anew in each step (900 page faults, 3 of 22 ms), so that turns in one process and two processes
    differ by something else.
    """
    library = ctypes.CDLL(None)
    for parameter, size in ((_TRIM_THRESHOLD, 1 << 30), (_MMAP_THRESHOLD, 1 << 25)):
        if not library.mallopt(parameter, size):
            raise RuntimeError(f"mallopt({parameter}, {size}) failed: not the GNU C library?")


def _timed(
    train: Callable[[], None], samples: Samples, turns: tuple[Added, Added], measured: Measured
) -> None:
    """Take steps without a profiler, with each of the two things added in turn."""
    for which in ORDER:
        samples.added = turns[which]
        times = []
        for _ in range(TURN):
            start = time.perf_counter()
            train()
            times.append((time.perf_counter() - start) * 1000)
        (measured.done if which else measured.steps).append(times[SETTLING:])
    samples.added = turns[0]


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
        if self.samples.added.ranks > 1:
            self._reduce()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _reduce(self) -> None:
        """Average the gradients over the ranks in buckets, one after the other.

        Nothing else works meanwhile, unlike with DDP, where a core for each rank is one too few:
        the threads of the collectives would take it from the backward pass, whose operators would
        then be what takes longer.
        """
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        whole = torch.cat([gradient.flatten() for gradient in gradients])
        for bucket in torch.split(whole, int(self.samples.added.bucket_mb * 2**20 / 4)):
            dist.all_reduce(bucket)
        parts = torch.split(whole, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
