"""The contract of a backend: it takes a model, and trains its part of it on each rank.

Backends are imported when a plan is checked, so none of them imports torch at its top.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from functools import partial

    import torch
    from torch import nn

    from profkit.workloads.models._saved import Computing
    from profkit.workloads.models.base import Inputs
    from profkit.workloads.runtime.process import Process
    from profkit.workloads.zero import Zero

Rule: TypeAlias = "partial[torch.optim.Optimizer]"
"""How parameters are updated: an optimizer that has all its arguments but the parameters."""


class Engine:
    """A model in training as one backend keeps it on this rank, with its optimizer.

    The workload marks the phases; what an engine communicates happens where its library does it.
    """

    def __init__(
        self, process: "Process", model: "nn.Module", optimizer: "torch.optim.Optimizer"
    ) -> None:
        self.process = process
        self.model = model
        self.optimizer = optimizer

    def micro_batch(self, *, last: bool) -> AbstractContextManager[object]:
        """Prepare for one forward and backward pass, the `last` before an optimizer step or not."""
        del last
        return nullcontext()

    def forward(self, inputs: "Inputs") -> Any:
        """Return the model's output, with its floating point tensors in fp32 for the loss."""
        raise NotImplementedError

    def backward(self, loss: "torch.Tensor") -> None:
        """Add the gradients of `loss`, as one of the step's micro-batches."""
        import torch

        torch.autograd.backward(loss / self.process.request.grad_accumulation)

    def step(self) -> None:
        """Update the parameters and forget the gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Bytes per parameter of the model that each rank holds at the end of a backward pass.

    Padding and the difference between ranks come on top; the tool ``memory_layers`` measures the
    same.
    """

    parameters: float
    """What the forward pass computes with, or is gathered from."""

    gradients: float
    """Gradients until the optimizer uses them."""

    masters: float
    """Copies in fp32 that the optimizer updates in place of the parameters."""

    states: float
    """What the optimizer remembers."""


class Backend:
    """Inherit and override all; the module's docstring says when a rank holds more."""

    def lacks(self, stage: int, offload: str) -> str:
        """Return what this library has not got of that, or ""; asked when a plan is made."""
        raise NotImplementedError

    def shares(self, zero: "Zero", ranks: int, precision: str, moments: int) -> Shares:
        """Return what each of `ranks` holds if the optimizer keeps `moments` per parameter."""
        raise NotImplementedError

    def computing(self, zero: "Zero", precision: str) -> "Computing":
        """Return what the forward pass computes in: how it saves what it saves depends on it."""
        raise NotImplementedError

    def engine(self, process: "Process", model: "nn.Module", rule: Rule) -> Engine:
        """Return `model`, built alike on every rank, distributed as ``request.zero`` says."""
        raise NotImplementedError


def in_fp32(output: Any) -> Any:
    """Return `output`, of any nesting, with its floating point tensors in fp32."""
    import torch
    from torch.utils import _pytree as pytree

    def widened(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.float() if is_float else leaf

    return pytree.tree_map(widened, output)


def cast_statistics(model: "nn.Module", dtype: "torch.dtype") -> None:
    """Keep the running statistics of batch norms in `dtype`, as their parameters will be.

    Backends cast parameters and leave buffers, and ``batch_norm`` refuses the two of different
    types. Training normalises with the statistics of the batch, so that this changes no loss.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    for module in model.modules():
        if isinstance(module, _BatchNorm):
            for name in ("running_mean", "running_var"):
                buffer = getattr(module, name)
                setattr(module, name, buffer if buffer is None else buffer.to(dtype))
