"""Memory verdict: what fills the memory at its peak, how far that is from the limit, what to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.analyze._memory_contents import CAST_WEIGHTS, CONTENTS, OF_UPDATE
from profkit.analyze._memory_growth import KEEP_NO_GRAPH, OUT_OF_MEMORY, growth
from profkit.analyze._memory_remedies import (
    ATTENTION,
    CAST,
    CAST_FORWARD,
    FORWARD_ONLY,
    INFERENCE,
    KEEP_IT,
    LOSS,
    OF_ATTENTION,
    OF_LOSS,
    OF_OPTIMIZER,
    OF_OWN_UPDATE,
    OTHER_ACTIVATIONS,
    REMEDIES,
    TUNING,
    UNUSED,
    Remedy,
)
from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import BEFORE, UNKNOWN
from profkit.core.formatting import size
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.core.verdict import Confidence, Evidence, MemoryVerdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_verdict.yaml``."""

    near: float = 0.8
    """Part of the limit above which something should be done about the peak."""

    telling: float = 0.1
    """Part of the peak from which on what fills it decides the advice."""

    small_bytes: int = 512 * 2**20
    """Peak below which nothing is advised where the limit is not known: GPUs have many times as
    much."""


_UNEVEN = 0.5
"""Part of what the GPU holds that ran out, below which others hold far less."""

_MUCH = 1 / 3
"""Of the activations, known by name: to mend those helps in training as well. Of the peak, recorded
beside what was there before: that can be mended without another recording."""


_NONE = {"reserved_bytes": 0, "times_freed": 0, "freed_bytes": 0}
_MANY_TIMES, _TIMES_ALL = 100, 4
"""How often segments were given back to the driver, and how many times all there was, at least."""

_UNUSED = 0.3
"""Part of the reserved memory from which on it is said what is unused, if only the end is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Peak:
    """The peak of the rank that the verdict is about."""

    rank: int
    total: int
    is_known: bool
    """Whether the history has any allocation: without one it is what was live at the end."""
    is_training: bool
    """Whether there was a backward pass or an optimizer's step, or that is not known."""
    contents: Mapping[str, int]
    """Bytes by what they are, the largest first."""
    lines: Sequence[tuple[str, int]]
    """Bytes by line of the program, the largest first."""
    scores: int
    """Bytes in matrices of scores of attention."""


@analysis(title="Memory verdict")
def analyze(
    memory_peak: Result | None,
    fragmentation: Result | None,
    memory_over_steps: Result | None,
    hardware: Hardware,
    config: Config,
) -> Result:
    """What fills the memory at its peak, how far is that from the limit, and what helps?

    The limit is what the process could have had when memory ran out, or else the memory of the
    GPU. Memory that grows with every step comes first: it will run out. Another allocator setting
    is advised only where a replay of the recorded one reserves what
    was reserved, and does not fit either.
    """
    if memory_peak is None or "peaks" not in memory_peak.tables:
        return Result.abstain("what fills the memory", "no allocation was recorded")
    shortages = _rows(fragmentation, "shortages")
    shortage = max(shortages, key=lambda row: int(row["asked_bytes"]), default=None)
    peak = _peak(memory_peak, shortage["rank"] if shortage else None)
    leak = next((row for row in _rows(memory_over_steps, "growth") if row["leaks"] == "yes"), None)
    if shortage:
        gpus = _rows(fragmentation, "peaks")
        return Result(memory=_out_of_memory(peak, shortage, leak, config, gpus))
    held = max(
        _rows(fragmentation, "peaks"), key=lambda row: int(row["reserved_bytes"]), default=_NONE
    )
    if 0 < held["reserved_bytes"] < peak.total:
        return Result(memory=_contradictory(peak, held["reserved_bytes"]))
    within = _within(peak, held, hardware.memory_bytes, config)
    return Result(memory=_growing(within, leak) if leak else within)


def _rows(result: Result | None, name: str) -> list[dict[str, Any]]:
    found = result.tables.get(name) if result else None
    return found.records() if found else []


