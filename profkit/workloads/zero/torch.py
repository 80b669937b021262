"""PyTorch's own sharding: DDP, ZeroRedundancyOptimizer for stage 1, FSDP2 for stages 2 and 3.

Parameters, gradients and the optimizer's state are in fp32 whatever the precision: with bf16 or
fp16, only computing is. DDP (stages 0 and 1) computes under autocast, which makes copies of weights
in 2 bytes as it goes and keeps them from the forward to the backward pass; FSDP2 (stages 2 and 3)
gathers parameters in 2 bytes and reduces gradients in fp32.

Bytes per parameter that each of N ranks holds at the end of the backward pass, with AdamW, whose
two moments make the 8 (SGD: 0):

| stage | parameters | gradients | optimizer | gathered meanwhile                                  |
| ----- | ---------- | --------- | --------- | --------------------------------------------------- |
| 0     | 4          | 4         | 8         |                                                     |
| 1     | 4          | 4         | 8/N       |                                                     |
| 2     | 4/N        | 4/N       | 8/N       | all parameters, forward to backward: 4, or 2        |
| 3     | 4/N        | 4/N       | 8/N       | one unit at a time, and the next                    |

Stage 1 deals out whole tensors, so that the fullest rank may hold more than 8/N. Gradients of
stages 0 and 1 live in DDP's buckets and stay allocated between steps. Stages 2 and 3 reduce the
gradients of each micro-batch: adding them up unreduced, as ``set_requires_gradient_sync(False)``
does, would hold all of them on every rank. With ``offload=parameters`` shards and optimizer are on
the CPU, and the GPU holds only gathered parameters.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from profkit.workloads.zero.base import Backend as BaseBackend
from profkit.workloads.zero.base import (
    BytesPerParameter,
    Engine,
    OptimizerFactory,
    cast_batch_norm_statistics,
    to_fp32,
)

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy

    from profkit.workloads.models._saved_bytes import ComputePrecision
    from profkit.workloads.models.base import Inputs
    from profkit.workloads.runtime.process import Process
    from profkit.workloads.zero import Zero

_FIRST_OF_FSDP = 2
_FP32_BYTES = 4


class Replicated(Engine):
    """Every rank has the whole model; DDP makes the gradients equal in the backward pass."""

    def micro_batch(self, *, last: bool) -> AbstractContextManager[object]:
        """Keep gradients to this rank until the `last` micro-batch."""
        from torch.nn.parallel import DistributedDataParallel

        if last or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return self.model.no_sync()

    def forward(self, inputs: "Inputs") -> Any:
        """See `Engine.forward`."""
        with self.process.autocast():
            output = self.model(**inputs)
        return to_fp32(output)


class Sharded(Engine):
    """FSDP2: every rank has a slice of each parameter, and gathers them for computing."""

    def forward(self, inputs: "Inputs") -> Any:
        """See `Engine.forward`."""
        return to_fp32(self.model(**inputs))


class Backend(BaseBackend):
    """PyTorch's own sharding: DDP, ZeroRedundancyOptimizer, FSDP2."""

    def check(self, stage: int, offload: str) -> str:
        """See `Backend.check`."""
        if offload == "optimizer":
            hint = "take zero3 with offload=parameters, or zero.backend=deepspeed"
            kept = "ZeroRedundancyOptimizer keeps state where the parameters are"
            if stage >= _FIRST_OF_FSDP:
                kept = "FSDP2 offloads parameters and state together"
            return f"torch cannot offload the optimizer alone: {kept}; {hint}"
        return ""

    def bytes_per_parameter(
        self, zero: "Zero", ranks: int, precision: str, moments: int
    ) -> BytesPerParameter:
        """See `Backend.bytes_per_parameter` and the table above."""
        del precision
        parts = ranks if zero.stage >= _FIRST_OF_FSDP else 1
        return BytesPerParameter(
            parameters=_FP32_BYTES / parts,
            gradients=_FP32_BYTES / parts,
            masters=0,
            states=_FP32_BYTES * moments / (ranks if zero.stage > 0 else 1),
        )

    def compute_precision(self, zero: "Zero", precision: str) -> "ComputePrecision":
        """See `Backend.compute_precision`."""
        if precision == "fp32":
            return "fp32"
        return "half" if zero.stage >= _FIRST_OF_FSDP else "autocast"

    def engine(
        self, process: "Process", model: "nn.Module", optimizer_factory: OptimizerFactory
    ) -> Engine:
        """See `Backend.engine`."""
        if process.request.sharding().stage >= _FIRST_OF_FSDP:
            return _sharded(process, model, optimizer_factory)
        return _replicated(process, model, optimizer_factory)


def _replicated(
    process: "Process", model: "nn.Module", optimizer_factory: OptimizerFactory
) -> Replicated:
    from torch.nn.parallel import DistributedDataParallel

    model = model.to(process.device)
    if process.request.world_size > 1:
        devices = [process.device] if process.device.type == "cuda" else None
        # Views spare a second copy of all gradients.
        model = DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
    process.compile(model)
    if process.request.sharding().stage == 0:
        return Replicated(process, model, optimizer_factory(model.parameters()))
    # Loads all of FSDP.
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kind: Any = optimizer_factory.func
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=kind, **optimizer_factory.keywords
    )
    return Replicated(process, model, optimizer)


def _sharded(
    process: "Process", model: "nn.Module", optimizer_factory: OptimizerFactory
) -> Sharded:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    request = process.request
    cast_batch_norm_statistics(model, process.compute_dtype)
    mesh = init_device_mesh(process.device.type, (request.world_size,), mesh_dim_names=("dp",))
    for part in (*units(model), model):
        fully_shard(
            part,
            mesh=mesh,
            reshard_after_forward=request.sharding().stage > _FIRST_OF_FSDP,
            mp_policy=_precision(process),
            offload_policy=_offload(process),
        )
    process.compile(model)
    return Sharded(process, model, optimizer_factory(model.parameters()))


def _precision(process: "Process") -> "MixedPrecisionPolicy":
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if process.request.precision == "fp32":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=process.compute_dtype, reduce_dtype=torch.float32)


def _offload(process: "Process") -> "OffloadPolicy":
    from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy

    if process.request.sharding().offload == "none":
        return OffloadPolicy()
    return CPUOffloadPolicy(pin_memory=process.device.type == "cuda")


def units(model: "nn.Module") -> Iterator["nn.Module"]:
    """Yield the modules to gather one by one: the elements of each outermost ModuleList.

    That is where models keep their blocks. All other parameters are gathered with the root, and
    stay gathered.
    """
    from torch import nn

    for child in model.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from units(child)
