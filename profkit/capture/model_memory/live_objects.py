"""Models, optimizers and tensors of this process, of any origin."""

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from profkit.capture.model_memory.owned_tensors import unwrap


class LiveObjects:
    """Live objects: those of the garbage collector's list, and those that hooks have seen.

    A program may have hidden its objects from the collector (``gc.freeze``); hooks still see a
    model that runs and an optimizer that steps.
    """

    def __init__(self) -> None:
        self.models: weakref.WeakKeyDictionary[nn.Module, None] = weakref.WeakKeyDictionary()
        self.optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self.tensors: list[torch.Tensor] = []

    def refresh(self) -> None:
        """Search again; `tensors` keep the result until `release_tensors`."""
        objects = gc.get_objects()
        # By type: isinstance would ask the object, and some answer with a warning or an error.
        found: dict[type, list[Any]] = {torch.Tensor: [], nn.Module: [], torch.optim.Optimizer: []}
        kinds = {
            kind: base for kind in set(map(type, objects)) for base in found if base in kind.__mro__
        }
        for candidate in objects:
            if type(candidate) in kinds:
                found[kinds[type(candidate)]].append(candidate)
        self.tensors = found[torch.Tensor]
        self.add_models(*_outermost(found[nn.Module]))
        self.optimizers.update(found[torch.optim.Optimizer])

    def add_models(self, *models: nn.Module) -> None:
        """Add models, without those that are modules of others."""
        for model in models:
            self.models[model] = None

    def release_tensors(self) -> None:
        """Drop all references to tensors."""
        self.tensors = []

    def named_models(self) -> dict[str, nn.Module]:
        """Return the outermost modules that have tensors, by class and, of several, a number."""
        outermost = list(_outermost(self.models))
        for model in outermost:
            if model not in self.names and _has_tensors(model):
                self.names[model] = self._free(type(unwrap(model)).__name__)
        return {self.names[model]: model for model in outermost if model in self.names}

    def _free(self, name: str) -> str:
        taken = set(self.names.values())
        number = 1
        while (own := name if number == 1 else f"{name} {number}") in taken:
            number += 1
        return own


def _outermost(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Yield the modules that are in no other."""
    candidates = list(modules)
    inside = {id(child) for module in candidates for child in _children(module)}
    yield from (module for module in candidates if id(module) not in inside)


def _children(module: nn.Module) -> Iterator[nn.Module]:
    # A module whose constructor failed has no children, not even an empty list.
    children = vars(module).get("_modules") or {}
    yield from (child for child in children.values() if child is not None)


def _has_tensors(module: nn.Module) -> bool:
    if "_parameters" not in vars(module):
        return False
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())
