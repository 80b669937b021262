"""Diffusion transformer (Flux's shape): image latents and text in two streams, then in one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import PositiveInt

from profkit.workloads.models._saved_bytes import FP32_BYTES, ComputePrecision
from profkit.workloads.models.base import ModelFamily, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn

_FREQUENCIES = 256
"""Size of the sinusoids that a timestep is spread over, in all models of this kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/<name>.yaml`` with ``family: dit``."""

    grid: PositiveInt = 8
    """Height and width of the image in tokens; a token is 16 pixels wide with Flux's encoder."""

    channels: PositiveInt = 16
    """Values of an image token: the latent channels of 2 x 2 places."""

    text: PositiveInt = 16
    """Tokens of the prompt; they are attended to together with those of the image."""

    text_width: PositiveInt = 64
    """Size of a token as the text encoder gives it."""

    vector_width: PositiveInt = 32
    """Size of the summary of the prompt, which modulates all blocks."""

    double_blocks: PositiveInt = 2
    """Blocks in which image and text have weights of their own."""

    single_blocks: PositiveInt = 2
    """Blocks in which they share weights, with attention and perceptron side by side."""

    heads: PositiveInt = 4
    """Attention heads per block; must divide `width`."""

    width: PositiveInt = 128
    """Size of a token in the blocks; parameters grow with its square."""

    guided: bool = True
    """Whether the strength of guidance is an input too, as in guidance-distilled models."""

    def __post_init__(self) -> None:
        # Half a head turns with the row, half with the column, each value with another.
        if self.width % (4 * self.heads):
            raise ValueError(f"width={self.width} is no multiple of 4 times heads={self.heads}")

    @property
    def frequencies(self) -> int:
        """Number of sines and cosines of a timestep before it is embedded."""
        return _FREQUENCIES

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from profkit.workloads.models._dit_network import DiffusionTransformer

        return DiffusionTransformer(self)

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`."""
        width, norms = self.width, 2 * (self.width // self.heads)
        square, four = (width + 1) * width, (width + 1) * 4 * width
        back = (4 * width + 1) * width
        stream = 6 * square + 3 * square + norms + square + four + back
        single = 3 * square + 3 * square + four + norms + back + width * width
        embedded = (1 + self.guided) * (_FREQUENCIES + 1) + self.vector_width + 1
        conditions = embedded * width + (2 + self.guided) * square
        ends = (self.channels + 1 + self.text_width + 1) * width
        ends += 2 * square + (width + 1) * self.channels
        return 2 * self.double_blocks * stream + self.single_blocks * single + conditions + ends

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int | None:
        """See `ModelFamily.activation_bytes`; None in 2 bytes, where norms differ between devices.

        Terms of a block, per token and unit of width: input and output of a norm, the output
        scaled and shifted; queries, keys and values, plain, normalised and rotated; outputs of
        attention and of the projection; input and output of the nonlinearity.
        """
        if precision != "fp32":
            return None
        tokens = self.grid**2 + self.text
        positions, conditions = batch * tokens, batch * self.width
        image = batch * self.grid**2
        heads = 3 * self.heads * positions + 2 * tokens * (self.width // self.heads)
        double = 26 * positions * self.width + 4 * positions + heads + 18 * conditions
        single = 21 * positions * self.width + 2 * positions + heads + 5 * conditions
        last = (positions + 2 * image) * self.width + 2 * image + 2 * conditions
        # The sum of all embeddings is one tensor, the input of every modulation.
        embedded = batch * ((1 + self.guided) * _FREQUENCIES + self.vector_width)
        embedded += (2 + self.guided) * 2 * conditions + conditions
        ends = image * self.channels + batch * self.text * self.text_width
        loss = 2 * image * self.channels
        blocks = self.double_blocks * double + self.single_blocks * single
        return FP32_BYTES * (embedded + ends + blocks + last + loss)

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return latents on their way to noise, and the velocity (rectified flow)."""
        import torch

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        clean, noise = drawn(self.grid**2, self.channels), drawn(self.grid**2, self.channels)
        # A normal variable through a sigmoid: most training steps are half-way, as in SD 3.
        timestep = drawn().sigmoid()
        inputs = {
            "image": clean + timestep * (noise - clean),
            "text": drawn(self.text, self.text_width),
            "vector": drawn(self.vector_width),
            "timestep": timestep,
        }
        if self.guided:
            inputs["guidance"] = torch.rand((), generator=generator) * 4
        return inputs, noise - clean

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the mean squared error of the velocity."""
        from torch.nn import functional

        return functional.mse_loss(output, target)
