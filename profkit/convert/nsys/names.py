"""What names in a report mean: versions of functions, kinds of copies, PyTorch's NVTX ranges."""

import re
from typing import NamedTuple

# Functions of the runtime carry the version of CUDA since which they are as they are.
_VERSION = re.compile(r"(?:_ptsz|_ptds)?_v\d+$")

# <cupti_activity.h>
COPY_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoD",
    4: "DtoH",
    5: "DtoD",
    6: "DtoD",
    7: "DtoD",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM HtoD",
    12: "UVM DtoH",
    13: "UVM DtoD",
}
"""Direction of a copy by CUPTI's number; an array of CUDA is memory of the device.

UVM is managed memory, whose pages move to where they are used: no call copies them."""

ASKED_FOR = 1
"""CUPTI's number for pages that move since the program asked for it, and not since they are used.
"""


def direction(kind: int, cause: int) -> str:
    """Return the direction of a copy of this kind, "" if unknown; `cause` is that of a migration.

    Pages of managed memory that the program asked for are prefetched.
    """
    known = COPY_DIRECTIONS.get(kind, "")
    is_asked_for = cause == ASKED_FOR and known.startswith("UVM ")
    return known.replace("UVM ", "UVM prefetch ") if is_asked_for else known


MEMORY_KINDS = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
}
"""Kind of memory by nsys' number, for exports that have no table of them."""

SYNCHRONISATIONS = {
    1: "Event Sync",
    2: "Stream Wait Event",
    3: "Stream Sync",
    4: "Context Sync",
}
"""What is waited for, in the words of PyTorch's traces, by CUPTI's number."""

LIBRARIES = {
    "OSRT_API": ("os", "nameId"),
    "CUBLAS_EVENTS": ("cublas", "nameId"),
    "CUDNN_EVENTS": ("cudnn", "nameId"),
    "MPI_P2P_EVENTS": ("mpi", "textId"),
    "MPI_COLLECTIVES_EVENTS": ("mpi", "textId"),
    "MPI_START_WAIT_EVENTS": ("mpi", "textId"),
    "MPI_OTHER_EVENTS": ("mpi", "textId"),
}
"""Library whose calls each table holds, and the column with their names.

As ``nsys export --lazy=false`` creates them: 2022.4 and 2023.4 those of cuBLAS and cuDNN alike,
2023.4 those of MPI, which 2022.4 has none for.
"""

_PYTORCH = re.compile(
    r"(?P<name>.+?)(?:, (?:stashed )?seq = (?P<sequence>-?\d+))?(?:, op_id = (?P<id>\d+))?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = .*)?"
)
_OPERATOR = re.compile(r"(?:aten|prims?|c10d|_c10d_functional|nccl|torch\w*|quantized|autograd)::")
_BACKWARD = re.compile(r"\w*Backward\d*(?:\w*)?$|autograd::engine::evaluate_function")
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+)\((?P<name>.*)\)")
_STEP = re.compile(
    r"(?P<family>ProfilerStep#|(?:(?:train(?:ing)?|valid(?:ation)?|eval(?:uation)?|test(?:ing)?|"
    r"inference|warm[ _-]?up|bench(?:mark)?|measured?|timed|profiled?|global)[ _-]*)?"
    r"(?:step|iter(?:ation)?|batch)[ _:#=-]*)(?P<number>\d{1,9})",
    re.IGNORECASE,
)
_ROUND = re.compile(
    r"(?P<family>(?:(?:decode|generate|process|inference)[ _:-]*)?"
    r"(?:token|request|frame|image|sample|decode|generation)[ _:#=-]*)(?P<number>\d{1,9})"
    r"(?:[ _:-]*(?:processing|decode|generation|inference|forward))?",
    re.IGNORECASE,
)
"""What programs do again and again without calling it a step, as a server for each token."""


class Range(NamedTuple):
    """What the text of an NVTX range says."""

    name: str
    is_operator: bool = False
    sequence: int = -1
    is_backward: bool = False
    sizes: str = ""
    """Shapes of the inputs as JSON; "" if not recorded."""


def function(name: str) -> str:
    """Return the name of a function of CUDA without its version, as everybody knows it."""
    return _VERSION.sub("", name)


def nvtx_range(text: str) -> Range:
    """Return what `text` says: ranges of PyTorch's ``emit_nvtx`` carry operators' details."""
    if ", " not in text and "::" not in text and "Backward" not in text:
        return Range(text)
    found = _PYTORCH.fullmatch(text)
    if found is None:
        return Range(text)
    name, sequence = found["name"], int(found["sequence"] or -1)
    is_backward = _BACKWARD.match(name) is not None
    is_operator = found["id"] is not None or sequence >= 0 or _OPERATOR.match(name) is not None
    if not is_operator:
        return Range(text)
    return Range(name, True, sequence, is_backward, (found["sizes"] or "").replace(" ", ""))


def frame(text: str) -> str:
    """Return how tables spell the function of a range of ``nvtx.Profile``.

    It says ``train.py:12(step)`` for one in Python and ``len`` for one in C, where tables, as
    PyTorch's own traces, have ``train.py(12): step`` and ``<built-in len>``.
    """
    found = _FRAME.fullmatch(text)
    return f"{found['file']}({found['line']}): {found['name']}" if found else f"<built-in {text}>"


def is_warm_up(family: str) -> bool:
    """Tell whether steps that are called this way come before those that are measured."""
    return family.lower().startswith("warm")


def step_of(text: str) -> tuple[str, int] | None:
    """Return how steps are called and which one this is, for a range named like a step."""
    return _numbered(_STEP, text)


def round_of(text: str) -> tuple[str, int] | None:
    """Return the same for a range named like a token, a request or a frame."""
    return _numbered(_ROUND, text)


def _numbered(names: re.Pattern[str], text: str) -> tuple[str, int] | None:
    found = names.fullmatch(text)
    return (found["family"], int(found["number"])) if found else None
