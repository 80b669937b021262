"""The verdict on a run as the page shows it, with the numbers of the terminal."""

from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Cause, Verdict
from profkit.report import verdict_view
from profkit.report.column_labels import column
from profkit.report.labelled_values import Item
from profkit.report.verdict_text import confidence, is_about_step, other_parts, step_parts

_SHOWN_SHARE = 0.01


def shown(verdict: Verdict) -> verdict_view.RunVerdict:
    """Return what the page shows of `verdict`."""
    parts = [cause for cause in step_parts(verdict.causes) if cause.share >= _SHOWN_SHARE]
    causes = {cause.id: cause for cause in verdict.causes}
    about_step = is_about_step(verdict)
    return verdict_view.RunVerdict(
        limiter=verdict.limiter.value if about_step else "",
        headline=verdict.headline if about_step else "",
        confidence=confidence(verdict).value,
        step_ms=milliseconds(verdict.step_ms),
        traced_ms=milliseconds(verdict.traced_ms),
        is_unprofiled=verdict.is_unprofiled,
        parts=tuple(map(_part, parts)),
        actions=tuple(_action(action, causes.get(action.cause)) for action in verdict.actions),
        others=tuple(
            verdict_view.OtherVerdict(title=title, headline=part.headline, advice=advice)
            for title, part, advice in other_parts(verdict)
        ),
        failed=tuple(check.message for check in verdict.trust if not check.passed),
        passed=tuple(check.message for check in verdict.trust if check.passed),
    )


def _part(cause: Cause) -> verdict_view.StepPart:
    return verdict_view.StepPart(
        title=cause.title,
        cause=cause.id,
        ms=milliseconds(cause.ms_per_step),
        share=cause.share,
    )


def _action(action: Action, cause: Cause | None) -> verdict_view.ToDo:
    numbers = action.evidence if cause is None else {**cause.evidence, **action.evidence}
    return verdict_view.ToDo(
        title=action.title,
        cause=action.cause,
        cause_title="" if cause is None else cause.title,
        gain=milliseconds(action.gain_ms) if action.gain_ms else "",
        advice=action.advice,
        place=action.place,
        confidence=action.confidence.value,
        source=action.source,
        evidence=tuple(_item(name, value) for name, value in numbers.items()),
    )


def _item(name: str, value: str | float) -> Item:
    shown = column(name)
    return Item(label=shown.label, value=value, unit=shown.unit)
