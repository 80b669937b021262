"""Which of several optimizers, or models, ends a step."""

import weakref
from dataclasses import dataclass
from typing import Literal, NamedTuple

StepKind = Literal["auto", "optimizer", "forward", "mark"]
"""What a step of a script is: see `profkit.workloads.script`."""

_LONGEST = 64
"""Repeated calls of a round at most: longer turns are stages, in which each call is a step."""

_OF_STAGE = 4
"""Calls in a row of each optimizer at least that are stages, as those of folds, and no round."""

_SLACK = 8
"""Calls by which a round may be longer than twice the one before."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a step of several optimizers is, which are numbered as they joined."""

    calls: tuple[int, ...]
    """How often each is called."""

    last: int
    """Number of the one whose last call ends the step."""


class Joined(NamedTuple):
    """Steps that turned out to be one."""

    steps: int
    before: int
    """Steps that have ended after them."""


class StepEnds:
    """Decides whether a call of an optimizer's step, or of a model, ends a step.

    One optimizer: each of its calls ends a step. Several (the two of a GAN, one for each
    parameter): a step is a round, until the first one returns. How many calls that has shows when
    it first returns; before, calls of the one that joined last end a step. If the second round has
    as many calls, the steps of the first one are `joined`; one with the calls of the one before is
    `confirmed`. Several that never return, or after many calls, or that are each called several
    times in a row (folds, clients of federated learning) are stages of a program: each call is a
    step.

    One that lives for one step, as the inner optimizers of meta-learning, has the number of one
    that is gone. Of models, whose calls differ with the request, the one that joined last always
    ends the step.
    """

    def __init__(self, expected: Round | None = None, *, has_rounds: bool = True) -> None:
        self.has_rounds = has_rounds
        self.steps = 0
        self.joined: Joined | None = None
        self.late = 0
        """Steps before one joined that has ended them since, if these are no parts of a step."""
        self.confirmed = expected
        self._begin_anew(expected)

    def _begin_anew(self, expected: Round | None = None) -> None:
        self.numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self.names: list[str] = []
        self.calls: list[int] = []
        self.round = expected
        self.is_staged = self.has_joined_apart = False
        self.first_calls: tuple[int, ...] = ()
        self.previous = self.last = 0
        self.last_called: weakref.ref[object] | None = None
        self.in_row = self.switches = self.waited = self.ended = self.first_steps = 0

    def ends_step(self, called: object) -> bool:
        """Count a finished call of `called`, and say whether it ends a step."""
        self.joined = None
        if self.round is not None and self.waited > 2 * sum(self.round.calls) + _SLACK:
            self._begin_anew()
        number = self._number(called)
        returns = self.has_rounds and number == 0 and self.previous > 0 and not self.is_staged
        is_overdue = returns and self._return()
        joins = number == len(self.calls)
        if joins:
            self.calls.append(0)
        self.calls[number] += 1
        self.waited += 1
        ends = self._is_end(called, number, joins=joins) or is_overdue
        self.in_row = self.in_row + 1 if number == self.previous else 1
        self.switches += number != self.previous
        self.previous = number
        if ends:
            self.steps += 1
            self.ended += 1
            self.waited = 0
            if self.round is not None and not self.confirmed and self._is_as_first():
                self.confirmed = self.round if tuple(self.calls) == self.round.calls else None
            if self.first_steps and self.round is not None:
                self._join_first()
        return ends

    def _number(self, called: object) -> int:
        """Return the number of `called`; a new one takes that of one that is gone."""
        if called not in self.numbers:
            gone = {*range(len(self.names))} - {*self.numbers.values()}
            number = self.numbers[called] = min(gone, default=len(self.names))
            kind = called if isinstance(called, type) else type(called)
            self.names[number : number + 1] = [kind.__name__]
        return self.numbers[called]

    def _return(self) -> bool:
        """Begin a round; say whether the one before it had no end."""
        calls = tuple(self.calls)
        is_overdue = not self.ended
        if self.round is None:
            is_long = sum(calls) - len(calls) > _LONGEST
            is_in_rows = self.switches < len(calls) and min(calls) >= _OF_STAGE
            self.is_staged = is_long or is_in_rows
            self.first_calls, self.first_steps = calls, self.ended
            if self.is_staged:
                self.late = 0
        elif is_overdue:
            self.first_steps = 0
        self.round = None if self.is_staged else Round(calls, self.previous)
        self.calls = [0] * len(calls)
        self.ended = 0
        return is_overdue

    def _is_end(self, called: object, number: int, *, joins: bool) -> bool:
        if self.is_staged:
            return True
        if self.round is not None:
            is_last = number == self.round.last
            return is_last and self.calls[number] == self.round.calls[number]
        is_gone = self.last_called is None or self.last_called() is None
        if number != self.last and not (joins or is_gone):
            return False
        self.last, self.last_called = number, weakref.ref(called)
        if not (joins and number):
            return True
        if self.steps > 1:
            self.late = self.steps
        # After a single call of the one before, it belongs to the step that this one has ended.
        self.has_joined_apart = self.in_row > 1
        return self.has_joined_apart

    def _is_as_first(self) -> bool:
        """Say whether the first round had the calls of this one, but for some that it lacked.

        One that others join late was called more often in it.
        """
        both = zip(self.first_calls, self.calls, strict=False)
        return all(first <= now for first, now in both)

    def _join_first(self) -> None:
        """Join the steps of the first round, now that the second one has ended."""
        if self._is_as_first():
            self.late = 0
            if self.first_steps > 1:
                self.joined = Joined(self.first_steps, 1)
        elif self.has_joined_apart:
            self.joined = Joined(2, 1)
        self.first_steps = 0
