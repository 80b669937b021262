"""What of a model in training this rank holds, as tensors: whoever shards it, by whatever script.

Takes what PyTorch's global hooks hand out (``register_module_forward_pre_hook`` the outermost
module, ``register_optimizer_step_pre_hook`` the optimizers), so that no script has to say it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from profkit.capture.model_memory import deepspeed, plain
from profkit.capture.model_memory.extents import Extents
from profkit.capture.model_memory.pieces import Piece, named, states


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """Tensors of this rank alone: shards are what it has of them, with their padding."""

    parameters: tuple[torch.Tensor, ...]
    """What the forward pass computes with, or is gathered from."""

    gradients: tuple[torch.Tensor, ...]
    """Gradients that have not been used up yet."""

    masters: tuple[torch.Tensor, ...]
    """Copies of parameters in fp32 that the optimizer updates in their stead."""

    states: tuple[torch.Tensor, ...]
    """What the optimizer remembers, such as moments."""

    def sizes_bytes(self) -> dict[str, int]:
        """Return the bytes of each kind; what is in two tensors counts once."""
        return {
            "parameters": _bytes(self.parameters),
            "gradients": _bytes(self.gradients),
            "masters": _bytes(self.masters),
            "states": _bytes(self.states),
        }


def pieces(
    models: Mapping[str, nn.Module], optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[Piece]:
    """Yield what this rank holds of `models`, by name, and of `optimizers`.

    Parameters, buffers, gradients, masters and states; plain, in DDP, sharded by FSDP2,
    ZeroRedundancyOptimizer or DeepSpeed's stages 0 to 3.
    """
    places = named(models)
    for name, model in models.items():
        if deepspeed.is_engine(model):
            yield from deepspeed.pieces(name, model, places)
        else:
            yield from plain.parameters(name, model, places)
        yield from plain.buffers(name, model)
    # ZeroRedundancyOptimizer steps the optimizer of this rank's share.
    for each in optimizers:
        yield from states(getattr(each, "optim", each), places)


def held(model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> Holdings:
    """Return what this rank holds of `model`: plain, in DDP, sharded by FSDP2 or DeepSpeed."""
    found = list(pieces({"": model}, optimizers))
    return Holdings(
        parameters=tuple(_of_kind("parameters", found)),
        gradients=tuple(_of_kind("gradients", found)),
        masters=tuple(_of_kind("masters", found)),
        states=tuple(_of_kind("states", found)),
    )


def _of_kind(kind: str, found: Sequence[Piece]) -> Iterator[torch.Tensor]:
    return (each.tensor for each in found if each.kind == kind)


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Return the size of the union: some are views of others, such as parts of a flat buffer."""
    extents = Extents()
    return sum(extents.claim(each) for each in tensors)
