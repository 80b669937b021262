"""Captures that tests make, with the built-in training and with a program that misbehaves."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python

DEFAULT = {
    "workload": {"name": "train"},
    "model": {"name": "gpt_tiny", "family": "gpt"},
    "zero": {"name": "none", "stage": 0, "backend": "torch", "offload": "none"},
    "launcher": {"name": "torchrun"},
    "batch": 2,
    "world_size": 2,
    "precision": "fp32",
    "grad_accumulation": 1,
    "steps": 8,
    "seed": 0,
    "device": "cpu",
}

AROUND_PROCESSES = ("host_memory", "ncu", "nsys", "py_spy")
"""Tools that look at processes, which are not to be forks of another."""

WARM_LAUNCHERS = ("accelerate", "deepspeed", "python", "torchrun")

PROGRAMS = Path(__file__).parent / "programs"
PLUGINS = {
    "profkit.workloads": ("misbehaving", "accelerator", "grouped"),
    "profkit.capture": ("dawdling", "hiding"),
}


class Capture:
    """A capture that has ended, and what it left."""

    def __init__(self, folder: Path, result: "subprocess.CompletedProcess[str]") -> None:
        self.folder = folder
        self.result = result

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "capture.json").read_text())

    @property
    def told(self) -> str:
        """What went wrong, for who reads that a test failed."""
        log = self.folder / "capture.log"
        return self.result.stderr + (log.read_text()[-4000:] if log.is_file() else "")

    def printed(self) -> set[str]:
        """Return what the ranks printed of themselves."""
        lines = (self.folder / "capture.log").read_text().splitlines()
        return {line.partition("program: ")[2] for line in lines if "program: " in line}

    def steps(self, rank: int = 0) -> list[list[int]]:
        label = f"rank{rank}_dp{rank}_tp0_pp0"
        return json.loads((self.folder / f"{label}.steps.json").read_text())["steps"]


def arguments(tool: str, out: Path, settings: dict[str, Any], **behaviour: Any) -> list[str]:
    behaviour = DEFAULT | behaviour
    if tool not in AROUND_PROCESSES and behaviour["launcher"]["name"] in WARM_LAUNCHERS:
        behaviour["launcher"] = {"python": warm_rank_python()} | behaviour["launcher"]
    workload = json.dumps(behaviour)
    flags = ["--out", str(out), "--settings", json.dumps(settings), "--workload", workload]
    return [sys.executable, "-m", "profkit.capture", tool, *flags]


@pytest.fixture(scope="session")
def arguments_of():
    """Return the function that composes the command line of a capture."""
    return arguments


@pytest.fixture(scope="session")
def capture():
    """Return a function that makes a capture with the default behaviour, changed where told."""

    def run(
        tool: str, folder: Path, settings: dict[str, Any], *flags: str, **behaviour: Any
    ) -> Capture:
        out = folder / "results/runs/r/capture" / tool / "rep0"
        command = [*arguments(tool, out, settings, **behaviour), *flags]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        return Capture(out, result)

    return run


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a package that provides plugins by entry point, for processes with this path."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "programs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: programs\nVersion: 1\n")
    lines = []
    for group, names in PLUGINS.items():
        lines += [f"[{group}]", *(f"{name} = {name}" for name in names)]
        for name in names:
            shutil.copy(PROGRAMS / f"{name}.py", folder)
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def programs(installed: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function from the name of a program, and its settings, to behaviour that runs it."""
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return lambda name, **settings: {"workload": {"name": name, **settings}}


@pytest.fixture
def misbehaving(programs: Any):
    """Return a function from a misbehaviour to the behaviour of one rank that shows it."""
    alone = {"launcher": {"name": "python"}, "world_size": 1}
    return lambda how: alone | programs("misbehaving", how=how)


_NSYS_STARTS_AGAIN = ("Local Endpoint is not available", "End of file", "Connection reset by peer")


@pytest.fixture(scope="session")
def nsys_profile():
    """Return a function that runs nsys; of two that start at once, one may fail at its start."""

    def run(command: list[Any]) -> "subprocess.CompletedProcess[str]":
        for _ in range(5):
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )
            if not any(text in done.stdout + done.stderr for text in _NSYS_STARTS_AGAIN):
                break
        return done

    return run
