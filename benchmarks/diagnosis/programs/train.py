"""A training program with one fault in it: ``train.py FAULT SIZE``, or ``train.py clean 0``.

It knows nothing of profkit. What the fault costs is measured around it, in each step, and written
to `$DIAGNOSIS_INJECTED` with what the profiler recorded: a profiler makes Python slower, and the
verdict is about the steps that it saw.
"""

import contextlib
import json
import os
import sys
import time

import faults
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 14
BATCH, WIDTH, CLASSES = 256, 512, 64


class Stopwatch:
    """What the fault cost in each step, and whether a profiler looked on."""

    def __init__(self) -> None:
        self.steps = [0.0]
        self.recorded = []

    @contextlib.contextmanager
    def running(self):
        """Add the time inside to the step."""
        start = time.perf_counter()
        yield
        self.steps[-1] += (time.perf_counter() - start) * 1000

    def step(self) -> None:
        """End the step."""
        self.recorded.append(torch.autograd._profiler_enabled())
        self.steps.append(0.0)

    def write(self, path: str, rank: int) -> None:
        """Append the steps to a file."""
        times = self.steps[: len(self.recorded)]
        line = json.dumps({"rank": rank, "steps": times, "recorded": self.recorded})
        with open(path, "a") as file:
            file.write(line + "\n")


class Samples(Dataset):
    """Random images, and what loading one takes."""

    def __init__(self, fault, watch) -> None:
        self.fault, self.watch = fault, watch
        self.data = torch.randn(64, WIDTH)

    def __len__(self) -> int:
        return BATCH * (STEPS + 4)

    def __getitem__(self, index):
        if index % BATCH == 0:
            with self.watch.running():
                self.load()
        return self.data[index % 64], index % CLASSES

    def load(self) -> None:
        """Take as long as the fault has it, once a batch."""
        if self.fault.decode_ms:
            faults.decode(self.fault.decode_ms)
        if self.fault.read_ms:
            faults.read(self.fault.read_ms)


def build() -> nn.Module:
    """Return a small classifier."""
    torch.manual_seed(0)
    hidden = [layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, CLASSES))


def main() -> None:
    """Train for a few steps."""
    name, size = sys.argv[1], int(sys.argv[2])
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1:
        dist.init_process_group("gloo")
    torch.set_num_threads(1)
    watch = Stopwatch()
    fault = faults.FAULTS[name](size, rank, watch)
    model = build()
    optimizer = fault.optimizer(model) or torch.optim.SGD(model.parameters(), lr=0.01)
    network = fault.wrap(model, world)
    loader = DataLoader(Samples(fault, watch), BATCH, num_workers=fault.workers)
    criterion = nn.CrossEntropyLoss()
    batches = iter(loader)
    for step in range(STEPS):
        if fault.workers:
            with watch.running():
                inputs, targets = next(batches)
        else:
            inputs, targets = next(batches)
        inputs = fault.inputs(inputs)
        loss = criterion(network(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        fault.gradients(model)
        fault.update(optimizer)
        fault.after(step, model, inputs, targets, loss)
        watch.step()
    watch.write(os.environ["DIAGNOSIS_INJECTED"], rank)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
