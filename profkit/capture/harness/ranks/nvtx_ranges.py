"""NVTX ranges and marks that every version of the profilers sees, in a domain and in colours.

The package nvtx asks whoever listens for an extension of NVTX before it sends anything, and Nsight
Systems up to 2023.4 has not got that extension: ranges of nvtx 0.2.12 and newer are dropped. The
functions below are those that the package itself calls once it has asked. It is imported late, and
only if somebody listens: ranges cost nothing otherwise.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvtx._lib import lib

Span = Callable[[str], AbstractContextManager[object]]

DOMAIN = "profkit"
"""Domain of every range and mark of profkit's, so that a filter such as ``profkit@forward/`` or
``--nvtx-domain-include=profkit`` can tell them from those of libraries."""

MODULE = "nn.Module: "
"""What names of ranges around modules begin with, as in PyTorch's own traces."""

COLOURS: Mapping[str, int] = MappingProxyType(
    {
        "step": 0xFF56B4E9,
        "data": 0xFFE69F00,
        "forward": 0xFF0072B2,
        "backward": 0xFFD55E00,
        "optimizer": 0xFF009E73,
        "module": 0xFFF0E442,
        "other": 0xFF999999,
    }
)
"""Colour of each kind of range, as 0xAARRGGBB: the palette of Okabe and Ito, which people who are
blind to some colours can tell apart as well."""

_LISTENER = "NVTX_INJECTION64_PATH"
_OFF = "NVTX_DISABLE"


def is_heard() -> bool:
    """Say whether a profiler listens to the NVTX of this process."""
    return bool(os.environ.get(_LISTENER)) and not os.environ.get(_OFF)


def colour_of(name: str) -> int:
    """Return the colour of the range called `name`, as 0xAARRGGBB."""
    kind = "module" if name.startswith(MODULE) else name.partition("#")[0]
    return COLOURS.get(kind, COLOURS["other"])


def spans() -> Span:
    """Return what opens a named range on this thread; nothing if nobody listens."""
    if not is_heard():
        return lambda _: nullcontext()
    import nvtx
    from nvtx._lib import lib

    if not _is_refused():
        return lambda name: nvtx.annotate(message=name, color=colour_of(name), domain=DOMAIN)
    handle = _domain(DOMAIN)

    @contextmanager
    def span(name: str) -> Iterator[None]:
        lib.push_range(_attributes(name), handle)
        try:
            yield
        finally:
            lib.pop_range(handle)

    return span


def across_threads() -> Span:
    """Return what opens a range that may end on another thread; nothing if nobody listens."""
    if not is_heard():
        return lambda _: nullcontext()
    from nvtx._lib import lib

    handle = _domain(DOMAIN)

    @contextmanager
    def span(name: str) -> Iterator[None]:
        begun, _ = lib.start_range(_attributes(name), handle)
        try:
            yield
        finally:
            lib.end_range(begun, handle)

    return span


def mark(name: str) -> None:
    """Set a mark; does nothing if nobody listens."""
    if is_heard():
        from nvtx._lib import lib

        lib.mark(_attributes(name), _domain(DOMAIN))


def close_ranges(domain: str, most: int) -> None:
    """Close what is open in `domain` on this thread, which is `most` ranges or fewer."""
    from nvtx._lib import lib

    for _ in range(most):
        # Harmless where none is open.
        lib.pop_range(_domain(domain))


def _attributes(name: str) -> "lib.EventAttributes":
    from nvtx._lib import lib

    handle = _domain(DOMAIN)
    return lib.EventAttributes(handle, lib.RegisteredString(handle, name), colour_of(name))


@cache
def _domain(name: str) -> "lib.DomainHandle":
    """Return the one handle of a domain: giving one up destroys the domain for all."""
    from nvtx._lib import lib

    return lib.DomainHandle(name)


def _is_refused() -> bool:
    """Say whether the package takes the domain for one that nobody listens to."""
    import nvtx
    from nvtx._lib import lib

    dummy = getattr(lib, "DummyDomain", None)
    return dummy is not None and isinstance(nvtx.get_domain(DOMAIN), dummy)
