"""The contract of a model family: sizes as settings, and how to build, feed and score the model.

Families are imported when a plan is checked, so none of them imports torch at its top.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profkit.settings import Settings

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFamily(Settings):
    """What a workload needs to know about a model."""

    def build(self) -> "nn.Module":
        """Return a new model on the CPU, in fp32, with weights from torch's global generator."""
        raise NotImplementedError

    def sample(self, generator: "torch.Generator") -> "tuple[torch.Tensor, torch.Tensor]":
        """Return one synthetic sample, input and target without a batch dimension."""
        raise NotImplementedError

    def loss(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """Return the mean loss of a batch."""
        raise NotImplementedError
