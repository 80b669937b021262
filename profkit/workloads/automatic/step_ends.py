"""Which of several optimizers, or models, ends a step."""

import weakref
from typing import Literal

StepKind = Literal["auto", "optimizer", "forward", "mark"]
"""What a step of a script is: see `profkit.workloads.script`."""


class StepEnds:
    """Decides whether a call of an optimizer's step, or of a model, ends a step.

    One optimizer: each of its calls ends a step. Several (the two of a GAN, one for each
    parameter): calls of the one that joined last end a step, as all others have then been called.
    The first call of an optimizer ends no step, unless it is the only one.

    Some live for one step, as the inner optimizers of meta-learning: when the one that joined last
    is gone, one that was called again after that had joined ends the steps, and no other joins.
    """

    def __init__(self) -> None:
        self.known: weakref.WeakSet[object] = weakref.WeakSet()
        self.called_again: weakref.WeakSet[object] = weakref.WeakSet()
        self.last_joined: weakref.ref[object] | None = None
        self.has_outlived = False
        self.steps = 0

    def takes_over(self, called: object) -> bool:
        """Say whether from this call on `called` ends the steps, and something else did before."""
        if self._ender() is None:
            return called in self.called_again
        return called not in self.known and not self.has_outlived

    def ends_step(self, called: object) -> bool:
        """Count a finished call of `called`, and say whether it ends a step."""
        ender = self._ender()
        if ender is None:
            self.has_outlived = bool(self.called_again)
        joins = called not in self.known and not self.has_outlived
        ends = ender is called or (ender is None and (joins or called in self.known))
        if ends or joins:
            self.known.add(called)
            self.last_joined = weakref.ref(called)
        elif called in self.known:
            self.called_again.add(called)
        self.steps += ends
        return ends

    def _ender(self) -> object | None:
        return self.last_joined() if self.last_joined is not None else None
