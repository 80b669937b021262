"""The verdict on a run as plain data, before any HTML."""

from dataclasses import dataclass

from profkit.report.labelled_values import Item


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPart:
    """A part of the step bar."""

    title: str
    cause: str
    """Id of its cause, by which its evidence is found in tables and drawings."""

    ms: str
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ToDo:
    """One action of the verdict."""

    title: str
    cause: str
    """Id of the cause that it removes."""

    cause_title: str
    gain: str
    """Upper bound of its gain, with what it is of."""

    advice: str
    place: str
    confidence: str
    source: str
    evidence: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherVerdict:
    """What fills the memory of a run, or what its measured kernels wait for."""

    title: str
    topic: str
    """Name of the view that shows its evidence."""

    headline: str
    advice: str
    gain: str
    """Upper bound of its gain, with what it is of; empty where that has no sense."""

    confidence: str
    source: str
    names: tuple[str, ...]
    """Names in tables and drawings that are its evidence."""

    evidence: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVerdict:
    """What limits a run, what to do, and how sure that is."""

    limiter: str
    """Empty, like the headline, where no step was to be recorded."""

    headline: str
    confidence: str
    is_disturbed: bool
    """Whether that goes before what it says, as other work on the machine may have made it."""

    step_ms: str
    of_step: str
    """Which step the causes are of, as the name of their bar."""

    about_step: str
    """How that step differs from the unprofiled ones, as a sentence; empty without these."""

    parts: tuple[StepPart, ...]
    small: tuple[str, ...]
    """Parts that are too small to be drawn, with their ms, without those that rounding hides."""

    actions: tuple[ToDo, ...]
    nothing: str
    """What is said where there is no action; empty where there is one, or no step."""

    others: tuple[OtherVerdict, ...]

    failed: tuple[str, ...]
    passed: tuple[str, ...]
    """Checks of the recording that failed, and that passed."""
