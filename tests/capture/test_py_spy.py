import json
import re
from pathlib import Path

import pytest

from profkit.capture import base
from profkit.capture.base import Rank
from profkit.capture.harness import permissions
from profkit.capture.py_spy import Capture

OUT = Path("/out")
FIXED = ["--format=speedscope", "--output=/out/rank1_dp1_tp0_pp0.speedscope.json"]
RANK = Rank(rank=1, dp=1, world_size=2)


def test_the_default_command_samples_a_hundred_times_a_second():
    expected = ["py-spy", "record", *FIXED, "--rate=100", "--", "python", "x.py"]
    assert Capture().command(["python", "x.py"], OUT, RANK) == expected


def test_every_setting_becomes_its_flag():
    tool = Capture(
        rate=250,
        native=True,
        subprocesses=True,
        nonblocking=True,
        gil=True,
        idle=True,
        threads=True,
        function=True,
        full_filenames=True,
        extra=("--duration=3",),
    )
    flags = ["--native", "--subprocesses", "--nonblocking", "--gil", "--idle", "--threads"]
    flags += ["--function", "--full-filenames", "--duration=3"]
    expected = ["py-spy", "record", *FIXED, "--rate=250", *flags, "--", "python"]
    assert tool.command(["python"], OUT, RANK) == expected


def test_it_says_when_the_binary_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(base.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Capture.unavailable() == "py-spy is not installed; pip install py-spy"


@pytest.mark.parametrize(("scope", "reason"), [(1, ""), (3, "kernel.yama.ptrace_scope is 3")])
def test_it_says_when_the_kernel_forbids_tracing(monkeypatch, scope, reason):
    monkeypatch.setattr(permissions, "ptrace_scope", lambda _: scope)
    assert Capture.unavailable().partition(",")[0] == reason


def test_it_says_which_version_is_installed():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", Capture.version())


@pytest.fixture(scope="module")
def sampled(capture, tmp_path_factory):
    return capture("py_spy", tmp_path_factory.mktemp("py_spy"), {"rate": 50})


def test_each_rank_leaves_its_samples_and_its_steps(sampled):
    assert sampled.record["status"] == "ok", sampled.record
    for rank in (0, 1):
        path = sampled.folder / f"rank{rank}_dp{rank}_tp0_pp0.speedscope.json"
        profiles = json.loads(path.read_text())["profiles"]
        assert sum(len(each["samples"]) for each in profiles) > 10
        assert len(sampled.steps(rank)) == 8
