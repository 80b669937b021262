"""Refuse a second recording of torch.profiler: it ends the first, which loses its events.

PyTorch does so silently (2.13), so this checks that a script's own profiler and profkit's do not
record at the same time. One after the other, both work.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from profkit.core.errors import ProfkitError

if TYPE_CHECKING:
    from torch.profiler import profile


@contextmanager
def single_recording(
    own: "profile", tool: str, about_to_start: Callable[[object], object] = bool
) -> Iterator[None]:
    """Raise `ProfkitError` if a recording starts during another, one being `own`, of `tool`.

    `about_to_start` is called with each other recording before that.
    """
    from torch._C._autograd import _profiler_enabled
    from torch.autograd import profiler
    from torch.profiler import ProfilerAction

    recordings: Any = profiler.profile
    open_ones: list[object] = []

    def prepare(recording: Any) -> None:
        is_own = recording is own.profiler
        if not is_own:
            about_to_start(recording)
        others = [other for other in open_ones if other is not recording]
        # A recording may also come from emit_itt, emit_nvtx, or calls of PyTorch's own functions.
        if (is_own and (others or _profiler_enabled())) or own.profiler in others:
            if is_own:
                # What was never prepared must not be stopped: PyTorch crashes.
                own.current_action = ProfilerAction.NONE
            raise ProfkitError(
                "the script uses torch.profiler while profkit's records, and PyTorch keeps one"
                " recording at a time",
                hint=f"switch the script's own profiler off, or leave out this one: ~tools.{tool}",
            )
        if recording not in open_ones:
            open_ones.append(recording)

    def end(recording: Any) -> None:
        open_ones[:] = [other for other in open_ones if other is not recording]

    originals = {name: getattr(recordings, name) for name in ("_prepare_trace", "__exit__")}
    recordings._prepare_trace = _before(prepare, originals["_prepare_trace"])  # noqa: SLF001
    recordings.__exit__ = _before(end, originals["__exit__"])

    def undo() -> None:
        for name, original in originals.items():
            setattr(recordings, name, original)

    # What a process that is forked records is no recording beside these.
    os.register_at_fork(after_in_child=undo)
    try:
        yield
    finally:
        undo()


def _before(check: Callable[[Any], None], original: Callable[..., Any]) -> Callable[..., Any]:
    def method(recording: Any, *args: Any, **kwargs: Any) -> Any:
        check(recording)
        return original(recording, *args, **kwargs)

    return method
