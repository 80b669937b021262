"""A good capture, where the same is captured anew and ended before anything is recorded."""

import json
import signal
import subprocess
import sys

import psutil
import pytest

from profkit.capture.harness.foreground import END
from tests.capture.conftest import arguments
from tests.waiting import LIMIT_S, until

TRAIN = """
import os, pathlib, time
import torch
if os.path.exists("slow"):
    pathlib.Path(open("slow").read()).touch()
    time.sleep(600)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def capture(tmp_path, monkeypatch):
    """Return a function that starts a capture, which waits for ever where there is ``slow``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(END, str(tmp_path / "end"))
    (tmp_path / "train.py").write_text(TRAIN)

    def start(*flags, **behaviour):
        asked = {
            "workload": {"name": "script", "command": f"{sys.executable} train.py"},
            "launcher": {"name": "command"},
            "world_size": 1,
        }
        line = [*arguments("baseline", folder(tmp_path), {}, **asked | behaviour), *flags]
        return subprocess.Popen(line, stderr=subprocess.PIPE, text=True)

    return start


def folder(tmp_path):
    return tmp_path / "results/runs/r/capture/baseline/rep0"


def files(tmp_path):
    return {path.name: path.read_bytes() for path in folder(tmp_path).iterdir()}


@pytest.fixture
def before(capture, tmp_path):
    """Make a good capture, let the next one be interrupted, and return the files of the first."""
    assert capture().wait(LIMIT_S) == 0
    assert json.loads(files(tmp_path)["capture.json"])["status"] == "ok"
    (tmp_path / "slow").write_text("end")
    return files(tmp_path)


def waiting(capture, tmp_path):
    """Start a capture, and return it once its program waits."""
    (tmp_path / "slow").write_text("waits")
    process = capture()
    until((tmp_path / "waits").exists)
    return process


def test_it_stays_where_the_program_is_interrupted_before_a_step(capture, before, tmp_path):
    for _ in ("while it runs", "before it begins"):
        again = capture()
        assert "interrupted: what was recorded before is kept" in again.communicate()[1]
        assert again.returncode == 0
        assert files(tmp_path) == before


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize(
    ("flags", "behaviour"), [(("--attempt", "2"), {}), ((), {"batch": 7})], ids=["changed", "other"]
)
def test_it_goes_where_it_is_not_what_is_asked_for(capture, tmp_path, flags, behaviour):
    assert capture(*flags, **behaviour).wait(LIMIT_S) == 0
    assert json.loads(files(tmp_path)["capture.json"])["reason"] == "it was interrupted"


def test_it_stays_where_the_capture_is_told_to_stop(capture, before, tmp_path):
    process = waiting(capture, tmp_path)
    process.terminate()
    assert process.wait(LIMIT_S) == 128 + signal.SIGTERM
    assert files(tmp_path) == before


def test_it_is_back_after_a_capture_that_was_killed(capture, before, tmp_path):
    process = waiting(capture, tmp_path)
    within = psutil.Process(process.pid).children(recursive=True)
    for one in (process, *within):
        one.send_signal(signal.SIGKILL)
    psutil.wait_procs(within, timeout=LIMIT_S)
    assert not (folder(tmp_path) / "capture.json").exists()
    (tmp_path / "end").touch()
    assert capture().wait(LIMIT_S) == 0
    assert files(tmp_path) == before


def test_it_goes_where_the_process_that_captures_is_killed(capture, before, tmp_path):
    process = waiting(capture, tmp_path)
    (inner,) = psutil.Process(process.pid).children()
    inner.kill()
    assert process.wait(LIMIT_S) == 0
    assert "was killed by signal 9" in json.loads(files(tmp_path)["capture.json"])["reason"]
    assert files(tmp_path).keys() <= before.keys() | {"capture.log"}
