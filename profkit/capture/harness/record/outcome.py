"""The outcome of a capture, judged from its exit status, its files and its log."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profkit.capture.base import Rank, Tool
from profkit.capture.harness.launch import ProcessEnd

Status = Literal["ok", "oom", "error", "timeout", "unavailable"]

_ERROR = ".error.txt"
_STEPS = "*.steps.json"
# For an error file that could be created and not filled.
_NO_SPACE = "no space was left on the disk, not even for what it failed of; see the log"
_SMALLER = "lower batch or the model's sizes"
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|MemoryError|can't allocate memory|Cannot allocate memory"
    r"|bad_alloc|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
# Messages of tools on an unknown option, before they start anything.
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


def write_error(out: Path, rank: Rank, summary: str, details: str) -> None:
    """Write the error that ended a rank, for `first_error` and for people."""
    text = f"{summary.strip().partition(chr(10))[0]}\n\n{details}"
    (out / f"{rank.label}{_ERROR}").write_text(text)


def has_failed(out: Path) -> bool:
    """Say whether some rank has written an error."""
    return any(out.glob(f"*{_ERROR}"))


def first_error(out: Path) -> str:
    """Return the error of the rank that failed first; the others fail because of it."""
    files = sorted(out.glob(f"*{_ERROR}"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        return ""
    return f"{files[0].name.removesuffix(_ERROR)}: {files[0].read_text() or _NO_SPACE}"


def refused_option(log: Path) -> str:
    """Return the tool's message on an unknown option, from the beginning of `log`."""
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        found = _REFUSED.search(file.read(_BEGINNING_BYTES).decode(errors="replace"))
    return f"the tool refused an option: {found[0].strip()}" if found else ""


def missing_files(tool: Tool, out: Path, labels: Mapping[str, bool]) -> list[str]:
    """Return the patterns of a good capture's files that no file matches.

    `labels` are those of all ranks, with whether the tool records the rank.
    """
    patterns = [
        f"{label}{kind}"
        for label, is_profiled in labels.items()
        for kind in (_STEPS, *(tool.outputs if is_profiled else ()))
    ]
    return [pattern for pattern in patterns if not any(out.glob(pattern))]


def judge_capture(
    ended: ProcessEnd, timeout_s: float, error: str, log: str, missing: Sequence[str]
) -> Outcome:
    """Return the outcome; `error` is that of the first rank that failed, `log` the log's end."""
    if ended.timed_out:
        reason = f"not finished after {timeout_s:g} s; the log says where each rank was"
        return Outcome(status="timeout", reason=reason)
    if ended.stopped:
        return Outcome(status="oom", reason=f"{ended.stopped}; {_SMALLER}")
    # A wrapper may exit with 0 although its program failed, so the ranks' errors count first.
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
    """Return the reason for files that are `missing`, given as patterns; "" if none is."""
    if labels := [name.removesuffix(_STEPS) for name in missing if name.endswith(_STEPS)]:
        return f"no step was seen on {', '.join(labels)}: the program ended before it made one"
    return f"no file matches {', '.join(missing)}" if missing else ""
