"""Recommendation model (DLRM's shape): embedding tables, pairwise interactions, perceptrons."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import PositiveFloat, PositiveInt

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
    """Composed from ``conf/model/<name>.yaml`` with ``family: dlrm``."""

    dense: PositiveInt = 13
    """Numbers that describe a sample."""

    rows: tuple[PositiveInt, ...] = (1000, 500, 200, 100, 50, 20, 10, 5)
    """Rows of each embedding table, one table for each categorical feature."""

    lookups: PositiveInt = 1
    """Rows looked up in each table for a sample, and summed."""

    width: PositiveInt = 16
    """Size of an embedding, and of what `bottom` makes of the dense features."""

    bottom: tuple[PositiveInt, ...] = (64, 32)
    """Hidden sizes of the perceptron of the dense features."""

    top: tuple[PositiveInt, ...] = (64, 32)
    """Hidden sizes of the perceptron of the interactions."""

    skew: PositiveFloat = 3.0
    """How unevenly rows are looked up: 1 is uniform, 3 sends a fifth to the first 1 %."""

    @property
    def interactions(self) -> int:
        """Pairs of different features: embeddings, and the dense ones as one more."""
        return len(self.rows) * (len(self.rows) + 1) // 2

    @property
    def perceptrons(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of all layers of both perceptrons, from input to output."""
        bottom = (self.dense, *self.bottom, self.width)
        return bottom, (self.width + self.interactions, *self.top, 1)

    def build(self) -> "nn.Module":
        """See `ModelFamily.build`."""
        from profkit.workloads.models._dlrm_network import Dlrm

        return Dlrm(self)

    def parameter_count(self) -> int:
        """See `ModelFamily.parameter_count`."""
        layers = [pair for sizes in self.perceptrons for pair in itertools.pairwise(sizes)]
        dense = sum((inputs + 1) * outputs for inputs, outputs in layers)
        return sum(self.rows) * self.width + dense

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int:
        """See `ModelFamily.activation_bytes`.

        Layers save their inputs, and tables the indices of the rows, with three numbers for each
        sum of them.
        """
        saved, (bottom, top) = SavedBytes(precision), self.perceptrons
        inputs = saved.value_bytes * batch * (sum(bottom[:-1]) + sum(top[:-1]))
        # The first layer gives no gradient to the features, so that it needs no weight.
        pairs = [*itertools.pairwise(bottom[1:]), *itertools.pairwise(top)]
        copies = saved.weights(sum(one * other for one, other in pairs))
        tables = INDEX_BYTES * batch * (self.lookups + 3) * len(self.rows)
        # Twice in half the size under autocast, once for each side of the product.
        features = saved.stream_bytes * batch * (len(self.rows) + 1) * self.width
        pair_indices = 2 * INDEX_BYTES * self.interactions
        loss = 2 * FP32_BYTES * batch
        return inputs + copies + tables + features + pair_indices + loss

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return random features, popular rows more often, and whether it was clicked."""
        import torch

        rows = torch.tensor(self.rows)[:, None]
        drawn = torch.rand(len(self.rows), self.lookups, generator=generator) ** self.skew
        # float32 below 1 times an integer can round up to it.
        indices = (drawn.double() * rows).long().clamp_(max=rows - 1)
        clicked = torch.randint(2, (), generator=generator).float()
        return {"dense": torch.randn(self.dense, generator=generator), "indices": indices}, clicked

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the binary cross entropy of a click."""
        from torch.nn import functional

        return functional.binary_cross_entropy_with_logits(output, target)
