"""What the causes of a step are called, and which limiter each stands for."""

from collections.abc import Iterable

from profkit.analyze.division import cpu, gpu
from profkit.analyze.division.cpu_threads import BLOCKED, START_UP
from profkit.analyze.division.request_waits import NO_REQUEST
from profkit.analyze.division.thread_waits import IN_CALL, LOCK, WAITING
from profkit.core.verdict import Limiter

_TITLES = {
    gpu.COMPUTING: "GPU computing",
    cpu.COMPUTING: "Operators on the CPU",
    gpu.EXPOSED: "Exposed communication",
    "exposed_copies": "Exposed copies",
    "exposed_sets": "Exposed memory sets",
    gpu.IDLE: "GPU idle",
    "loading_data": "Loading data",
    BLOCKED: "CPU blocked in a call",
    START_UP: "One-off start-up",
    "python": "Python and dispatch",
    "garbage_collection": "Garbage collection",
    "compiler": "Compiling",
    "recording_graph": "Recording a CUDA graph",
    WAITING: "Waiting for another thread",
    IN_CALL: "Waiting in a call",
    NO_REQUEST: "Waiting for requests",
    "lock": "Waiting for a lock or queue",
    "gil": "Waiting for the GIL",
    "not_started": "Launched but not started",
    gpu.IN_GRAPH: "Missing in CUDA graphs",
    "not_recorded": "Not recorded",
    "UVM HtoD": "Managed memory migrated to the GPU",
    "UVM DtoH": "Managed memory migrated to the CPU",
    "UVM prefetch HtoD": "Managed memory prefetched to the GPU",
    "UVM prefetch DtoH": "Managed memory prefetched to the CPU",
    "waiting": "Waiting for other ranks",
    "transfer": "Transfer",
    "waiting_or_transfer": "Waiting or transfer",
    "other": "Other",
}
_LIMITERS = {
    "waiting": Limiter.STRAGGLER,
    "transfer": Limiter.COMMUNICATION,
    "waiting_or_transfer": Limiter.COMMUNICATION,
    "loading_data": Limiter.INPUT,
    IN_CALL: Limiter.WAITING,
    NO_REQUEST: Limiter.WAITING,
    "not_started": Limiter.WAITING,
    "not_recorded": Limiter.UNKNOWN,
    gpu.IN_GRAPH: Limiter.UNKNOWN,
    START_UP: Limiter.UNKNOWN,
}
_BY_COPY = {
    "HtoD": Limiter.INPUT,
    "HtoD_pageable": Limiter.INPUT,
    "DtoD": Limiter.GPU,
}


def title(cause: str, label: str = "") -> str:
    """Return the name of a cause; `label` is what its last part stands for, if that is a name."""
    last = cause.rpartition(".")[2]
    if label:
        return label
    if last in _TITLES:
        # Without a GPU, dispatch is part of the operators.
        return "Python" if cause == "python" else _TITLES[last]
    return last.replace("_pageable", " from pageable memory").replace("_", " ")


def lower(title: str) -> str:
    """Return a title as it stands within a sentence."""
    first = title.split(" ", maxsplit=1)[0]
    is_name = first == "Python" or not first[1:].islower()
    return title if is_name else title[:1].lower() + title[1:]


def parts_of(cause: str) -> tuple[str, ...]:
    """Return the ids of `cause` and of all above it, from the root."""
    words = cause.split(".")
    return tuple(".".join(words[: count + 1]) for count in range(len(words)))


def has_parts(cause: str, others: Iterable[str]) -> bool:
    """Tell whether one of the `others` lies below a cause."""
    return any(other.startswith(f"{cause}.") for other in others)


def is_of_call(cause: str) -> bool:
    """Tell whether a cause is one call that held the CPU, always or at its start."""
    *above, _ = cause.split(".")
    return bool(above) and above[-1] in (BLOCKED, START_UP)


def limiter(cause: str) -> Limiter:
    """Return what a step is called that this leaf of the partition limits."""
    if cause.endswith(LOCK):
        return Limiter.WAITING
    top, *below = cause.split(".")
    if top in (gpu.COMPUTING, "exposed_sets"):
        return Limiter.GPU
    if top == "exposed_copies":
        return _BY_COPY.get(below[0] if below else "", Limiter.COPIES)
    last = below[0] if below and top in (gpu.IDLE, gpu.EXPOSED) else top
    return _LIMITERS.get(last, Limiter.CPU)
