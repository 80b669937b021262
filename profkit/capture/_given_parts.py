"""What a call is given, one by one, also what is in a batch in one argument."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

_MOST_ARGUMENTS, _DEEPEST = 32, 3


def parts(given: Iterable[object], depth: int = _DEEPEST) -> Iterator[object]:
    """Yield each argument, and of tuples, lists and mappings what they hold."""
    for argument in islice(given, _MOST_ARGUMENTS):
        if isinstance(argument, Mapping) and depth:
            yield from parts(argument.values(), depth - 1)
        elif isinstance(argument, tuple | list) and depth:
            yield from parts(argument, depth - 1)
        else:
            yield argument
