"""Tensors of a model in training on this rank: plain, in DDP, or sharded by FSDP2 or DeepSpeed.

Models and optimizers come from PyTorch's global hooks (``register_module_forward_pre_hook`` for
the outermost module, ``register_optimizer_step_pre_hook``), so that scripts stay unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from profkit.capture.model_memory import deepspeed
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
