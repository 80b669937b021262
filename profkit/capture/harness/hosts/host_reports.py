"""Reports of hosts: profkit runs on each host, and the first one writes the record of all.

They share the folder of results. Hosts but the first write their log and a report there.
"""

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from profkit.capture.harness.record import capture_json
from profkit.capture.launchers.base import Node
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import ConfigError

RANK = "PROFKIT_NODE_RANK"
"""Environment variable with the number of this host; Slurm's and torchrun's are read as well."""

_BEGUN = "capture.begun.json"
_RANKS = (RANK, "SLURM_NODEID", "NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK")
STARTED_LOG = "nodes.log"
"""Log of the command that reaches the hosts; a capture does not remove a file of this name."""

_PORTS = 1 << 16
_LOOK_S = 0.2
# Ranks of the other hosts fail as well, and say so themselves; those that wait to meet do not.
_AFTER_FAILURE_S = 10.0
_BEAT_S = 5.0
# Network file systems show changes of other hosts after up to a minute.
_SILENCE_S = 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """How the ranks of one host ended."""

    node: int
    attempt: int
    hostname: str
    exit_code: int
    reason: str = ""
    timed_out: bool = False
    interrupted: bool = False
    stopped: str = ""
    shortage: str = ""
    survivors: tuple[int, ...] = ()
    cpu_s: float = 0.0


def this_node(environment: Mapping[str, str], hosts: int) -> Node:
    """Return this host among `hosts`; the first one gets a free port, unless they agreed on one."""
    if hosts == 1:
        # Not the port of the environment: with a fixed one, two captures on one host collide.
        return Node(master_port=free_port())
    name = next((name for name in _RANKS if environment.get(name)), "")
    rank = _number(name, environment.get(name, "0"), hosts)
    port = _number("MASTER_PORT", environment.get("MASTER_PORT", "0"), _PORTS)
    node = Node(rank=rank, master_address=environment.get("MASTER_ADDR", ""), master_port=port)
    if rank:
        return node
    address, port = node.master_address or socket.gethostname(), port or free_port()
    return replace(node, master_address=address, master_port=port)


def _number(name: str, text: str, end: int) -> int:
    """Return the value of environment variable `name`; raises `ConfigError` if it is none."""
    if not text.isdigit() or int(text) >= end:
        raise ConfigError(f"the environment variable {name} is {text!r}, not a number below {end}")
    return int(text)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def log(out: Path, first: Path, node: int) -> Path:
    """Return the log of a host: `first` for the first one."""
    return out / f"{first.stem}.node{node}{first.suffix}" if node else first


@contextmanager
def announced_start(out: Path, first: Node) -> Iterator[None]:
    """Let the other hosts start, now that the files of earlier attempts are removed.

    They learn from the announcement of the `first` where the ranks meet.
    """
    write_atomically(out / _BEGUN, json.dumps(asdict(first)).encode())
    try:
        yield
    finally:
        withdraw_start(out)


def withdraw_start(out: Path) -> None:
    """Withdraw the announcement that the first host has started."""
    (out / _BEGUN).unlink(missing_ok=True)


def meeting_place(
    out: Path, node: Node, within_s: float, is_over: Callable[[], bool] = bool
) -> Node | None:
    """Wait for the first host to start; return `node` with where it says that the ranks meet.

    None if it does not within that time, or `is_over` says that it will not.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            first = Node(**json.loads((out / _BEGUN).read_text()))
        except FileNotFoundError:
            if time.monotonic() > deadline or is_over():
                return None
            time.sleep(_LOOK_S)
        else:
            return replace(first, rank=node.rank)


class OtherHosts:
    """What one host sees of the others while its ranks run: process numbers mean nothing there.

    The first host renews its announcement; another one ends once that is gone or long the same.
    """

    def __init__(self, out: Path, node: int, hosts: int, attempt: int) -> None:
        self.out, self.node, self.hosts, self.attempt = out, node, hosts, attempt
        self.last_ns = 0
        self.changed_s = time.monotonic()
        self.failed_s = 0.0

    def reason_to_stop(self) -> str:
        """Return why this host's ranks must end, "" if they need not; to be asked repeatedly."""
        if self.node:
            return "the first host has ended this capture" if self._has_first_ended() else ""
        if self.hosts > 1 and time.monotonic() - self.changed_s > _BEAT_S:
            (self.out / _BEGUN).touch()
            self.changed_s = time.monotonic()
        if not (failure := self.failure()):
            return ""
        self.failed_s = self.failed_s or time.monotonic()
        return failure if time.monotonic() - self.failed_s > _AFTER_FAILURE_S else ""

    def _has_first_ended(self) -> bool:
        try:
            now_ns = (self.out / _BEGUN).stat().st_mtime_ns
        except FileNotFoundError:
            return True
        # Compared with itself alone: the clocks of hosts differ.
        if now_ns != self.last_ns:
            self.last_ns, self.changed_s = now_ns, time.monotonic()
        return time.monotonic() - self.changed_s > _SILENCE_S

    def failure(self) -> str:
        """Return which hosts but the first have failed, and why; "" if none has."""
        come = [node for node in range(1, self.hosts) if _has_come(self.out, node, self.attempt)]
        return failures(_read(self.out, node) for node in come)


def failures(reports: Iterable[Report]) -> str:
    """Return which hosts have failed, and why; "" if none has."""
    failed = [report for report in reports if report.exit_code]
    return "; ".join(f"host {one.node} ({one.hostname}): {one.reason}" for one in failed)


def write_report(out: Path, report: Report) -> None:
    """Write the report of a host for the first one."""
    write_atomically(_path(out, report.node), json.dumps(asdict(report)).encode() + b"\n")


def gather_reports(
    out: Path, hosts: int, attempt: int, within_s: float
) -> tuple[list[Report], str]:
    """Wait for the reports of all hosts but this; return them, and which did not come, in words."""
    deadline = time.monotonic() + within_s
    while missing := [node for node in range(1, hosts) if not _has_come(out, node, attempt)]:
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    reports = [_read(out, node) for node in range(1, hosts) if node not in missing]
    return reports, _absent(out, missing, hosts) if missing else ""


def _absent(out: Path, missing: Sequence[int], hosts: int) -> str:
    nodes = ", ".join(map(str, missing))
    did_not = f"host {nodes} of {hosts} (counted from 0) did not report"
    if said := capture_json.tail(out / STARTED_LOG):
        return f"{did_not}; {STARTED_LOG} ends with: {said[-1]}"
    if any(log(out, out / capture_json.LOG, node).exists() for node in missing):
        return f"{did_not}, although it had begun: it was killed, or has lost the results folder"
    return (
        f"{did_not}; start the same `profkit capture` there with {RANK} set, or set "
        "launcher.across, and share the results folder"
    )


def _path(out: Path, node: int) -> Path:
    return out / f"capture.node{node}.json"


def _has_come(out: Path, node: int, attempt: int) -> bool:
    # A report of an earlier attempt may come late.
    return _path(out, node).is_file() and _read(out, node).attempt == attempt


def _read(out: Path, node: int) -> Report:
    values = json.loads(_path(out, node).read_text())
    return Report(**{**values, "survivors": tuple(values["survivors"])})
