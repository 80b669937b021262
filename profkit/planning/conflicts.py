"""Tools that cannot share a process, and how their captures are scheduled for that."""

from collections.abc import Iterable, Iterator, Mapping

from profkit.capture.base import Tool
from profkit.core.registry import tool_plugin


def notes(chosen: Mapping[str, Tool], *, exclusive: bool) -> Iterator[str]:
    """Yield a note on chosen tools, by name, that exclude one another or run alone."""
    for resource in dict.fromkeys(
        resource for tool in chosen.values() for resource in tool.exclusive_resources
    ):
        holders = [name for name, tool in chosen.items() if resource in tool.exclusive_resources]
        names = list(dict.fromkeys(map(tool_plugin, holders)))
        if len(names) > 1:
            in_turn = ", one after the other" if exclusive else ""
            yield (
                f"tools {_joined(names)} cannot share a process, of which only one may hold"
                f" {resource}: each has captures of its own{in_turn}"
            )
    alone = [name for name, tool in chosen.items() if tool.needs_exclusive_machine]
    if alone and not exclusive:
        yield (
            f"exclusive=false: nothing runs beside captures of {_joined(alone)} even so, which hold"
            " the counters of GPUs"
        )


def _joined(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
