"""FP32 on the wire: all-reduces, of gradients mostly, that could send half of the bytes."""

import pandas as pd

from profkit.patterns._communication import CAUSE, exposed, of_kind, without_waiting
from profkit.patterns._python_calls import outermost
from profkit.patterns._rows import equal, having
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import own_lines

_LEAST_BYTES = 1 << 20
_MOSTLY = 0.5
_DDP = "^DistributedDataParallel"
_COMPRESSED = r"ddp_comm_hooks/.*: \w*(?:fp16|bf16)_compress"
_FSDP = r"^FSDP::|^FullyShardedDataParallel"
_OF_FSDP = (
    "Send gradients and weights in bf16: `fully_shard(model, mp_policy=MixedPrecisionPolicy("
    "param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))`, as `torch.autocast` alone leaves "
    "them in FP32."
)
_ALL_REDUCE = r"torch/distributed/distributed_c10d\.py\(\d+\): all_reduce$"


@pattern(
    title="All-reduces in FP32",
    source="https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html",
    calls=rf"{_ALL_REDUCE}|{_COMPRESSED}",
)
def match(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find large all-reduces of float32."""
    if having(python_calls, _COMPRESSED).any():
        return None
    calls = of_kind(collectives, "allreduce")
    calls &= equal(collectives, "dtype", "float32")
    calls &= (collectives["size_bytes"] >= _LEAST_BYTES).to_numpy(dtype=bool)
    if not calls.any():
        return None
    exposed_ns = exposed(calls, collectives, kernels, causes, step)
    size = int(collectives["size_bytes"][calls].sum()) // step.count
    line = _line(python_calls, exposed_ns)
    # The hook for bf16 is one of NCCL's alone.
    half = "fp16" if kernels.empty else "bf16"
    return Match(
        cause=f"{CAUSE}.transfer",
        advice=_OF_FSDP
        if having(cpu_ops, _FSDP).any() and not line
        else _advice(half, line, has_ddp=bool(having(cpu_ops, _DDP).any()), known=len(cpu_ops) > 0),
        place=line,
        gain_ns=without_waiting(exposed_ns, causes, step) / 2,
        evidence={"size_bytes_per_step": size},
    )


def _advice(half: str, line: str, *, has_ddp: bool, known: bool) -> str:
    if line and has_ddp:
        return (
            f"DDP has averaged the gradients when backward ends: leave `all_reduce` in {line} out "
            "if it is of these, and else call it less often."
        )
    if line:
        return f"Call `all_reduce` on {half} tensors or less often in {line}."
    if has_ddp or not known:
        hook = f"`model.register_comm_hook(None, default_hooks.{half}_compress_hook)`"
        return f"Send gradients in {half}: {hook}."
    return (
        "Send activations in bf16 (`torch.autocast`), and gradients, which that leaves in FP32, by "
        "`communication_data_type` of ZeRO."
    )


def _line(python_calls: pd.DataFrame, exposed_ns: float) -> str:
    """Return the line of the program that calls most of them, "" if that is PyTorch itself."""
    called = having(python_calls, _ALL_REDUCE)
    called = outermost(python_calls, called)
    calls = python_calls[called]
    lasted_ns = (calls["end_ns"] - calls["start_ns"]).groupby(own_lines(python_calls, called)).sum()
    if lasted_ns.sum() < _MOSTLY * exposed_ns or lasted_ns.empty:
        return ""
    return str(lasted_ns.idxmax())
