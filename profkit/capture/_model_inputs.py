"""What models are given in their first calls: tokens and labels, and the same once more."""

from collections.abc import Iterable

from profkit.capture._padded_inputs import PaddedInputs
from profkit.capture._repeated_inputs import RepeatedInputs


class ModelInputs:
    """Takes what is given to each model and loss, for all that looks at it."""

    def __init__(self) -> None:
        self.padded = PaddedInputs()
        self.repeated = RepeatedInputs()

    def __call__(self, called: object, given: Iterable[object]) -> None:
        """Look at what is `given` to the model or loss that is `called`."""
        given = [*given]
        self.padded(given)
        self.repeated(called, given)
