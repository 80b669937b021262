"""The verdict on a run as the page shows it, with the numbers of the terminal."""

from profkit.core.formatting import milliseconds
from profkit.core.verdict import Action, Verdict
from profkit.report import view
from profkit.report.verdict_text import confidence, is_about_step, other_parts, step_parts

_SHOWN_SHARE = 0.01
_LETTERS_OF_BAR = 140


def shown(verdict: Verdict) -> view.RunVerdict:
    """Return what the page shows of `verdict`."""
    parts = [cause for cause in step_parts(verdict.causes) if cause.share >= _SHOWN_SHARE]
    about_step = is_about_step(verdict)
    return view.RunVerdict(
        limiter=verdict.limiter.value if about_step else "",
        headline=verdict.headline if about_step else "",
        confidence=confidence(verdict).value,
        step_ms=milliseconds(verdict.step_ms),
        traced_ms=milliseconds(verdict.traced_ms),
        is_unprofiled=verdict.is_unprofiled,
        parts=tuple(
            _part(cause.title, milliseconds(cause.ms_per_step), cause.share) for cause in parts
        ),
        actions=tuple(map(_action, verdict.actions)),
        others=tuple(
            view.OtherVerdict(title=title, headline=part.headline, advice=advice)
            for title, part, advice in other_parts(verdict)
        ),
        failed=tuple(check.message for check in verdict.trust if not check.passed),
        passed=tuple(check.message for check in verdict.trust if check.passed),
    )


def _part(title: str, ms: str, share: float) -> view.StepPart:
    letters = len(f"{title} {ms} ms")
    return view.StepPart(
        title=title, ms=ms, share=share, is_narrow=letters > share * _LETTERS_OF_BAR
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
