"""The verdict as lines for a terminal: limiter, headline, step bar, actions, trust."""

import re
import string
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from profkit.core.formatting import counted, milliseconds, without_arguments
from profkit.core.verdict import (
    TIME_SHARE,
    Action,
    Cause,
    Confidence,
    KernelVerdict,
    Limiter,
    MemoryVerdict,
    Verdict,
)
from profkit.report.failed_checks import SHORT, in_short_of

MOST_LINES = 13
"""With the name of the run and where its report lies, 15."""

_LEAST_PART = 0.02
_FEWEST_CELLS = 3
_MOST_PARTS = 8
_COMPUTING = ("gpu_computing", "cpu_operators")
_PART_OF_COMPUTING = re.compile(r"(?:gpu_computing|cpu_operators)\.(?!other$).*")
_ALIKE = 0.1
_MUCH = 0.3
_MOST_UNNAMED = 0.1
"""Of the step, in parts that have no room for their names."""
_HARD_SPACE = "\N{NO-BREAK SPACE}"
_SENTENCE = re.compile(r"(?<=[.;]) +(?=[A-Z0-9`])|(?<=;) +")


def lines(verdict: Verdict, width: int = 80) -> list[str]:
    """Return the verdict in lines of at most `width` characters, every sentence and path whole.

    Where it is too much, further lines of names of the bar go and what is said beside actions,
    then sentences of advice and trust, then the last actions, each time with what is said of trust
    in a few words if that is enough.
    """
    found = _lines(verdict, width, 2, 2)
    if len(found) > MOST_LINES:
        found = _lines(verdict, width, 2)
    for count in range(len(verdict.actions), 0, -1):
        for in_short in (False, True):
            if len(found) > MOST_LINES:
                fewer = replace(verdict, actions=verdict.actions[:count])
                found = _lines(fewer, width, 1, in_short=in_short)
    return found[:MOST_LINES]


def _lines(
    verdict: Verdict, width: int, most: int, legend: int = 1, *, in_short: bool = False
) -> list[str]:
    """Return the verdict, advice and trust in `most` lines unless first sentences take more.

    The names of the bar take `legend` lines at most, and a check of trust that failed a few words
    if all is said `in_short`. What no action is about is said where there is room for two lines of
    these names.
    """
    found = []
    if is_about_step(verdict):
        says_it = verdict.headline.lower().startswith(verdict.limiter)
        said = verdict.headline if says_it else f"{verdict.limiter}: {verdict.headline}"
        said = said[:1].upper() + said[1:]
        found += _wrapped(said, width)
    if verdict.actions and verdict.actions[0].in_steps:
        found.append(f"Without that, a step takes {milliseconds(verdict.traced_ms)} ms:")
    if verdict.traced_ms > 0:
        found += bar(step_parts(verdict.causes), verdict.traced_ms, width, legend)
    trust = _trust(verdict, width, most, in_short=in_short)
    doubt = trust if is_disturbed(verdict) else []
    found += doubt
    for number, action in enumerate(verdict.actions, start=1):
        title = _title(action, verdict)
        found += _fitting([f"{number}  {title}.", *_sentences(action.advice)], width, most)
    if verdict.traced_ms > 0 and (legend > 1 or not verdict.actions):
        found += _wrapped(nothing_found(verdict), width)
    alone = 5 if is_about_step(verdict) else 8
    for title, part, advice in other_parts(verdict):
        says_it = part.headline.startswith(title)
        said = part.headline if says_it else f"{title}: {part.headline}"
        found += _fitting([said, *_sentences(advice)], width, 2 if verdict.actions else alone)
    return found if doubt else [*found, *trust]


def is_disturbed(verdict: Verdict) -> bool:
    """Say whether other work on the machine may have made what the verdict says: that goes first.

    Operators of several threads take many times as long where one of these has no core.
    """
    failed = {check.check for check in verdict.trust if not check.passed}
    is_low = confidence(verdict) is Confidence.LOW
    return is_low and is_about_step(verdict) and not failed.isdisjoint(_OF_MACHINE)


def nothing_found(verdict: Verdict) -> str:
    """Return what is said where there is no action: found nothing, or could not look.

    So it is where actions leave what the GPU computes as it is, and that takes most.
    """
    if verdict.actions:
        at_gpu = any(one.cause.startswith(_COMPUTING[0]) for one in verdict.actions)
        rest = "" if at_gpu or verdict.limiter is not Limiter.GPU else _of_largest(verdict)
        return f"No known loss was recognised in computing.{rest}" if rest else ""
    unseen = {cause for check in verdict.trust if not check.passed for cause in check.silences}
    if not unseen:
        return f"No known loss was recognised.{_of_largest(verdict)}"
    named = [name for cause, name in _UNSEEN.items() if cause in unseen]
    return f"Could not look at {' and '.join(named or ['the causes'])}: see why below."


