"""What to do about a cause that no pattern explains: advice that belongs to the cause itself."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from profkit.analyze._blocked_advice import (
    at_place,
    blocked,
    migrated,
    not_started,
    not_started_title,
)
from profkit.analyze._communication_advice import less_communication
from profkit.analyze._late_advice import MUTUAL, late_advice, late_title
from profkit.analyze.division.details import (
    IN_COMMUNICATION,
    IN_OPERATORS,
    LAUNCHES,
    OF_OPERATOR,
    SHORT_GAPS,
)
from profkit.analyze.division.known_names import COMPILED
from profkit.analyze.division.names import parts_of
from profkit.analyze.division.phases import inside
from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Cause, Confidence, Evidence
from profkit.patterns.loading_in_main_process import HANDED_OVER_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """Advice on causes whose id matches."""

    cause: re.Pattern[str]
    title: str | Callable[[Cause], str]
    advice: Callable[[Cause], str]
    least: float
    """Share of the step under which nothing is said."""

    source: str
    confidence: Confidence = Confidence.MEDIUM
    least_ms: float = 0.0
    """Time of a step under which nothing is said."""


_LAUNCHING = "gpu_idle.python"
_MOSTLY, _MUCH = 0.5, 0.2
_MAKES_ROOM = ("aten::empty", "aten::new_empty", "aten::resize")
_COMPILED = tuple(name.removesuffix("*") for name in COMPILED)
_TUNING = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_FSDP = "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"
_GRAPHS = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"
_MEMORY = "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management"
_MANAGED = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#unified-memory-programming"
_DDP = "https://docs.pytorch.org/docs/stable/notes/ddp.html"
_DATA = "https://docs.pytorch.org/docs/stable/data.html"


def _loading(cause: Cause) -> str:
    return (
        f"{at_place(cause, 'Loading runs')}: use `num_workers` > 0, `persistent_workers=True` and "
        "`prefetch_factor` in the DataLoader, or make that function faster."
        if cause.place
        else "More DataLoader workers (`num_workers`, `persistent_workers=True`, "
        "`prefetch_factor`), or a cheaper dataset."
    )


def operator_on_cpu(cause: Cause) -> str:
    """Return the operator that computes on the CPU during most of long gaps of the GPU, or "".

    One that launches work, or only makes room, does not: something holds up the CPU in it. What has
    no namespace is a function of TorchScript or a range.
    """
    operator = _most_of(cause, OF_OPERATOR)
    computes = "::" in operator and not operator.startswith(_MAKES_ROOM)
    return operator if computes and not cause.evidence.get(LAUNCHES) else ""


def _most_of(cause: Cause, share: str) -> str:
    """Return the operator with most of long gaps of the GPU, if this `share` is most; else ""."""
    is_mostly = float(cause.evidence.get(share, 0.0)) > _MOSTLY
    return str(cause.evidence["operator"]) if is_mostly and not _are_short(cause.evidence) else ""


def _are_short(evidence: Evidence) -> bool:
    return float(evidence.get(SHORT_GAPS, 0.0)) > _MOSTLY


def is_bound_by_launches(action: Action) -> bool:
    """Tell whether an action is about a GPU that waits for many launches, for a short time each."""
    return action.cause == _LAUNCHING and _are_short(action.evidence)


def _launching_title(cause: Cause) -> str:
    share = float(cause.evidence.get(IN_COMMUNICATION, 0.0))
    also = f", {share:.0%} of it in communication" if share > _MUCH else ""
    return f"GPU waits for the CPU to launch{also}"


def _dispatch(cause: Cause) -> str:
    advice = _fewer_launches(cause)
    if float(cause.evidence.get(IN_COMMUNICATION, 0.0)) <= _MUCH:
        return advice
    return f"{advice} Faster ranks or links gain nothing there: what follows is not launched."


def _fewer_launches(cause: Cause) -> str:
    where = f" {inside(cause.place)}" if cause.place else ""
    if _are_short(cause.evidence):
        return (
            'Launch fewer, larger kernels: `torch.compile(mode="reduce-overhead")`, CUDA graphs or '
            f"a larger batch{f'; most time is{where}' if where else ''}."
        )
    longest = milliseconds(float(cause.evidence.get("longest_ns", 0)) / 1e6)
    if operator := operator_on_cpu(cause):
        return f"`{operator}` runs on the CPU{where}: move it to the GPU or out of the step."
    if _most_of(cause, OF_OPERATOR).startswith(_COMPILED):
        return (
            'Use `torch.compile(mode="reduce-overhead")`: most of this is in compiled code, which '
            "launches its kernels one by one without CUDA graphs."
        )
    if operator := _most_of(cause, IN_OPERATORS):
        share = f"{float(cause.evidence.get(OF_OPERATOR, 0.0)):.0%}"
        return (
            f"Find out what holds up the CPU{where}: `{operator}` takes {share} of this, the "
            f"longest gap {longest} ms."
        )
    line = where or "; record its line with `with_stack=True`"
    in_operators = float(cause.evidence.get(IN_OPERATORS, 0.0))
    gap = (
        f"the longest gap is {longest} ms, {1 - in_operators:.0%} of all is"
        if in_operators > _MUCH
        else f"the longest gap, {longest} ms, is"
    )
    return f"Move CPU work out of the step: {gap} Python{line}."


def _of_line(cause: Cause) -> str:
    return (
        f"The GPU waits for Python in {cause.place}: launch fewer, larger kernels there "
        "(`torch._foreach_*`, `torch.compile`), or move it out of the step."
    )


def _blocked_title(cause: Cause) -> str:
    return f"CPU blocked in {cause.id.rpartition('.')[2]}"


def _locked(cause: Cause) -> str:
    thread = cause.evidence.get("thread", "")
    if cause.evidence.get("waits_for") == "a queue":
        empty = at_place(cause, "The queue is empty")
        if cause.evidence.get("thread_waits"):
            return (
                f"{empty}: {thread}, which fills it, waits as well, as for requests or a network: "
                "let it ask for several at once, or send more requests."
            )
        filling = f": {thread} fills it too slowly" if thread else ""
        return (
            f"{empty}{filling}. Make that faster, or use several processes, as a DataLoader with "
            "`num_workers` does."
        )
    return (
        f"{at_place(cause, 'The program waits for a lock or a queue')}"
        f"{f', and another thread is in {thread} meanwhile' if thread else ''}: hold the lock only "
        "while data is exchanged, or do not wait for the result in the step."
    )


def _in_call(cause: Cause) -> str:
    call = str(cause.evidence.get("call", "a call"))
    waits = at_place(cause, f"`{call}` waits")
    if call.startswith("multiprocessing."):
        return (
            f"{waits} for another process: make its work cheaper, start more of them as far as "
            "there are cores, or send several items at a time."
        )
    less = "ask for all at once" if call.startswith("recv") else "leave it out"
    return f"{waits}: {less}, or do it in another thread or process while the step computes."


def _without_gil(cause: Cause) -> str:
    thread = cause.evidence.get("thread", "")
    return (
        f"Another thread runs Python{f' in {thread}' if thread else ''} and holds the GIL: move "
        "its work to a process (`multiprocessing`), or make it sleep between pieces of work."
    )


def _of_inputs(cause: Cause) -> str:
    if cause.id.endswith("_pageable"):
        return at_place(cause, "Set `pin_memory=True`, copy with `non_blocking=True`") + "."
    text = "Copy the next batch on another stream while this one is computed"
    return f"{at_place(cause, text)}, from pinned memory with `non_blocking=True`."


_RULES = (
    _Rule(
        cause=re.compile(r"(?:.*\.)?loading_data$"),
        title="Waiting for data",
        advice=_loading,
        least=0.03,
        least_ms=HANDED_OVER_MS,
        source=_DATA,
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?blocked\.(?P<call>.*)$"),
        title=_blocked_title,
        advice=blocked,
        least=0.02,
        source="",
    ),
    _Rule(
        cause=re.compile(re.escape(_LAUNCHING)),
        title=_launching_title,
        advice=_dispatch,
        least=0.1,
        source=_GRAPHS,
    ),
    _Rule(
        cause=re.compile(r"gpu_idle\.python\.(?!other$|between ).*"),
        title="GPU waits for a line of Python",
        advice=_of_line,
        least=0.05,
        source=_GRAPHS,
    ),
    _Rule(
        cause=re.compile(r"python\.between .*$"),
        title="Python outside of the model",
        advice=lambda cause: (
            f"Python runs {cause.place}, and no sample says in which function: profile more steps, "
            "or record lines with `tools.torch_profiler.with_stack=true`."
        ),
        least=0.08,
        source=_TUNING,
        confidence=Confidence.LOW,
    ),
    _Rule(
        cause=re.compile(r"exposed_communication\.waiting$"),
        title=late_title,
        advice=late_advice,
        least=0.03,
        source=_DDP,
    ),
    _Rule(
        cause=re.compile(r"exposed_communication\.(?:transfer|waiting_or_transfer)$"),
        title="Communication that nothing hides",
        advice=less_communication,
        least=0.05,
        source=_DDP,
    ),
    _Rule(
        cause=re.compile(r"exposed_copies\.HtoD(?:_pageable)?$"),
        title="Copies of inputs that nothing hides",
        advice=_of_inputs,
        least=0.03,
        source=_TUNING,
    ),
    _Rule(
        cause=re.compile(r"exposed_copies\.HtoD_of_weights$"),
        title="Weights copied to the GPU",
        advice=lambda _: (
            "Keep more of them on the GPU (without the CPU offload of FSDP, DeepSpeed or "
            "`device_map`), compute larger batches for each copy, or copy those of the next layer "
            "on another stream."
        ),
        least=0.03,
        source=_FSDP,
    ),
    _Rule(
        cause=re.compile(r"exposed_copies\.DtoH(?:_pageable)?$"),
        title="Copies to the CPU that nothing hides",
        advice=lambda cause: at_place(cause, "Keep results on the GPU, copy fewer of them") + ".",
        least=0.03,
        source=_TUNING,
    ),
    _Rule(
        cause=re.compile(r"exposed_copies\.UVM [^ ]*$"),
        title="Page migrations of managed memory",
        advice=migrated,
        least=0.03,
        source=_MANAGED,
    ),
    _Rule(
        cause=re.compile(r"exposed_copies\.UVM prefetch .*$"),
        title="Prefetched memory that nothing hides",
        advice=lambda _: (
            "Prefetch it earlier, on another stream than the kernels before, or keep it where it "
            "is: those that need it wait until all of it has come."
        ),
        least=0.03,
        source=_MANAGED,
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?garbage_collection$"),
        title="Python garbage collection",
        advice=lambda _: (
            "Call `gc.freeze()` after start-up, and `gc.disable()` with a "
            "`gc.collect()` every few hundred steps."
        ),
        least=0.02,
        source="https://docs.python.org/3/library/gc.html#gc.freeze",
        confidence=Confidence.HIGH,
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?waiting_for_thread\.lock$"),
        title="Program waits for another thread",
        advice=_locked,
        least=0.02,
        source="https://docs.python.org/3/library/threading.html#lock-objects",
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?waiting_in_call$"),
        title="Program waits in a call",
        advice=_in_call,
        least=0.02,
        source="https://docs.python.org/3/library/concurrent.futures.html",
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?waiting_for_requests$"),
        title="No request came",
        advice=lambda _: (
            "Send requests as its users will, from several clients at once, and profile again: "
            "what limits the server shows only then."
        ),
        least=0.25,
        source="https://docs.python.org/3/library/socketserver.html",
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?waiting_for_thread\.gil$"),
        title="Another thread holds the GIL",
        advice=_without_gil,
        least=0.02,
        source="https://docs.python.org/3/glossary.html#term-global-interpreter-lock",
    ),
    _Rule(
        cause=re.compile(r"(?:.*\.)?compiler$"),
        title="Compiling in steady steps",
        advice=lambda _: (
            "`TORCH_LOGS=recompiles` names the guards that fail; mark changing "
            "sizes with `torch._dynamo.mark_dynamic`."
        ),
        least=0.02,
        source="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        confidence=Confidence.HIGH,
    ),
    _Rule(
        cause=re.compile(r"gpu_idle\.recording_graph$"),
        title="CUDA graphs are recorded",
        advice=lambda _: (
            'With `mode="reduce-overhead"` the second call of a model records its graph, and so '
            "does each new size of its inputs: warm up with three calls of each size before "
            "times count, and pad inputs to few sizes."
        ),
        least=0.02,
        source="https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html",
        confidence=Confidence.HIGH,
    ),
    _Rule(
        cause=re.compile(r"gpu_idle\.not_started$"),
        title=not_started_title,
        advice=not_started,
        least=0.1,
        source=_GRAPHS,
        confidence=Confidence.LOW,
    ),
)


def actions(causes: Iterable[Cause], explained: frozenset[str]) -> Iterator[Action]:
    """Yield what to do about the `causes`, without those that a pattern `explained`.

    Nothing is said of a part of what has its own advice.
    """
    said = set(explained)
    for cause in sorted(causes, key=lambda cause: cause.id.count(".")):
        rule = next((rule for rule in _RULES if rule.cause.fullmatch(cause.id)), None)
        if rule is None or said & set(parts_of(cause.id)):
            continue
        if cause.share < rule.least or cause.ms_per_step < rule.least_ms:
            continue
        said.add(cause.id)
        yield Action(
            cause=cause.id,
            title=rule.title if isinstance(rule.title, str) else rule.title(cause),
            advice=rule.advice(cause),
            gain_ms=cause.gain_ms,
            place=cause.place,
            confidence=Confidence.LOW if MUTUAL in cause.evidence else rule.confidence,
            source=rule.source,
            evidence=cause.evidence,
        )
