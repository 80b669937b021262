"""Small convolutional classifier of 32x32 colour images (CIFAR's shape)."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import PositiveInt

from profkit.workloads.models._saved_bytes import (
    FP32_BYTES,
    INDEX_BYTES,
    ComputePrecision,
    SavedBytes,
)
from profkit.workloads.models.base import ModelFamily, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/<name>.yaml`` with ``family: cnn``."""

    image: PositiveInt = 32
    """Height and width of an image in pixels; halved by each stage."""

    channels: PositiveInt = 3
    """Colours of an image."""

    width: PositiveInt = 32
    """Channels of the first stage; each further stage doubles them."""

    stages: PositiveInt = 3
    """Number of stages of two convolutions and a pooling each."""

    classes: PositiveInt = 10
    """Number of classes."""

    def __post_init__(self) -> None:
        if self.image >> self.stages == 0:
            raise ValueError(f"{self.stages} stages halve an image of {self.image} to nothing")

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from torch import nn

        widths = self.widths()
        stages: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            for inputs in (before, after):
                convolution = nn.Conv2d(inputs, after, 3, padding=1, bias=False)
                stages += [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            stages.append(nn.MaxPool2d(2))
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], self.classes)]
        return nn.Sequential(*stages, *head)

    def widths(self) -> list[int]:
        """Return the channels of the image and of each stage."""
        return [self.channels, *(self.width << stage for stage in range(self.stages))]

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`."""
        pairs = list(itertools.pairwise(self.widths()))
        stages = sum(9 * (before + after) * after + 2 * 2 * after for before, after in pairs)
        return stages + (self.widths()[-1] + 1) * self.classes

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int:
        """See `ModelFamily.activation_bytes`.

        A stage saves the inputs of its two norms and the outputs of its two rectifiers, with mean
        and deviation of each channel, and the indices of its pooling; its output is saved by the
        next stage.
        """
        saved, side = SavedBytes(precision), self.image
        total = saved.value_bytes * batch * self.channels * side**2
        for stage, (before, after) in enumerate(itertools.pairwise(self.widths()), start=1):
            values = batch * after * side**2
            side //= 2
            pooled = batch * after * side**2
            total += 4 * saved.value_bytes * values + 2 * 2 * FP32_BYTES * after
            total += INDEX_BYTES * pooled + saved.weights(9 * (before + after) * after)
            if stage < self.stages:
                total += saved.value_bytes * pooled
        width = self.widths()[-1]
        head = saved.value_bytes * batch * width + saved.weights(width * self.classes)
        return total + head + saved.tokens_loss(batch, self.classes)

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return an image of noise and a random class."""
        import torch

        image = torch.randn(self.channels, self.image, self.image, generator=generator)
        return {"input": image}, torch.randint(self.classes, (), generator=generator)

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the cross entropy of the class."""
        from torch.nn import functional

        return functional.cross_entropy(output, target)
