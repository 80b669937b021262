"""The parts of a training step, each to be run by itself as often as somebody likes."""

from typing import TYPE_CHECKING

from profkit.marks import Part

if TYPE_CHECKING:
    import torch

    from profkit.workloads.models.base import ModelFamily, Sample
    from profkit.workloads.zero.base import Engine


class Training:
    """Runs parts of steps on one batch, in an order that every backend bears.

    A loss goes through the backward pass once, and an optimizer step needs the gradients of all
    its micro-batches: DeepSpeed fails without.
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

    def parts(self) -> dict[str, Part]:
        """Return the parts: forward and backward of one micro-batch, optimizer, and all of it."""
        return {
            "forward": Part(prepare=self.losses.clear, run=self.forward),
            "backward": Part(prepare=self.prepare_backward, run=self.backward),
            "optimizer": Part(prepare=self.fill, run=self.update),
            "step": Part(prepare=self.finish, run=self.step),
        }

    def forward(self) -> None:
        """Compute a loss, which takes the place of one that nobody used."""
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
        """Do a whole step."""
        self.fill()
        self.update()

    def fill(self) -> None:
        """Do the micro-batches that are missing before an update."""
        while self.micro_batches < self.accumulation:
            self.forward()
            self.backward()

    def finish(self) -> None:
        """Bring the step that has begun to its end."""
        if self.micro_batches:
            self.step()

    def prepare_backward(self) -> None:
        """Compute a loss, and make room for its gradients."""
        if self.micro_batches == self.accumulation:
            self.update()
        self.forward()
