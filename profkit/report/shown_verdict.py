"""The verdict on a run as the page shows it, with the numbers of the terminal."""

from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Verdict
from profkit.report import view
from profkit.report.verdict_text import step_parts

_SHOWN_SHARE = 0.01


def shown(verdict: Verdict) -> view.RunVerdict:
    """Return what the page shows of `verdict`."""
    parts = [cause for cause in step_parts(verdict.causes) if cause.share >= _SHOWN_SHARE]
    others = (verdict.memory, verdict.kernels)
    return view.RunVerdict(
        limiter=verdict.limiter.value,
        headline=verdict.headline,
        confidence=verdict.confidence.value,
        step_ms=milliseconds(verdict.step_ms),
        parts=tuple(
            view.StepPart(title=cause.title, ms=milliseconds(cause.ms_per_step), share=cause.share)
            for cause in parts
        ),
        actions=tuple(map(_action, verdict.actions)),
        others=tuple(other.headline for other in others if other is not None),
        failed=tuple(check.message for check in verdict.trust if not check.passed),
        passed=tuple(check.message for check in verdict.trust if check.passed),
    )


def _action(action: Action) -> view.ToDo:
    return view.ToDo(
        title=action.title,
        gain=f"{milliseconds(action.gain_ms)} ms" if action.gain_ms else "",
        advice=action.advice,
        place=action.place,
        confidence=action.confidence.value,
        source=action.source,
    )
