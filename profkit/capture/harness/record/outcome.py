"""What became of a capture, told from its exit status, its files and what it printed."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profkit.capture.base import Rank, Tool
from profkit.capture.harness.launch import Ended

Status = Literal["ok", "oom", "error", "timeout", "unavailable"]

_ERROR = ".error.txt"
_STEPS = "*.steps.json"
# What makes a file and cannot fill it.
_SPEECHLESS = "no space was left on the disk, not even for what it failed of; see the log"
_SMALLER = "lower batch or the model's sizes"
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|MemoryError|can't allocate memory|Cannot allocate memory"
    r"|bad_alloc|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
# What tools say of an option they do not have, before they start anything.
_REFUSED = re.compile(
    r"^.*(?:unrecogni[sz]ed (?:option|argument)|unknown option|no such option"
    r"|argument '[^']*' which wasn't expected|unexpected argument).*$",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINNING_BYTES = 64 << 10
# torchrun's words for a rank that the kernel killed.
_KILLED = re.compile(r"exitcode\s*: -9\b|Signal 9 \(SIGKILL\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a capture ended, for people and for programs."""

    status: Status
    reason: str = ""


def leave_error(out: Path, rank: Rank, summary: str, details: str) -> None:
    """Leave what ended a rank, for `first_error` and for people."""
    text = f"{summary.strip().partition(chr(10))[0]}\n\n{details}"
    (out / f"{rank.label}{_ERROR}").write_text(text)


def has_failed(out: Path) -> bool:
    """Say whether some rank has left an error."""
    return any(out.glob(f"*{_ERROR}"))


def first_error(out: Path) -> str:
    """Return what ended the rank that failed first; the others fail because of it."""
    files = sorted(out.glob(f"*{_ERROR}"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        return ""
    return f"{files[0].name.removesuffix(_ERROR)}: {files[0].read_text() or _SPEECHLESS}"


def refused_option(log: Path) -> str:
    """Return what the tool says at the beginning of `log` of an option that it does not have."""
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        said = _REFUSED.search(file.read(_BEGINNING_BYTES).decode(errors="replace"))
    return f"the tool refused an option: {said[0].strip()}" if said else ""


def missing_files(tool: Tool, out: Path, labels: Mapping[str, bool]) -> list[str]:
    """Return the patterns that no file matches, of all that a good capture leaves.

    `labels` says of each rank whether the tool looked at it.
    """
    patterns = [
        f"{label}{kind}"
        for label, is_profiled in labels.items()
        for kind in (_STEPS, *(tool.outputs if is_profiled else ()))
    ]
    return [pattern for pattern in patterns if not any(out.glob(pattern))]


def judged(ended: Ended, timeout_s: float, error: str, log: str, missing: Sequence[str]) -> Outcome:
    """Return the outcome; `error` is the first rank's that failed, `log` the end of the log."""
    if ended.timed_out:
        reason = f"not finished after {timeout_s:g} s; the log says where each rank was"
        return Outcome(status="timeout", reason=reason)
    if ended.stopped:
        return Outcome(status="oom", reason=f"{ended.stopped}; {_SMALLER}")
    # A wrapper may end well although what it wrapped did not, so the ranks' errors count first.
    if ended.exit_code == 0 and not error:
        return Outcome(status="error" if missing else "ok", reason=_lack(missing))
    summary = error.partition("\n")[0] or f"exit status {ended.exit_code}; the log says more"
    if _OUT_OF_MEMORY.search(error or log):
        return Outcome(status="oom", reason=f"{summary}; {_SMALLER}")
    if ended.exit_code == -signal.SIGKILL or _KILLED.search(log):
        killed = "killed by signal 9, most likely by the kernel because memory ran out"
        return Outcome(status="oom", reason=f"{killed}; {_SMALLER}")
    return Outcome(status="error", reason=summary)


def _lack(missing: Sequence[str]) -> str:
    """Say what the lack of files that match the patterns `missing` means; "" if none is missing."""
    if silent := [each.removesuffix(_STEPS) for each in missing if each.endswith(_STEPS)]:
        return f"no step was seen on {', '.join(silent)}: the program ended before it made one"
    return f"no file matches {', '.join(missing)}" if missing else ""
