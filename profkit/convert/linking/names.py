"""What names of kernels, operators and copies say of them."""

import re

_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|oneccl|hccl|nvshmem|deep_?ep\b|cross_device_|userbuffers|multimem_"
    r"|all_?reduce|all_?gather|reduce_?scatter|all_?(?:to|2)_?all"
)
"""In a name in lower case."""
_COMMUNICATING_OP = re.compile(
    r"nccl:|rccl:|xccl:|c10d::|_c10d_functional::|record_param_comms$|symm_mem::"
)
# Inductor names what it generates after the operators of the graph, collectives among them.
_OF_INDUCTOR = re.compile(r"triton_[a-z]+_fused_")
_COPY_KIND = re.compile(r"\b([HDPM])(?:to|2)([HDPM])\b")


def names_communication(kernel: str) -> bool:
    """Return whether a kernel of this name moves data between ranks, in any library.

    NCCL (``ncclDevKernel``, ``ncclKernel``), RCCL and MSCCL, NVSHMEM, DeepEP, and the custom
    all-reduces of inference engines (``cross_device_reduce``, ``allreduce_fusion``...).
    """
    return _COMMUNICATION.search(kernel.lower()) is not None and not _OF_INDUCTOR.match(kernel)


def launches_communication(op: str) -> bool:
    """Return whether kernels launched directly by this operator move data between ranks."""
    return _COMMUNICATING_OP.match(op) is not None


def copy_direction(text: str) -> str:
    """Return the direction in a name such as ``Memcpy HtoD (...)``; "" for none.

    XPUs write ``M2D``: M is CPU memory that SYCL did not allocate.
    """
    found = _COPY_KIND.search(text)
    return "to".join(found.groups()).replace("M", "H") if found else ""
