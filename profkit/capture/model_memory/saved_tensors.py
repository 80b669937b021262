"""Tensors that autograd saves for the backward pass, with the module whose forward saved them."""

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class SavedTensor:
    """One saved tensor; it lives as long as its node in autograd's graph."""

    __slots__ = ("__weakref__", "module", "number", "tensor")

    def __init__(self, tensor: torch.Tensor, module: int, number: int) -> None:
        self.tensor = tensor
        self.module = module
        self.number = number


class SavedTensors:
    """Lists the saved tensors that are alive, by PyTorch's hooks for saved tensors.

    Later hooks win, such as those of checkpointing and offloading: tensors that these save
    elsewhere, or not at all, are not in the list.
    """

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[SavedTensor] = weakref.WeakSet()
        self.stacks = threading.local()
        self.number = 0

    def hooks(self) -> torch.autograd.graph.saved_tensors_hooks:
        """Return the context that lists the tensors saved inside it."""
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
        """Return the bytes of all live tensors, roughly: shared memory counts again."""
        return sum(saved.tensor.nbytes for saved in list(self.alive))

    def __iter__(self) -> Iterator[SavedTensor]:
        """Yield the live tensors, in the order in which they were saved."""
        return iter(sorted(self.alive, key=lambda saved: saved.number))

    def _pack(self, tensor: torch.Tensor) -> Any:
        # The parameter itself, as autograd does: DeepSpeed's stage 3 frees its data, and gathers
        # it again for the backward pass.
        if tensor.is_leaf and tensor.requires_grad:
            return tensor
        stack = self._stack()
        self.number += 1
        saved = SavedTensor(tensor.detach(), stack[-1] if stack else 0, self.number)
        self.alive.add(saved)
        return saved

    def _stack(self) -> list[int]:
        if not hasattr(self.stacks, "modules"):
            self.stacks.modules = []
        modules: list[int] = self.stacks.modules
        return modules


def _unpack(packed: Any) -> torch.Tensor:
    tensor: torch.Tensor = packed.tensor if isinstance(packed, SavedTensor) else packed
    return tensor
