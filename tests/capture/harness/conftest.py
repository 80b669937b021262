"""A process that serves launchers, for what the tests start."""

import psutil
import pytest

from profkit.capture.harness import loaded_launcher
from profkit.process import caller_environment, job_server

SETTINGS = {"name": "torchrun", "python": "", "container": {"engine": "none"}}


@pytest.fixture
def server(monkeypatch):
    """Serve launchers for what this process starts; return the process that does."""
    before = set(psutil.Process().children())
    monkeypatch.setenv(caller_environment.LOADED_LAUNCHER, "")
    loaded_launcher.serve([{"launcher": SETTINGS, "workload": {"name": "train"}}])
    (process,) = set(psutil.Process().children()) - before
    yield process
    job_server.stop()
    assert not process.is_running()
