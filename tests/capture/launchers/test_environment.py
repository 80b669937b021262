"""A capture starts its launcher as a shell of the user's would, although Snakemake is between."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.shell import shell

from profkit.capture.launchers import launchers
from profkit.dag.job_environment import shell_prefix
from profkit.process import parent_watch

STATE = """#!{python} -I
import json, os, resource, signal
limits = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
umask = os.umask(0)
print(json.dumps(dict(
    environ=dict(os.environ),
    affinity=sorted(os.sched_getaffinity(0)),
    scheduler=os.sched_getscheduler(0),
    nice=os.nice(0),
    limits=[resource.getrlimit(limit) for limit in limits],
    cwd=os.getcwd(),
    umask=umask,
    blocked=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    ignored=[n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN],
    stdin=os.readlink("/proc/self/fd/0"),
)))
"""

_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return a program that prints what it was started with, in an environment with traps."""
    for name in ("OMP_NUM_THREADS", "TMP", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    monkeypatch.setenv("TMPDIR", f"{tmp_path}/my {{scratch}}")
    program = tmp_path / "python"
    program.write_text(STATE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    # Tests in the background ignore these; a capture heeds them, and so does what it starts.
    heeded = {number: signal.signal(number, signal.SIG_DFL) for number in _OF_TERMINALS}
    yield program
    for number, before in heeded.items():
        signal.signal(number, before)
    shell.prefix("")


def last_state(text):
    return json.loads(text.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("launcher", sorted(launchers()))
def test_a_job_of_snakemake_starts_the_launcher_as_a_bare_shell_does(state, launcher):
    # Snakemake formats it.
    shell.prefix(shell_prefix().replace("{", "{{").replace("}", "}}"))
    settings = {"name": launcher, "env": {"GOTO_NUM_THREADS": "5"}}
    workload = {"name": "script", "command": str(state)}
    if launcher != "command":
        settings, workload = {**settings, "python": str(state)}, {"name": "train"}
    behaviour = {"workload": workload, "launcher": settings, "world_size": 1}
    out = Path("results/runs/r/capture/baseline/rep0")
    workload = shlex.quote(json.dumps(behaviour))
    command = f"profkit capture baseline --out {out} --workload {{workload}}"
    resources = {"tmpdir": "/tmp"}  # noqa: S108 - what Snakemake takes by default
    shell(command, workload=workload, threads=2, resources=resources)
    record = json.loads((out / "capture.json").read_text())
    inside = last_state((out / "capture.log").read_text())
    # Of all of it: the readline of pytest sets variables that Python itself does not see.
    given = {"env": dict(os.environ), "stdin": subprocess.DEVNULL}
    bare = last_state(subprocess.check_output([state], text=True, **given))
    environment, expected = inside.pop("environ"), bare.pop("environ")
    assert environment["GOTO_NUM_THREADS"] == "5"
    assert environment["MKL_NUM_THREADS"] == "3"
    added = {*record["environment_added"], parent_watch.VARIABLE, "_"}
    assert {name: environment[name] for name in environment if name not in added} == {
        name: expected[name] for name in expected if name not in added
    }
    assert inside == bare
    assert record["environment"]["MKL_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in record["environment"]
