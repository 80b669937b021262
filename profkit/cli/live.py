"""Show the jobs of a run live: in place on a terminal, line by line elsewhere."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_PERIOD_S = 0.2

_Key = tuple[str, str, str, int]


@dataclass
class _Job:
    """One job that has started and not ended."""

    started_s: float
    step: int = 0
    total: int = 0


class View:
    """Shows the jobs that the events report; use as a context."""

    def __init__(self, *, verbose: bool, quiet: bool = False) -> None:
        self.is_verbose = verbose
        """Whether Snakemake's own output is shown as well."""
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._jobs: dict[_Key, _Job] = {}
        self._read = 0
        self._start_s = time.time()
        self._done = 0
        is_live = self._console.is_terminal and not (verbose or quiet)
        self._live = (
            Live(console=self._console, transient=True, auto_refresh=False) if is_live else None
        )

    def __enter__(self) -> Self:
        """Take over the lower part of the terminal."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""
        if self._live:
            self._live.stop()

    def show(self, events: Path, total: int) -> None:
        """Read the lines added to the file `events`, and draw them."""
        content = b""
        # A workload may remove all results, this file among them.
        if events.is_file():
            with events.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        # A line may be half written: it is read next time.
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line), total)
        if self._live:
            self._live.update(self._drawing(total), refresh=True)
        time.sleep(_PERIOD_S)

    def _take(self, event: dict[str, Any], total: int) -> None:
        kind = event["event"]
        if kind == "step":
            job = self._jobs.get(("capture", event["run"], event["tool"], event["repeat"]))
            if job:
                job.step, job.total = event["step"], event["total"]
            return
        key = (event["stage"], event["run"], event["name"], event.get("repeat", -1))
        if kind == "started":
            self._jobs[key] = _Job(started_s=event["time_s"])
            return
        job = self._jobs.pop(key, _Job(started_s=event["time_s"]))
        elapsed = event["time_s"] - job.started_s
        self._done += 1
        line = f"[{self._done}/{total}] {_label(key)}  {elapsed:.1f} s"
        mark = "SKIPPED" if event.get("status") == "skipped" else "FAILED"
        words = line if kind == "finished" else f"{line}  {mark}"
        self._console.print(words, markup=False, soft_wrap=True)

    def _drawing(self, total: int) -> Group:
        elapsed = time.time() - self._start_s
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(f"{self._done} of {total or '?'} jobs"),
            ProgressBar(total=total or 1, completed=self._done, width=30),
            Text(f"{elapsed:.0f} s"),
        )
        body = Table.grid(padding=(0, 2))
        for key, job in self._jobs.items():
            step = _progress(job)
            body.add_row(f"  {_label(key)}", step, f"{time.time() - job.started_s:.0f} s")
        return Group(head, body)


def _progress(job: _Job) -> str:
    """Return how far the job is; the number of steps of a script is not known beforehand."""
    if job.total > 0:
        return f"step {job.step} of {job.total}"
    return f"step {job.step}" if job.step else ""


def _label(key: _Key) -> str:
    stage, run, name, repeat = key
    what = name if repeat < 0 else f"{name} rep{repeat}"
    return f"{f'{stage} {what}'.rstrip()}  {run}".rstrip()
