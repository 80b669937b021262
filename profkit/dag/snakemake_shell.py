"""Jobs that Snakemake hands over to the job server, in the place of a shell that starts each.

A shell, and a Python that loads nothing, take 25 ms of each job, which is longer than many work.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from profkit.core import registry
from profkit.process import job_client, job_server

_JOBS = "manifest|convert|analyze|timeline|report"
"""Commands that are handed over; a capture is not, which must be as alone as it can be."""

_SIGNALS = 128
"""What a shell adds to the number of the signal that ended a command."""

# Words as `shlex.quote` leaves them; what holds others is for a shell. None can be read in two
# ways, so nothing is tried twice. (Possessive groups would say so, but fail before Python 3.11.5.)
_PART = re.compile(r"""[\w@%+=:,./-]|'[^']*'|"'\"""")
_WORD = re.compile(rf"(?:{_PART.pattern})+")
_PATH = r"[\w@%+=:,./-]+"
_COMMAND = re.compile(
    rf" *profkit(?P<words> (?:{_JOBS})(?: +{_WORD.pattern})*)"
    rf" > (?P<log>{_PATH}) 2>&1(?: && \(test -e (?P<made>{_PATH}) \|\| exit (?P<without>\d+)\))?"
    r"(?: \|\| (?P<otherwise>.+))?",
    re.DOTALL,
)


def hand_over_jobs(shell: Any, prefix: str, variables: Mapping[str, str]) -> None:
    """Let the Snakemake of this process hand jobs over; `shell` is its module of that name.

    The command of each job begins with `prefix`, which adds `variables` to its environment.
    """

    def start(command: str, **options: Any) -> "subprocess.Popen[Any] | _Job":
        address = job_server.address()
        parsed = command.startswith(prefix) and _COMMAND.fullmatch(command, len(prefix))
        if not (address and parsed):
            return subprocess.Popen(command, **options)
        return _Job(address, command, options, parsed, prefix, options["env"] | variables)

    shell.sp = SimpleNamespace(**{**vars(subprocess), "Popen": start})


@dataclass(frozen=True, slots=True)
class _Job:
    """The command of a rule, which Snakemake waits for as for a process of its own."""

    address: str
    command: str
    options: dict[str, Any]
    parsed: re.Match[str]
    prefix: str
    environment: Mapping[str, str]

    def wait(self) -> int:
        """Return the exit status of `command`."""
        status = self._handed_over()
        if status is None:
            return subprocess.Popen(self.command, **self.options).wait()
        if status < 0:
            status = _SIGNALS - status
        if not status and (made := self.parsed["made"]) and not Path(made).exists():
            status = int(self.parsed["without"])
        if status and (otherwise := self.parsed["otherwise"]):
            rest = f"{self.prefix}(exit {status}) || {otherwise}"
            return subprocess.Popen(rest, **self.options).wait()
        return status

    def _handed_over(self) -> int | None:
        """Return how the job ended in the server; None if that could not be asked to do it."""
        try:
            log = os.open(self.parsed["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError:
            return None  # the shell says why
        try:
            argv = [_unquoted(word) for word in _WORD.findall(self.parsed["words"])]
            streams = (0, log, log)
            return job_client.handed_over(
                self.address, argv, streams, self.environment, kind_of(argv)
            )
        finally:
            os.close(log)


def kind_of(argv: Sequence[str]) -> bytes:
    """Return whether a process that has done other jobs may do this one.

    Analyses of profkit may, but for the one that looks for patterns, which are other people's too:
    what these leave behind, none of the others is to find.
    """
    command, name, *_ = [*argv, ""]
    is_own = name in registry.own("profkit.analyze") and name != "causes"
    return job_client.SHARED if command == "analyze" and is_own else job_client.ALONE


def _unquoted(word: str) -> str:
    """Return `word` of a command line as the command gets it."""
    parts = _PART.findall(word)
    return "".join(part[1:-1] if part[0] in "\"'" else part for part in parts)
