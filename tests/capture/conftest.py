"""Captures that tests make, with the built-in training and with a program that misbehaves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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

MISBEHAVING = '''
"""A program that does, in its fourth step, what ``how`` says, unless a file ``well`` is there."""

import json, os, signal, subprocess, sys, time
from dataclasses import dataclass
import profkit
from profkit.workloads.base import Program


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(Program):
    how: str = ""


def misbehave(how):
    if how == "fill":
        out = json.loads(os.environ["PROFKIT_CAPTURE"])["out"]
        with open(f"{out}/rank0_dp0_tp0_pp0.half.json", "wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
    if how == "gobble":
        kept = []
        for _ in range(40):
            # Touched, so that the pages are really there.
            kept.append(bytearray(os.urandom(1 << 20)) * 25)
            time.sleep(0.1)
    if how == "raise":
        raise ValueError("the loss is not a number\\nsecond line")
    if how == "exit":
        sys.exit(7)
    if how == "exhaust":
        bytearray(1 << 60)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        subprocess.Popen(["setsid", "--fork", "sleep", "86399"])
        time.sleep(300)


if __name__ == "__main__":
    request = json.loads(sys.argv[2])
    how = "" if os.path.exists("well") else request["workload"]["how"]
    if how == "early":
        sys.exit()
    for index in profkit.steps(request["steps"], samples=2):
        if index == 3:
            print("in the fourth step")
            misbehave(how)
'''


class Capture:
    """A capture that has ended, and what it left."""

    def __init__(self, folder: Path, result: "subprocess.CompletedProcess[str]") -> None:
        self.folder = folder
        self.result = result

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "capture.json").read_text())

    def steps(self, rank: int = 0) -> list[list[int]]:
        label = f"rank{rank}_dp{rank}_tp0_pp0"
        return json.loads((self.folder / f"{label}.steps.json").read_text())["steps"]


def arguments(tool: str, out: Path, settings: dict[str, Any], **behaviour: Any) -> list[str]:
    workload = json.dumps(DEFAULT | behaviour)
    flags = ["--out", str(out), "--settings", json.dumps(settings), "--workload", workload]
    return [sys.executable, "-m", "profkit.capture", tool, *flags]


@pytest.fixture(scope="session")
def arguments_of():
    """Return the function that composes the command line of a capture."""
    return arguments


@pytest.fixture(scope="session")
def capture():
    """Return a function that makes a capture with the default behaviour, changed where told."""

    def made(
        tool: str, folder: Path, settings: dict[str, Any], *flags: str, **behaviour: Any
    ) -> Capture:
        out = folder / "results/runs/r/capture" / tool / "rep0"
        command = [*arguments(tool, out, settings, **behaviour), *flags]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return Capture(out, result)

    return made


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a package that provides a workload by entry point, for processes with this path."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "misbehaving.py").write_text(MISBEHAVING)
    info = folder / "misbehaving-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[profkit.workloads]\nmisbehaving = misbehaving\n")
    return folder


@pytest.fixture
def misbehaving(installed: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function from a misbehaviour to the behaviour of one rank that shows it."""
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    alone = {"launcher": {"name": "python"}, "world_size": 1}
    return lambda how: alone | {"workload": {"name": "misbehaving", "how": how}}