def _peak(result: Result, rank: int | None) -> _Peak:
    """Return the peak of `rank`, or of the rank with the highest."""
    peaks = [row for row in _rows(result, "peaks") if rank is None or row["rank"] == rank]
    highest = max(peaks, key=lambda row: int(row["peak_bytes"]))
    contents = {
        str(row["content"]): int(row["live_bytes"])
        for row in _rows(result, "by_content")
        if row["rank"] == highest["rank"]
    }
    lines = [
        (str(row["line"]), int(row["live_bytes"]))
        for row in _rows(result, "by_line")
        if row["rank"] == highest["rank"] and row["line"] != "(not recorded)"
    ]
    return _Peak(
        rank=highest["rank"],
        total=int(highest["peak_bytes"]),
        is_known=int(highest["from_history"]) > 0,
        is_training=highest["of_training"] != 0,
        contents=contents,
        lines=lines,
        scores=int(highest["scores_bytes"]),
    )


def _within(peak: _Peak, held: Mapping[str, Any], limit: int, config: Config) -> MemoryVerdict:
    """Return the verdict where memory did not run out; `held` is what the allocator had."""
    content, content_bytes = next(iter(peak.contents.items()), ("", 0))
    share = content_bytes / max(peak.total, 1)
    when = "at the peak" if peak.is_known else "at the end, the peak not recorded"
    is_far = peak.total < (config.near * limit or config.small_bytes)
    little = ", little for a GPU" if is_far and peak.is_known else ""
    if limit:
        of_limit = f"{100 * peak.total / limit:.0f} % of the GPU's memory"
        headline = f"{size(peak.total)} {when}, {of_limit}: mostly {content}."
    else:
        headline = f"{size(peak.total)} {when}{little}: {100 * share:.0f} % {content}."
    place, remedy = ("", Remedy("", "")) if is_far else _remedy(peak, config)
    of_driver = _given_back(held) or ("" if is_far else _unused(peak, held))
    return MemoryVerdict(
        headline=headline,
        peak_bytes=peak.total,
        limit_bytes=limit or -1,
        filled_by=dict(peak.contents),
        advice=" ".join(filter(None, (of_driver, remedy.advice))),
        source=remedy.source,
        place=place,
        confidence=_confidence(peak, limit),
        evidence=_evidence(peak),
    )


def _given_back(held: Mapping[str, Any]) -> str:
    """Return what to do where the allocator gave memory back to the driver again and again."""
    times, freed = int(held["times_freed"]), int(held["freed_bytes"])
    if times < _MANY_TIMES or freed < _TIMES_ALL * int(held["reserved_bytes"]):
        return ""
    return f"{times:,} times memory went back to the driver, {size(freed)} in all: {KEEP_IT}"


def _unused(peak: _Peak, held: Mapping[str, Any]) -> str:
    """Return what to do about reserved memory that is not used where only the end is known."""
    reserved = int(held["reserved_bytes"])
    if peak.is_known or reserved - peak.total < _UNUSED * max(reserved, 1):
        return ""
    return f"{size(reserved)} are reserved, {UNUSED}"


def _confidence(peak: _Peak, limit: int) -> Confidence:
    if not peak.is_known:
        return Confidence.LOW
    return Confidence.HIGH if limit else Confidence.MEDIUM


def _growing(within: MemoryVerdict, leak: Mapping[str, Any]) -> MemoryVerdict:
    """Return the verdict where a line leaves more memory after every step."""
    return replace(
        growth(within.peak_bytes, float(leak["per_step_bytes"]), within.evidence, leak),
        limit_bytes=within.limit_bytes,
        filled_by=within.filled_by,
        place=str(leak["line"]),
        confidence=Confidence.HIGH,
    )


def _remedy(peak: _Peak, config: Config) -> tuple[str, Remedy]:
    """Return the line to change and what to do: about what is known by name, or fills most."""
    least = config.telling * peak.total
    held, line, said = max(_known_by_name(peak), key=lambda one: one[0])
    if held >= max(least, 1):
        return line, said._replace(advice=f"{said.advice}{_besides(peak, said, held, least)}")
    content, recorded, *_ = (*peak.contents, "", "")
    remedy = REMEDIES.get(content, Remedy("", ""))
    # What was there before has no line in the history.
    if content == CONTENTS[BEFORE]:
        held = peak.contents.get(recorded, 0)
        if held < _MUCH * peak.total or recorded not in REMEDIES:
            return "", remedy
        share = f"Of the peak {100 * held / peak.total:.0f} % are {recorded}."
        remedy = Remedy(f"{share} {REMEDIES[recorded].advice}", REMEDIES[recorded].source)
    return _largest(peak, config), remedy


