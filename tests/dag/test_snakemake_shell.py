"""Jobs are handed over as a shell would start them, and others are left to a shell."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from profkit.dag import snakemake_shell
from profkit.process import job_client, job_server

PREFIX = "set -euo pipefail; export PROFKIT_TEST=x; "
PROFKIT = f"""#!{sys.executable}
import json, os, sys
print("shell", json.dumps(sys.argv[1:]), os.environ.get("PROFKIT_TEST"))
"""


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Return what runs a command and returns its status and log; it says how a server would end."""
    (tmp_path / "profkit").write_text(PROFKIT)
    (tmp_path / "profkit").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def hand_over(address, argv, streams, environment, kind):
        assert address == "/server"
        job.kinds.append(kind)
        os.write(streams[1], f"server {json.dumps(argv)} {environment['PROFKIT_TEST']}\n".encode())
        return job.status

    def run(command, prefix=PREFIX):
        shell = SimpleNamespace(sp=subprocess)
        snakemake_shell.hand_over_jobs(shell, PREFIX, {"PROFKIT_TEST": "x"})
        options = {"shell": True, "executable": "/bin/bash", "env": dict(os.environ)}
        status = shell.sp.Popen(f"{prefix} {command}", **options).wait()
        log = tmp_path / "job.log"
        return status, log.read_text() if log.exists() else ""

    job = SimpleNamespace(status=0, run=run, kinds=[])
    monkeypatch.setattr(job_client, "handed_over", hand_over)
    monkeypatch.setattr(job_server, "address", lambda: "/server")
    return job


WORDS = """analyze 'a b' 'it'"'"'s' '{"a": [1]}' '' --out results/a.json"""


def test_the_server_gets_the_words_that_a_shell_passes(job, monkeypatch):
    command = f"profkit {WORDS} > job.log 2>&1 || profkit failed"
    handed_over = job.run(command)
    monkeypatch.setattr(job_server, "address", lambda: None)
    by_shell = job.run(command)
    assert handed_over == (0, by_shell[1].replace("shell", "server"))
    assert by_shell[0] == 0


@pytest.mark.parametrize(("status", "seen"), [(3, 3), (-9, 137)])
def test_after_a_failure_a_shell_does_what_follows(job, status, seen):
    job.status = status
    assert job.run("profkit report > job.log 2>&1") == (seen, 'server ["report"] x\n')
    after = "profkit report > job.log 2>&1 || profkit failed $? >> job.log"
    followed = f'server ["report"] x\nshell ["failed", "{seen}"] x\n'
    assert job.run(after) == (0, followed)


def test_a_job_that_ends_well_and_leaves_nothing_has_failed(job, monkeypatch, tmp_path):
    checked = "profkit analyze > job.log 2>&1 && (test -e a.json || exit 125)"
    after = f"{checked} || profkit failed $? >> job.log"
    for address in ("/server", None):
        monkeypatch.setattr(job_server, "address", lambda address=address: address)
        assert 'shell ["failed", "125"] x' in job.run(after)[1]
    (tmp_path / "a.json").touch()
    assert job.run(after)[1] == 'shell ["analyze"] x\n'
    monkeypatch.setattr(job_server, "address", lambda: "/server")
    assert job.run(after)[1] == 'server ["analyze"] x\n'


SHELL_ONLY = {
    "another command": "profkit capture > job.log 2>&1",
    "an expansion": "profkit analyze $PROFKIT_TEST > job.log 2>&1",
    "a pattern": "profkit analyze prof* > job.log 2>&1",
    "two commands": "profkit analyze a; profkit report > job.log 2>&1",
    "another log": "profkit analyze >> job.log 2>&1",
}


@pytest.mark.parametrize("command", SHELL_ONLY.values(), ids=SHELL_ONLY)
def test_what_only_a_shell_understands_is_for_a_shell(job, command):
    status, log = job.run(command)
    assert (status, log.split()[0]) == (0, "shell")


def test_only_analyses_of_profkit_share_a_process(job):
    for command in ("analyze idle --out x", "analyze causes", "analyze mine", "analyze", "report"):
        job.run(f"profkit {command} > job.log 2>&1")
    assert job.kinds == [job_client.SHARED, *[job_client.ALONE] * 4]


def test_another_environment_is_for_a_shell(job):
    status, log = job.run("profkit analyze > job.log 2>&1", prefix="")
    assert (status, log) == (0, 'shell ["analyze"] None\n')


def test_a_job_of_a_server_that_was_killed_is_done_in_a_shell(job):
    job.status = None
    assert job.run("profkit analyze > job.log 2>&1") == (0, 'shell ["analyze"] x\n')


def test_a_log_that_cannot_be_written_is_for_the_shell_to_say(job, capfd):
    assert job.run("profkit analyze > no/job.log 2>&1") == (1, "")
    assert "no/job.log" in capfd.readouterr().err
