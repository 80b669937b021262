"""The command lines of ``profkit plan --commands``."""

import shlex

import pytest

from profkit.cli import main


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Return a function from arguments of ``profkit plan --commands`` to the lines of each tool."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    def lines(*arguments):
        assert not main(["plan", "--commands", *arguments])
        tool, by_tool = "", {}
        for line in capsys.readouterr().out.splitlines()[1:]:
            if line.startswith("    "):
                by_tool[tool].append(line.strip())
            else:
                tool = line.strip(" :")
                by_tool[tool] = []
        return by_tool

    return lines


def test_a_tool_around_a_command_is_shown_although_it_is_not_installed(printed, monkeypatch):
    monkeypatch.setattr("profkit.capture.base.executable", lambda _: "")
    found = printed("tool=[py_spy]", "--", "A=1", "python", "train.py", "--api-key", "s3cretvalue")
    missing, line, later = found["py_spy"]
    assert missing.startswith("cannot run here: py-spy is not installed")
    assert "py-spy record --format=speedscope" in later
    words = shlex.split(line)
    assert words[0] == "A=1"
    assert words[2:6] == ["-m", "profkit.capture.py_spy", "record", "--format=speedscope"]
    assert words[-5:-1] == ["--", "python", "train.py", "--api-key"]
    assert "s3cretvalue" not in line


def test_a_tool_around_each_rank_is_shown_beside_the_launcher(printed):
    found = printed("tool=[py_spy,baseline]", "tools.py_spy.mode=dump", "repeats=2", "world_size=2")
    assert list(found) == ["baseline, 2 times", "py_spy, 2 times"]
    launcher, wrapper, later = found["py_spy, 2 times"]
    assert found["baseline, 2 times"] == [launcher]
    assert "torch.distributed.run" in launcher
    assert wrapper.startswith("each rank: ")
    assert "--period-s=5" in wrapper
    assert later == "each rank: py-spy dump --json --pid PID"


def test_what_starts_a_capture_on_each_host_is_shown(printed):
    hosts = ("launcher.nnodes=2", "launcher.across=srun", "world_size=4")
    start, line = printed("tool=[baseline]", "repeats=1", *hosts)["baseline"]
    assert start.startswith("on each host, by srun --nodes=2 --ntasks=2 ")
    assert start.endswith("; on the first:")
    assert "--node-rank=0" in line
