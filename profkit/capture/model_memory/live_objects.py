"""Models, optimizers and tensors of this process, whoever made them."""

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from profkit.capture.model_memory.pieces import unwrapped


class Living:
    """Finds what is alive: by the garbage collector's list, and by what hooks have met.

    A program may have hidden its objects from the collector (``gc.freeze``); a model that has run
    and an optimizer that has stepped are known all the same.
    """

    def __init__(self) -> None:
        self.models: weakref.WeakKeyDictionary[nn.Module, None] = weakref.WeakKeyDictionary()
        self.optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self.tensors: list[torch.Tensor] = []

    def look(self) -> None:
        """Look again; `tensors` hold what they find until `forget`."""
        every = gc.get_objects()
        # By type: isinstance would ask the object, and some answer with a warning or an error.
        found: dict[type, list[Any]] = {torch.Tensor: [], nn.Module: [], torch.optim.Optimizer: []}
        kinds = {
            kind: base for kind in set(map(type, every)) for base in found if base in kind.__mro__
        }
        for each in every:
            if type(each) in kinds:
                found[kinds[type(each)]].append(each)
        self.tensors = found[torch.Tensor]
        self.meet(*_outermost(found[nn.Module]))
        self.optimizers.update(found[torch.optim.Optimizer])

    def meet(self, *models: nn.Module) -> None:
        """Take models that are known to be there, of which those in others do not count."""
        for each in models:
            self.models[each] = None

    def forget(self) -> None:
        """Hold no tensor any more."""
        self.tensors = []

    def named_models(self) -> dict[str, nn.Module]:
        """Return the outermost modules that have tensors, by class and, of several, a number."""
        outermost = list(_outermost(self.models))
        for model in outermost:
            if model not in self.names and _has_tensors(model):
                self.names[model] = self._free(type(unwrapped(model)).__name__)
        return {self.names[model]: model for model in outermost if model in self.names}

    def _free(self, name: str) -> str:
        taken = set(self.names.values())
        number = 1
        while (own := name if number == 1 else f"{name} {number}") in taken:
            number += 1
        return own


def _outermost(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Yield the modules that are in no other."""
    every = list(modules)
    inside = {id(child) for module in every for child in _children(module)}
    yield from (each for each in every if id(each) not in inside)


def _children(module: nn.Module) -> Iterator[nn.Module]:
    # A module whose making has failed has no children, not even an empty list.
    held = vars(module).get("_modules") or {}
    yield from (each for each in held.values() if each is not None)


def _has_tensors(module: nn.Module) -> bool:
    if "_parameters" not in vars(module):
        return False
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())