def _largest(peak: _Peak, config: Config) -> str:
    """Return the line of the program that holds most, "" if that is little."""
    line, held = next(iter(peak.lines), ("", 0))
    return line if held >= config.telling * peak.total else ""


def _known_by_name(peak: _Peak) -> Iterator[tuple[int, str, Remedy]]:
    """Yield bytes, line and remedy of what is known by name, and of what inference needs not."""
    loss = [line for line in peak.lines if OF_LOSS.search(line[0])]
    attention = [line for line in peak.lines if OF_ATTENTION.search(line[0]) and line not in loss]
    cast = peak.contents.get(CAST_WEIGHTS, 0)
    activations = peak.contents.get("activations", 0)
    by_name = 0
    for lines, remedy in ((attention, ATTENTION), (loss, LOSS)):
        held = peak.scores if remedy is ATTENTION else sum(held for _, held in lines)
        by_name = max(by_name, held)
        said = _with_share(remedy, "Such matrices", held, peak)
        if activations and not peak.is_training:
            said = said._replace(advice=f"{said.advice} {INFERENCE}")
        yield held, lines[0][0] if lines else "", said
    if not peak.is_training and by_name < _MUCH * (activations + cast):
        yield activations, peak.lines[0][0] if peak.lines else "", FORWARD_ONLY
    update = next((line for line, _ in peak.lines if OF_OPTIMIZER.search(line)), "")
    copies = peak.contents.get(OF_UPDATE, 0)
    remedy = REMEDIES[OF_OWN_UPDATE if update else OF_UPDATE]
    yield copies, update, _with_share(remedy, "Such copies", copies, peak)
    of_cast = CAST if peak.is_training else CAST_FORWARD
    yield cast, "", _with_share(of_cast, "Such copies", cast, peak)


def _besides(peak: _Peak, said: Remedy, held: int, least: float) -> str:
    """Return what is to do as well, where what was `said` is about a small part of the peak."""
    cast, activations = peak.contents.get(CAST_WEIGHTS, 0), peak.contents.get("activations", 0)
    if not peak.is_training:
        is_other = said is FORWARD_ONLY and cast >= max(least, 1)
        copies = f"{100 * cast / peak.total:.0f} % are copies of weights that autocast holds"
        return f" Another {copies}: `model.to(torch.bfloat16)` needs none." if is_other else ""
    is_most = next(iter(peak.contents)) == "activations" and held < _MUCH * activations
    return f" {OTHER_ACTIVATIONS}" if is_most else ""


def _with_share(remedy: Remedy, what: str, held: int, peak: _Peak) -> Remedy:
    """Return the remedy with the part of the peak that it is about."""
    share = f"{what} hold {100 * held / max(peak.total, 1):.0f} % of the peak."
    return Remedy(f"{remedy.advice} {share}", remedy.source)


def _evidence(peak: _Peak) -> Evidence:
    largest = peak.lines[0] if peak.lines else ("", 0)
    found: Evidence = {"rank": peak.rank}
    return found | ({"line": largest[0], "line_bytes": largest[1]} if largest[0] else {})


def _contradictory(peak: _Peak, reserved: int) -> MemoryVerdict:
    """Return the verdict where more was allocated than the device had reserved."""
    return MemoryVerdict(
        headline="Inconclusive: more allocated than reserved; the history is cut.",
        peak_bytes=peak.total,
        filled_by=dict(peak.contents),
        advice="Record again from the start: `torch.cuda.memory._record_memory_history()` before "
        "anything is on the GPU (`tools.memory_snapshot.start_up=true`).",
        confidence=Confidence.LOW,
        evidence=_evidence(peak) | {"reserved_bytes": reserved},
    )


def _filled(peak: _Peak) -> str:
    """Return what filled the memory, and the line with most of it, as a sentence."""
    content, content_bytes = next(iter(peak.contents.items()), ("", 0))
    if not content:
        return ""
    percent = 100 / max(peak.total, 1)
    said = f"The peak is {percent * content_bytes:.0f} % {content}"
    if not peak.lines:
        return f"{said}."
    line, line_bytes = peak.lines[0]
    held = f"{line} has most, {percent * line_bytes:.0f} %"
    return (
        f"Of the peak {held}." if content == CONTENTS[UNKNOWN] else f"{said}; of all lines {held}."
    )


