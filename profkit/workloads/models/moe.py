"""Mixture of experts (Mixtral's shape): each token goes to the best few of many perceptrons."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import NonNegativeFloat, PositiveInt

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
    """Composed from ``conf/model/<name>.yaml`` with ``family: moe``."""

    vocabulary: PositiveInt = 2048
    """Number of tokens; the logits and their gradient take this many values per position."""

    context: PositiveInt = 64
    """Tokens per sample; attention costs grow with its square."""

    layers: PositiveInt = 2
    """Number of transformer blocks."""

    heads: PositiveInt = 4
    """Attention heads per block; must divide `width`."""

    kv_heads: PositiveInt = 2
    """Heads of keys and values, which `heads` share evenly."""

    width: PositiveInt = 128
    """Size of the residual stream."""

    hidden: PositiveInt = 256
    """Size of an expert's hidden layer; most parameters are in experts, and grow with this."""

    experts: PositiveInt = 4
    """Perceptrons of a block; parameters grow with them, computing does not."""

    active: PositiveInt = 2
    """Experts that each token goes to; computing grows with them, parameters do not."""

    balance: NonNegativeFloat = 0.02
    """Weight of the loss that makes the router use all experts alike."""

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ValueError(f"heads={self.heads} must divide width={self.width} evenly in pairs")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}")
        if self.active > self.experts:
            raise ValueError(f"active={self.active} is more than there are experts={self.experts}")

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from profkit.workloads.models._moe_network import MixtureOfExperts

        return MixtureOfExperts(self)

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`."""
        width = self.width
        shared = 2 * width * (width // self.heads) * self.kv_heads
        attention = 2 * width * width + shared
        experts = self.experts * (3 * width * self.hidden + width)
        return 2 * self.vocabulary * width + self.layers * (attention + experts + 2 * width) + width

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int | None:
        """See `ModelFamily.activation_bytes`; None in 2 bytes, where norms differ between devices.

        A block saves, per position and unit of width: of each norm the input, the normalised
        input and the output; queries; the output of attention, twice as its heads are reordered.
        Routing saves the inputs and outputs of each of the `active` choices.
        """
        if precision == "half":
            return None
        saved, positions = SavedBytes(precision), batch * self.context
        values = positions * self.width
        shared = positions * self.kv_heads * (self.width // self.heads)
        norm = 2 * FP32_BYTES * values + FP32_BYTES * positions + saved.value_bytes * values
        turned = 2 * FP32_BYTES * self.context * (self.width // self.heads)
        attention = saved.value_bytes * (3 * values + 2 * shared) + turned
        attention += FP32_BYTES * self.heads * positions
        if precision == "autocast":
            # Queries, keys and values each copy the output of the norm.
            attention += 2 * saved.value_bytes * values
        block = 2 * norm + attention + self._routed(saved, positions)
        block += saved.weights(self._weights())
        head = norm + saved.weights(self.width * self.vocabulary)
        scores = FP32_BYTES * self.experts * (self.layers * positions + 1)
        tokens = INDEX_BYTES * positions
        loss = saved.tokens_loss(positions, self.vocabulary) + scores
        return tokens + self.layers * block + head + loss

    def _routed(self, saved: SavedBytes, positions: int) -> int:
        """Return the bytes that the router and the experts of a block save."""
        chosen = positions * self.active
        router = FP32_BYTES * positions * (self.experts + 1)
        router += (FP32_BYTES + INDEX_BYTES) * chosen
        # Under autocast the gate and the other half each make a copy in half the size.
        taken = FP32_BYTES * chosen * self.width
        hidden = 4 * saved.value_bytes * chosen * self.hidden
        given = (saved.value_bytes + FP32_BYTES) * chosen * self.width
        return router + taken + hidden + given + (2 * INDEX_BYTES + FP32_BYTES) * chosen

    def _weights(self) -> int:
        """Return the weights that products of a block take."""
        shared = self.kv_heads * (self.width // self.heads)
        attention = 2 * self.width * (self.width + shared)
        return attention + self.experts * self.width * (1 + 3 * self.hidden)

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return `context` random tokens, and the same shifted by one as the target."""
        import torch

        tokens = torch.randint(self.vocabulary, (self.context + 1,), generator=generator)
        return {"tokens": tokens[:-1]}, tokens[1:]

    def loss(self, output: Any, target: "torch.Tensor") -> "torch.Tensor":
        """Return the cross entropy of the next token, and the weighted loss of the balance."""
        from torch.nn import functional

        logits, scores = output
        likely = functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        return likely + self.balance * imbalance(scores, self.active)


def imbalance(scores: "torch.Tensor", active: int) -> "torch.Tensor":
    """Return `active` if all experts are used alike, and more the less they are.

    `scores` (tokens, experts) are the router's, of all layers. The sum over experts of their share
    of tokens times their mean probability, times their number (Fedus et al. 2021, "Switch
    Transformers", equation 4, summed over the `active` choices as Mixtral does).
    """
    from torch.nn import functional

    experts = scores.shape[-1]
    probabilities = scores.softmax(-1)
    chosen = functional.one_hot(probabilities.topk(active).indices, experts).sum(1)
    return experts * (chosen.float().mean(0) * probabilities.mean(0)).sum()
