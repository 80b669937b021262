"""How a program ends early, as if it ended of itself: servers answer what they were asked first."""

import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


def call_after(wait_s: float, act: Callable[..., None], *args: int) -> None:
    """Call `act` later, on a thread that holds nothing up."""
    timer = threading.Timer(wait_s, act, args)
    timer.name, timer.daemon = "profkit end of the program", True
    timer.start()


def end_by_main_thread() -> None:
    """End as Ctrl-C does where the program has its own way; else raise SystemExit in its thread."""
    if _has_own_interrupt():
        sys.excepthook = _silent_interrupt(sys.excepthook)
        os.kill(os.getpid(), signal.SIGINT)
        return
    let_asyncio_be_silent()
    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(SystemExit))


def let_asyncio_be_silent() -> None:
    """Say nothing of the answers that the end cuts off: they are no error of the program's."""
    logging.getLogger("asyncio").disabled = True


def _has_own_interrupt() -> bool:
    """Say whether the program has put something in place of KeyboardInterrupt, as servers do."""
    handler = signal.getsignal(signal.SIGINT)
    # That of asyncio itself raises KeyboardInterrupt in the end.
    is_of_runner = getattr(getattr(handler, "func", None), "__name__", "") == "_on_sigint"
    return callable(handler) and handler is not signal.default_int_handler and not is_of_runner


def _silent_interrupt(shown: Callable[..., Any]) -> Callable[..., None]:
    """Return what has errors `shown`, but for that of a server which hands its interrupt on."""

    def show(kind: type[BaseException], *error: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            shown(kind, *error)

    return show


def is_answering() -> bool:
    """Say whether this is called by a server's event loop, whose own interrupt lets it answer."""
    asyncio = sys.modules.get("asyncio.events")
    # `get_running_loop` raises where there is none.
    is_in_loop = asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001
    return is_in_loop and _has_own_interrupt()
