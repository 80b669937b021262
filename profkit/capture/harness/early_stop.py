"""Skip a capture that cannot succeed: one of its run has failed, and it would fail alike."""

import os
from collections.abc import Mapping
from typing import Any

from profkit.capture.harness.record import capture_json
from profkit.capture.harness.spec import Spec
from profkit.core.capture_record import read_capture
from profkit.process import parent_watch

_FIRST = "rep0"
_BASELINE = "baseline"


def invocation(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the invocation of the workflow; "" if this capture was asked for alone."""
    return environment.get(parent_watch.INVOCATION, "")


def reason(spec: Spec) -> str:
    """Return why `spec` need not be tried in this invocation, or "".

    The first captures without a tool and with the same tool say so, if they are of this invocation.
    """
    folders = (spec.folder.parents[1] / tool / _FIRST for tool in (_BASELINE, spec.tool))
    for path in (folder / capture_json.NAME for folder in folders):
        if path.parent != spec.folder and path.is_file() and _has_failed_now(read_capture(path)):
            return f"not tried, as {path.parent.parent.name} {_FIRST} failed"
    return ""


def _has_failed_now(record: Mapping[str, Any]) -> bool:
    is_of_now = bool(invocation()) and record.get("invocation") == invocation()
    return is_of_now and bool(record.get("would_repeat"))
