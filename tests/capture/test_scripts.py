"""Scripts that nobody changed, captured: what is seen of them, and what is said when it fails."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ALONE = {"launcher": {"name": "python"}, "world_size": 1, "model": {"name": "none"}}

LOOP = """
import sys
import torch
from torch import nn

model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

# What a user adds to a script: a profiler around the loop, and a border after each step.
PROFILER = """
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first=5, wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda each: each.export_chrome_trace(f"by_hand_{rank}.json"),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    )
    profiler.start()
"""
LOOP_LINE = "    for index, (tokens, targets) in enumerate(loader):\n"
LAST_LINE = "            optimizer.zero_grad()\n"


def operators(path):
    """Return how often each operator is in each recorded step of a trace."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    steps = {
        each["name"]: (each["ts"], each["ts"] + each["dur"])
        for each in events
        if each.get("cat") == "user_annotation" and each["name"].startswith("ProfilerStep#")
    }
    return [
        Counter(
            each["name"]
            for each in events
            if each.get("cat") == "cpu_op" and start <= each["ts"] < end
        )
        for start, end in (steps[name] for name in sorted(steps))
    ]


def script(command, **settings):
    return ALONE | {"workload": {"name": "script", "command": str(command), **settings}}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a script, and returns its path."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def profiled_by_hand(example, path):
    """Write `example` with the snippet in it."""
    text = example.read_text()
    assert (text.count(LOOP_LINE), text.count(LAST_LINE)) == (1, 1)
    text = text.replace(LOOP_LINE, PROFILER + LOOP_LINE)
    path.write_text(text.replace(LAST_LINE, LAST_LINE + "            profiler.step()\n"))


def test_the_same_script_profiled_by_hand_has_the_same_operators_in_each_step(capture, tmp_path):
    example = EXAMPLES / "ddp_gpt.py"
    arguments = ["--steps", "9", "--layers", "2", "--accumulate", "2"]
    pair = {"launcher": {"name": "torchrun"}, "world_size": 2}
    behaviour = script(" ".join([str(example), *arguments])) | pair
    settings = {"skip_first": 5, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}
    made = capture("torch_profiler", tmp_path, settings, **behaviour)
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert [len(made.steps(rank)) for rank in (0, 1)] == [9, 9]

    by_hand = tmp_path / "by_hand.py"
    profiled_by_hand(example, by_hand)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, str(by_hand), *arguments]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    for rank in (0, 1):
        (trace,) = made.folder.glob(f"rank{rank}*.pt.trace.json.gz")
        mine, theirs = operators(trace), operators(tmp_path / f"by_hand_{rank}.json")
        assert len(theirs) == 2
        # Accumulation makes two passes of four products in each of two layers.
        assert theirs[0]["aten::addmm"] == 2 * 2 * 4
        assert mine == theirs
