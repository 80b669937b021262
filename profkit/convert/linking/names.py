"""What names of kernels, operators and copies say of them."""

import re
from functools import lru_cache

_COMMUNICATION = re.compile(
    # Libraries: of NVIDIA, AMD, Microsoft, Intel and Huawei, and of experts' tokens.
    r"nccl|rccl|msccl|oneccl|\bccl_|hccl|\bhcom_?[abrs]|(?:nv|roc|\bi)shmem|deep_?ep\b|(?<![a-z0-9])ep::"
    r"|\bmori::|epdispatch|epcombine|\bpplx::"
    # Kernels of PyTorch's symmetric memory, of Transformer Engine and of serving engines.
    r"|multimem_|(?:barrier|put_signal|wait_signal)_kernel\b|one_?shot_reduce|cross_device_"
    r"|userbuffers|quickreduce::|turbomind::comm::"
    # Whatever is called after its operation.
    r"|all_?reduce|all_?gather|reduce_?scatter|all_?(?:to|2)_?all|(?<!\w)send_?recv"
)
"""In a name in lower case."""
_COMMUNICATING_CALL = re.compile(
    r"c10d::|_c10d_functional::|symm_mem::|all_?reduce|all_?gather|reduce_?scatter"
    r"|all_?(?:to|2)_?all"
)
"""In the name of an operator in lower case whose inputs are what it sends."""
_COMMUNICATING_OP = re.compile(
    r"nccl:|rccl:|xccl:|c10d::|_c10d_functional::|record_param_comms$|symm_mem::"
)
_COLLECTIVE_OP = re.compile(
    r"(?!aten::|prims?::|autograd::|torch::)[\w.-]+::(?!\w*(?:fused|matmul|wait))"
    r"(?:\w*(?:all_?reduce|all_?gather|reduce_?scatter|all_?(?:to|2)_?all)\w*|(?:\w*_)?broadcast_?)$"
)
"""The name of an operator in lower case, of any library, whose last part is a collective."""
_OF_PYTORCH = re.compile(r"_?c10d(?:_functional)?::")
# Inductor names what it generates after the operators of the graph, collectives among them.
_OF_INDUCTOR = re.compile(r"triton_[a-z]+_fused_")
_LAUNCHING = re.compile(
    r"(?:cuda|cu|hip)(?:(?:Ext)?(?:Module)?Launch(?:Cooperative)?Kernel|Memcpy|Memset)",
    re.IGNORECASE,
)
_COPY_KIND = re.compile(r"(\bUVM (?:prefetch )?)?\b([HDPM])(?:to|2)([HDPM])\b")


def names_communication(kernel: str) -> bool:
    """Return whether a kernel of this name moves data between ranks, in any library.

    NCCL (``ncclDevKernel``, ``ncclKernel``), RCCL, MSCCL and MSCCL++, oneCCL, HCCL, NVSHMEM,
    DeepEP (``ep::``), symmetric memory (``multimem_``), and the custom all-reduces of serving
    engines (``cross_device_reduce``, ``allreduce_fusion``...).
    """
    return _COMMUNICATION.search(kernel.lower()) is not None and not _OF_INDUCTOR.match(kernel)


def launches_communication(op: str) -> bool:
    """Return whether kernels launched directly by this operator move data between ranks."""
    return _COMMUNICATING_OP.match(op) is not None


def launches_work(call: str) -> bool:
    """Return whether a call of the runtime or the driver starts a kernel, a copy or a set."""
    return _LAUNCHING.match(call) is not None


def is_collective(op: str) -> bool:
    """Return whether an operator of this name is a collective of PyTorch or of another library.

    As in ``_C::shm_allreduce`` of vLLM, ``sgl_kernel::``, ``deepspeed_shm_comm::`` and others.
    """
    return _COLLECTIVE_OP.match(op.lower()) is not None


def is_collective_of_pytorch(op: str) -> bool:
    """Return whether PyTorch itself has this collective, which a back end carries out."""
    return is_collective(op) and _OF_PYTORCH.match(op) is not None


def is_communicating_call(op: str) -> bool:
    """Return whether the inputs of this operator are what its communication kernel moves."""
    return _COMMUNICATING_CALL.search(op.lower()) is not None


@lru_cache(1 << 15)  # the files of many ranks repeat each other's texts
def copy_direction(text: str) -> str:
    """Return the direction in a name such as ``Memcpy HtoD (...)``; "" for none.

    Of managed memory it begins with ``UVM``. XPUs write ``M2D``: M is CPU memory that SYCL did not
    allocate.
    """
    found = _COPY_KIND.search(text)
    managed, *ends = found.groups("") if found else ("",)
    return managed + "to".join(ends).replace("M", "H")
