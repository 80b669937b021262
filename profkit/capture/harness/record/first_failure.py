"""The rank that failed first, and why: by the errors of ranks, the launcher's words and the log."""

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profkit.capture.base import Rank
from profkit.capture.harness.record import capture_json, rank_errors
from profkit.core.formatting import cut

# For an error file that could be created and not filled.
_NO_SPACE = "no space was left on the disk, not even for what it failed of; see the log"
_SUMMARY_LENGTH = 2000
_TAIL_LINES = 200
_LAST_WORDS = 300
_BEGINNING_BYTES = 64 << 10
# What the other ranks say when one has ended.
_LOST_PEER = re.compile(
    r"closed by peer|reset by peer|Connection (?:refused|was likely closed)|Broken pipe"
    r"|remote process exited|ncclRemoteError|Socket (?:closed|Timeout)|got 0 bytes"
    r"|(?:send|recv)\w* failed|Timed out waiting|collective operation timeout|DistStoreError",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"EADDRINUSE|address already in use|no space (?:is |was )?left|Input/output error"
    r"|Stale file handle|(?:Connection\w*|BrokenPipe|HTTP|URL|SSL|Proxy|Protocol)Error|gaierror"
    r"|RemoteDisconnected|IncompleteRead|Service Unavailable|Bad Gateway|Timeout"
    r"|Too Many Requests|name resolution|(?:Network|Host) (?:is )?unreachable|No route to host"
    r"|Max retries|(?:couldn't|could not|cannot|failed to) connect"
    r"|KeyboardInterrupt|(?:by|with|got) signal|exited unexpectedly",
    re.IGNORECASE,
)
# Summary of torchrun and accelerate for each rank, and DeepSpeed's line.
_ROOT_CAUSE = "Root Cause (first observed failure)"
_SUMMARY = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\s+exitcode\s*:\s*(-?\d+)")
_DEEPSPEED = re.compile(r"--local_rank=(\d+)'\] exits with return code = (-?\d+)")
# Messages of tools on an unknown option, before they start anything.
_REFUSED = re.compile(
    r"^.*(?:unrecogni[sz]ed (?:option|argument)|unknown option|no such option"
    r"|argument '[^']*' which wasn't expected|unexpected argument).*$",
    re.IGNORECASE | re.MULTILINE,
)
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_NO_PROFKIT = re.compile(
    r"^(?!\w+Error: )(.*?): .*No module named '?(profkit|torch)\b", re.MULTILINE
)
# The last line of a traceback, and errors of command lines.
_SAID = re.compile(
    r"^(?:[\w.]+(?:Error|Exception)|\S*[Ee]rror|\S+: error|fatal)\b: *\S.*$", re.MULTILINE
)
# Not the frame of a message, such as a line of asterisks.
_WORD = re.compile(r"\w")
_NO_WORDS = re.compile(r": exit status \d+$")
_CHILD_FAILED = "ChildFailedError"
_ADVICE = (
    (
        re.compile(r"have NCCL built in", re.IGNORECASE),
        "this torch has no NCCL: install one that is built for CUDA, or use the backend gloo",
    ),
    (
        re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE),
        "end the program that uses the port, or choose another port",
    ),
)


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a launcher, or a rank of its, ended."""

    code: int
    """Negative is the signal that killed it."""

    is_of_program: bool = False
    """Whether the programs chose it, as they came to their end: above 128 it tells of no signal."""

    @property
    def signum(self) -> int:
        """Signal that a process ended by, or that its wrapper tells of; 0 if none."""
        wrapped = 0 if self.is_of_program else self.code - 128
        signum = -self.code if self.code < 0 else wrapped
        return signum if signum in set(signal.Signals) else 0

    def __str__(self) -> str:
        if signum := self.signum:
            return f"killed by signal {signum} ({signal.Signals(signum).name})"
        return f"exit status {self.code}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What ended a capture."""

    summary: str
    """One line, with the rank if it is known."""

    details: str = ""
    """Whatever else was said of it, such as a traceback."""

    signum: int = 0
    """Signal that killed the rank; 0 if none did."""

    @property
    def would_repeat(self) -> bool:
        """Whether another capture would fail alike.

        It would for exceptions and exit statuses of the program's own, and not for signals,
        networks and disks.
        """
        passing = _LOST_PEER.search(self.summary) or _PASSING.search(self.summary)
        return not self.signum and not passing


def first_failure(
    out: Path, ranks: Sequence[Rank], status: ExitStatus, known: str, said: Mapping[str, str]
) -> Failure | None:
    """Return what failed first; None if nothing did.

    `status` is the launcher's, `known` what the harness itself knows of the capture, or "", and
    `said` the last line that each rank printed, by labels. A rank that only lost its connection to
    another one failed because of that one.
    """
    written = _written(out)
    if written and not _LOST_PEER.search(written[0].summary):
        return _advised(written[0])
    if status.code and (silent := _silent_rank(out, ranks, status, said)):
        return silent
    if known:
        return Failure(summary=known, details=written[0].summary if written else "")
    if written:
        return _unheard_rank(out, ranks, written[0], said) or _advised(written[0])
    if not status.code:
        return None
    return _advised(_said_in_log(out, status))


