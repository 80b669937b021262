"""NVTX ranges around the forward pass of every nn.Module, named by its path in the model."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import local
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from profkit.capture.harness.ranks import nvtx_ranges

if TYPE_CHECKING:
    from torch.nn import Module


class _OpenCalls(local):
    """Modules whose forward runs on this thread, from the outermost to the innermost."""

    def __init__(self) -> None:
        self.calls: list[tuple[Module, AbstractContextManager[object]]] = []


@contextmanager
def recorded() -> Iterator[None]:
    """Open a range around each module's forward while the context is open.

    A module is named by its path in the module around it, and the outermost one by its class.
    Does nothing if no profiler records NVTX.
    """
    if not nvtx_ranges.is_recorded():
        yield
        return
    from torch.nn.modules import module

    spans, open_, names = nvtx_ranges.spans(), _OpenCalls(), _Names()

    def enter(called: "Module", _: Any) -> None:
        around = open_.calls[-1][0] if open_.calls else None
        span = spans(nvtx_ranges.MODULE + names.of(called, around))
        span.__enter__()
        open_.calls.append((called, span))

    def leave(called: "Module", *_: Any) -> None:
        # A forward that raised left its own ranges open: they end with the one around them.
        while any(module is called for module, _ in open_.calls):
            left, span = open_.calls.pop()
            span.__exit__(None, None, None)
            if left is called:
                return

    entering = module.register_module_forward_pre_hook(enter)
    leaving = module.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        entering.remove()
        leaving.remove()


class _Names:
    """Paths of modules inside one another."""

    def __init__(self) -> None:
        self.inside: WeakKeyDictionary[Module, dict[int, str]] = WeakKeyDictionary()

    def of(self, called: "Module", around: "Module | None") -> str:
        """Return the name of `called` inside the module `around`, or its class."""
        if around is None:
            return type(called).__name__
        if around not in self.inside:
            named = around.named_modules(remove_duplicate=True)
            self.inside[around] = {id(module): name for name, module in named}
        return self.inside[around].get(id(called)) or type(called).__name__