def _of_largest(verdict: Verdict) -> str:
    """Return what most of computing is, and where, as far as it takes much of the step."""
    by_time = sorted(verdict.causes, key=lambda cause: -cause.ms_per_step)
    what = next((one for one in by_time if _PART_OF_COMPUTING.fullmatch(one.id)), None)
    whole = next((one for one in by_time if one.id in _COMPUTING), None)
    there = whole.ms_per_step * float(whole.evidence.get("at_place_share", 0.0)) if whole else 0.0
    least = _MUCH * verdict.traced_ms
    of_step = f" of {milliseconds(verdict.traced_ms)} ms"
    said = ""
    if what and what.ms_per_step >= least:
        name, time = without_arguments(what.title), milliseconds(what.ms_per_step)
        said += f" The largest part is {name}, {time}{of_step}."
    if whole and there >= least:
        said += f" Most is in {whole.place}, {milliseconds(there)}{of_step}."
    on_gpu = what and said and what.id.startswith("gpu_")
    return (
        f"{said} Nsight Compute (NVIDIA) or ROCm Compute Profiler (AMD) says how near that is to "
        "the limits of the GPU."
        if on_gpu
        else said
    )


def step_time(verdict: Verdict) -> str:
    """Return the step time, and whether it is that of unprofiled steps; empty without one."""
    if not verdict.step_ms:
        return ""
    if verdict.is_whole:
        return f"{milliseconds(verdict.step_ms)} ms recorded, no step marked"
    run = "unprofiled" if verdict.is_unprofiled else "profiled"
    count = f" ({counted(verdict.steps, 'step')})" if verdict.steps else ""
    return f"step {milliseconds(verdict.step_ms)} ms {run}{count}"


def is_about_step(verdict: Verdict) -> bool:
    """Say whether there is a step to speak of, or nothing else to speak of."""
    return verdict.traced_ms > 0 or (verdict.memory is None and verdict.kernels is None)


def confidence(verdict: Verdict) -> Confidence:
    """Return how sure it is: of the step, or else of what is least sure of the others."""
    if is_about_step(verdict):
        return verdict.confidence
    return min((part.confidence for _, part, _ in other_parts(verdict)), key=_SURE.index)


def other_parts(verdict: Verdict) -> Iterator[tuple[str, MemoryVerdict | KernelVerdict, str]]:
    """Yield title, verdict and advice of memory and kernels.

    The advice is empty where the step has its own, and memory neither limits it nor grows.
    """
    memory, kernels = verdict.memory, verdict.kernels
    alone = not is_about_step(verdict)
    if memory is not None:
        is_said = memory.place in memory.advice
        place = "" if is_said else f"Where: {memory.place}."
        advice = f"{memory.advice} {place}".strip()
        is_urgent = memory.is_limit or memory.is_growing
        yield "Memory", memory, advice if alone or is_urgent else ""
    if kernels is not None:
        yield "Kernels", kernels, kernels.advice if alone else ""


def unsure_of_parts(verdict: Verdict) -> list[str]:
    """Return why memory or kernels, without a step, are not judged with high confidence."""
    if is_about_step(verdict):
        return []
    said = []
    memory, kernels = verdict.memory, verdict.kernels
    if memory is not None and memory.confidence is not Confidence.HIGH and memory.limit_bytes < 0:
        said.append("How much memory the GPU has was not recorded.")
    if kernels is not None:
        said.append(
            "The gain is an estimate of ncu's rules."
            if kernels.gain_percent
            else "Nothing measured says how much time this would save."
        )
    return said


