"""Profilers that the program runs itself: its steps contain what they cost."""

import sys
import tracemalloc
from collections.abc import Iterator


def note() -> str:
    """Return what readers of the step times should know of those that run now, "" if none does."""
    if found := list(dict.fromkeys(_running())):
        return (
            f"The program ran {' and '.join(found)} of its own: the unprofiled steps contain the"
            " cost, and its profile contains what profkit did in the process; switch it off to"
            " measure the program alone."
        )
    return ""


def _running() -> Iterator[str]:
    torch = sys.modules.get("torch")
    if torch and torch._C._autograd._profiler_enabled():  # noqa: SLF001 - has no other name
        yield "torch.profiler"
    if tracemalloc.is_tracing():
        yield "tracemalloc"
    # cProfile is known to this module of Python 3.12 and newer alone.
    monitoring = getattr(sys, "monitoring", None)
    if monitoring and (name := monitoring.get_tool(monitoring.PROFILER_ID)):
        yield name
    if (profiler := sys.getprofile()) is not None:
        yield "cProfile" if type(profiler).__name__ == "Profile" else "sys.setprofile"
    if sys.gettrace() is not None:
        yield "sys.settrace"
