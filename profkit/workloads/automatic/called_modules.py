"""Calls of modules, as PyTorch's hooks see them."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

if TYPE_CHECKING:
    from types import FrameType

_QUANTIZED = ".quantized."
"""In the names of PyTorch's modules with quantized layers."""


def once_after(module: nn.Module, act: Callable[[], None]) -> None:
    """Call `act` after the call of `module` that has just begun, even if it fails."""
    thread = threading.get_ident()

    def hook(called: nn.Module, *args: object) -> None:
        del args
        if called is not module or threading.get_ident() != thread:
            return
        handle.remove()
        act()

    if isinstance(module, torch.jit.ScriptModule):
        # It takes no hook of its own.
        handle = register_module_forward_hook(hook, always_call=True)
    else:
        handle = module.register_forward_hook(hook, always_call=True)


def weights(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of `module`, whatever a program has made of its `parameters()`."""
    for part in _parts(module):
        held = vars(part).get("_parameters") or {}
        yield from (parameter for parameter in held.values() if parameter is not None)


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    """Yield `module` and those inside it, each once."""
    pending, seen = [module], {id(module)}
    while pending:
        part = pending.pop(0)
        yield part
        # A module whose constructor failed has none, not even an empty list.
        for one in (vars(part).get("_modules") or {}).values():
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                pending.append(one)


def has_weights(module: nn.Module) -> bool:
    """Say whether `module` is a model; those without weights only transform or compare."""
    # Frozen and quantized, they are no parameters.
    if next(weights(module), None) is not None or isinstance(module, torch.jit.ScriptModule):
        return True
    return any(_QUANTIZED in type(part).__module__ for part in _parts(module))


def arguments(positional: Sequence[object]) -> list[object]:
    """Return the arguments of the call of a module that has just begun: hooks see some alone."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented
    calls = nn.Module._call_impl.__code__  # noqa: SLF001 - every call of a module runs it
    while frame is not None and frame.f_code is not calls:
        frame = frame.f_back
    named = frame.f_locals.get("kwargs", {}) if frame is not None else {}
    return [*positional, *named.values()]


def is_in_module() -> bool:
    """Say whether the call of a module that has just begun is inside that of another one."""
    call = nn.Module._call_impl.__code__  # noqa: SLF001 - every call of a module runs it
    frames = (frame for frame, _ in traceback.walk_stack(None))
    return sum(frame.f_code is call for frame in frames) > 1
