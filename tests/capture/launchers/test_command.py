import pytest

from profkit.capture.harness.job import prepare
from profkit.capture.harness.spec import Spec
from profkit.capture.launchers.command import Launcher
from profkit.core.run_settings import RunSettings
from profkit.core.settings import checked


def job(command, tool="baseline", **settings):
    workload = {"name": "script", "command": command}
    behaviour = {"workload": workload, "launcher": {"name": "command"}, "world_size": 1}
    out = "/results/runs/r/capture/tool/rep0"
    spec = Spec(token="", tool=tool, out=out, settings=settings, workload=behaviour)
    return prepare(spec, RunSettings())


def test_the_words_are_started_as_typed_with_the_assignments_in_front():
    made = job("A=1 B='two words' torchrun --nproc-per-node 2 train.py '*.txt'")
    assert made.command == ["torchrun", "--nproc-per-node", "2", "train.py", "*.txt"]
    assert (made.environment["A"], made.environment["B"]) == ("1", "two words")


def test_what_python_runs_first_comes_before_the_path_of_the_caller(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    added, theirs = job("python train.py").environment["PYTHONPATH"].split(":")
    assert theirs == "/theirs"
    assert added.endswith("profkit/capture/harness/followed/path")
    assert job("PYTHONPATH=/own python train.py").environment["PYTHONPATH"] == f"{added}:/own"


def test_a_tool_around_ranks_is_put_around_the_whole_command():
    made = job("bash train.sh 3", tool="py_spy")
    assert made.command[-4:] == ["--", "bash", "train.sh", "3"]
    around, later = made.tool_commands
    assert around == made.command
    assert later[:2] == ["py-spy", "record"]
    assert later[-2:] == ["--pid", "PID"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"python": "/opt/python"}, "python: the launcher command starts the words as they are"),
        ({"extra": ["--flag"]}, "extra: the launcher command starts the words as they are"),
        ({"container": {"engine": "docker", "image": "x"}}, "container: start the container"),
    ],
)
def test_settings_of_other_launchers_are_refused(settings, message):
    assert checked("launcher", Launcher, settings).check(1).startswith(message)
