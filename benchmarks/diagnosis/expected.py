"""What a case states before anything runs, and what a verdict says of it afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOLERANCE = 0.15


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of fault, at three sizes."""

    name: str
    limiters: tuple[str, ...]
    """Limiters, any of which is right."""

    causes: tuple[str, ...] = ()
    """Ids of which the cause of the first action must be one, or lie below one; none: a clean
    program, which must have no action."""

    words: str = ""
    """One of these, parted by ``|``, is in the place, title or advice of the first action, or is
    in the place of its cause."""

    sizes: tuple[Mapping[str, Any], ...] = ({},)
    """What makes the fault small, medium and large."""

    has_size: bool = True
    """Whether what the fault costs can be measured by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A case and the verdict on it."""

    kind: Kind
    size: int
    injected_ms: float
    verdict: Mapping[str, Any] | None
    """As in ``results/report.json``; None if the run has none."""

    @property
    def first(self) -> Mapping[str, Any] | None:
        """The first action."""
        actions: Sequence[Mapping[str, Any]] = (self.verdict or {}).get("actions", ())
        return actions[0] if actions else None

    @property
    def said(self) -> str:
        """What the verdict says first, for readers."""
        if self.verdict is None:
            return "no verdict"
        return str(self.first["cause"]) if self.first else "no action"

    @property
    def is_limiter_right(self) -> bool:
        """Whether the limiter is one that was expected."""
        return self.verdict is not None and self.verdict["limiter"] in self.kind.limiters

    @property
    def is_cause_right(self) -> bool:
        """Whether the first action is about the fault, or a clean program has none."""
        if not self.kind.causes or self.first is None:
            return self.verdict is not None and not self.kind.causes and self.first is None
        return self._is_about_fault(self.first)

    def _is_about_fault(self, action: Mapping[str, Any]) -> bool:
        parts = [action[part] for part in ("place", "title", "advice")]
        text = " ".join([*parts, self._place(action["cause"])]).lower()
        return _lies_below(action["cause"], self.kind.causes) and any(
            word in text for word in self.kind.words.lower().split("|")
        )

    def _place(self, cause: str) -> str:
        """Return the place of a cause, which its action may lack."""
        causes = self.verdict["causes"] if self.verdict else ()
        return next((str(one["place"]) for one in causes if one["id"] == cause), "")

    @property
    def found_ms(self) -> float:
        """The gain of all actions about the fault; 0 if it was not found."""
        actions = self.verdict["actions"] if self.verdict and self.is_cause_right else ()
        return sum(float(action["gain_ms"]) for action in actions if self._is_about_fault(action))

    @property
    def is_size_right(self) -> bool:
        """Whether the gain is what was injected, within 15 %."""
        return abs(self.found_ms - self.injected_ms) <= _TOLERANCE * self.injected_ms

    @property
    def is_right(self) -> bool:
        """Whether cause, limiter and, where it can be measured, size are right."""
        has_size = bool(self.kind.causes) and self.kind.has_size
        return (
            self.is_cause_right and self.is_limiter_right and (self.is_size_right or not has_size)
        )

    def row(self) -> str:
        """Return the line of the table."""
        injected = f"{self.injected_ms:9.2f}" if self.kind.has_size else f"{'-':>9}"
        marks = "ok" if self.is_cause_right else "MISS"
        if self.is_cause_right and self.kind.has_size and not self.is_size_right:
            marks = "size"
        limiter = (self.verdict or {}).get("limiter", "-")
        wrong = "" if self.is_limiter_right else " (!)"
        return (
            f"{self.kind.name:24} {self.size} {self.said[:46]:46} {injected} {self.found_ms:9.2f} "
            f"{marks:4}  {limiter}{wrong}"
        )

    def miss(self) -> str:
        """Return what was expected and what was said, of a case that failed."""
        expected = " or ".join(self.kind.causes) or "no action"
        lines = [f"{self.kind.name} {self.size}: expected {expected}, {self.kind.words!r}"]
        verdict = self.verdict or {}
        lines += [
            f"    {action['gain_ms']:.2f} ms {action['cause']} [{action['place']}] "
            f"{action['title']}: {action['advice']}"
            for action in verdict.get("actions", ())
        ]
        causes = sorted(verdict.get("causes", ()), key=lambda cause: -cause["ms_per_step"])
        lines += [
            f"      {cause['ms_per_step']:9.2f} ms {cause['id']} [{cause['place']}]"
            for cause in causes[:8]
        ]
        return "\n".join(lines)


def _lies_below(cause: str, ids: Sequence[str]) -> bool:
    return any(f"{cause}.".startswith(f"{one}.") for one in ids)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the shares of right causes and sizes, and of clean programs without an action."""
    faults = [outcome for outcome in outcomes if outcome.kind.causes]
    clean = [outcome for outcome in outcomes if not outcome.kind.causes]
    sized = [outcome for outcome in faults if outcome.kind.has_size]
    parts = {
        "first cause right": [outcome.is_cause_right for outcome in faults],
        "size within 15 %": [outcome.is_cause_right and outcome.is_size_right for outcome in sized],
        "limiter right": [outcome.is_limiter_right for outcome in outcomes],
        "clean without an action": [outcome.is_cause_right for outcome in clean],
    }
    return "\n".join(
        f"{name}: {sum(right)} of {len(right)}, {sum(right) / len(right):.1%}"
        for name, right in parts.items()
        if right
    )
