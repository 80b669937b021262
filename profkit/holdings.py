"""What of a model in training this rank holds, as tensors: whoever shards it, by whatever script.

Takes what PyTorch's global hooks hand out (``register_module_forward_pre_hook`` the outermost
module, ``register_optimizer_step_pre_hook`` the optimizers), so that no script has to say it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

_ENGINE = "deepspeed.runtime.engine"


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """Tensors of this rank alone: shards are what it has of them, with their padding."""

    parameters: "tuple[torch.Tensor, ...]"
    """What the forward pass computes with, or is gathered from."""

    gradients: "tuple[torch.Tensor, ...]"
    """Gradients that have not been used up yet."""

    masters: "tuple[torch.Tensor, ...]"
    """Copies of parameters in fp32 that the optimizer updates in their stead."""

    states: "tuple[torch.Tensor, ...]"
    """What the optimizer remembers, such as moments."""

    def sizes_bytes(self) -> dict[str, int]:
        """Return the bytes of each kind; what is in two tensors counts once."""
        return {
            "parameters": _bytes(self.parameters),
            "gradients": _bytes(self.gradients),
            "masters": _bytes(self.masters),
            "states": _bytes(self.states),
        }


def held(model: "nn.Module", optimizers: "Sequence[torch.optim.Optimizer]") -> Holdings:
    """Return what this rank holds of `model`: plain, in DDP, sharded by FSDP2 or DeepSpeed."""
    if any(each.__module__ == _ENGINE for each in type(model).__mro__):
        return _held_by_deepspeed(model)
    parameters = list(model.parameters())
    # ZeroRedundancyOptimizer steps the optimizer of this rank's share.
    own = [getattr(each, "optim", each) for each in optimizers]
    return Holdings(
        parameters=_tensors(parameters),
        gradients=_tensors(each.grad for each in parameters),
        masters=(),
        states=_tensors(each.state for each in own),
    )


def _held_by_deepspeed(engine: Any) -> Holdings:
    """Return what ``optimizer`` of the engine keeps in place of parameters and gradients."""
    parameters, optimizer = list(engine.parameters()), engine.optimizer
    masters = [
        getattr(optimizer, name, ())
        # Stages 1 and 2, and stage 3.
        for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat")
    ]
    shards = [getattr(each, "ds_tensor", None) for each in parameters]
    kept = [getattr(optimizer, "averaged_gradients", ())]
    kept.append(getattr(optimizer, "grad_partitions_flat_buffer", None))
    kept += [each.grad for each in (*parameters, *_tensors(masters))]
    return Holdings(
        parameters=_tensors([parameters, shards]),
        gradients=_tensors(kept),
        masters=_tensors(masters),
        states=_tensors(getattr(optimizer, "optimizer", optimizer).state),
    )


def _tensors(values: Any) -> "tuple[torch.Tensor, ...]":
    return tuple(_found(values))


def _found(values: Any) -> "Iterator[torch.Tensor]":
    """Yield the tensors in `values`, of distributed ones the part that is here."""
    import torch  # noqa: PLC0415 - plans and analyses import what imports this

    if isinstance(values, torch.Tensor):
        yield values.to_local() if hasattr(values, "to_local") else values
    elif isinstance(values, dict):
        yield from _found(values.values())
    elif isinstance(values, Iterable) and not isinstance(values, str):
        for each in values:
            yield from _found(each)


def _bytes(tensors: "Iterable[torch.Tensor]") -> int:
    """Return the size of the union: some are views of others, such as parts of a flat buffer."""
    total = covered = 0
    for start, size in sorted((each.data_ptr(), each.nbytes) for each in tensors):
        total += max(start + size - max(start, covered), 0)
        covered = max(covered, start + size)
    return total
