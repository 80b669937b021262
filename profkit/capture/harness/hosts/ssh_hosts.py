"""Run a command once on each of several hosts, by ssh: ``python -m ... HOST HOST -- COMMAND``.

The environment and the folder go with it, on the standard input of ssh: other users of a host see
command lines. That input stays open while the command may run, however ssh ends.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from profkit.capture.harness.hosts.host_reports import RANK
from profkit.process import process_tree

_MODULE = "profkit.capture.harness.hosts.ssh_hosts"
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30")
_SSH_FAILED = 255
_PERIOD_S = 0.2
_END_S = 30
# What is true of one host or login alone.
_OWN = re.compile(r"SSH_\w+|SLURM_\w+|XDG_\w+|DBUS_\w+|DISPLAY|HOSTNAME|TMPDIR|TERM|_")


def starting_command(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the command that starts what follows it on each of `hosts`."""
    return (sys.executable, "-m", _MODULE, *hosts, "--")


def main(argv: Sequence[str]) -> int:
    """Start the command of `argv` on its hosts, and return the worst status."""
    process_tree.die_with_parent()
    if not argv:
        return _run_here(sys.stdin.buffer)
    where = argv.index("--")
    hosts, command = argv[:where], argv[where + 1 :]
    started = [_start(host, node, hosts[0], command) for node, host in enumerate(hosts)]
    try:
        return _wait(hosts, started)
    finally:
        for process in started:
            process.terminate()


def _start(host: str, node: int, first: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start `command` on `host`, the one with number `node`; ranks meet on the `first`."""
    given = {name: value for name, value in os.environ.items() if not _OWN.fullmatch(name)}
    given = {"MASTER_ADDR": first} | given | {RANK: str(node)}
    request = {"command": command, "cwd": os.getcwd(), "environment": given}  # noqa: PTH109
    process = subprocess.Popen(
        [*_SSH, host, f"{sys.executable} -m {_MODULE}"], stdin=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with suppress(BrokenPipeError):  # ssh says why, and with which status
        process.stdin.write(json.dumps(request).encode() + b"\n")
    return process


def _wait(hosts: Sequence[str], started: Sequence["subprocess.Popen[bytes]"]) -> int:
    """Return the worst status once all have ended, or as soon as ssh reaches one of them not."""
    statuses: list[int | None] = [None]
    while None in statuses:
        statuses = [process.poll() for process in started]
        if _SSH_FAILED in statuses:
            print(f"ssh has not reached host {hosts[statuses.index(_SSH_FAILED)]}")  # noqa: T201
            return _SSH_FAILED
        time.sleep(_PERIOD_S)
    return max(abs(status) for status in statuses if status is not None)


def _run_here(request: IO[bytes]) -> int:
    """Run on this host what the one that asks has written, and end it when that is gone."""
    asked: Mapping[str, Any] = json.loads(request.readline())
    process: subprocess.Popen[bytes] = subprocess.Popen(
        asked["command"],
        cwd=asked["cwd"],
        env=os.environ | asked["environment"],
        stdin=subprocess.DEVNULL,
        preexec_fn=process_tree.die_with_parent,  # noqa: PLW1509 - no thread has begun
    )
    threading.Thread(target=_end_with_asker, args=(request, process), daemon=True).start()
    return abs(process.wait())


def _end_with_asker(request: IO[bytes], process: "subprocess.Popen[bytes]") -> None:
    request.read()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
