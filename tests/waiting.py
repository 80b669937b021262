"""Waiting for what must happen, on a machine that may be busy with other things."""

import time
from collections.abc import Callable

LIMIT_S = 600
"""Ends a test that would hang. What a test waits for takes seconds where nothing else runs."""


def until(condition: Callable[[], object], what: Callable[[], object] = str) -> None:
    """Wait until `condition` holds; if it never does, fail with what `what` returns then."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.02)
