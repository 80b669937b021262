"""DeepSpeed's ZeRO stages 1 to 3, with offload to the host.

With bf16 or fp16 the model itself is in that and the optimizer updates an fp32 copy of the
parameters, its master. The optimizer is torch's in its fused form, as in the other modes: nothing
is compiled when training starts, and a comparison shows only the sharding.

Bytes per parameter that each of N ranks holds at the end of the backward pass, with AdamW, whose
two moments make the 8 (SGD: 0); c is 4, and 2 with bf16 or fp16:

| stage | parameters | gradients | masters | optimizer | offloaded: gradients                   |
| ----- | ---------- | --------- | ------- | --------- | -------------------------------------- |
| 1, 2  | c          | c/N       | 4/N     | 8/N       | 4/N, on the host                       |
| 3     | c/N        | c/N       | 4/N     | 8/N       | c/N on the device, and 4/N on the host |

There are masters in fp32 too, equal to the parameters. In stages 1 and 2 a rank keeps the whole
gradient of a tensor on the border of two shares until the step; stage 1 has unreduced gradients of
all parameters, c, during the backward pass. Stage 3 never frees the buffer of its gradients.
"""

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from profkit.core.errors import ConfigError
from profkit.workloads.zero.base import Backend as BaseBackend
from profkit.workloads.zero.base import (
    BytesPerParameter,
    Engine,
    OptimizerFactory,
    cast_batch_norm_statistics,
    to_fp32,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

    from profkit.workloads.models._saved_bytes import ComputePrecision
    from profkit.workloads.models.base import Inputs
    from profkit.workloads.runtime.process import Process
    from profkit.workloads.zero import Zero

# DeepSpeed's own default; its buffers have this many elements however small the model is.
_BUCKET = 500_000_000
_LAST = 3
_FP32_BYTES = 4
_HALF_BYTES = 2


class DeepSpeed(Engine):
    """The engine of ``deepspeed.initialize``."""

    model: Any

    def micro_batch(self, *, last: bool) -> AbstractContextManager[object]:
        """Tell DeepSpeed whether gradients are complete after this backward pass."""
        self.model.set_gradient_accumulation_boundary(last)
        return nullcontext()

    def forward(self, inputs: "Inputs") -> Any:
        """See `Engine.forward`; DeepSpeed itself leaves inputs as they are."""
        dtype = self.process.compute_dtype
        cast = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in inputs.items()
        }
        return to_fp32(self.model(**cast))

    def backward(self, loss: "torch.Tensor") -> None:
        """See `Engine.backward`; DeepSpeed itself divides by the number of micro-batches."""
        self.model.backward(loss)

    def step(self) -> None:
        """See `Engine.step`."""
        self.model.step()


class Backend(BaseBackend):
    """DeepSpeed, which supports all stages and offloads."""

    def check(self, stage: int, offload: str) -> str:
        """See `Backend.check`."""
        del stage, offload
        return ""

    def bytes_per_parameter(
        self, zero: "Zero", ranks: int, precision: str, moments: int
    ) -> BytesPerParameter:
        """See `Backend.bytes_per_parameter` and the table above."""
        computed = _FP32_BYTES if precision == "fp32" else _HALF_BYTES
        whole = zero.stage < _LAST
        on_device = 0 if whole and zero.offload != "none" else computed
        on_host = 0 if zero.offload == "none" else _FP32_BYTES
        return BytesPerParameter(
            parameters=computed / (1 if whole else ranks),
            gradients=(on_device + on_host) / ranks,
            masters=_FP32_BYTES / ranks,
            states=_FP32_BYTES * moments / ranks,
        )

    def compute_precision(self, zero: "Zero", precision: str) -> "ComputePrecision":
        """See `Backend.compute_precision`."""
        del zero
        return "fp32" if precision == "fp32" else "half"

    def engine(
        self, process: "Process", model: "nn.Module", optimizer_factory: OptimizerFactory
    ) -> Engine:
        """See `Backend.engine`."""
        deepspeed = _imported(process)
        is_fp16 = process.request.precision == "fp16"
        if is_fp16 and not deepspeed.get_accelerator().is_fp16_supported():
            raise ConfigError(
                f"precision=fp16: DeepSpeed has no fp16 on the device {process.device.type}",
                hint="set precision=bf16, or zero.backend=torch",
            )
        cast_batch_norm_statistics(model, process.compute_dtype)
        size = sum(parameter.numel() for parameter in model.parameters())
        engine, optimizer, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer_factory,
            config=settings(process, size),
            dist_init_required=False,
        )
        if process.request.compile != "none":
            engine.compile(compile_kwargs={"mode": process.request.compile})
        return DeepSpeed(process, engine, optimizer)


def _imported(process: "Process") -> Any:
    """Return the module ``deepspeed``, set up for the device of `process`."""
    on_cpu = process.device.type == "cpu"
    if on_cpu:
        # Read when DeepSpeed is imported; without it, any accelerator it finds is taken.
        os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        import deepspeed
    except ImportError as error:
        raise ConfigError(
            f"zero.backend=deepspeed: DeepSpeed cannot be imported: {error}",
            hint="pip install 'profkit[zero]', or zero.backend=torch",
        ) from None
    if on_cpu:
        # Its all-reduce for CPUs compiles for two minutes, and profilers do not see it as a
        # collective.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed uses names that torch has deprecated, which is said at every single call.
    warnings.filterwarnings("ignore", message="`torch.distributed", category=FutureWarning)
    return deepspeed


def settings(process: "Process", size: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a model of `size` parameters."""
    request = process.request
    zero = request.sharding()
    # It refuses sizes that are odd.
    bucket = min(_BUCKET, size + size % 2)
    return {
        "train_micro_batch_size_per_gpu": request.batch,
        "gradient_accumulation_steps": request.grad_accumulation,
        "bf16": {"enabled": request.precision == "bf16"},
        "fp16": {"enabled": request.precision == "fp16"},
        # The default clips to a norm of 1, which the other modes do not.
        "gradient_clipping": 0.0,
        # SGD is not on DeepSpeed's list of tested optimizers, nor is torch's Adam on the CPU.
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": zero.stage,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            # By default tensors of up to 100,000 elements stay gathered: all of a small model.
            "stage3_param_persistence_threshold": 0,
            **_offload(zero.offload, pinned=process.device.type == "cuda"),
        },
    }


def _offload(offload: str, *, pinned: bool) -> dict[str, Any]:
    host = {"device": "cpu", "pin_memory": pinned}
    kept = {"none": (), "optimizer": ("optimizer",), "parameters": ("optimizer", "param")}[offload]
    return {f"offload_{part}": host for part in kept}
