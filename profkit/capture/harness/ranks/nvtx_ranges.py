"""NVTX ranges and marks that all versions of the profilers record, in a domain and in colours.

The package nvtx asks the profiler for an extension of NVTX before it sends anything, and Nsight
Systems up to 2023.4 lacks that extension: it gets no ranges of nvtx 0.2.12 and newer. The functions
below are those that the package itself calls after asking. It is imported late, and only if a
profiler records NVTX: ranges cost nothing otherwise.
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
"""Domain of all ranges and marks of profkit, for filters such as ``profkit@forward/`` or
``--nvtx-domain-include=profkit``."""

MODULE = "nn.Module: "
"""Prefix of the names of ranges around modules, as in PyTorch's own traces."""

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
"""Colour of each kind of range, as 0xAARRGGBB: the palette of Okabe and Ito, which is safe for
colour-blind readers."""

_LISTENER = "NVTX_INJECTION64_PATH"
_OFF = "NVTX_DISABLE"


def is_recorded() -> bool:
    """Say whether a profiler records the NVTX ranges of this process."""
    return bool(os.environ.get(_LISTENER)) and not os.environ.get(_OFF)


def colour_of(name: str) -> int:
    """Return the colour of the range called `name`, as 0xAARRGGBB."""
    kind = "module" if name.startswith(MODULE) else name.partition("#")[0]
    return COLOURS.get(kind, COLOURS["other"])


def spans() -> Span:
    """Return a function that opens a named range on this thread, if a profiler records it."""
    if not is_recorded():
        return lambda _: nullcontext()
    import nvtx
    from nvtx._lib import lib

    if not _has_dummy_domain():
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


def cross_thread_spans() -> Span:
    """Return a function that opens a range that may end on another thread, if it is recorded."""
    if not is_recorded():
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
    """Set a mark, if a profiler records it."""
    if is_recorded():
        from nvtx._lib import lib

        lib.mark(_attributes(name), _domain(DOMAIN))


def close_ranges(domain: str, most: int) -> None:
    """Close all open ranges in `domain` on this thread, of which there are at most `most`."""
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
    """Return the only handle of a domain: releasing one destroys the domain for all."""
    from nvtx._lib import lib

    return lib.DomainHandle(name)


def _has_dummy_domain() -> bool:
    """Say whether the package takes the domain for one that no profiler records."""
    import nvtx
    from nvtx._lib import lib

    dummy = getattr(lib, "DummyDomain", None)
    return dummy is not None and isinstance(nvtx.get_domain(DOMAIN), dummy)
