"""deepspeed: what DeepSpeed's engine keeps in place of parameters, gradients and states.

Its optimizers flatten the tensors of many modules into one; where they keep a list of which
parameter lies where, modules get their part of it.
"""

from collections.abc import Iterator
from typing import Any

from profkit.capture.model_memory.pieces import Kind, Named, Owner, Piece, made, states

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
    """Say whether `model` is what ``deepspeed.initialize`` returns."""
    return any(each.__module__ == _ENGINE for each in type(model).__mro__)


def pieces(name: str, engine: Any, places: Named) -> Iterator[Piece]:
    """Yield what this rank holds of the parameters of `engine`, and of what goes with them."""
    optimizer, root = engine.optimizer, Owner(name, "")
    for each in engine.parameters():
        owner = places.owner(each)
        shard = getattr(each, "ds_tensor", None)
        yield from made(
            "parameters" if shard is None else "gathered", owner, each.data, _size(each)
        )
        yield from made("parameters", owner, shard, _size(each))
    yield from _fragments(engine, places)
    yield from _slices(engine, places)
    masters = [getattr(optimizer, each, ()) for each in _MASTERS]
    yield from made("masters", root, masters)
    yield from _listed_gradients(optimizer, places)
    yield from made("gradients", root, [getattr(optimizer, each, None) for each in _GRADIENTS])
    for each in engine.parameters():
        yield from made("gradients", places.owner(each), each.grad)
    yield from made("gradients", root, [each.grad for each in _leaves(masters)])
    base = getattr(optimizer, "optimizer", optimizer)
    yield from (each if each.model else _rooted(each, name) for each in states(base, places))
    yield from made("buckets", root, _buckets(optimizer))


def _size(parameter: Any) -> int:
    """Return the elements on all ranks together; stage 3 leaves an empty tensor in its place."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _rooted(piece: Piece, name: str) -> Piece:
    return Piece(kind=piece.kind, tensor=piece.tensor, model=name)


def _fragments(engine: Any, places: Named) -> Iterator[Piece]:
    """Yield the parts of masters and states that stages 1 and 2 have linked to parameters."""
    for each in engine.parameters():
        linked = getattr(each, "_hp_mapping", None)
        if linked is not None:
            owner = places.owner(each)
            yield from made("masters", owner, linked.hp_fragment)
            yield from made("states", owner, linked.optim_fragment)


def _slices(engine: Any, places: Named) -> Iterator[Piece]:
    """Yield the parts of stage 3's flat tensors, which it finds by group, offset and length."""
    optimizer = engine.optimizer
    flat = getattr(optimizer, "fp32_partitioned_groups_flat", None)
    if flat is None:
        return
    grads = getattr(optimizer, "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition", {})
    for each in engine.parameters():
        owner = places.owner(each)
        group, offset, length = optimizer.grad_position[optimizer.get_param_id(each)]
        master = flat[group]
        kept = optimizer.optimizer.state.get(master, {})
        of_whole: list[tuple[Kind, Any]] = [("masters", master)]
        of_whole += [("states", state) for state in kept.values()]
        for kind, whole in of_whole:
            # Counters of steps are as small as can be; what is offloaded to a disk is empty.
            if hasattr(whole, "narrow") and whole.dim() == 1 and len(whole) >= offset + length:
                yield from made(kind, owner, whole.narrow(0, offset, length))
        yield from made("gradients", owner, grads.get(each.ds_id))


def _listed_gradients(optimizer: Any, places: Named) -> Iterator[Piece]:
    """Yield the gradients that stages 1 and 2 keep, a list in the order of the parameters."""
    kept = getattr(optimizer, "averaged_gradients", None) or {}
    parameters = getattr(optimizer, "params_in_partition", ())
    for group, grads in kept.items():
        if isinstance(grads, list) and group < len(parameters):
            # What follows the parameters' gradients is padding.
            for each, grad in zip(parameters[group], grads, strict=False):
                yield from made("gradients", places.owner(each), grad)


def _leaves(values: Any) -> Iterator[Any]:
    """Yield the tensors in lists of lists, themselves and not what they are made of."""
    if isinstance(values, list | tuple):
        for each in values:
            yield from _leaves(each)
    elif values is not None:
        yield values


def _buckets(optimizer: Any) -> list[Any]:
    """Return the buffers in which gradients are collected to be reduced together."""
    kept = getattr(optimizer, "ipg_buckets", None) or {}
    found = [getattr(each, "buffer", None) for each in kept.values()]
    return [each for each in found if each is not None]
