"""Base class of model families: sizes as settings; builds, feeds and scores the model.

Families are imported when a plan is checked, so none of them imports torch at its top.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from profkit.core.settings import Settings
from profkit.workloads.models._saved_bytes import ComputePrecision

if TYPE_CHECKING:
    import torch
    from torch import nn

Inputs: TypeAlias = "dict[str, torch.Tensor]"
"""Arguments of the model's ``forward``, by name."""

Sample: TypeAlias = "tuple[Inputs, torch.Tensor]"
"""Inputs and target of one sample, or of a batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFamily(Settings):
    """Inherit, call it ``Model``, and add sizes.

    Blocks that repeat belong into an ``nn.ModuleList``: FSDP2 gathers its elements one by one. A
    module must not use the parameters of another one: sharded parameters are whole only inside
    the ``forward`` of the module that they belong to.
    """

    def build(self) -> "nn.Module":
        """Return a new model on the CPU, in fp32, with weights from torch's global generator."""
        raise NotImplementedError

    def sample(self, generator: "torch.Generator") -> Sample:
        """Return one synthetic sample, inputs and target without a batch dimension."""
        raise NotImplementedError

    def loss(self, output: Any, target: "torch.Tensor") -> "torch.Tensor":
        """Return the mean loss of a batch; `output` is the model's, in fp32."""
        raise NotImplementedError

    def parameter_count(self) -> int | None:
        """Return the number of parameters of the model, or None if that takes building it.

        Shared parameters count once. Must not import torch: plans and analyses call this.
        """
        return None

    def activation_bytes(self, batch: int, precision: ComputePrecision) -> int | None:
        """Return the bytes that autograd saves in one forward pass and its loss, or None.

        For `batch` samples, run eagerly by PyTorch's operators for the CPU; fused operators of a
        GPU may save less, or pad. Parameters do not count, but the copies that autocast makes of
        them do; a tensor that two operators save counts once. None if no formula is known. Must
        not import torch, as above.
        """
        del batch, precision
        return None

    def check(self) -> str:
        """Return why it cannot be built here, or ""; asked when a plan is made."""
        return ""
