"""What the name of a kernel says: which library wrote it, and whether it uses tensor cores."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

OTHER = "custom or unknown"
# What builds on CUTLASS or CUB comes before them, as their names occur in its own.
_LIBRARIES: dict[str, tuple[str, ...]] = {
    "NCCL or RCCL": ("nccl", "rccl", "msccl"),
    "oneCCL or HCCL": ("oneccl", r"\bccl_", "hccl", r"\bhcom_?[A-Za-z]"),
    "NVSHMEM or DeepEP": ("(?:nv|roc)shmem", r"(?<![A-Za-z0-9])ep::"),
    "PyTorch's symmetric memory": (r"multimem_\w+_kernel", r"(?:one|two)_shot_all_reduce"),
    "FlashAttention": ("flash_(?:fwd|bwd|attn)", "pytorch_flash", r"\bflash::", "FlashAttn"),
    "FlashInfer": ("flashinfer::", "BatchDecodeWithPagedKV", "BatchPrefillWith"),
    "Transformer Engine": ("transformer_engine",),
    "vLLM or SGLang": ("vllm", "sgl_", "paged_attention_", "rotary_embedding_kernel<"),
    "AITER": (r"\baiter", "_ZN5aiter"),
    "FBGEMM": (
        "fbgemm",
        "split_embedding",
        r"embedding_\w*codegen",
        "bounds_check_indices",
        "jagged_",
        "linearize_index",
        "pooled_embs",
        "recat_",
    ),
    "Triton": ("^triton_", r"_triton\b", "^attn_(?:fwd|bwd)", "^bwd_kernel_d"),
    "MIOpen or CK": (
        "(?i:miopen)",
        "^igemm_(?:fwd|bwd|wrw)",
        r"^batched_transpose_\d",
        "^naive_conv",
        "SubTensorOp",
        "ConvAsm",
        "Conv_Winograd",
        r"\bck::",
        "ck_tile",
        "_ZN2ck",
        "_gemm_xdl",
    ),
    "hipBLASLt or rocBLAS": ("Cijk_", "(?i:tensile|hipblas|rocblas)"),
    "MAGMA": ("magma_",),
    "cuDNN": ("cudnn", "xmma_(?:fprop|dgrad|wgrad)", "plicit_convolve", "wgrad_alg0", "fft2d_"),
    "CUTLASS": ("cutlass",),
    "cuBLAS": (
        "cublas",
        "nvjet",
        "xmma_gemm",
        "gemvx",
        "gemv2",
        "gemvNSP",
        "gemmk1",
        "gemmSN",
        "splitKreduce",
        "^void (?:dot_kernel|reduce_1Block_kernel|gemm)",
        r"^(?:void )?(?:maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_\w*gemm",
    ),
    "CUB or Thrust": (
        r"^(?:void )?(?:\w+::)*(?:cub|thrust|rocprim|hipcub)::",
        r"_ZN\d*(?:cub|6thrust|7rocprim)",
    ),
    "ATen": (
        "at::native",
        "at::cuda",
        "at::functorch",
        "at6native",
        "^void at::",
        r"\bcunn_",
        r"^void (?:\(anonymous namespace\)::)?(?:softmax_warp_|indexing_backward_kernel)",
        "^void multi_tensor_apply_kernel",
    ),
}
_PATTERNS = {library: re.compile("|".join(parts)) for library, parts in _LIBRARIES.items()}

TENSORBOARD_TENSOR_CORES = (
    *("h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "c1688"),
    *("dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1"),
    *("direct_group", "xmma_implicit_gemm", "xmma_sparse_conv", "xmma_gemm", "xmma_sparse_gemm"),
    "xmma_warp_specialized_implicit_gemm",
)
"""What the TensorBoard plugin looks for in a name, after NVIDIA's PyProf: up to Ampere."""

LATER_TENSOR_CORES = (
    *("tensorop", "wgmma", "nvjet", "tf32f32", "flash_fwd", "flash_bwd"),
    *("_MI16x16x", "_MI32x32x", "_MI4x4x", "_gtcx", "_xdl"),
)
"""The same for what came later, and for the matrix cores of AMD."""


ON_CUDA_CORES = "_ffma_"
"""In names of products of cuBLAS whose other parts are those of kernels for tensor cores."""


def uses_tensor_cores(kernel: str, later: Iterable[str] = LATER_TENSOR_CORES) -> bool:
    """Return whether a name says so: as TensorBoard has it, or by parts that came `later`."""
    has_part = contains_any(kernel, (*TENSORBOARD_TENSOR_CORES, *later))
    return has_part and ON_CUDA_CORES not in kernel


def library(kernel: str) -> str:
    """Return the library of the kernel of this name, the first that fits; `OTHER` if none does.

    NCCL and RCCL, cuBLAS' CUTLASS kernels and other users' have no names of their own.
    """
    return next((name for name, pattern in _PATTERNS.items() if pattern.search(kernel)), OTHER)


def contains_any(kernel: str, parts: Iterable[str]) -> bool:
    """Return whether the name contains one of `parts`."""
    return any(part in kernel for part in parts)


_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")


@cache
def function(kernel: str) -> str:
    """Return the name of the function alone, without namespace, template arguments, parameters.

    This is what Nsight Compute calls its base name ``function`` and filters by.
    """
    bare = _without_arguments(_UNNAMED.sub("unnamed", _demangled(kernel)))
    return re.split(r"::|\s", bare.strip())[-1] or kernel


