"""Tensors that DeepSpeed's engine keeps in place of parameters, gradients and states.

Its optimizers flatten the tensors of many modules into one; where they record the position of
each parameter, modules get their part of it.
"""

from collections.abc import Iterator
from typing import Any

from profkit.capture.model_memory.owned_tensors import (
    Kind,
    ModuleIndex,
    ModulePath,
    OwnedTensor,
    optimizer_states,
    owned,
)

_ENGINE = "deepspeed.runtime.engine"
_MASTERS = (
    # Stages 1 and 2, stage 3, bf16 without stages, fp16 without stages.
    "single_partition_of_fp32_groups",
    "fp32_partitioned_groups_flat",
    "fp32_groups_flat_partition",
    "fp32_groups_flat",
)
_GRADIENTS = ("averaged_gradients", "grad_partitions_flat_buffer", "fp32_groups_gradients_flat")


def is_engine(model: object) -> bool:
    """Say whether ``deepspeed.initialize`` made `model`."""
    return any(kind.__module__ == _ENGINE for kind in type(model).__mro__)


def find_tensors(name: str, engine: Any, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield parameters, gradients, masters, states and buckets of `engine` on this rank."""
    optimizer, root = engine.optimizer, ModulePath(name, "")
    for parameter in engine.parameters():
        owner, size = index.owner_of(parameter), _size(parameter)
        shard = getattr(parameter, "ds_tensor", None)
        yield from owned("parameters" if shard is None else "gathered", owner, parameter.data, size)
        yield from owned("parameters", owner, shard, size)
    yield from _fragments(engine, index)
    yield from _slices(engine, index)
    masters = [getattr(optimizer, attribute, ()) for attribute in _MASTERS]
    yield from owned("masters", root, masters)
    yield from _listed_gradients(optimizer, index)
    gradients = [getattr(optimizer, attribute, None) for attribute in _GRADIENTS]
    yield from owned("gradients", root, gradients)
    for parameter in engine.parameters():
        yield from owned("gradients", index.owner_of(parameter), parameter.grad)
    yield from owned("gradients", root, [master.grad for master in _leaves(masters)])
    base = getattr(optimizer, "optimizer", optimizer)
    for state in optimizer_states(base, index):
        yield state if state.model else _rooted(state, name)
    yield from owned("buckets", root, _buckets(optimizer))


def _size(parameter: Any) -> int:
    """Return the elements on all ranks together; stage 3 leaves an empty tensor in its place."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _rooted(state: OwnedTensor, name: str) -> OwnedTensor:
    return OwnedTensor(kind=state.kind, tensor=state.tensor, model=name)


def _fragments(engine: Any, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield the parts of masters and states that stages 1 and 2 have linked to parameters."""
    for parameter in engine.parameters():
        linked = getattr(parameter, "_hp_mapping", None)
        if linked is not None:
            owner = index.owner_of(parameter)
            yield from owned("masters", owner, linked.hp_fragment)
            yield from owned("states", owner, linked.optim_fragment)


def _slices(engine: Any, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield the parts of stage 3's flat tensors, which it finds by group, offset and length."""
    optimizer = engine.optimizer
    flat = getattr(optimizer, "fp32_partitioned_groups_flat", None)
    if flat is None:
        return
    grads = getattr(optimizer, "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition", {})
    for parameter in engine.parameters():
        owner = index.owner_of(parameter)
        group, offset, length = optimizer.grad_position[optimizer.get_param_id(parameter)]
        master = flat[group]
        states = optimizer.optimizer.state.get(master, {})
        of_whole: list[tuple[Kind, Any]] = [("masters", master)]
        of_whole += [("states", state) for state in states.values()]
        for kind, whole in of_whole:
            # Counters of steps are too small; a tensor that is offloaded to a disk is empty.
            if hasattr(whole, "narrow") and whole.dim() == 1 and len(whole) >= offset + length:
                yield from owned(kind, owner, whole.narrow(0, offset, length))
        yield from owned("gradients", owner, grads.get(parameter.ds_id))


def _listed_gradients(optimizer: Any, index: ModuleIndex) -> Iterator[OwnedTensor]:
    """Yield the gradients that stages 1 and 2 keep, a list in the order of the parameters."""
    by_group = getattr(optimizer, "averaged_gradients", None) or {}
    parameters = getattr(optimizer, "params_in_partition", ())
    for group, grads in by_group.items():
        if isinstance(grads, list) and group < len(parameters):
            # After the parameters' gradients comes padding.
            for parameter, grad in zip(parameters[group], grads, strict=False):
                yield from owned("gradients", index.owner_of(parameter), grad)


def _leaves(values: Any) -> Iterator[Any]:
    """Yield the tensors in lists of lists, distributed ones whole."""
    if isinstance(values, list | tuple):
        for value in values:
            yield from _leaves(value)
    elif values is not None:
        yield values


def _buckets(optimizer: Any) -> list[Any]:
    """Return the buffers in which gradients are collected to be reduced together."""
    buckets = getattr(optimizer, "ipg_buckets", None) or {}
    buffers = [getattr(bucket, "buffer", None) for bucket in buckets.values()]
    return [buffer for buffer in buffers if buffer is not None]
