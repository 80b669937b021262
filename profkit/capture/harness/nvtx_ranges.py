"""NVTX ranges and marks that every version of the profilers sees.

The package nvtx asks whoever listens for an extension of NVTX before it sends anything, and Nsight
Systems up to 2023.4 has not got that extension: ranges of nvtx 0.2.12 and newer are dropped. The
functions below are those that the package itself calls once it has asked. It is imported late, as
only the process that runs the workload has a use for it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvtx._lib import lib

Span = Callable[[str], AbstractContextManager[object]]

_LISTENER = "NVTX_INJECTION64_PATH"
_OFF = "NVTX_DISABLE"


def is_heard() -> bool:
    """Say whether a profiler listens to the NVTX of this process."""
    return bool(os.environ.get(_LISTENER)) and not os.environ.get(_OFF)


def spans(domain: str | None = None) -> Span:
    """Return what opens a named range in `domain` (None: the default one) on this thread."""
    import nvtx
    from nvtx._lib import lib

    if not is_heard() or not _is_refused(domain):
        return lambda name: nvtx.annotate(message=name, domain=domain)
    handle = lib.DomainHandle(domain)

    @contextmanager
    def span(name: str) -> Iterator[None]:
        lib.push_range(_attributes(handle, name), handle)
        try:
            yield
        finally:
            lib.pop_range(handle)

    return span


def across_threads(domain: str | None) -> Span:
    """Return what opens a range that may end on another thread; nothing if nobody listens."""
    if not is_heard():
        return lambda _: nullcontext()
    from nvtx._lib import lib

    handle = lib.DomainHandle(domain)

    @contextmanager
    def span(name: str) -> Iterator[None]:
        begun, _ = lib.start_range(_attributes(handle, name), handle)
        try:
            yield
        finally:
            lib.end_range(begun, handle)

    return span


def mark(name: str) -> None:
    """Set a mark in the default domain; does nothing if nobody listens."""
    if is_heard():
        from nvtx._lib import lib

        handle = lib.DomainHandle(None)
        lib.mark(_attributes(handle, name), handle)


def _attributes(handle: "lib.DomainHandle", name: str) -> "lib.EventAttributes":
    from nvtx._lib import lib

    return lib.EventAttributes(handle, lib.RegisteredString(handle, name))


def _is_refused(domain: str | None) -> bool:
    """Say whether the package takes `domain` for one that nobody listens to."""
    import nvtx
    from nvtx._lib import lib

    dummy = getattr(lib, "DummyDomain", None)
    return dummy is not None and isinstance(nvtx.get_domain(domain), dummy)
