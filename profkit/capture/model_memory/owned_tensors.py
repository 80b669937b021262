"""Tensors of models and optimizers, each with its kind and the module that it belongs to.

They come in the order in which they claim memory: a view of a flat buffer before the buffer, so
that a module gets its part of it and the root gets the rest, which is padding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from profkit.capture.model_memory.claimed_memory import tensors_with_memory

Kind = Literal["parameters", "gathered", "masters", "gradients", "states", "buffers", "buckets"]

_WRAPPERS = {
    "torch.nn.parallel.distributed": "module",
    "torch.nn.parallel.data_parallel": "module",
    "deepspeed.runtime.engine": "module",
    "torch._dynamo.eval_frame": "_orig_mod",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnedTensor:
    """A tensor with memory of its own on this rank."""

    kind: Kind
    """Its use; gathered are whole parameters of which this rank also keeps a shard."""

    tensor: torch.Tensor

    model: str = ""
    """Name of the model; "" if it belongs to none."""

    path: str = ""
    """Module of the model, names joined by dots; "" is the model itself."""

    elements: int = 0
    """Of a parameter, its elements on all ranks together."""


@dataclass(frozen=True, slots=True)
class ModulePath:
    """A module in the tree of a model."""

    model: str
    path: str


@dataclass(frozen=True, slots=True)
class ModuleIndex:
    """Modules of all models, and the module that each parameter belongs to."""

    owner_by_parameter: dict[int, ModulePath]
    """Module of each parameter, whole or sharded, by the parameter's id."""

    path_by_module: dict[int, ModulePath]
    """Path of each module, by its id."""

    def owner_of(self, parameter: Any) -> ModulePath:
        """Return the module of a parameter; an empty path if it belongs to no model."""
        return self.owner_by_parameter.get(id(parameter), ModulePath("", ""))


def unwrap(model: nn.Module) -> nn.Module:
    """Return the model inside DDP, DeepSpeed's engine and ``torch.compile``."""
    inner = next(
        (
            getattr(model, name)
            for kind in type(model).__mro__
            if (name := _WRAPPERS.get(kind.__module__)) and hasattr(model, name)
        ),
        None,
    )
    return model if inner is None else unwrap(inner)


def index_modules(models: Mapping[str, nn.Module]) -> ModuleIndex:
    """Return the path of each module and the module of each parameter; the first if it is tied."""
    index = ModuleIndex(owner_by_parameter={}, path_by_module={})
    for name, model in models.items():
        for path, module in unwrap(model).named_modules():
            owner = ModulePath(name, path)
            index.path_by_module.setdefault(id(module), owner)
            for parameter in module._parameters.values():  # noqa: SLF001 - without its children's
                index.owner_by_parameter.setdefault(id(parameter), owner)
        for sharded in fsdp_parameters(model):
            module_id = id(sharded._module_info.module)  # noqa: SLF001
            owner = index.path_by_module.get(module_id, ModulePath(name, ""))
            index.owner_by_parameter.setdefault(id(sharded.sharded_param), owner)
    return index


def owned(kind: Kind, owner: ModulePath, values: Any, elements: int = 0) -> Iterator[OwnedTensor]:
    """Yield each tensor in `values`, of any nesting, for `owner`; the first has the `elements`."""
    for tensor in local_tensors(values):
        yield OwnedTensor(
            kind=kind, tensor=tensor, model=owner.model, path=owner.path, elements=elements
        )
        elements = 0


def local_tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in `values`, of distributed ones the part on this rank."""
    if isinstance(values, torch.Tensor):
        yield from tensors_with_memory(values)
    elif isinstance(values, dict):
        yield from local_tensors(list(values.values()))
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for value in values:
            yield from local_tensors(value)


def optimizer_states(optimizer: Any, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield the states of an optimizer, each for the module of its parameter."""
    for parameter, state in optimizer.state.items():
        yield from owned("states", index.owner_of(parameter), state)


def fsdp_parameters(model: nn.Module) -> Iterator[Any]:
    """Yield FSDP2's object for each parameter that it shards."""
    for module in model.modules():
        # Only modules that it shards have this; its return value is not public.
        get_state: Any = getattr(module, "_get_fsdp_state", None)
        for group in _parameter_groups(get_state() if get_state else None):
            yield from group.fsdp_params


def _parameter_groups(state: Any) -> Sequence[Any]:
    # Since 2.12 there can be several.
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return list(several)
    one = getattr(state, "_fsdp_param_group", None)
    return [] if one is None else [one]
