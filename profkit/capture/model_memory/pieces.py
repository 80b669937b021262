"""pieces: tensors of models and optimizers, each with its kind and the module that it belongs to.

Pieces come in the order in which they claim memory: what is a view of a flat buffer before the
buffer, so that a module gets its part of it and the root what is left, which is padding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from profkit.capture.model_memory.extents import dense

Kind = Literal["parameters", "gathered", "masters", "gradients", "states", "buffers", "buckets"]

_WRAPPERS = {
    "torch.nn.parallel.distributed": "module",
    "torch.nn.parallel.data_parallel": "module",
    "deepspeed.runtime.engine": "module",
    "torch._dynamo.eval_frame": "_orig_mod",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A tensor with memory of its own on this rank."""

    kind: Kind
    """What it is for; gathered are whole parameters of which this rank keeps a shard besides."""

    tensor: torch.Tensor

    model: str = ""
    """Name of the model; "" if it belongs to none."""

    path: str = ""
    """Module of the model, names joined by dots; "" is the model itself."""

    elements: int = 0
    """Of a parameter, its elements on all ranks together."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A module in the tree of a model."""

    model: str
    path: str


@dataclass(frozen=True, slots=True)
class Named:
    """What is known of the models before looking at what holds their tensors."""

    owners: dict[int, Owner]
    """Owner of each parameter, whole or sharded, by the parameter's id."""

    modules: dict[int, Owner]
    """Place of each module, by its id."""

    def owner(self, parameter: Any) -> Owner:
        """Return the owner of a parameter; nobody's belongs to no model."""
        return self.owners.get(id(parameter), Owner("", ""))


def unwrapped(model: nn.Module) -> nn.Module:
    """Return what is inside DDP, DeepSpeed's engine and ``torch.compile``."""
    inner = next(
        (
            getattr(model, name)
            for kind in type(model).__mro__
            if (name := _WRAPPERS.get(kind.__module__)) and hasattr(model, name)
        ),
        None,
    )
    return model if inner is None else unwrapped(inner)


def named(models: Mapping[str, nn.Module]) -> Named:
    """Return the place of each module, and the owner of each parameter: of tied ones the first."""
    found = Named(owners={}, modules={})
    for name, model in models.items():
        for path, module in unwrapped(model).named_modules():
            owner = Owner(name, path)
            found.modules.setdefault(id(module), owner)
            for each in module._parameters.values():  # noqa: SLF001 - its own, not its children's
                found.owners.setdefault(id(each), owner)
        for each in sharded(model):
            owner = found.modules.get(id(each._module_info.module), Owner(name, ""))  # noqa: SLF001
            found.owners.setdefault(id(each.sharded_param), owner)
    return found


def made(kind: Kind, owner: Owner, values: Any, elements: int = 0) -> Iterator[Piece]:
    """Yield a piece for each tensor in `values`, of any nesting; the first has the `elements`."""
    for tensor in tensors(values):
        yield Piece(kind=kind, tensor=tensor, model=owner.model, path=owner.path, elements=elements)
        elements = 0


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in `values`, of distributed ones the part that is here."""
    if isinstance(values, torch.Tensor):
        yield from dense(values)
    elif isinstance(values, dict):
        yield from tensors(list(values.values()))
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for each in values:
            yield from tensors(each)


def states(optimizer: Any, places: Named) -> Iterator[Piece]:
    """Yield what an optimizer remembers, by the parameter that it remembers it of."""
    for parameter, state in optimizer.state.items():
        yield from made("states", places.owner(parameter), state)


def sharded(model: nn.Module) -> Iterator[Any]:
    """Yield what FSDP2 keeps of each parameter that it shards."""
    for module in model.modules():
        # Only modules that it shards have this; what it returns is not public.
        known: Any = getattr(module, "_get_fsdp_state", None)
        for group in _groups(known() if known else None):
            yield from group.fsdp_params


def _groups(state: Any) -> Sequence[Any]:
    # Since 2.12 there can be several.
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return list(several)
    one = getattr(state, "_fsdp_param_group", None)
    return [] if one is None else [one]
