"""The contract of a model family: sizes as settings, and how to build, feed and score the model.

Families are imported when a plan is checked, so none of them imports torch at its top.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from profkit.core.settings import Settings
from profkit.workloads.models._saved import Computing

if TYPE_CHECKING:
    import torch
    from torch import nn

Inputs: TypeAlias = "dict[str, torch.Tensor]"
"""Arguments of the model's ``forward``, by name."""

Sample: TypeAlias = "tuple[Inputs, torch.Tensor]"
"""What goes in and what should come out, of one sample or of a batch of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFamily(Settings):
    """What a workload needs to know about a model.

    Blocks that repeat belong into an ``nn.ModuleList``: its elements are what FSDP2 gathers one
    by one. A module is called, and computes with no other's parameters: sharded ones are whole
    only inside the ``forward`` of their owner.
    """

    def build(self) -> "nn.Module":
        """Return a new model on the CPU, in fp32, with weights from torch's global generator."""
        raise NotImplementedError

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return one synthetic sample, inputs and target without a batch dimension."""
        raise NotImplementedError

    def loss(self, output: Any, target: "torch.Tensor") -> "torch.Tensor":
        """Return the mean loss of a batch; `output` is what the model returned, in fp32."""
        raise NotImplementedError

    def parameters(self) -> int | None:
        """Return the number of parameters that `build` makes, or None where only that can tell.

        Shared parameters count once. Needs no torch: plans and analyses ask.
        """
        return None

    def activations(self, batch: int, computing: Computing) -> int | None:
        """Return the bytes that autograd saves in one forward pass and its loss, or None.

        Of `batch` samples, run eagerly by the operators that PyTorch has for the host; fused ones
        of a GPU may save less, or pad. Parameters do not count, but the copies that autocast makes
        of them do; what two operators save of one tensor counts once. None where no closed form is
        known. Needs no torch, as above.
        """
        del batch, computing
        return None

    def check(self) -> str:
        """Return why it cannot be built here, or ""; asked when a plan is made."""
        return ""
