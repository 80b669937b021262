"""Which of several optimizers, or models, ends a step."""

import weakref
from typing import Literal

Kind = Literal["auto", "optimizer", "forward", "mark"]
"""What a step of a script is: see `profkit.workloads.script`."""


class Turns:
    """Sees whose turn ends, and says whether that ends a step.

    One optimizer: a step ends with each of its turns. Several (the two of a GAN, one for each
    parameter): a step ends with the one that joined last, as by then all others have had their
    turns. The turn with which one joins ends no step, unless nobody else is there.
    """

    def __init__(self) -> None:
        self.known: weakref.WeakSet[object] = weakref.WeakSet()
        self.ender: weakref.ref[object] | None = None
        self.steps = 0

    def joins(self, who: object) -> bool:
        """Say whether `who` joins others with its turn, which moves the end of the step to it."""
        return who not in self.known and self._ender() is not None

    def ended(self, who: object) -> bool:
        """Say whether the turn of `who`, which has come to its end, ends a step."""
        ends = self._ender() in (None, who)
        if ends or who not in self.known:
            self.known.add(who)
            self.ender = weakref.ref(who)
        self.steps += ends
        return ends

    def _ender(self) -> object | None:
        return self.ender() if self.ender is not None else None
