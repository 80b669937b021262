"""Progress of jobs as JSON lines in a file; none are written unless a file is named."""

import json
import os
import time
from typing import Any

VARIABLE = "PROFKIT_EVENTS"
"""Environment variable with the file that events are appended to."""


def emit(event: str, **fields: Any) -> None:
    """Append one event with its `fields` and the time; one write, so that lines never mix."""
    path = os.environ.get(VARIABLE)
    # A workload may have removed all results.
    if not path or not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - each step
        return
    line = json.dumps({"event": event, "time_s": time.time(), **fields}) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
