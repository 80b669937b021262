"""Start a capture on all of its hosts, by a command such as srun."""

import os
import sys
from collections.abc import Sequence

from profkit.capture.harness.hosts import host_reports, pod_hosts, ssh_hosts
from profkit.capture.harness.launch import launch
from profkit.capture.harness.record import capture_json
from profkit.capture.harness.spec import Spec
from profkit.capture.launchers.base import DistributedLauncher
from profkit.core.errors import ProfkitError
from profkit.core.secret_masking import Masker, forms
from profkit.process import caller_environment

_STARTED = "PROFKIT_SPREAD"
# One process on each host, with all of its processors, in what may be the allocation of a job that
# has a step already. A rank that fails is to be reported, not to end the others.
_SRUN = ("--ntasks-per-node=1", "--overlap", "--cpu-bind=none", "--kill-on-bad-exit=0")
_PODS = ("kubernetes",)
# The captures on the hosts have a timeout of their own, after which they write their records.
_TIMEOUT_MARGIN_S = 180.0


def starting_command(spec: Spec) -> tuple[str, ...]:
    """Return the command that starts a process on each host; () in a process that it started."""
    launcher = spec.load_launcher()
    if _STARTED in os.environ or not isinstance(launcher, DistributedLauncher):
        return ()
    if launcher.hosts:
        return ssh_hosts.starting_command(launcher.hosts)
    if launcher.across == ("srun",):
        count = launcher.host_count
        return ("srun", f"--nodes={count}", f"--ntasks={count}", *_SRUN)
    if launcher.host_count == 1:
        return ()
    return pod_hosts.starting_command() if launcher.across == _PODS else launcher.across


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
    variables = {**os.environ, _STARTED: "1"}
    # What it forks would be on this host, and outside of what srun gives a step.
    variables.pop(caller_environment.LOADED_LAUNCHER, None)
    launch(command, variables, log, timeout_s + _TIMEOUT_MARGIN_S, spec.token)
    Masker(known=forms(spec.secrets)).file(log, log.name)
    if _written_ns(spec) == before:
        raise ProfkitError(
            f"no host has left {capture_json.NAME}; {_name(across)} said:\n"
            + "\n".join(capture_json.tail(log)[-10:]),
            hint=f"launcher.across must start what follows it on each host, numbered by "
            f"{host_reports.RANK} or SLURM_NODEID; ssh must reach launcher.hosts with no password",
        )


def _name(across: Sequence[str]) -> str:
    if across == pod_hosts.starting_command():
        return _PODS[0]
    return "ssh" if across[0] == sys.executable else across[0]


def _written_ns(spec: Spec) -> int:
    path = spec.folder / capture_json.NAME
    return path.stat().st_mtime_ns if path.is_file() else 0
