"""Tensors of a model in training on this rank: plain, in DDP, or sharded by FSDP2 or DeepSpeed.

Models and optimizers come from PyTorch's global hooks (``register_module_forward_pre_hook`` for
the outermost module, ``register_optimizer_step_pre_hook``), so that scripts stay unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from profkit.capture.model_memory import deepspeed
from profkit.capture.model_memory.claimed_memory import ClaimedMemory
from profkit.capture.model_memory.owned_tensors import (
    ModuleIndex,
    ModulePath,
    OwnedTensor,
    fsdp_parameters,
    index_modules,
    optimizer_states,
    owned,
    unwrap,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelTensors:
    """Tensors of this rank alone: its shards, with their padding."""

    parameters: tuple[torch.Tensor, ...]
    """Parameters of the forward pass, or the shards that they are gathered from."""

    gradients: tuple[torch.Tensor, ...]
    """Gradients that the optimizer has not used yet."""

    masters: tuple[torch.Tensor, ...]
    """Master copies in fp32 that the optimizer updates in place of the parameters."""

    states: tuple[torch.Tensor, ...]
    """States of the optimizer, such as moments."""

    def sizes_bytes(self) -> dict[str, int]:
        """Return the bytes of each kind; memory that two tensors share counts once."""
        return {
            "parameters": _bytes(self.parameters),
            "gradients": _bytes(self.gradients),
            "masters": _bytes(self.masters),
            "states": _bytes(self.states),
        }


def find_tensors(
    models: Mapping[str, nn.Module], optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[OwnedTensor]:
    """Yield the tensors of `models`, by name, and of `optimizers` on this rank.

    Parameters, buffers, gradients, masters and states; plain, in DDP, sharded by FSDP2,
    ZeroRedundancyOptimizer or DeepSpeed's stages 0 to 3.
    """
    index = index_modules(models)
    for name, model in models.items():
        if deepspeed.is_engine(model):
            yield from deepspeed.find_tensors(name, model, index)
        else:
            yield from _parameters(name, model, index)
        yield from _buffers(name, model)
    for optimizer in optimizers:
        # ZeroRedundancyOptimizer steps the optimizer of this rank's share.
        yield from optimizer_states(getattr(optimizer, "optim", optimizer), index)


def find_model_tensors(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> ModelTensors:
    """Return the tensors of `model` on this rank: plain, in DDP, sharded by FSDP2 or DeepSpeed."""
    found = list(find_tensors({"": model}, optimizers))
    return ModelTensors(
        parameters=tuple(_of_kind("parameters", found)),
        gradients=tuple(_of_kind("gradients", found)),
        masters=tuple(_of_kind("masters", found)),
        states=tuple(_of_kind("states", found)),
    )


def _parameters(name: str, model: nn.Module, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield parameters and gradients of a model that is plain, in DDP or sharded by FSDP2."""
    known: set[int] = set()
    for sharded in fsdp_parameters(model):
        shard = sharded.sharded_param
        owner = index.owner_of(shard)
        whole = getattr(sharded, "_unsharded_param", None)
        known |= {id(shard), id(whole)}
        yield from owned("parameters", owner, shard, shard.numel())
        yield from owned("gathered", owner, whole)
        grads = (shard.grad, getattr(whole, "grad", None), sharded.unsharded_accumulated_grad)
        yield from owned("gradients", owner, [grad for grad in grads if grad is not None])
    for parameter in model.parameters():
        # A lazy one has no size before the first call of its module.
        if id(parameter) not in known and not is_lazy(parameter):
            owner = index.owner_by_parameter.get(id(parameter), ModulePath(name, ""))
            yield from owned("parameters", owner, parameter, parameter.numel())
            yield from owned("gradients", owner, parameter.grad if parameter.is_leaf else None)


def _buffers(name: str, model: nn.Module) -> Iterator[OwnedTensor]:
    """Yield the buffers of each module of `model`."""
    for path, module in unwrap(model).named_modules():
        yield from owned("buffers", ModulePath(name, path), module._buffers)  # noqa: SLF001


def _of_kind(kind: str, found: Sequence[OwnedTensor]) -> Iterator[torch.Tensor]:
    return (part.tensor for part in found if part.kind == kind)


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Return the size of the union: some are views of others, such as parts of a flat buffer."""
    claimed = ClaimedMemory()
    return sum(claimed.claim(tensor) for tensor in tensors)
