"""Vision transformer (ViT's shape): patches of an image, a class token, encoder blocks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import PositiveInt

from profkit.workloads.models._saved_bytes import ComputePrecision, SavedBytes
from profkit.workloads.models.base import ModelFamily, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/<name>.yaml`` with ``family: vit``."""

    image: PositiveInt = 32
    """Height and width of an image in pixels."""

    patch: PositiveInt = 4
    """Height and width of a patch in pixels; attention costs grow with its inverse fourth power."""

    channels: PositiveInt = 3
    """Colours of an image."""

    layers: PositiveInt = 4
    """Number of encoder blocks."""

    heads: PositiveInt = 4
    """Attention heads per block; must divide `width`."""

    width: PositiveInt = 128
    """Size of a token; parameters grow with its square."""

    classes: PositiveInt = 10
    """Number of classes."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"heads={self.heads} does not divide width={self.width}")
        if self.image % self.patch:
            raise ValueError(f"patch={self.patch} does not divide image={self.image}")

    @property
    def tokens(self) -> int:
        """Tokens of an image: its patches and the class token."""
        return (self.image // self.patch) ** 2 + 1

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from profkit.workloads.models._vit_network import VisionTransformer

        return VisionTransformer(self)

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`."""
        width = self.width
        attention = (width + 1) * 3 * width + (width + 1) * width
        perceptron = (width + 1) * 4 * width + (4 * width + 1) * width
        block = attention + perceptron + 2 * 2 * width
        patches = (self.patch**2 * self.channels + 1) * width
        head = (width + 1) * self.classes
        return patches + (1 + self.tokens + 2) * width + self.layers * block + head

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int:
        """See `ModelFamily.activation_bytes`.

        The last norm sees the class tokens alone, but as a view that keeps the stream alive.
        """
        saved, positions = SavedBytes(precision), batch * self.tokens
        pixels = batch * self.channels * self.image**2
        patches = saved.value_bytes * pixels
        patches += saved.weights(self.patch**2 * self.channels * self.width)
        last = saved.layer_norm(positions * self.width, batch)
        head = saved.value_bytes * batch * self.width + saved.weights(self.width * self.classes)
        blocks = self.layers * saved.block(positions, self.width, self.heads)
        return patches + blocks + last + head + saved.tokens_loss(batch, self.classes)

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return an image of noise and a random class."""
        import torch

        image = torch.randn(self.channels, self.image, self.image, generator=generator)
        return {"image": image}, torch.randint(self.classes, (), generator=generator)

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the cross entropy of the class."""
        from torch.nn import functional

        return functional.cross_entropy(output, target)