def _written(out: Path) -> list[Failure]:
    """Return the errors that ranks wrote, first failures before lost connections, by time."""
    files = sorted(out.glob(f"*{rank_errors.SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    found = []
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace") or _NO_SPACE
        summary, _, details = text.partition("\n")
        if _NO_WORDS.search(f": {summary}"):
            # What ended it, such as a parser of arguments, has printed why.
            summary = ": ".join([summary, *_said(_tail(out))[-1:]])
        label = path.name.removesuffix(rank_errors.SUFFIX)
        found.append(Failure(summary=f"{label}: {summary}", details=details))
    return sorted(found, key=lambda failure: bool(_LOST_PEER.search(failure.summary)))


def _silent_rank(
    out: Path, ranks: Sequence[Rank], status: ExitStatus, said: Mapping[str, str]
) -> Failure | None:
    """Return the end of the rank that ended first without an error of its own, if one did."""
    silent = [
        (rank, replace(status, code=code))
        for number, code in _ended_ranks(out)
        for rank in ranks
        if rank.rank == number and code and not (out / f"{rank.label}{rank_errors.SUFFIX}").exists()
    ]
    if status.signum and len(ranks) == 1:
        silent = [(ranks[0], status)]
    # Launchers end the other ranks with this signal.
    silent.sort(key=lambda end: end[1].code == -signal.SIGTERM)
    if not silent:
        return None
    rank, ended = silent[0]
    words = str(ended) if ended.signum else f"{ended}, without an error of its own"
    words += _last_words(rank, said)
    return Failure(summary=f"{rank.label}: {words}", details=_tail(out), signum=ended.signum)


def _unheard_rank(
    out: Path, ranks: Sequence[Rank], noticed: Failure, said: Mapping[str, str]
) -> Failure | None:
    """Return the end of the one rank that wrote no error while others lost their connections.

    A tool that starts the ranks may hide how they ended.
    """
    unheard = [rank for rank in ranks if not (out / f"{rank.label}{rank_errors.SUFFIX}").exists()]
    if len(unheard) != 1 or not _LOST_PEER.search(noticed.summary):
        return None
    words = f"ended before the others, without an error of its own{_last_words(unheard[0], said)}"
    summary = f"{unheard[0].label}: {words}; then {noticed.summary}"
    return Failure(summary=summary, details=noticed.details)


def _last_words(rank: Rank, said: Mapping[str, str]) -> str:
    last = said.get(rank.label)
    return f"; the last line that it printed: {cut(last, _LAST_WORDS)}" if last else ""


def _ended_ranks(out: Path) -> Iterator[tuple[int, int]]:
    """Yield the numbers and exit statuses of ranks, the first to fail first.

    Each host has a log, with its ranks and the words of its launcher.
    """
    for log in sorted(out.glob("capture*.log")):
        text = "\n".join(capture_json.tail(log, lines=1000))
        others, root, cause = text.rpartition(_ROOT_CAUSE)
        for part in (cause, others) if root else (text,):
            for pattern in (_SUMMARY, _DEEPSPEED):
                yield from ((int(rank), int(code)) for rank, code in pattern.findall(part))


def refused_option(log: Path, given: Sequence[str]) -> str:
    """Return the tool's message on an unknown option, from the beginning of `log`.

    `given` are the words of the tool's own: programs of users refuse options in the same words.
    """
    if not given or not log.is_file():
        return ""
    with log.open("rb") as file:
        found = _REFUSED.search(file.read(_BEGINNING_BYTES).decode(errors="replace"))
    if not found or not {*_OPTION.findall(found[0])} & {*_OPTION.findall(" ".join(given))}:
        return ""
    return f"the tool refused an option: {found[0].strip()}"


def _said_in_log(out: Path, status: ExitStatus) -> Failure:
    """Return the failure of a program that wrote no error, such as the launcher, by its log."""
    text = _tail(out)
    if found := _NO_PROFKIT.search(text):
        python, package = found[1], found[2]
        advice = f"{python} -m pip install {package}, or choose another Python: launcher.python"
        return Failure(summary=f"{python} has no {package}; {advice}", details=text)
    last = _said(text)[-1:] or [line for line in text.splitlines() if _WORD.search(line)][-1:]
    words = cut(last[0].strip(), _SUMMARY_LENGTH) if last else "it printed nothing"
    return Failure(summary=f"{status}: {words}", details=text, signum=status.signum)


def _tail(out: Path) -> str:
    # Below the last words of a rank are those of its launcher.
    return "\n".join(capture_json.tail(out / capture_json.LOG, _TAIL_LINES))


def _said(text: str) -> list[str]:
    """Return the lines that say what went wrong, but those on processes that failed.

    One that ends in the middle of a sentence goes on with the next.
    """
    found = []
    for start in _SAID.finditer(text):
        line, rest = start[0].strip(), text[start.end() :].split("\n")
        while rest and line.endswith((":", ",")):
            line = f"{line} {rest.pop(0).strip()}".strip()
        found += [line] * (_CHILD_FAILED not in line)
    return found


def _advised(failure: Failure) -> Failure:
    advice = [words for pattern, words in _ADVICE if pattern.search(failure.summary)]
    summary = "; ".join([failure.summary, *advice])
    return Failure(summary=summary, details=failure.details, signum=failure.signum)
