"""Skip a capture that cannot succeed, as one of its run shows, which may have failed alike."""

import os
from collections.abc import Mapping
from typing import Any

from profkit.capture.base import Tool
from profkit.capture.harness import chosen_ranks
from profkit.capture.harness.record import capture_json
from profkit.capture.harness.spec import Spec
from profkit.core.capture_record import read_capture
from profkit.process import parent_watch

_FIRST = "rep0"
_BASELINE = "baseline"


def invocation(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the invocation of the workflow; "" if this capture was asked for alone."""
    return environment.get(parent_watch.INVOCATION, "")


def reason(spec: Spec, tool: Tool) -> str:
    """Return why `spec` of `tool` need not be tried in this invocation, or "".

    The first captures without a tool and with the same tool say so, if they are of this invocation.
    A tool that explains why the memory did not suffice is tried once all the same. So does a choice
    of ranks that was not made.
    """
    if lack := chosen_ranks.lack(spec):
        return f"not tried: {lack}"
    for name in (_BASELINE, spec.tool):
        path = spec.folder.parents[1] / name / _FIRST / capture_json.NAME
        if path.parent != spec.folder and path.is_file():
            record = read_capture(path)
            is_explained = record.get("status") == "oom" and tool.explains_out_of_memory
            if _has_failed_now(record) and not (is_explained and name != spec.tool):
                return f"not tried, as {name} {_FIRST} failed"
            if tool.is_of_one_thread and record.get("has_several_threads"):
                return f"not tried: several threads call the model, and {spec.tool} records one"
    return ""


def is_over(spec: Spec) -> bool:
    """Say whether this attempt has its record already, from the first host, which tried nothing."""
    path = spec.folder / capture_json.NAME
    if not invocation() or not path.is_file():
        return False
    record = read_capture(path)
    return (record.get("invocation"), record["attempt"]) == (invocation(), spec.attempt)


def _has_failed_now(record: Mapping[str, Any]) -> bool:
    is_of_now = bool(invocation()) and record.get("invocation") == invocation()
    return is_of_now and bool(record.get("would_repeat"))
