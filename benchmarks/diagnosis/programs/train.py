"""A training program with one fault in it: ``train.py FAULT SIZE``, or ``train.py clean 0``.

It knows nothing of profkit. When the fault is at work is measured around it, and written to
`$DIAGNOSIS_INJECTED`: what it costs in the steps that the verdict is about can be told from that.
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
BATCH, WIDTH, CLASSES = 256, 256, 64


class Stopwatch:
    """When the fault was at work."""

    def __init__(self) -> None:
        self.spans = []

    @contextlib.contextmanager
    def running(self, share=1.0):
        """Note the time inside, or the `share` of it that is the fault's."""
        start = time.time_ns()
        yield
        self.spans.append((start, start + int(share * (time.time_ns() - start))))

    def write(self, path: str, rank: int) -> None:
        """Append the times to a file."""
        with open(path, "a") as file:
            file.write(json.dumps({"rank": rank, "spans": self.spans}) + "\n")


class Samples(Dataset):
    """Batches of random images, and what loading one takes."""

    def __init__(self, fault, watch) -> None:
        self.fault, self.watch = fault, watch
        self.images, self.targets = torch.randn(BATCH, WIDTH), torch.arange(BATCH) % CLASSES

    def __len__(self) -> int:
        return STEPS + 4

    def __getitem__(self, index):
        with self.watch.running():
            self.load()
        return self.images, self.targets

    def load(self) -> None:
        """Take as long as the fault has it."""
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
    loader = DataLoader(Samples(fault, watch), batch_size=None, num_workers=fault.workers)
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
    watch.write(os.environ["DIAGNOSIS_INJECTED"], rank)
    if world > 1:
        dist.barrier()


if __name__ == "__main__":
    main()
