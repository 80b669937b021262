"""What to do about communication that nothing hides: it depends on what is communicated."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from profkit.analyze._compared_ranks import WAITING
from profkit.analyze._late_rank import STAGES
from profkit.analyze.division import gpu
from profkit.analyze.division.communicated import NO_LIBRARY
from profkit.core.formatting import milliseconds, size
from profkit.core.verdict import Action, Cause, Confidence, Trust

WAITS = "Waiting or transfer"
_MOSTLY = 0.5
_SMALL_BYTES = 32 << 10
"""Of a message below this the time is latency, which fewer bytes do not shorten."""

_SCALAR_BYTES = 64
_LARGE_BYTES = 1 << 20
_SLOW_BYTES_PER_NS = 4.0
"""Over any link within a host large messages are far faster."""

_NARROW = ("float16", "bfloat16")
_OF_GRADIENTS = (
    "Overlap it with backward (DDP `bucket_cap_mb`), or send less: {}gradient accumulation with "
    "`no_sync()`."
)
_IN_HALF = "{half} gradients (`{half}_compress_hook`), "
"""That for bf16 is one of NCCL's alone."""
_HALVED = re.compile(re.escape(_IN_HALF).replace(r"\{half\}", r"(?:fp16|bf16)"))

_OF_ANY = (
    "Overlap it with computing (DDP `bucket_cap_mb`, FSDP prefetching), or send less, and less "
    "often."
)
_OF_SHARDS = (
    "Overlap it with computing (FSDP `set_modules_to_forward_prefetch`, ZeRO `overlap_comm`), or "
    "send less: `reshard_after_forward=False`, or shards within each host alone (HSDP)."
)
_OF_LIBRARY = {
    "FSDP": "Overlap it with computing (`set_modules_to_forward_prefetch`), or send less: "
    "`reshard_after_forward=False`, or shards within each host alone (HSDP).",
    "ZeRO": "Set `overlap_comm` in the configuration of ZeRO, or send less: "
    "`communication_data_type`, or more `gradient_accumulation_steps`.",
    **dict.fromkeys(
        ("DDP", NO_LIBRARY),
        "Gather less often, as metrics and losses every few steps, and several tensors at once.",
    ),
}
"""Of shards where it is known what the program uses."""

_LARGER = {
    "FSDP": "by larger modules for each `fully_shard`, such as whole blocks",
    "ZeRO": "by `reduce_bucket_size` and `allgather_bucket_size`",
    "DDP": "by larger batches in each step, or `bucket_cap_mb` where DDP has several buckets",
    NO_LIBRARY: "such as several tensors in one (`torch.cat`, `_coalescing_manager`)",
}
_OF_OWN_REDUCTIONS = (
    "Overlap it (`async_op=True`, and `wait()` where the result is needed), or send less: reduce "
    "in 16 bits, several tensors at once; of tensor-parallel layers use fewer ranks."
)
_OF_EXCHANGES = (
    "Overlap the exchange with the work of another micro-batch, or send less: rows in bf16 or fp8, "
    "and experts or tables that meet within one host."
)
_OF_PIPELINES = (
    "Cut the batch into more micro-batches and interleave the stages "
    "(`ScheduleInterleaved1F1B`); call `irecv` before the work that can hide it."
)
_OF_TENSOR_PARALLELISM = (
    "Each layer waits for its tensor-parallel ranks: use fewer of them, with NVLink between them "
    "(`nvidia-smi topo -m`), larger batches, or an all-reduce made for few bytes."
)
_OF_TENSOR_PARALLEL_CPUS = (
    "Each layer waits for its tensor-parallel ranks: use fewer of them, each on the cores and "
    "memory of one socket (`numactl`), or larger batches."
)
_OF_SCALARS = (
    "Single numbers are sent one by one: put losses and metrics into one tensor, and send it every "
    "few steps."
)
_OF_BUFFERS = "Send it less often: of equal buffers with DDP `broadcast_buffers=False`."
_OF_BARRIERS = "Take barriers out of the step: collectives wait for one another already."

_MANY_CALLS = 8
"""In a step, outside of backward, of messages of unknown size that are read as numbers."""

_BY_MARKS = " (a loop without an optimizer marks its steps with `profkit.step()`)"
_SHARDING = ("FSDP", "ZeRO")
_OF_SHARDED = ("allgather", "reduce_scatter")
_ADVICE = {
    "allreduce": _OF_GRADIENTS,
    **dict.fromkeys(_OF_SHARDED, _OF_SHARDS),
    **dict.fromkeys(("alltoall", "dispatch", "combine"), _OF_EXCHANGES),
    **dict.fromkeys(("send", "recv", "sendrecv"), _OF_PIPELINES),
    "broadcast": _OF_BUFFERS,
    "barrier": _OF_BARRIERS,
}
_OF_LAYERS = ("allreduce", *_OF_SHARDED)


def is_mostly_waiting(evidence: Mapping[str, str | int | float | bool]) -> bool:
    """Tell whether calls take far longer than others of their kind and size, so that they wait."""
    return float(evidence.get("at_best_share", 1.0)) < _MOSTLY


