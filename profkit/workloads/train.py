"""Training on synthetic data: forward, backward and an optimizer step, replicated or sharded."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

import profkit
from profkit import marks
from profkit.core.errors import ProfkitError
from profkit.workloads.base import BaseWorkload
from profkit.workloads.zero import Zero
from profkit.workloads.zero.base import OptimizerFactory

if TYPE_CHECKING:
    import torch

    from profkit.workloads.models.base import ModelFamily, Sample
    from profkit.workloads.runtime.process import Process
    from profkit.workloads.zero.base import Engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    """Composed from ``conf/workload/train.yaml``."""

    has_only_replicas: ClassVar = True
    rank_modules: ClassVar = ("torch._dynamo",)

    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Update rule; adamw keeps two further values per parameter, sgd none."""

    learning_rate: PositiveFloat = 3e-4
    """Step size; has no influence on speed."""

    weight_decay: NonNegativeFloat = 0.01
    """Decay of the weights at each optimizer step."""

    workers: NonNegativeInt = 0
    """Processes that a rank's DataLoader makes batches in; 0 makes them between the steps."""

    def check_sharding(self, zero: Zero, world_size: int) -> str:
        """See `BaseWorkload.check_sharding`."""
        return zero.check(world_size)

    @property
    def moments(self) -> int:
        """Values that the optimizer keeps for each parameter."""
        return 2 if self.optimizer == "adamw" else 0

    def optimizer_factory(self) -> OptimizerFactory:
        """Return the optimizer, which updates all parameters in as few operators as it can."""
        from torch import optim

        # FSDP2's parameters have no fused SGD.
        kinds: dict[str, tuple[Any, str]] = {
            "adamw": (optim.AdamW, "fused"),
            "sgd": (optim.SGD, "foreach"),
        }
        kind, fast = kinds[self.optimizer]
        return partial(kind, lr=self.learning_rate, weight_decay=self.weight_decay, **{fast: True})


def train(process: "Process") -> list[float]:
    """Train by the request of `process`, and return the loss of each step's last batch."""
    request = process.request
    settings, family = request.settings(Workload), request.family()
    backend = request.sharding().load()
    engine = backend.engine(process, family.build(), settings.optimizer_factory())
    batches = process.batches(family, settings.workers)
    losses = []
    for _ in profkit.steps(request.steps, samples=request.samples):
        for remaining in reversed(range(request.grad_accumulation)):
            with profkit.phase("data"):
                inputs, targets = process.to_device(next(batches))
            with engine.micro_batch(last=remaining == 0):
                with profkit.phase("forward"):
                    loss = family.loss(engine.forward(inputs), targets)
                with profkit.phase("backward"):
                    engine.backward(loss)
        with profkit.phase("optimizer"):
            engine.step()
        # Reading the value here would wait for the device in every step.
        losses.append(loss.detach())

    def parts() -> dict[str, marks.Part]:
        batch = process.to_device(next(process.batches(family, workers=0)))
        return StepParts(engine, family, batch, request.grad_accumulation).parts()

    marks.offer_parts(parts)
    return [float(loss) for loss in losses]


class StepParts:
    """Parts of a training step on one batch, each to be run alone and any number of times.

    Runs what a part needs before it: a loss goes through the backward pass once, and an optimizer
    step needs the gradients of all its micro-batches, without which DeepSpeed fails.
    """

    def __init__(
        self, engine: "Engine", family: "ModelFamily", batch: "Sample", accumulation: int
    ) -> None:
        self.engine = engine
        self.family = family
        self.batch = batch
        self.accumulation = accumulation
        self.losses: list[torch.Tensor] = []
        self.micro_batches = 0

    def parts(self) -> dict[str, marks.Part]:
        """Return forward and backward of one micro-batch, the optimizer, and the whole step."""
        return {
            "forward": marks.Part(prepare=self.losses.clear, run=self.forward),
            "backward": marks.Part(prepare=self.prepare_backward, run=self.backward),
            "optimizer": marks.Part(prepare=self.fill, run=self.update),
            "step": marks.Part(prepare=self.finish, run=self.step),
        }

    def forward(self) -> None:
        """Compute a loss, which replaces one that was not used."""
        inputs, targets = self.batch
        self.losses[:] = [self.family.loss(self.engine.forward(inputs), targets)]

    def backward(self) -> None:
        """Add the gradients of the loss."""
        self.micro_batches += 1
        with self.engine.micro_batch(last=self.micro_batches == self.accumulation):
            self.engine.backward(self.losses.pop())

    def update(self) -> None:
        """Update the parameters."""
        self.engine.step()
        self.micro_batches = 0

    def step(self) -> None:
        """Run a whole step."""
        self.fill()
        self.update()

    def fill(self) -> None:
        """Run the micro-batches that are missing before an update."""
        while self.micro_batches < self.accumulation:
            self.forward()
            self.backward()

    def finish(self) -> None:
        """Complete the step that has begun."""
        if self.micro_batches:
            self.step()

    def prepare_backward(self) -> None:
        """Compute a loss; update first if the gradients of a step are complete."""
        if self.micro_batches == self.accumulation:
            self.update()
        self.forward()


def main(argv: Sequence[str]) -> None:
    """Run one rank of the training that ``--config`` describes."""
    from profkit.workloads.runtime.process import joined
    from profkit.workloads.runtime.request import parsed

    with joined(parsed(argv)) as process:
        losses = train(process)
        print(f"rank {process.rank}: loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
