"""plain: parameters, gradients and buffers of a model that is plain, in DDP or sharded by FSDP2."""

from collections.abc import Iterator

from torch import nn
from torch.nn.parameter import is_lazy

from profkit.capture.model_memory.pieces import Named, Owner, Piece, made, sharded, unwrapped


def parameters(name: str, model: nn.Module, places: Named) -> Iterator[Piece]:
    """Yield parameters and gradients of a model that is plain, in DDP or sharded by FSDP2."""
    known: set[int] = set()
    for each in sharded(model):
        shard = each.sharded_param
        owner = places.owner(shard)
        whole = getattr(each, "_unsharded_param", None)
        known |= {id(shard), id(whole)}
        yield from made("parameters", owner, shard, shard.numel())
        yield from made("gathered", owner, whole)
        grads = (shard.grad, getattr(whole, "grad", None), each.unsharded_accumulated_grad)
        yield from made("gradients", owner, [each for each in grads if each is not None])
    for parameter in model.parameters():
        # A lazy one has no size before the first call of its module.
        if id(parameter) not in known and not is_lazy(parameter):
            owner = places.owners.get(id(parameter), Owner(name, ""))
            yield from made("parameters", owner, parameter, parameter.numel())
            yield from made("gradients", owner, parameter.grad if parameter.is_leaf else None)


def buffers(name: str, model: nn.Module) -> Iterator[Piece]:
    """Yield the buffers of each module of `model`."""
    for path, module in unwrapped(model).named_modules():
        yield from made("buffers", Owner(name, path), module._buffers)  # noqa: SLF001
