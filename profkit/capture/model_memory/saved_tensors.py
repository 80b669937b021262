"""What autograd keeps for the backward pass, and the module whose forward pass had it kept."""

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class Saved:
    """One saved tensor; it lives as long as the node of the graph that will use it."""

    __slots__ = ("__weakref__", "module", "number", "tensor")

    def __init__(self, tensor: torch.Tensor, module: int, number: int) -> None:
        self.tensor = tensor
        self.module = module
        self.number = number


class SavedTensors:
    """Keeps the list, by PyTorch's hooks for saved tensors, of those that are alive.

    Hooks that come later win, which is what checkpointing and offloading are made of: what they
    save elsewhere, or not at all, is not in the list.
    """

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Saved] = weakref.WeakSet()
        self.stacks = threading.local()
        self.number = 0

    def hooks(self) -> torch.autograd.graph.saved_tensors_hooks:
        """Return the context in which saved tensors are listed."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def enter(self, module: nn.Module) -> None:
        """Begin the forward pass of `module`."""
        self._stack().append(id(module))

    def leave(self, module: nn.Module) -> None:
        """End the forward pass of `module`, and of those inside it that failed."""
        stack = self._stack()
        while stack and stack.pop() != id(module):
            pass

    def is_outside(self) -> bool:
        """Say whether this thread is in no module's forward pass."""
        return not self._stack()

    def size_bytes(self) -> int:
        """Return the bytes of what is alive, roughly: what is shared counts again."""
        return sum(each.tensor.nbytes for each in list(self.alive))

    def __iter__(self) -> Iterator[Saved]:
        """Yield what is alive, in the order in which it was saved."""
        return iter(sorted(self.alive, key=lambda each: each.number))

    def _pack(self, tensor: torch.Tensor) -> Any:
        # The parameter itself, as autograd does: DeepSpeed's stage 3 frees what its data is, and
        # gathers it again for the backward pass.
        if tensor.is_leaf and tensor.requires_grad:
            return tensor
        stack = self._stack()
        self.number += 1
        saved = Saved(tensor.detach(), stack[-1] if stack else 0, self.number)
        self.alive.add(saved)
        return saved

    def _stack(self) -> list[int]:
        if not hasattr(self.stacks, "modules"):
            self.stacks.modules = []
        modules: list[int] = self.stacks.modules
        return modules


def _unpack(packed: Any) -> torch.Tensor:
    tensor: torch.Tensor = packed.tensor if isinstance(packed, Saved) else packed
    return tensor