def _of_leak(leak: Mapping[str, Any]) -> Remedy:
    """Return what to do about memory that grew until there was no more: more would fill as well."""
    grown = f"Memory grew {size(float(leak['per_step_bytes']))} with each step, by {leak['line']}."
    return Remedy(f"{grown} {KEEP_NO_GRAPH}", OUT_OF_MEMORY)


def _too_large(asked: int, peak: _Peak, line: str) -> Remedy:
    """Return what to do about one request for more than the program ever held."""
    where = f" in {line}" if line else ""
    times = asked / max(peak.total, 1)
    return Remedy(
        f"Make this one tensor smaller{where}: it is {times:.1f} times what the program held at "
        "its peak. Compute it in parts, or lower the batch or the sequence.",
        TUNING,
    )


def _setting(setting: str, left: int, more: Remedy) -> Remedy:
    """Return the advice to set what has room for a request, and what helps if that is not all."""
    advice = f"Set `PYTORCH_CUDA_ALLOC_CONF={setting}`: a replay with it has room for this"
    if more.advice:
        advice += f", and for {size(max(left, 0))} after it. If that is too little: {more.advice}"
    return Remedy(f"{advice.removesuffix('.')}.", TUNING)


def _of_others(shortage: Mapping[str, Any], gpus: Iterable[Mapping[str, Any]]) -> str:
    """Return what the other GPUs of the process hold, if that is far less, as a sentence."""
    same = ("rank", "repeat")
    others = [
        int(row["allocated_bytes"])
        for row in gpus
        if row["device"] != shortage["device"] and all(row[key] == shortage[key] for key in same)
    ]
    most = max(others, default=0)
    if not others or most > _UNEVEN * int(shortage["allocated_bytes"]):
        return ""
    return f"No other GPU of this process holds more than {size(most)}: divide the work evenly."


def _out_of_memory(
    peak: _Peak,
    shortage: Mapping[str, Any],
    leak: Mapping[str, Any] | None,
    config: Config,
    gpus: Sequence[Mapping[str, Any]],
) -> MemoryVerdict:
    """Return the verdict where a request failed, as memory grew by a `leak` if there is one.

    `gpus` are the peaks of all of them.
    """
    on = f" on {shortage['device']}" if len({row["device"] for row in gpus}) > 1 else ""
    asked, free = int(shortage["asked_bytes"]), int(shortage["free_bytes"])
    reserved, allocated = int(shortage["reserved_bytes"]), int(shortage["allocated_bytes"])
    fits_with, is_loss = shortage["fits_with"], OF_LOSS.search(shortage["stack"] or "")
    unused = max(reserved - allocated, 0)
    if is_loss:
        remedy = LOSS
    elif asked > peak.total:
        remedy = _too_large(asked, peak, shortage["line"])
    else:
        remedy = REMEDIES.get(next(iter(peak.contents), ""), Remedy("", ""))
    left, uneven = free + unused - asked, _of_others(shortage, gpus)
    if leak:
        remedy = _of_leak(leak)
    elif fits_with:
        remedy = _setting(fits_with, left, remedy if left < asked else Remedy("", ""))
    by = f"Asked by {shortage['line']}." if shortage["line"] else ""
    by += f" {size(free)} of the GPU were free." if free >= 0 else ""
    had = f": {size(asked)} asked"
    had += f", {size(asked - free)} missing" if 0 <= free < asked else ""
    had += f", {size(unused)} reserved but unused" if unused >= config.telling * asked else ""
    # What comes after the request that failed was not recorded.
    is_known = free >= 0 and not (fits_with and left < asked)
    evidence = _evidence(peak) | {
        "asked_bytes": asked,
        "free_bytes": free,
        "reserved_bytes": reserved,
        "unused_bytes": unused,
        **({"asked_by": str(shortage["line"])} if shortage["line"] else {}),
    }
    return MemoryVerdict(
        headline=f"Out of memory{on}{had if asked > 0 else ''}.",
        is_limit=True,
        peak_bytes=peak.total,
        limit_bytes=reserved + free if free >= 0 else -1,
        filled_by=dict(peak.contents),
        advice=" ".join(filter(None, (uneven, remedy.advice, by.strip(), _filled(peak)))),
        source=remedy.source,
        is_growing=leak is not None,
        place=str(leak["line"] if leak else shortage["line"] or _largest(peak, config)),
        confidence=Confidence.HIGH if is_known else Confidence.MEDIUM,
        evidence=evidence,
    )
