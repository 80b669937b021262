"""DeepSpeed's ZeRO stages 1 to 3, with offload to the host.

With bf16 the model itself is in bf16 and the optimizer updates an fp32 copy of the parameters,
its master. The optimizer is torch's in its fused form, as in the other modes: nothing is compiled
when training starts, and what a comparison shows is the sharding.
"""

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from profkit.errors import ConfigError
from profkit.workloads.zero.base import Backend as BaseBackend
from profkit.workloads.zero.base import Engine, Rule, cast_statistics, in_fp32

if TYPE_CHECKING:
    import torch
    from torch import nn

    from profkit.workloads.models.base import Inputs
    from profkit.workloads.runtime.process import Process

# DeepSpeed's own default; its buffers have this many elements however small the model is.
_BUCKET = 500_000_000


class DeepSpeed(Engine):
    """What ``deepspeed.initialize`` returns, in our terms."""

    model: Any

    def micro_batch(self, *, last: bool) -> AbstractContextManager[object]:
        """Say whether gradients are complete after this backward pass."""
        self.model.set_gradient_accumulation_boundary(last)
        return nullcontext()

    def forward(self, inputs: "Inputs") -> Any:
        """See `Engine.forward`; DeepSpeed itself leaves inputs as they are."""
        dtype = self.process.compute_dtype
        cast = {
            name: each.to(dtype) if each.is_floating_point() else each
            for name, each in inputs.items()
        }
        return in_fp32(self.model(**cast))

    def backward(self, loss: "torch.Tensor") -> None:
        """See `Engine.backward`; DeepSpeed itself divides by the number of micro-batches."""
        self.model.backward(loss)

    def step(self) -> None:
        """See `Engine.step`."""
        self.model.step()


class Backend(BaseBackend):
    """What DeepSpeed has, which is all of it."""

    def lacks(self, stage: int, offload: str) -> str:
        """See `Backend.lacks`."""
        del stage, offload
        return ""

    def engine(self, process: "Process", model: "nn.Module", rule: Rule) -> Engine:
        """See `Backend.engine`."""
        deepspeed = _imported(process)
        cast_statistics(model, process.compute_dtype)
        size = sum(each.numel() for each in model.parameters())
        engine, optimizer, *_ = deepspeed.initialize(
            model=model, optimizer=rule, config=settings(process, size), dist_init_required=False
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
        # The default clips to a norm of 1, which the other modes do not.
        "gradient_clipping": 0.0,
        # SGD is no worse for not being on DeepSpeed's list, nor is torch's Adam on the host.
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
    return {f"offload_{each}": host for each in kept}