def step_parts(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes that divide the step in a bar: the first level, with idle time divided."""
    parts = []
    for cause in causes:
        if "." not in cause.id:
            below = [one for one in causes if _is_below(one, cause) and cause.id in _DIVIDED]
            parts += below or [cause]
    return sorted(parts, key=lambda cause: -cause.ms_per_step)


_DIVIDED = ("gpu_idle", "exposed_communication", "blocked")


def _is_below(one: Cause, above: Cause) -> bool:
    return one.id.startswith(f"{above.id}.") and one.id.count(".") == above.id.count(".") + 1


def bar(parts: Sequence[Cause], step_ms: float, width: int, most_lines: int = 1) -> list[str]:
    """Draw what a step is divided into, each part as wide as it takes, small ones together.

    A part whose name does not fit has a letter, which the line below explains. There are up to
    `most_lines` below where one would leave more than a small rest unnamed.
    """
    large = [cause for cause in parts if cause.share >= _LEAST_PART]
    for lines_below in range(1, most_lines + 1):
        for most in range(_MOST_PARTS, 0, -1):
            drawn, below = _drawn(large[:most], step_ms, width)
            legend = _legend(below, width)
            if len(legend) <= lines_below:
                break
        if sum(cause.share for cause in large[most:]) <= _MOST_UNNAMED:
            break
    return [drawn, *legend]


def _legend(below: Sequence[str], width: int) -> list[str]:
    """Return what letters of a bar stand for, in lines between whole names."""
    whole = "  ".join(label.replace(" ", _HARD_SPACE) for label in below)
    made = textwrap.wrap(whole, width - 1, break_on_hyphens=False, break_long_words=False)
    return [f" {line.replace(_HARD_SPACE, ' ')}" for line in made]


def _drawn(parts: Sequence[Cause], step_ms: float, width: int) -> tuple[str, list[str]]:
    """Return the bar of `parts` and all others together, and what its letters stand for."""
    named = [(f"{cause.title} {milliseconds(cause.ms_per_step)}", cause.share) for cause in parts]
    rest = 1 - sum(share for _, share in named)
    if rest * step_ms > 0 and rest >= _LEAST_PART / 2:
        named.append((f"other {milliseconds(rest * step_ms)}", rest))
    free = width - len(named) - 1
    cells = [max(_FEWEST_CELLS, int(share * free)) for _, share in named]
    while sum(cells) > free and max(cells) > _FEWEST_CELLS:
        cells[cells.index(max(cells))] -= 1
    letters = iter(string.ascii_lowercase)
    drawn, below = [], []
    for (label, _), count in zip(named, cells, strict=True):
        letter = "" if len(label) <= count else next(letters)
        drawn.append((letter or label).center(count, "="))
        below += [f"{letter} {label}"] if letter else []
    return f"|{'|'.join(drawn)}|", below


def gain(action: Action, verdict: Verdict) -> str:
    """Return what an action of a verdict gains, "" where that is not known.

    It is a share of the step, and ms of a traced one, which is said where unprofiled ones take
    another time.
    """
    if not action.gain_ms:
        return ""
    if (of_time := action.evidence.get(TIME_SHARE)) is not None:
        return f"up to {float(of_time):.0%} of the time less"
    if not action.cause:  # it is beside the steps
        return f"up to {milliseconds(action.gain_ms)} ms per step less, on average"
    times = f"{milliseconds(action.gain_ms)} of {milliseconds(verdict.traced_ms)} ms"
    is_alike = abs(verdict.traced_ms - verdict.step_ms) <= _ALIKE * verdict.step_ms
    share = f"up to {action.gain_ms / verdict.traced_ms:.0%}"
    if verdict.is_whole:
        return f"{share} less ({times} recorded)"
    return f"{share} of a step less ({times}{'' if is_alike else ' traced'})"


def _title(action: Action, verdict: Verdict) -> str:
    known = gain(action, verdict)
    is_line = ".py(" in action.place and action.place not in action.advice
    said = f"{known}: " if known else ""
    return f"{said}{action.title}{f', {action.place}' if is_line else ''}"


def _sentences(text: str) -> list[str]:
    """Return the parts of a text that can stand alone: what is in brackets stays together."""
    found: list[str] = []
    is_open = False
    for part in _SENTENCE.split(text) if text else []:
        found[-1:] = [f"{found[-1]} {part}"] if is_open else [*found[-1:], part]
        is_open = found[-1].count("(") > found[-1].count(")")
    return found


def _fitting(sentences: Sequence[str], width: int, most: int) -> list[str]:
    """Return the first two `sentences`, and those that follow while all fit in `most` lines."""
    for count in range(len(sentences), 1, -1):
        text = " ".join(sentences[:count]).rstrip(";")
        ended = text if text.endswith(".") or count == len(sentences) else f"{text}."
        made = _wrapped(ended, width, "   ")
        if len(made) <= most or count == 2:  # noqa: PLR2004
            return made
    return _wrapped(" ".join(sentences), width, "   ")


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text` in lines; only a path that is longer by itself exceeds `width`."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _trust(verdict: Verdict, width: int, most: int, *, in_short: bool) -> list[str]:
    """Return how sure the verdict is, and the checks of the recording that failed.

    Those whose sentences do not fit in `most` lines are given in a few words each; `in_short`, all
    are, or the first one alone in one sentence.
    """
    sure = f"Confidence {confidence(verdict)}."
    if not is_about_step(verdict):
        return _wrapped(" ".join((sure, *unsure_of_parts(verdict))), width)
    failed = [check for check in verdict.trust if not check.passed]
    seen = failed or [check for check in verdict.trust if check.check in _ALWAYS]
    if not seen:
        return [f"{sure} No check of the recording failed."]
    if in_short and failed:
        # What has no short form is about the program, and not about how that was recorded.
        is_short = failed[0].check in SHORT
        first, colon, _ = _sentences(failed[0].message)[0].partition(": ")
        why = f"{first}." if colon else first
        doubt = f": {in_short_of(failed)}." if is_short else f". {why}"
        return _wrapped(f"{sure[:-1]}{doubt}", width)
    for count in range(len(seen), 0, -1):
        said = [sure, *(check.message for check in seen[:count])]
        if more := seen[count:] if failed else []:
            said.append(f"Also: {in_short_of(more)}.")
        made = _wrapped(" ".join(said), width)
        if len(made) <= most:
            break
    return made


_UNSEEN = {
    "gpu_computing": "GPU work",
    "gpu_idle": "GPU idle time",
    "exposed_communication": "communication",
    "exposed_communication.waiting": "who waits for whom",
}
_SURE = [Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH]
_ALWAYS = ("steps", "ranks", "profiler overhead")
_OF_MACHINE = ("machine", "cores")
