"""Scripts that nobody changed, captured: what is seen of them, and what is said when it fails."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python

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

OWN_PROFILER = """
for index in range(12):
    if index == 9 or index == 1:
        own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        own.start()
    step()
    if index == 10 or index == 2:
        own.stop()
        rows = {row.key: row.count for row in own.key_averages()}
        print("saw", rows["aten::addmm"], "products")
"""

WORKERS = """
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        step()
        return torch.ones(1)

if __name__ == "__main__":
    for kind in ("fork", "spawn"):
        for _ in DataLoader(Data(), batch_size=None, num_workers=1, multiprocessing_context=kind):
            step()
"""

SPAWN = """
import torch

def rank(index):
    print("rank", index)

if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=1)
"""

# What a user adds to a script: a profiler around the loop, and a border after each step.
PROFILER = """
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first=5, wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(f"by_hand_{rank}.json"),
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
        event["name"]: (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
    }
    return [
        Counter(
            event["name"]
            for event in events
            if event.get("cat") == "cpu_op" and start <= event["ts"] < end
        )
        for start, end in (steps[name] for name in sorted(steps))
    ]


def phases(path):
    """Return how often each phase is in a trace."""
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    return Counter(name for name in names if name in {"forward", "backward", "optimizer"})


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
    behaviour = script(" ".join([str(example), *arguments])) | {"launcher": {"name": "torchrun"}}
    settings = {"skip_first": 5, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}
    made = capture("torch_profiler", tmp_path, settings, **behaviour)
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert len(made.steps()) == 9

    by_hand = tmp_path / "by_hand.py"
    profiled_by_hand(example, by_hand)
    torchrun = [
        warm_rank_python(),
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=1",
    ]
    command = [*torchrun, str(by_hand), *arguments]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT_S)
    (trace,) = made.folder.glob("rank0*.pt.trace.json.gz")
    mine, theirs = operators(trace), operators(tmp_path / "by_hand_0.json")
    assert len(theirs) == 2
    # Accumulation makes two passes of four products in each of two layers.
    assert theirs[0]["aten::addmm"] == 2 * 2 * 4
    assert mine == theirs


@pytest.mark.parametrize(
    ("launcher", "example"),
    [("accelerate", "hf_trainer.py --workers 1"), ("deepspeed", "deepspeed_engine.py")],
)
def test_an_example_is_seen_step_by_step_under_its_own_launcher(
    launcher, example, capture, tmp_path
):
    pytest.importorskip(launcher)
    behaviour = script(f"{EXAMPLES}/{example} --steps 4 --accumulate 2")
    alone = {"launcher": {"name": launcher}, "world_size": 1}
    settings = {"skip_first": 1, "wait": 0, "warmup": 1, "active": 2, "key_averages_rows": 0}
    made = capture("torch_profiler", tmp_path, settings, **behaviour | alone)
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert len(made.steps()) == 4
    (trace,) = made.folder.glob("*.pt.trace.json.gz")
    # Two micro-batches in each of two recorded steps.
    assert phases(trace) == {"forward": 4, "backward": 4, "optimizer": 2}


def test_a_recording_of_the_scripts_own_works_beside_other_tools(capture, tmp_path, written):
    path = written(LOOP + OWN_PROFILER)
    made = capture("baseline", tmp_path, {}, **script(path))
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert "saw 2 products" in (made.folder / "capture.log").read_text()


def test_two_recordings_at_once_are_refused_and_named(capture, tmp_path, written):
    path = written(LOOP + OWN_PROFILER)
    settings = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 2}
    made = capture("torch_profiler", tmp_path, settings, **script(path))
    assert made.record["status"] == "error"
    assert made.record["reason"] == (
        "rank0_dp0_tp0_pp0: the script uses torch.profiler while profkit's records, and PyTorch"
        " keeps one recording at a time; switch the script's own profiler off, or leave out"
        " this one: ~tools.torch_profiler"
    )


