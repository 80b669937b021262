"""The verdict on a run: what limits its step, what to do, and how sure that is."""

from dataclasses import dataclass, field
from enum import StrEnum

Evidence = dict[str, str | int | float | bool]
"""Named numbers and words by which a sentence can be checked; units are suffixes of the names."""


TIME_SHARE = "time_share"
"""Evidence of an action on what is not done in each step: its part of all time, 0 to 1."""


class Limiter(StrEnum):
    """What a step waits for most, or where the run spends more time than in steps."""

    GPU = "GPU-bound"
    CPU = "CPU-bound"
    INPUT = "input-bound"
    COPIES = "copy-bound"
    COMMUNICATION = "communication-bound"
    STRAGGLER = "straggler"
    WAITING = "waiting"
    MEMORY = "memory-bound"
    OUTSIDE = "between steps"
    UNSTABLE = "unstable"
    UNKNOWN = "not enough recorded"


class Confidence(StrEnum):
    """How sure a verdict, a cause or an action is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A part of the step time; the causes of one level of the tree sum to the one above."""

    id: str
    """Path from the root, such as ``gpu_idle.loading_data``."""

    title: str
    """Name of the cause, in a few words."""

    ms_per_step: float
    """Its time in a mean steady step, in ms."""

    gain_ms: float
    """Upper bound of what removing it gains per step: its exposed time, in ms."""

    share: float
    """`ms_per_step` of the step time, 0 to 1."""

    place: str = ""
    """Where to look: ``file.py(line): function``, operator, module or rank; empty if unknown."""

    advice: str = ""
    """What to do, from the pattern or rule that recognised it; empty if nothing is worth it."""

    evidence: Evidence = field(default_factory=dict)
    """The numbers behind it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One thing to do, with the bound of what it gains."""

    cause: str
    """`Cause.id` that it removes or makes smaller."""

    title: str
    """What is wrong, in a few words."""

    advice: str
    """What to change: line, API, flag or setting."""

    gain_ms: float
    """Upper bound of its gain per step, in ms."""

    place: str = ""
    """Where to change it."""

    confidence: Confidence = Confidence.MEDIUM
    """How sure it is."""

    source: str = ""
    """Document behind the advice, as a URL."""

    pattern: str = ""
    """Pattern that recognised it; empty for advice that belongs to the cause itself."""

    evidence: Evidence = field(default_factory=dict)
    """The numbers behind it."""

    in_steps: str = ""
    """In which of the steps after those that were traced it happens, such as ``3 of 12``; the gain
    is spread over all of them, and is no part of the causes. Empty if it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """One check of the recording, made before any sentence about it."""

    check: str
    """Name of the check, such as ``dropped events``."""

    passed: bool
    """Whether the recording passed it."""

    message: str
    """What was seen, as a sentence; of a check that failed also what it makes doubtful."""

    silences: tuple[str, ...] = ()
    """Causes (`Cause.id` of them or of the one above) that nothing is said about for this reason;
    empty for a check that only lowers the confidence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryVerdict:
    """What fills the memory at its peak, and how far that is from the limit."""

    headline: str
    """At most 15 words, the bytes first."""

    is_limit: bool = False
    """Whether memory ran out, or its shortage costs time: the run is memory-bound."""

    is_growing: bool = False
    """Whether it grows with every step: it will run out."""

    peak_bytes: int = -1
    limit_bytes: int = -1
    filled_by: dict[str, int] = field(default_factory=dict)
    """Bytes at the peak by what they are, the largest first."""

    advice: str = ""
    place: str = ""
    confidence: Confidence = Confidence.MEDIUM
    source: str = ""
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelVerdict:
    """The rule of Nsight Compute that gains most, with the launches that it concerns."""

    headline: str
    """At most 15 words."""

    kernel: str = ""
    rule: str = ""
    """Name of the rule, as the report has it."""

    launches: int = 0
    """Measured launches that it concerns."""

    gain_percent: float = 0.0
    """Estimated time saved, of the launches that it concerns, 0 to 100."""

    advice: str = ""
    confidence: Confidence = Confidence.MEDIUM
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What limits the step of a run, at most three things to do, and how sure that is."""

    limiter: Limiter
    headline: str
    """At most 15 words, ms first."""

    step_ms: float
    """Step time of the run in ms, as everything else prints it: of the unprofiled steps where there
    are any, or else `traced_ms`. 0 if no time was divided."""

    confidence: Confidence
    causes: tuple[Cause, ...] = ()
    """All causes of the rank that decides, the root excluded, each level from large to small."""

    actions: tuple[Action, ...] = ()
    """At most three, the largest gain first."""

    memory: MemoryVerdict | None = None
    kernels: KernelVerdict | None = None
    trust: tuple[Trust, ...] = ()
    traced_ms: float = 0.0
    """Mean time of a traced step from its start to the start of the next, in ms, without
    `overhead_ms`: what the causes sum to, and their shares and gains are of."""

    overhead_ms: float = 0.0
    """What the profiler adds to a traced step by slowing the CPU down while the GPU waits, in ms; 0
    where that is not known."""

    is_whole: bool = False
    """Whether no step was marked, so that all that was recorded counts as one."""

    is_unprofiled: bool = False
    """Whether `step_ms` is of unprofiled steps."""

    steps: int = 0
    """Unprofiled steps of a rank, those to warm up among them; 0 without any."""
