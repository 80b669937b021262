"""Decoder-only transformer (GPT-2's shape) with tied embeddings and causal attention."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import NonNegativeFloat, PositiveInt

from profkit.workloads.models._saved_bytes import INDEX_BYTES, ComputePrecision, SavedBytes
from profkit.workloads.models.base import ModelFamily, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Model(ModelFamily):
    """Composed from ``conf/model/<name>.yaml`` with ``family: gpt``."""

    vocabulary: PositiveInt = 2048
    """Number of tokens; the logits and their gradient take this many values per position."""

    context: PositiveInt = 64
    """Tokens per sample; attention costs grow with its square."""

    layers: PositiveInt = 4
    """Number of transformer blocks."""

    heads: PositiveInt = 4
    """Attention heads per block; must divide `width`."""

    width: PositiveInt = 128
    """Size of the residual stream; parameters grow with its square."""

    dropout: NonNegativeFloat = 0.0
    """Probability of dropping an activation; 0 keeps repeats alike."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"heads={self.heads} does not divide width={self.width}")

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from profkit.workloads.models._gpt_network import Gpt

        return Gpt(self)

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`; the head's are those of the tokens' embedding."""
        width = self.width
        attention = (width + 1) * 3 * width + (width + 1) * width
        perceptron = (width + 1) * 4 * width + (4 * width + 1) * width
        block = attention + perceptron + 2 * 2 * width
        return (self.vocabulary + self.context + 2) * width + self.layers * block

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int | None:
        """See `ModelFamily.activation_bytes`; known without dropout, which saves masks."""
        if self.dropout:
            return None
        saved, positions = SavedBytes(precision), batch * self.context
        values = positions * self.width
        head = saved.value_bytes * values + saved.weights(self.width * self.vocabulary)
        # Tokens, and positions once for all samples.
        indices = INDEX_BYTES * (positions + self.context)
        return (
            indices
            + self.layers * saved.block(positions, self.width, self.heads)
            + saved.layer_norm(values, positions)
            + head
            + saved.tokens_loss(positions, self.vocabulary)
        )

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return `context` random tokens, and the same shifted by one as the target."""
        import torch

        tokens = torch.randint(self.vocabulary, (self.context + 1,), generator=generator)
        return {"tokens": tokens[:-1]}, tokens[1:]

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the cross entropy of the next token."""
        from torch.nn import functional

        return functional.cross_entropy(output.flatten(0, 1), target.flatten())
