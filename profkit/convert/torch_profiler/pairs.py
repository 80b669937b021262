"""Begin and end events joined to the complete events that all else works on."""

from decimal import Decimal
from typing import Any

from profkit.convert.columns.values import nanoseconds
from profkit.convert.torch_profiler.events import NO_ARGS, Event


class Pairs:
    """Joins ``B`` and ``E`` of each thread; state is kept between blocks."""

    def __init__(self) -> None:
        self.unmatched = 0
        """Ends without a begin."""
        self._open: dict[tuple[Any, Any], list[Event]] = {}

    @property
    def open(self) -> int:
        """Number of begins without an end so far."""
        return sum(map(len, self._open.values()))

    def joined(self, event: Event) -> Event | None:
        """Return the complete event that `event` ends; None if it begins one or ends none."""
        if event.ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
            return None
        begun = self._open.get((event.pid, event.tid))
        if not begun:
            self.unmatched += 1
            return None
        begin = begun.pop()
        start, end = (int(time) for time in nanoseconds([begin.ts, event.ts]))
        begin.ph, begin.dur = "X", Decimal(end - start) / 1000
        begin.args = event.args if begin.args == NO_ARGS else begin.args
        return begin
