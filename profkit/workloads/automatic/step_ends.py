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
    """

    def __init__(self) -> None:
        self.known: weakref.WeakSet[object] = weakref.WeakSet()
        self.last_joined: weakref.ref[object] | None = None
        self.steps = 0

    def is_joining(self, called: object) -> bool:
        """Say whether this is the first call of `called`, beside others: it then ends the steps."""
        return called not in self.known and self._ender() is not None

    def ends_step(self, called: object) -> bool:
        """Count a finished call of `called`, and say whether it ends a step."""
        ends = self._ender() in (None, called)
        if ends or called not in self.known:
            self.known.add(called)
            self.last_joined = weakref.ref(called)
        self.steps += ends
        return ends

    def _ender(self) -> object | None:
        return self.last_joined() if self.last_joined is not None else None