def _waits(cause: Cause) -> bool:
    """Tell whether most of exposed communication is waiting, for any rank.

    Stages wait for the first and last of their micro-batches even where none is late, and what a
    CPU still does after the last rank has come is no waiting.
    """
    is_waited = cause.id.endswith(".transfer") and cause.evidence.get("on_cpu")
    return is_mostly_waiting(cause.evidence) and STAGES not in cause.evidence and not is_waited


def with_title(cause: Cause) -> Cause:
    """Return the cause; transfer that mostly waits is called so."""
    is_transfer = cause.id == f"{gpu.EXPOSED}.transfer"
    return replace(cause, title=WAITS) if is_transfer and _waits(cause) else cause


def less_communication(cause: Cause) -> str:
    """Return the advice on exposed communication, by the operation that most of it is of.

    Nothing is said of the bytes of messages whose time is waiting, or latency.
    """
    if _waits(cause):
        fastest = milliseconds(float(cause.evidence["fastest_ns"]) / 1e6)
        return (
            f"Most of it is waiting, as a call of the same size takes {fastest} ms at best: see "
            "on all ranks which comes late, and what holds it up."
        )
    sent = int(cause.evidence.get("message_bytes", -1))
    if sent < 0 and float(cause.evidence.get("calls_per_step", 0.0)) >= _MANY_CALLS:
        return _OF_SCALARS
    if 0 <= sent < _SMALL_BYTES:
        if sent <= _SCALAR_BYTES:
            return _OF_SCALARS
        return (
            f"Messages of {size(sent)} take hardly longer than empty ones: send fewer and larger "
            f"ones, {_LARGER.get(str(cause.evidence.get('library')), _LARGER[NO_LIBRARY])}."
        )
    return f"{slow_link(cause.evidence)}{_of_operation(cause)}"


def without_types(action: Action) -> Action:
    """Return the action without advice on types of gradients, which another one gives."""
    return replace(action, advice=_HALVED.sub("", action.advice))


def slow_link(evidence: Mapping[str, str | int | float | bool]) -> str:
    """Return the first sentence of the advice if messages take far longer than a link needs."""
    sent = int(evidence.get("message_bytes", -1))
    if sent < _LARGE_BYTES or evidence.get("on_cpu"):
        return ""
    fastest_ns = float(evidence["fastest_ns"])
    if (rate := sent / max(fastest_ns, 1.0)) >= _SLOW_BYTES_PER_NS:
        return ""
    return (
        f"{size(sent)} take {milliseconds(fastest_ns / 1e6)} ms at best, {rate:.2g} GB/s: "
        "`NCCL_DEBUG=INFO` says over which link, which may be a slow one. "
    )


def without_ranks(action: Action, checks: Iterable[Trust], *, is_own: bool) -> Action:
    """Return the action, one about communication with what ranks that are missing make doubtful."""
    missing = [check.message for check in checks if check.check == "ranks" and not check.passed]
    if not missing or not action.cause.startswith(gpu.EXPOSED):
        return action
    seen = missing[0].rstrip(".")
    by_marks = _BY_MARKS if is_own else ""
    doubt = f"{seen}: one of the others may be late, so record all of them{by_marks}."
    if action.pattern or action.cause == WAITING:
        return replace(action, advice=f"{action.advice} {doubt}", confidence=Confidence.LOW)
    if is_mostly_waiting(action.evidence):
        title, advice = "Waiting for a rank that was not recorded", f"{doubt} {action.advice}"
        return replace(action, title=title, advice=advice, confidence=Confidence.LOW)
    # What the fastest call takes is no waiting.
    slow = slow_link(action.evidence)
    rest = action.advice.removeprefix(slow)
    return replace(
        action,
        title="Transfer, or waiting for a rank that was not recorded",
        advice=f"{slow}{doubt} If it is transfer: {rest[:1].lower()}{rest[1:]}",
        confidence=Confidence.LOW,
    )


def _of_operation(cause: Cause) -> str:
    is_mostly = float(cause.evidence.get("operation_share", 0.0)) > _MOSTLY
    operation = str(cause.evidence["operation"]) if is_mostly else ""
    if operation in _OF_LAYERS and cause.evidence.get("program") == "inference":
        is_on_cpu = cause.evidence.get("on_cpu")
        return _OF_TENSOR_PARALLEL_CPUS if is_on_cpu else _OF_TENSOR_PARALLELISM
    library = cause.evidence.get("library")
    if library is not None and (
        operation in _OF_SHARDED or (operation == "allreduce" and library in _SHARDING)
    ):
        return _OF_LIBRARY[str(library)]
    if operation == "allreduce" and library == NO_LIBRARY:
        return _OF_OWN_REDUCTIONS
    is_narrow = cause.evidence.get("dtype") in _NARROW
    half = _IN_HALF.format(half="fp16" if cause.evidence.get("on_cpu") else "bf16")
    return _ADVICE.get(operation, _OF_ANY).format("" if is_narrow else half)
