"""The verdict as at most 15 lines for a terminal: limiter, headline, step bar, actions, trust."""

import textwrap
from collections.abc import Iterator, Sequence

from profkit.core.formatting import milliseconds, shortened
from profkit.core.verdict import (
    Action,
    Cause,
    Confidence,
    KernelVerdict,
    MemoryVerdict,
    Verdict,
)

MOST_LINES = 15
_LEAST_PART = 0.02
_FEWEST_CELLS = 3
_MOST_PARTS = 8


def lines(verdict: Verdict, width: int = 80) -> list[str]:
    """Return the verdict in lines of at most `width` characters."""
    found = []
    if is_about_step(verdict):
        found.append(shortened(f"{verdict.limiter}: {verdict.headline}", width))
    if verdict.step_ms > 0:
        found.append(bar(step_parts(verdict.causes), verdict.step_ms, width))
    for number, action in enumerate(verdict.actions, start=1):
        found += _action(number, action, width)
    if not verdict.actions and verdict.step_ms > 0:
        found.append("Nothing stands out that is worth a change.")
    for title, part, advice in other_parts(verdict):
        found.append(shortened(f"{title}: {part.headline}", width))
        found += _wrapped(advice, width, most=2 if verdict.actions else 5)
    return [*found, *_trust(verdict, width)][:MOST_LINES]


def is_about_step(verdict: Verdict) -> bool:
    """Say whether there is a step to speak of, or nothing else to speak of."""
    return verdict.step_ms > 0 or (verdict.memory is None and verdict.kernels is None)


def confidence(verdict: Verdict) -> Confidence:
    """Return how sure it is: of the step, or else of what is least sure of the others."""
    if is_about_step(verdict):
        return verdict.confidence
    return min((part.confidence for _, part, _ in other_parts(verdict)), key=_SURE.index)


def other_parts(verdict: Verdict) -> Iterator[tuple[str, MemoryVerdict | KernelVerdict, str]]:
    """Yield title, verdict and advice of memory and kernels.

    The advice is empty where the step has its own, and memory does not limit it.
    """
    memory, kernels = verdict.memory, verdict.kernels
    alone = not is_about_step(verdict)
    if memory is not None:
        advice = f"{memory.advice} {memory.place}".strip()
        yield "Memory", memory, advice if alone or memory.is_limit else ""
    if kernels is not None:
        yield "Kernels", kernels, kernels.advice if alone else ""


def step_parts(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes that divide the step in a bar: the first level, with idle time divided."""
    parts = []
    for cause in causes:
        if "." not in cause.id:
            below = [one for one in causes if _is_below(one, cause) and cause.id in _DIVIDED]
            parts += below or [cause]
    return sorted(parts, key=lambda cause: -cause.ms_per_step)


_DIVIDED = ("gpu_idle", "exposed_communication")


def _is_below(one: Cause, above: Cause) -> bool:
    return one.id.startswith(f"{above.id}.") and one.id.count(".") == above.id.count(".") + 1


def bar(parts: Sequence[Cause], step_ms: float, width: int) -> str:
    """Draw what a step is divided into, each part as wide as it takes, small ones together."""
    large = [cause for cause in parts if cause.share >= _LEAST_PART][:_MOST_PARTS]
    named = [(f"{cause.title} {milliseconds(cause.ms_per_step)}", cause.share) for cause in large]
    rest = 1 - sum(share for _, share in named)
    if rest * step_ms > 0 and rest >= _LEAST_PART / 2:
        named.append((f"other {milliseconds(rest * step_ms)}", rest))
    free = width - len(named) - 1
    cells = [max(_FEWEST_CELLS, int(share * free)) for _, share in named]
    while sum(cells) > free and max(cells) > _FEWEST_CELLS:
        cells[cells.index(max(cells))] -= 1
    drawn = (_segment(label, count) for (label, _), count in zip(named, cells, strict=True))
    return f"|{'|'.join(drawn)}|"


def _segment(label: str, cells: int) -> str:
    return label[:cells].center(cells, "=")


def _action(number: int, action: Action, width: int) -> Iterator[str]:
    """Yield one action: its gain and title in a line, and its advice in at most two."""
    gain = f"up to -{milliseconds(action.gain_ms)} ms" if action.gain_ms else ""
    yield shortened(f"{number}  {gain:>16}  {action.title}", width)
    yield from _wrapped(action.advice, width)


def _wrapped(advice: str, width: int, most: int = 2) -> Iterator[str]:
    """Yield `advice` in at most so many lines."""
    text = textwrap.wrap(advice, width - 3, max_lines=most, placeholder=" ...")
    yield from (shortened(f"   {line}", width) for line in text)


def _trust(verdict: Verdict, width: int) -> Iterator[str]:
    """Yield how sure the verdict is, and the checks of the recording that failed."""
    if not is_about_step(verdict):
        yield f"Confidence {confidence(verdict)}."
        return
    failed = [check for check in verdict.trust if not check.passed]
    seen = failed or [check for check in verdict.trust if check.check in _ALWAYS]
    text = " ".join(check.message for check in seen) or "No check of the recording failed."
    yield from textwrap.wrap(
        f"Confidence {confidence(verdict)}. {text}", width, max_lines=2, placeholder=" ..."
    )


_SURE = [Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH]
_ALWAYS = ("steps", "ranks", "profiler overhead")
