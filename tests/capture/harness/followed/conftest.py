"""Commands that are started as a capture starts them, without the rest of a capture."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.capture.harness import job as jobs
from profkit.capture.harness.followed import found_ranks
from profkit.capture.harness.ranks import clock
from profkit.capture.harness.record import rank_warnings
from profkit.capture.harness.spec import Spec
from profkit.core.run_settings import RunSettings
from tests.waiting import LIMIT_S

PROGRAMS = Path(__file__).parents[3] / "programs"


class Followed:
    """A command that has ended, and what is left of it."""

    def __init__(self, job, result):
        self.job = job
        self.out = job.spec.folder
        self.result = result
        self.found = found_ranks.settle(self.out, job.spec.parallel)
        clock.collect(self.out)
        self.notes = [*self.found.notes, *rank_warnings.collect(self.out)]

    @property
    def printed(self):
        return self.result.stdout.splitlines()

    @property
    def steps(self):
        """Return the number of steps of each rank."""
        texts = [(self.out / f"{rank.label}.steps.json").read_text() for rank in self.found.ranks]
        return [len(json.loads(text)["steps"]) for text in texts]

    @property
    def labels(self):
        return [rank.label for rank in self.found.ranks]

    @property
    def names(self):
        """Return the names of the files that are left."""
        return sorted(path.name for path in self.out.iterdir())


def job_of(out, command, tool="baseline", settings=None, **workload):
    workload = {"name": "script", "command": command, **workload}
    behaviour = {"workload": workload, "launcher": {"name": "command"}, "world_size": 1}
    spec = Spec(token="", tool=tool, out=str(out), settings=settings or {}, workload=behaviour)
    return jobs.prepare(spec, RunSettings())


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Return a function that runs a command, in which ``python`` is the one of the tests."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    # Of a PyTorch for GPUs where the driver is older, which says nothing of what is tested.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:CUDA initialization")

    def start(command, tool="baseline", settings=None, cwd=PROGRAMS, **workload):
        out = tmp_path / "results/runs/r/capture" / tool / "rep0"
        out.mkdir(parents=True)
        job = job_of(out, command, tool, settings, **workload)
        result = subprocess.run(
            job.command,
            env=job.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        return Followed(job, result)

    return start


@pytest.fixture
def plainly(monkeypatch, capsys):
    """Return a function that runs a script without profkit, and returns what it printed."""

    def run_it(*words):
        monkeypatch.setattr(sys, "argv", list(words))
        runpy.run_path(str(PROGRAMS / words[0]), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run_it
