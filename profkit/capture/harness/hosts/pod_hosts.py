"""Run a job in the pods of an indexed Job of Kubernetes: ``python -m ... SCRIPT`` in each of them.

The first pod runs the script. Where that starts a capture over hosts, it leaves the command in a
folder beside the script, on the volume that all pods share; the others run it, and end with it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from profkit.capture.harness.hosts.host_reports import RANK
from profkit.core.atomic_write import write_atomically
from profkit.process import process_tree

ADDRESS = "PROFKIT_POD_IP"
"""Environment variable with the address of this pod."""

_FOLDER = "PROFKIT_PODS"
_INDEX = "JOB_COMPLETION_INDEX"
_ENDED = "ended"
_PERIOD_S = 0.5
# What each pod has of its own.
_OWN = (ADDRESS, _INDEX, "HOSTNAME")


def starting_command() -> tuple[str, ...]:
    """Return the command that starts what follows it in all pods of the Job that runs this."""
    return (sys.executable, "-m", __spec__.name, "--")


def main(argv: Sequence[str]) -> int:
    """Run the script, or be another pod; behind ``--``, start a command in all pods."""
    if argv[0] == "--":
        return _start(argv[1:])
    folder = Path(f"{argv[0]}.pods")
    if int(os.environ[_INDEX]):
        return max([0, *map(_run, _requests(folder))])
    # Not for others to read: requests hold the environment, and that may hold secrets.
    folder.mkdir(mode=0o700, exist_ok=True)
    variables = os.environ | {_FOLDER: str(folder)}
    try:
        return abs(subprocess.run(["sh", argv[0]], check=False, env=variables).returncode)
    finally:
        (folder / _ENDED).touch()


def _start(command: Sequence[str]) -> int:
    """Leave `command` for the other pods, and run it in this one."""
    process_tree.die_with_parent()
    if _FOLDER not in os.environ:
        print("not in a Job of several pods: start profkit with --on kubernetes")  # noqa: T201
        return 1
    folder = Path(os.environ[_FOLDER])
    given = {name: value for name, value in os.environ.items() if name not in _OWN}
    given |= {"MASTER_ADDR": os.environ[ADDRESS]}
    request = {"command": command, "cwd": os.getcwd(), "environment": given}  # noqa: PTH109
    path = folder / f"{len(list(folder.glob('*.json')))}.json"
    write_atomically(path, json.dumps(request).encode())
    return _run(path, node=0)


def _requests(folder: Path) -> Iterator[Path]:
    """Yield what the first pod asks for, until it has ended."""
    number = 0
    while True:
        path = folder / f"{number}.json"
        has_ended = (folder / _ENDED).exists()
        if path.exists():
            number += 1
            yield path
        elif has_ended:
            return
        else:
            time.sleep(_PERIOD_S)


def _run(path: Path, node: int | None = None) -> int:
    """Run what `path` asks for as host `node`, by default the number of this pod."""
    asked = json.loads(path.read_bytes())
    number = int(os.environ[_INDEX]) if node is None else node
    variables = os.environ | asked["environment"] | {RANK: str(number)}
    done = subprocess.run(asked["command"], check=False, env=variables, cwd=asked["cwd"])
    return abs(done.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
