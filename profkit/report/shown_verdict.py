"""The verdict on a run as the page shows it, with the numbers of the terminal."""

import re

from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Cause, Evidence, KernelVerdict, MemoryVerdict, Verdict
from profkit.report import verdict_view
from profkit.report.column_labels import columns
from profkit.report.labelled_values import Item
from profkit.report.verdict_text import (
    confidence,
    gain,
    is_about_step,
    is_disturbed,
    nothing_found,
    other_parts,
    step_parts,
    unsure_of_parts,
)

_NOT_IN_IMPORTS = "Profiler overhead and machine load are not known: the recording was imported."
_OF_OTHERS = "The bar is of a step without that. "
_IS_FLAG = re.compile(r"is_")
_SHOWN_SHARE = 0.01
_TOLD_SHARE = 1e-4


def shown(verdict: Verdict, *, is_imported: bool = False) -> verdict_view.RunVerdict:
    """Return what the page shows of `verdict`, which may be of an imported recording."""
    every = step_parts(verdict.causes)
    parts = [cause for cause in every if cause.share >= _SHOWN_SHARE]
    causes = {cause.id: cause for cause in verdict.causes}
    about_step = is_about_step(verdict)
    return verdict_view.RunVerdict(
        limiter=verdict.limiter.value if about_step else "",
        headline=_headline(verdict) if about_step else "",
        confidence=confidence(verdict).value,
        is_disturbed=is_disturbed(verdict),
        step_ms=milliseconds(verdict.step_ms),
        of_step=_of_step(verdict),
        about_step=_about_step(verdict),
        parts=tuple(map(_part, parts)),
        small=tuple(
            f"{cause.title} {milliseconds(cause.ms_per_step)} ms"
            for cause in every
            if _TOLD_SHARE <= cause.share < _SHOWN_SHARE
        ),
        actions=tuple(
            _action(action, causes.get(action.cause), verdict) for action in verdict.actions
        ),
        nothing=nothing_found(verdict) if parts else "",
        others=tuple(
            _memory(title, part, advice)
            if isinstance(part, MemoryVerdict)
            else _kernels(title, part, advice)
            for title, part, advice in other_parts(verdict)
        ),
        failed=(
            *(check.message for check in verdict.trust if not check.passed),
            *unsure_of_parts(verdict),
        ),
        passed=(
            *(check.message for check in verdict.trust if check.passed),
            *[_NOT_IN_IMPORTS] * is_imported,
        ),
    )


def _headline(verdict: Verdict) -> str:
    """Return the headline without the words for the limiter, which stand before it."""
    said, limiter = verdict.headline, verdict.limiter
    return said[len(limiter) :].lstrip(": ") if said.lower().startswith(limiter) else said


def _of_step(verdict: Verdict) -> str:
    traced = "traced " if verdict.is_unprofiled and not verdict.overhead_ms else ""
    return f"Causes of a {traced}step of {milliseconds(verdict.traced_ms)} ms"


def _about_step(verdict: Verdict) -> str:
    in_some = verdict.actions[:1] and verdict.actions[0].in_steps
    return f"{_OF_OTHERS if in_some else ''}{_beside_unprofiled(verdict)}".strip()


def _beside_unprofiled(verdict: Verdict) -> str:
    traced_ms = milliseconds(verdict.traced_ms + verdict.overhead_ms)
    if verdict.overhead_ms:
        left_out = f"the {milliseconds(verdict.overhead_ms)} ms by which the profiler slows the CPU"
        return f"Traced steps take {traced_ms} ms; {left_out} down are left out."
    if verdict.is_unprofiled:
        step_ms = milliseconds(verdict.step_ms)
        others = "a typical one of the unprofiled run, which has more,"
        return f"Traced steps take {traced_ms} ms; {others} {step_ms} ms."
    return ""


def _part(cause: Cause) -> verdict_view.StepPart:
    return verdict_view.StepPart(
        title=cause.title,
        cause=cause.id,
        ms=milliseconds(cause.ms_per_step),
        share=cause.share,
    )


def _action(action: Action, cause: Cause | None, verdict: Verdict) -> verdict_view.ToDo:
    # What a pattern has counted is of its own rows, and not of all that its cause has.
    numbers = action.evidence or ({} if cause is None else cause.evidence)
    return verdict_view.ToDo(
        title=action.title,
        cause=action.cause,
        cause_title="" if cause is None else cause.title,
        gain=gain(action, verdict) or "Gain not known",
        advice=action.advice,
        place=action.place,
        confidence=action.confidence.value,
        source=action.source,
        evidence=_items(numbers),
    )


def _memory(title: str, memory: MemoryVerdict, advice: str) -> verdict_view.OtherVerdict:
    # Without a place, what fills most of it is what its bands are called.
    names = [memory.place] if memory.place else [*memory.filled_by][:1]
    return verdict_view.OtherVerdict(
        title=title,
        topic="memory",
        headline=memory.headline,
        advice=advice,
        gain="",
        confidence=memory.confidence.value,
        source=memory.source,
        names=tuple(names),
        evidence=_items(memory.evidence),
    )


def _kernels(title: str, kernels: KernelVerdict, advice: str) -> verdict_view.OtherVerdict:
    of = f"{kernels.launches} measured launch{'es' if kernels.launches > 1 else ''}"
    return verdict_view.OtherVerdict(
        title=title,
        topic="compute",
        headline=kernels.headline,
        advice=advice,
        gain=f"up to {kernels.gain_percent:.0f} % of {of} less"
        if kernels.gain_percent
        else "Gain not known",
        confidence=kernels.confidence.value,
        source="",
        # Tables call a kernel together with its grid: its rule and their advice name it, too.
        names=tuple(filter(None, (kernels.kernel, kernels.rule, kernels.advice))),
        evidence=_items({"launches": kernels.launches, **kernels.evidence}),
    )


def _items(evidence: Evidence) -> tuple[Item, ...]:
    """Return what readers are shown of the evidence: no flag, which only chooses a sentence."""
    facts = {name: evidence[name] for name in evidence if not _IS_FLAG.match(name)}
    return tuple(
        Item(label=shown.label, value=value, unit=shown.unit)
        for shown, value in zip(columns([*facts]), facts.values(), strict=True)
    )
