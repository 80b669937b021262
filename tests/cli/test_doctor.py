"""What ``profkit doctor`` says of this machine, and of others."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from profkit.capture import base, tools
from profkit.capture.base import Problem, Session, Wrapper
from profkit.capture.harness.machine import compatibility
from profkit.capture.py_spy import Capture as PySpy
from profkit.cli import cluster, main
from profkit.cli.doctor import diagnosed

MACHINE = {"shared_memory_bytes": 1 << 34, "gpus": [], "cuda": "", "cuda_driver": ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class Absent(Session):
    """A tool whose distribution is not there."""

    distribution: ClassVar = "no-such-distribution"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wordy(Session):
    """A tool that only answers the one question it must."""

    @classmethod
    def unavailable_reason(cls):
        return "the moon is full"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limited(Wrapper):
    """A tool that runs and loses a part."""

    binary: ClassVar = "env"

    @classmethod
    def problems(cls):
        yield Problem(kind="forbidden", what="no counters", advice="ask", stops=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken(Wrapper):
    """A tool whose executable is there and does not work."""

    binary: ClassVar = "broken-tool"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 600 & sleep 600", "it does not end within 0.2 s"),
        ("while :; do echo hello; done", "it prints more than 1024 KiB"),
        (
            r"printf '\377\001 hello'",
            "it prints no version, but: \N{REPLACEMENT CHARACTER}? hello",
        ),
        ("echo no libcuda.so >&2; exit 127", "no libcuda.so"),
    ],
)
def test_an_executable_that_hangs_or_prints_garbage_is_said(tmp_path, monkeypatch, script, said):
    path = tmp_path / Broken.binary
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if "sleep" in script:
        monkeypatch.setattr(base, "_VERSION_TIMEOUT_S", 0.2)
    found = diagnosed("broken", Broken, set())
    assert (found.is_usable, found.version) == (False, "")
    assert found.problems[0].what == f"{path} does not work: --version: {said}"
    assert Broken.unavailable_reason().startswith(found.problems[0].what)


def test_every_tool_is_in_the_table_with_what_it_is(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert [name for name in tools() if f" {name} " not in said] == []
    assert "No profiler: step times" in said
    assert "The tools baseline, memory_layers, memory_snapshot, torch_profiler can be used." in said


def test_a_cluster_that_is_out_of_reach_is_told_apart_from_the_tools(capsys, monkeypatch):
    missing = Problem(kind="missing", what="no sbatch", advice="")
    monkeypatch.setattr(cluster, "problems", lambda _: iter([missing]))
    assert main(["doctor", "--on", "slurm"]) == 1
    *_, tools, jobs = capsys.readouterr().out.splitlines()
    assert tools.endswith("torch_profiler can be used.")
    assert jobs == "No job can be sent to slurm from here: see above."


def test_the_same_as_json(capsys):
    assert main(["doctor", "--json", "+tool=py_spy"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["usable"], report["machine"]["cpu_count"] > 0) == (True, True)
    selected = {tool["name"] for tool in report["tools"] if tool["is_selected"]}
    assert selected == {"baseline", "torch_profiler", "memory_snapshot", "memory_layers", "py_spy"}
    assert all(tool["version"] for tool in report["tools"] if tool["is_selected"])


def test_a_selected_tool_that_cannot_run_is_said_with_what_to_do_and_is_a_failure(
    capsys, monkeypatch
):
    trouble = Problem(kind="forbidden", what="ptrace is forbidden", advice="allow it")
    monkeypatch.setattr(PySpy, "problems", classmethod(lambda _: iter([trouble])))
    assert main(["doctor"]) == 0
    assert main(["doctor", "tool=[py_spy]"]) == 1
    said = capsys.readouterr().out
    assert "py_spy: ptrace is forbidden\n  allow it\n" in said
    assert "can not all be used." in said


@pytest.mark.parametrize(
    ("kind", "answers", "is_usable"),
    [
        (Absent, ("no", "", ""), False),
        (Wordy, ("no", "", ""), False),
        (Limited, ("yes", "partly", "yes"), True),
    ],
)
def test_a_tool_answers_for_itself(kind, answers, is_usable):
    found = diagnosed("it", kind, set())
    said = tuple(map(found.answer, ("missing", "forbidden", "incompatible")))
    assert (said, found.is_usable) == (answers, is_usable)


def test_a_missing_tool_says_how_to_get_it():
    assert Absent.unavailable_reason() == (
        "no-such-distribution is not installed; pip install no-such-distribution"
    )
    assert diagnosed("it", Wordy, set()).problems[0].what == "the moon is full"


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({}, ""),
        ({"shared_memory_bytes": 64 << 20}, "shared memory is 64 MiB"),
        ({"shared_memory_bytes": -1}, ""),
        ({"gpus": [{"name": "H100"}]}, "torch is built for the CPU alone"),
        ({"gpus": [{"name": "H100"}], "cuda": "12.8", "cuda_driver": "12.4"}, ""),
        ({"cuda": "13.0", "cuda_driver": "12.8"}, "torch is built for CUDA 13.0"),
        ({"gpus": [{"name": "H100"}], "hip": "6.2"}, ""),
    ],
)
def test_what_does_not_go_together_on_a_machine_is_said(machine, said):
    problems = [problem.what for problem in compatibility.of_machine(MACHINE | machine)]
    assert [what[: len(said)] for what in problems] == [said] * bool(said)


@pytest.mark.parametrize(
    ("nvtx", "nsys", "is_trouble"),
    [
        ("0.2.17", "2022.4.2.1", True),
        ("0.2.12", "2023.4.4", True),
        ("0.2.11", "2022.4.2.1", False),
        ("0.2.17", "2024.1.1", False),
        ("0.2.17", "", False),
        ("", "2022.4.2.1", False),
    ],
)
def test_nvtx_and_nsight_systems_that_do_not_go_together_are_known(nvtx, nsys, is_trouble):
    assert len(list(compatibility.nvtx_ranges(nvtx, nsys))) == is_trouble