@pytest.mark.parametrize(
    "settings",
    [{"skip_first": 5, "wait": 0, "warmup": 1, "active": 2}, {}],
    ids=["steps that were asked for", "more of them"],
)
def test_two_recordings_one_after_the_other_both_work(capture, tmp_path, written, settings):
    path = written(LOOP + OWN_PROFILER)
    made = capture("torch_profiler", tmp_path, settings, **script(path))
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert "saw 2 products" in (made.folder / "capture.log").read_text()
    (trace,) = made.folder.glob("*.pt.trace.json.gz")
    assert [counts["aten::addmm"] for counts in operators(trace)][:2] == [1, 1]


def test_of_a_script_shorter_than_the_schedule_the_first_steps_are_recorded(
    capture, tmp_path, written
):
    made = capture("torch_profiler", tmp_path, {}, **script(written(LOOP + "step()\nstep()\n")))
    assert made.record["status"] == "ok", made.told
    (note,) = made.record["warnings"]
    assert note.startswith("The program made 2 steps, and the schedule begins with number 6")
    assert len(made.steps()) == 2
    (trace,) = made.folder.glob("*.pt.trace.json.gz")
    assert [counts["aten::addmm"] for counts in operators(trace)][:2] == [1, 1]


def test_a_recording_that_the_script_cuts_short_is_kept(capture, tmp_path, written):
    loop = "for _ in range(7):\n    step()\nsys.exit(0)\n"
    made = capture("torch_profiler", tmp_path, {}, **script(written(LOOP + loop)))
    assert made.record["status"] == "ok", made.record["log_tail"]
    (note,) = made.record["warnings"]
    assert note.startswith("Less was recorded than asked for: schedule 'stable' needs 8 steps")
    (trace,) = made.folder.glob("*.pt.trace.json.gz")
    assert operators(trace)[0]["aten::addmm"] == 1


def test_a_script_that_goes_on_is_ended_after_the_steps_that_are_asked_for(
    capture, tmp_path, written
):
    endless = "try:\n    while True:\n        step()\nfinally:\n    print('closed')\n"
    behaviour = script(written(LOOP + endless), stop_after=8)
    made = capture("torch_profiler", tmp_path, {}, **behaviour)
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert len(made.steps()) == 8
    assert "closed" in (made.folder / "capture.log").read_text()


def test_workers_of_any_kind_are_no_ranks(capture, tmp_path, written):
    path = written(LOOP + WORKERS)
    made = capture("baseline", tmp_path, {}, **script(path))
    assert made.record["status"] == "ok", made.record["log_tail"]
    assert len(made.steps()) == 6
    assert made.record["warnings"] == []


def test_ranks_that_the_script_starts_itself_are_named(capture, tmp_path, written):
    made = capture("baseline", tmp_path, {}, **script(written(SPAWN)))
    assert made.record["status"] == "error"
    assert "the script ended without a step" in made.record["reason"]
    (warning,) = made.record["warnings"]
    assert warning.startswith("The script starts processes itself with torch.multiprocessing.spawn")


def test_a_script_that_sets_what_pytorch_reads_when_it_is_loaded_is_noted(
    capture, tmp_path, written
):
    first = 'import os\nos.environ["OMP_NUM_THREADS"] = "3"\nos.environ["MY_OWN"] = "1"\n'
    script_path = written(first + LOOP + "for _ in range(4):\n    step()\n")
    made = capture("baseline", tmp_path, {}, **script(script_path))
    (warning,) = made.record["warnings"]
    assert warning == (
        "The script sets OMP_NUM_THREADS=3, which PyTorch reads when it is loaded: here that was"
        " before. Set launcher.env.OMP_NUM_THREADS=3, or let launcher=command follow the whole"
        " command."
    )


def test_a_script_that_leaves_without_pythons_own_end_is_recorded_whole(capture, tmp_path, written):
    loop = "import os, beside\nfor _ in range(4):\n    step()\nos._exit(0)\n"
    written("", "beside.py")
    made = capture("baseline", tmp_path, {}, **script(written(LOOP + loop)))
    assert len(made.steps()) == 4
    assert (made.record["status"], made.record["warnings"]) == ("ok", [])
    files = [Path(source["path"]).name for source in made.record["sources"]]
    assert files == ["beside.py", "train.py"], "what ran is known even so"
