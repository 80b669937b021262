"""Start a capture on all of its hosts, by a command such as srun."""

import os
import socket
import sys
from collections.abc import Sequence

from profkit.capture.harness.hosts import host_reports
from profkit.capture.harness.launch import launch
from profkit.capture.harness.record import capture_json
from profkit.capture.harness.spec import Spec
from profkit.capture.launchers.base import DistributedLauncher
from profkit.core.errors import ProfkitError
from profkit.core.secret_masking import Masker, forms

_STARTED = "PROFKIT_SPREAD"
# The captures on the hosts have a timeout of their own, after which they write their records.
_TIMEOUT_MARGIN_S = 180.0


def starting_command(spec: Spec) -> tuple[str, ...]:
    """Return the command that starts a process on each host; () in a process that it started."""
    launcher = spec.load_launcher()
    if _STARTED in os.environ or not isinstance(launcher, DistributedLauncher):
        return ()
    return launcher.across if launcher.host_count > 1 else ()


def start(spec: Spec, across: Sequence[str], argv: Sequence[str], timeout_s: float) -> None:
    """Run ``profkit capture`` with `argv` on each host; the first one there writes the record.

    Raises `ProfkitError` if it did not, with the end of what was printed.
    """
    spec.folder.mkdir(parents=True, exist_ok=True)
    log = spec.folder / host_reports.STARTED_LOG
    # One that was left by a capture that was killed would let the others start too early.
    host_reports.withdraw_start(spec.folder)
    before = _written_ns(spec)
    command = [*across, sys.executable, "-m", "profkit.capture", *argv]
    variables = {**os.environ, _STARTED: "1", **_rendezvous_variables()}
    launch(command, variables, log, timeout_s + _TIMEOUT_MARGIN_S, spec.token)
    Masker(known=forms(spec.secrets)).file(log, log.name)
    if _written_ns(spec) == before:
        raise ProfkitError(
            f"no host has left {capture_json.NAME}; {across[0]} said:\n"
            + "\n".join(capture_json.tail(log)[-10:]),
            hint=f"launcher.across must start what follows it on each host, numbered by "
            f"{host_reports.RANK} or SLURM_NODEID",
        )


def _written_ns(spec: Spec) -> int:
    path = spec.folder / capture_json.NAME
    return path.stat().st_mtime_ns if path.is_file() else 0


def _rendezvous_variables() -> dict[str, str]:
    """Return environment variables that make this host the rendezvous of all."""
    address = os.environ.get("MASTER_ADDR") or socket.gethostname()
    port = os.environ.get("MASTER_PORT") or str(host_reports.free_port())
    return {"MASTER_ADDR": address, "MASTER_PORT": port}
