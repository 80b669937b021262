"""Base class of ZeRO backends: they distribute a model and train it on each rank.

Backends are imported when a plan is checked, so none of them imports torch at its top.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from functools import partial

    import torch
    from torch import nn

    from profkit.workloads.models._saved_bytes import ComputePrecision
    from profkit.workloads.models.base import Inputs
    from profkit.workloads.runtime.process import Process
    from profkit.workloads.zero import Zero

OptimizerFactory: TypeAlias = "partial[torch.optim.Optimizer]"
"""An optimizer class with all of its arguments but the parameters."""


class Engine:
    """A distributed model in training on this rank, with its optimizer.

    The workload marks the phases; communication happens where the backend's library has it.
    """

    def __init__(
        self, process: "Process", model: "nn.Module", optimizer: "torch.optim.Optimizer"
    ) -> None:
        import torch

        self.process = process
        self.model = model
        self.optimizer = optimizer
        # Gradients in fp16 are too small for its range unless the loss is scaled.
        is_fp16 = process.compute_dtype == torch.float16
        self.scaler = torch.amp.GradScaler(process.device.type, enabled=is_fp16)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[object]:
        """Return the context of one forward and backward pass; `last` before an optimizer step."""
        del last
        return nullcontext()

    def forward(self, inputs: "Inputs") -> Any:
        """Return the model's output, with its floating point tensors in fp32 for the loss."""
        raise NotImplementedError

    def backward(self, loss: "torch.Tensor") -> None:
        """Add the gradients of `loss`, as one of the step's micro-batches."""
        import torch

        share = loss / self.process.request.grad_accumulation
        torch.autograd.backward(self.scaler.scale(share))

    def step(self) -> None:
        """Update the parameters and reset the gradients."""
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


@dataclass(frozen=True, kw_only=True, slots=True)
class BytesPerParameter:
    """Bytes of each kind on a rank at the end of a backward pass, per parameter of the model.

    Padding and differences between ranks come on top; the tool ``memory_layers`` measures the
    same.
    """

    parameters: float
    """Parameters of the forward pass, or the shards that they are gathered from."""

    gradients: float
    """Gradients until the optimizer uses them."""

    masters: float
    """Master copies in fp32 that the optimizer updates in place of the parameters."""

    states: float
    """States of the optimizer, such as moments."""


class Backend:
    """Inherit, call it ``Backend``, and override all methods."""

    def check(self, stage: int, offload: str) -> str:
        """Return what this library does not support, or ""; called when a plan is made."""
        raise NotImplementedError

    def bytes_per_parameter(
        self, zero: "Zero", ranks: int, precision: str, moments: int
    ) -> BytesPerParameter:
        """Return the memory of each of `ranks`; the optimizer keeps `moments` per parameter."""
        raise NotImplementedError

    def compute_precision(self, zero: "Zero", precision: str) -> "ComputePrecision":
        """Return the precision of the forward pass, for `ModelFamily.activation_bytes`."""
        raise NotImplementedError

    def engine(
        self, process: "Process", model: "nn.Module", optimizer_factory: OptimizerFactory
    ) -> Engine:
        """Return `model`, which is the same on every rank, distributed by ``request.zero``."""
        raise NotImplementedError


def to_fp32(output: Any) -> Any:
    """Return `output`, of any nesting, with its floating point tensors in fp32."""
    import torch
    from torch.utils import _pytree as pytree

    def leaf_to_fp32(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.float() if is_float else leaf

    return pytree.tree_map(leaf_to_fp32, output)


def cast_batch_norm_statistics(model: "nn.Module", dtype: "torch.dtype") -> None:
    """Cast the running statistics of batch norms to `dtype`, the type of their parameters.

    Backends cast parameters but not buffers, and ``batch_norm`` rejects a mix of types. Training
    normalises with the statistics of the batch, so that this changes no loss.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    for module in model.modules():
        if isinstance(module, _BatchNorm):
            for name in ("running_mean", "running_var"):
                buffer = getattr(module, name)
                setattr(module, name, buffer if buffer is None else buffer.to(dtype))
