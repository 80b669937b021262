"""The outcome of a capture, judged from its end, what failed first, and its files."""

import fnmatch
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profkit.capture.base import Rank, Tool
from profkit.capture.harness.launch import ProcessEnd
from profkit.capture.harness.record.first_failure import Failure

Status = Literal["ok", "oom", "error", "timeout", "unavailable", "skipped"]

_STEPS = "*.steps.json"
_SMALLER = "lower batch or the model's sizes"
_SHORTER = (
    "mark shorter steps with `profkit.step()`, as all that is recorded of a step is in memory "
    "until it ends, or"
)
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|MemoryError|can't allocate memory|Cannot allocate memory"
    r"|bad_alloc|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)

_REST_OF_PYTORCH = re.compile(
    r" (?:Including non-PyTorch memory|Process \d+ has|Of the allocated memory).*", re.DOTALL
)
"""What follows in PyTorch's error on what was asked and free; the log has all of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a capture ended, for people and for programs."""

    status: Status
    reason: str = ""
    would_repeat: bool = False
    """Whether other captures of the run can be expected to fail alike."""


def missing_files(
    tool: Tool, out: Path, labels: Mapping[str, bool], converted: Sequence[str] = ()
) -> list[str]:
    """Return the patterns of a good capture's files that no file matches.

    `labels` are those of all ranks, with whether the tool records the rank; `converted` the names
    of files of which only the tables came back.
    """
    patterns = [
        f"{label}{kind}"
        for label, is_profiled in labels.items()
        for kind in (_STEPS, *(tool.outputs if is_profiled else ()))
    ]
    lacking = [pattern for pattern in patterns if not any(out.glob(pattern))]
    return [pattern for pattern in lacking if not fnmatch.filter(converted, pattern)]


def what_helps(tool: Tool) -> str:
    """Return what to do where a capture with `tool` runs out of memory."""
    return f"{_SHORTER} {_SMALLER}" if tool.holds_steps else _SMALLER


def judge_capture(
    ended: ProcessEnd,
    timeout_s: float,
    failure: Failure | None,
    missing: Sequence[str],
    smaller: str = _SMALLER,
) -> Outcome:
    """Return the outcome; `failure` is what failed first, `missing` the files that are not there.

    `smaller` is what to do where memory ran out. A wrapper may exit with 0 although its program
    failed, so a failure counts whatever the status.
    """
    if ended.timed_out:
        reason = f"not finished after {timeout_s:g} s; the log says where each rank was"
        return Outcome(status="timeout", reason=reason)
    if ended.stopped:
        return Outcome(status="oom", reason=f"{ended.stopped}; {smaller}")
    if failure is None:
        status: Status = "error" if missing else "ok"
        return Outcome(status=status, reason=_lack(missing), would_repeat=bool(missing))
    if _OUT_OF_MEMORY.search(f"{failure.summary}\n{failure.details}"):
        reason = f"{_REST_OF_PYTORCH.sub('', failure.summary).rstrip('.')}; {smaller}"
        return Outcome(status="oom", reason=reason, would_repeat=failure.would_repeat)
    if failure.signum == signal.SIGKILL and not ended.interrupted:
        return _killed(failure, ended.shortage, smaller)
    reason = "it was interrupted" if ended.interrupted else failure.summary
    return Outcome(status="error", reason=reason, would_repeat=failure.would_repeat)


def is_kept(result: Outcome, missing: Sequence[str], ranks: Sequence[Rank]) -> bool:
    """Say whether a program ended badly when all files of its `ranks` were there already.

    By itself, as scripts end a server, or by a crash after the recording.
    """
    return result.status == "error" and bool(ranks) and not missing


def _killed(failure: Failure, shortage: str, smaller: str) -> Outcome:
    if shortage:
        return Outcome(status="oom", reason=f"{failure.summary}: {shortage}; {smaller}")
    doubt = "nothing says that memory ran out: a person, a scheduler or a limit killed it"
    return Outcome(status="error", reason=f"{failure.summary}; {doubt}")


def _lack(missing: Sequence[str]) -> str:
    """Return the reason for files that are `missing`, given as patterns; "" if none is."""
    if labels := [name.removesuffix(_STEPS) for name in missing if name.endswith(_STEPS)]:
        return f"no step was seen on {', '.join(labels)}: the program ended before it made one"
    return f"no file matches {', '.join(missing)}" if missing else ""
