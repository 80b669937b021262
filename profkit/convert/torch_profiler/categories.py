"""Kineto's categories of events, and what they become."""

from profkit.convert.linking.gathered import (
    ANNOTATION,
    CALL,
    COPY,
    COUNTED,
    KERNEL,
    MEMORY,
    OPERATOR,
    PYTHON,
    SET,
    SPAN,
    SYNCHRONISATION,
)

KINDS = {
    "cpu_op": OPERATOR,
    "Operator": OPERATOR,
    "user_annotation": ANNOTATION,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "hip_runtime": CALL,
    "hip_driver": CALL,
    "xpu_runtime": CALL,
    "xpu_driver": CALL,
    "xpu_sync": CALL,
    "privateuse1_runtime": CALL,
    "privateuse1_driver": CALL,
    "mtia_runtime": CALL,
    "glow_runtime": CALL,
    "hpu_op": CALL,
    "Runtime": CALL,
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "Kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "gpu_memcpy": COPY,
    "Memcpy": COPY,
    "gpu_memset": SET,
    "Memset": SET,
    "gpu_user_annotation": SPAN,
    "cpu_instant_event": MEMORY,
    "cuda_profiler_range": COUNTED,
    "xpu_scope_profiler": COUNTED,
    "python_function": PYTHON,
    "cuda_sync": SYNCHRONISATION,
}
"""The kind of rows that events of each category become."""

IGNORED = {
    "Trace": "when recording began and ended",
    "external_correlation": "ids that the events themselves carry",
    "overhead": "the profiler's own time, on threads of its own",
    "cuda_event": "records of events, which take no time on the device",
    "collective_comm": "the same collectives as the communication kernels, seen from the library",
    "synchronization": "calls that wait, seen from the device: the calls are there as well",
    "mtia_insight": "remarks of a vendor's tool",
    "mtia_counters": "counters of a whole device, not of a kernel",
    "mtia_workloadd": "what a daemon of that vendor did",
}
"""The other categories, and why they become no row."""

FLOWS = frozenset({"ac2g", "async_cpu_to_gpu", "fwdbwd"})
"""Categories of arrows between events, which carry the ids of both ends themselves."""
