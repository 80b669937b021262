"""Which tools cannot be there at once, and how their captures are scheduled for that."""

from collections.abc import Iterable, Iterator, Mapping

from profkit.capture.base import Tool


def notes(chosen: Mapping[str, Tool], *, exclusive: bool) -> Iterator[str]:
    """Yield what to know of the tools that are chosen together, by name, and their captures."""
    for what in dict.fromkeys(
        each for tool in chosen.values() for each in tool.exclusive_resources
    ):
        names = [name for name, tool in chosen.items() if what in tool.exclusive_resources]
        if len(names) > 1:
            yield (
                f"tools {_listed(names)} cannot share a process, of which only one may hold {what}:"
                f" each has captures of its own{', one after the other' if exclusive else ''}"
            )
    alone = [name for name, tool in chosen.items() if tool.is_alone]
    if alone and not exclusive:
        yield (
            f"exclusive=false: nothing runs beside captures of {_listed(alone)} even so, which hold"
            " the counters of GPUs"
        )


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
