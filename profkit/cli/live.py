"""Show the jobs of a run live: in place on a terminal, line by line elsewhere."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from profkit.cli.program_link import ProgramLink
from profkit.cli.terminal import Terminal
from profkit.cli.time_left import Jobs, time_left_s

_PAUSE_S = 1.0

_Key = tuple[str, str, str, int]


@dataclass
class _Job:
    """One job that has started and not ended."""

    started_s: float
    step: int = 0
    total: int = 0


class JobCounts(Protocol):
    """How many jobs there are."""

    total: int
    captures: int


@dataclass
class _Printed:
    """Where the output of a program is."""

    last_s: float = 0.0
    is_within_line: bool = False

    def add(self, output: bytes) -> None:
        self.last_s = time.monotonic()
        self.is_within_line = not output.endswith(b"\n")

    def has_paused(self) -> bool:
        return not self.is_within_line and time.monotonic() - self.last_s > _PAUSE_S


class View:
    """Shows the jobs that the events report; use as a context."""

    def __init__(
        self, *, verbose: bool, quiet: bool = False, link: ProgramLink | None = None
    ) -> None:
        self.is_verbose = verbose
        """Whether Snakemake's own output is shown as well."""
        self.is_quiet = quiet
        self.link = link
        """Shown as well: what the program prints that runs, and then of the jobs its captures."""
        self._printed = _Printed()
        self._console = Terminal(sys.stderr, quiet=quiet)
        self._jobs: dict[_Key, _Job] = {}
        self._read = 0
        self._start_s = time.time()
        self._ended_s: dict[bool, list[float]] = {True: [], False: []}
        self._workers = 1
        is_live = self._console.is_terminal and not (verbose or quiet)
        self._live = (
            Live(console=self._console, transient=True, auto_refresh=False) if is_live else None
        )

    def __enter__(self) -> Self:
        """Take over the lower part of the terminal."""
        if self._live:
            self._live.start()
        return self

    @property
    def _done(self) -> int:
        return sum(map(len, self._ended_s.values()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back, at the beginning of a line."""
        if self._live:
            self._live.stop()
        if self._printed.is_within_line:
            sys.stdout.write("\n")

    def show(self, events: Path, jobs: "JobCounts") -> None:
        """Read the lines added to the file `events`, and draw them."""
        if self.link:
            output = self.link.take()
            self._print(b"" if self._console.quiet else output)
        content = b""
        # A workload may remove all results, this file among them, which begins anew then.
        if events.is_file():
            if events.stat().st_size < self._read:
                self._read = 0
            with events.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        # A line may be half written: it is read next time.
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line), jobs)
        if self._live and self._live.is_started:
            self._live.update(self._drawing(jobs), refresh=True)

    def _print(self, output: bytes) -> None:
        """Print `output` of the program; below what it has begun to print is no drawing."""
        if output:
            if self._live:
                self._live.stop()
            self._printed.add(output)
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
        elif self._live and not self._live.is_started and self._printed.has_paused():
            self._live.start()

    def _take(self, event: dict[str, Any], jobs: "JobCounts") -> None:
        kind = event["event"]
        if kind == "step":
            job = self._jobs.get(("capture", event["run"], event["tool"], event["repeat"]))
            if job:
                job.step, job.total = event["step"], event["total"]
            return
        key = (event["stage"], event["run"], event["name"], event.get("repeat", -1))
        if kind == "predicted":
            self._console.print(f"{_label(key)}  {event['text']}", markup=False, soft_wrap=True)
            return
        if kind == "started":
            self._jobs[key] = _Job(started_s=event["time_s"])
            self._workers = max(self._workers, len(self._jobs))
            return
        job = self._jobs.pop(key, _Job(started_s=event["time_s"]))
        elapsed = event["time_s"] - job.started_s
        is_capture = key[0] == "capture"
        self._ended_s[is_capture].append(elapsed)
        if self.link and kind == "finished" and not is_capture:
            return
        done, total = self._done, jobs.total
        if self.link and is_capture:
            # Of a program that is profiled other jobs are not shown, unless one fails.
            done, total = len(self._ended_s[True]), jobs.captures
        line = f"[{done}/{total}] {_label(key)}  {elapsed:.1f} s"
        mark = "SKIPPED" if event.get("status") == "skipped" else "FAILED"
        # What stays is said of a capture that ended well: it is one from before.
        reason = f"  {event['reason']}" if event.get("reason") else ""
        words = f"{line}{reason}" if kind == "finished" else f"{line}  {mark}"
        self._console.print(words, markup=False, soft_wrap=True)

    def _left(self, jobs: "JobCounts") -> str:
        """Return how long it will still take, as text; "" if that is not known."""
        now_s = time.time()
        captures, others = (
            Jobs(
                total=total,
                ended_s=self._ended_s[is_capture],
                running_s=[
                    now_s - job.started_s
                    for key, job in self._jobs.items()
                    if (key[0] == "capture") == is_capture
                ],
            )
            for is_capture, total in ((True, jobs.captures), (False, jobs.total - jobs.captures))
        )
        left_s = time_left_s(captures, others, self._workers)
        return "" if left_s is None or not jobs.total else f"about {left_s:.0f} s left"

    def _drawing(self, jobs: "JobCounts") -> Group:
        elapsed, total = time.time() - self._start_s, jobs.total
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(f"{self._done} of {total or '?'} jobs"),
            ProgressBar(total=total or 1, completed=self._done, width=30),
            Text(f"{elapsed:.0f} s"),
            Text(self._left(jobs)),
        )
        body = Table.grid(padding=(0, 2))
        for key, job in self._jobs.items():
            step = _progress(job)
            body.add_row(f"  {_label(key)}", step, f"{time.time() - job.started_s:.0f} s")
        return Group(head, body)


def _progress(job: _Job) -> str:
    """Return how far the job is; the number of steps of a script is not known beforehand."""
    if job.total >= job.step > 0:
        return f"step {job.step} of {job.total}"
    return f"step {job.step}" if job.step else ""


def _label(key: _Key) -> str:
    stage, run, name, repeat = key
    what = name if repeat < 0 else f"{name} rep{repeat}"
    return f"{f'{stage} {what}'.rstrip()}  {run}".rstrip()