@cache
def signature(kernel: str) -> str:
    """Return the name and template arguments spelled as all demanglers could agree on.

    Casts and suffixes of literals, white space, return types and parameters differ between them.
    """
    text = _UNNAMED.sub("unnamed", _demangled(kernel))
    text = text[: _parameters_at(text)]
    text = re.sub(r"\([\w:]+(?: [\w:]+)*\)(?=-?\d)", "", text)
    text = re.sub(r"\b(-?\d+)(?:u|ul|l|ull|ll)\b", r"\1", text, flags=re.IGNORECASE)
    text = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text))
    return re.sub(r"\s+", "", re.sub(r"^(?:void|[\w:]+(?:<[^<>]*>)?) (?=[\w:])", "", text))


@cache
def readable(kernel: str) -> str:
    """Return the name as people know it: function and template arguments, without namespaces.

    A function that is only called ``Kernel`` has the name of its first argument, as CUTLASS' have;
    where that is a plain type, the name of its namespace. Kernels of other arguments stay apart.
    """
    *above, last = _split(signature(_CONDITION.sub("", kernel)), "::")
    name, _, arguments = last.removesuffix(">").partition("<")
    if not name:
        return function(kernel)
    if not arguments:
        return "::".join([*(one for one in above if not _SPARE.search(one)), name])
    if _NAMELESS.fullmatch(name):
        first = _split(arguments, ",")[0]
        if not _PLAIN_TYPE.fullmatch(first):
            return readable(first) if "<" in first else _NAMESPACES.sub("", first)
    arguments = _RUN_TOGETHER.sub(" ", _NAMESPACES.sub("", arguments)).replace(",", ", ")
    return f"{''.join(f'{one}::' for one in above if not _SPARE.search(one))}{name}<{arguments}>"


def short_names(kernels: Iterable[str]) -> dict[str, str]:
    """Return a name for each kernel: its function, or `readable` where others have that as well."""
    functions = {kernel: function(kernel) for kernel in kernels}
    counts = Counter(functions.values())
    return {
        kernel: name if counts[name] == 1 and not _NAMELESS.fullmatch(name) else readable(kernel)
        for kernel, name in functions.items()
    }


_NAMELESS = re.compile(r"(?i)(?:device_?)?kernel\d*")
_PLAIN_TYPE = re.compile(
    r"-?\d+|\(?(?:unsigned)?(?:bool|char|short|int|long|float|double|half|u?int\d+_t)\*?\)?"
    r"|(?:[\w:]*::)?(?:__half2?|__nv_bfloat162?|BFloat16|Half)"
)
_CONDITION = re.compile(r"^(?:typename )?(?:std::)?enable_if<.*?>::type ")
_NAMESPACES = re.compile(r"(?:\w+::)+(?=\w)")
_SPARE = re.compile(
    r"^(?:at\w*|native|cuda|c10|cub|thrust|rocprim|hipcub|cutlass\w*|internal|detail|unnamed)$"
    r"|[<( ]"
)
"""Namespaces that say nothing that the name does not."""
_RUN_TOGETHER = re.compile(r"(?<=unsigned)(?=[a-z])|(?<=\w)(?=const\b)")
"""Where white space was that separates words."""


def _demangled(kernel: str) -> str:
    """Return what can be read of a mangled name: its path, that of its first argument, numbers.

    Recorders leave those names mangled that their demangler does not know, or that were cut.
    """
    if not (begin := _MANGLED.match(kernel)):
        return kernel
    path, rest = _path(kernel[begin.end() :])
    argument = _OF_PATH.match(rest)
    first, rest = _path(rest[argument.end() :]) if argument else ("", rest)
    numbers = ", ".join(number.replace("n", "-") for number in _LITERAL.findall(rest))
    arguments = first + (f"<{numbers}>" if first and numbers else numbers)
    return f"{path}<{arguments}>" if arguments else path


def _path(mangled: str) -> tuple[str, str]:
    """Return the names that a text begins with, each behind its length, and the rest of it."""
    names = []
    while found := _LENGTH.match(mangled):
        end = found.end() + int(found[0])
        names.append(mangled[found.end() : end])
        mangled = mangled[end:]
    return "::".join(names), mangled


_MANGLED = re.compile(r"_ZN?(?=\d)")
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_OF_PATH = re.compile(r"I(?:N(?:S\w?_)?)?(?=\d)")
_LITERAL = re.compile(r"L[a-z](n?\d+)E")


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of `text` between separators outside brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(text[at], 0)
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at = at + len(separator)
        else:
            at += 1
    return [*parts, text[start:]]


def _parameters_at(text: str) -> int:
    """Return where the list of parameters begins: the last parenthesis outside template ones."""
    depth, found = 0, len(text)
    for position, char in enumerate(text):
        if char == "(" and depth == 0:
            return position
        depth += {"<": 1, ">": -1}.get(char, 0)
    return found


def _without_arguments(text: str) -> str:
    """Return `text` up to its parameters, without what is in angle brackets."""
    kept, depth = [], 0
    for char in text[: _parameters_at(text)]:
        depth += char == "<"
        if depth == 0:
            kept.append(char)
        depth -= char == ">"
    return "".join(kept)
