"""Ranks of heavy tools that are chosen by a capture with marks, from configuration to report."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.page_text import page_text
from tests.waiting import LIMIT_S

LATE = 3
PROGRAM = f"""
    import time
    import profkit
    import torch
    from torch import distributed, nn

    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    for step in range(6):
        with profkit.phase("forward"):
            if distributed.get_rank() == {LATE}:
                time.sleep(0.1)
            loss = model(torch.ones(4, 8)).sum()
        with profkit.phase("backward"):
            loss.backward()
        profkit.step()
    distributed.destroy_process_group()
"""
OVERRIDES = (
    *("workload=script", "workload.command=train.py", "model=none", "world_size=4"),
    *("scratch=$LATE_SCRATCH/x", "keep_raw=none"),
    *("ranks=representative", "tool=[py_spy]", "analysis=[steps]", "repeats=1", "warmup_steps=1"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder in which a program with a late rank was profiled."""
    folder = tmp_path_factory.mktemp("late")
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    (folder / "scratch/x").mkdir(parents=True)
    done = profkit(folder, "run", *OVERRIDES)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def profkit(folder, *words):
    command = [sys.executable, "-m", "profkit", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"LATE_SCRATCH": str(folder / "scratch")},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_the_late_rank_and_the_median_one_are_recorded_and_no_other(folder):
    (path,) = folder.glob("results/runs/*/capture/py_spy/rep0/capture.json")
    record = json.loads(path.read_text())
    ranks = {one["rank"]: one["reason"] for one in record["chosen_ranks"]}
    assert len(ranks) == 2
    assert ranks[LATE].startswith("slowest: ")
    assert sorted(label[:5] for label in record["profiled"]) == sorted(f"rank{n}" for n in ranks)
    (host,) = record["raw"]
    assert {file["name"][:5] for file in host["files"]} == {f"rank{n}" for n in ranks}
    assert record["settings"]["ranks"] == "representative"


def test_plan_why_and_the_report_name_them(folder):
    planned = profkit(folder, "plan", *OVERRIDES).stdout
    assert "py_spy recorded ranks " in planned
    assert f"{LATE}: slowest: " in planned
    (path,) = folder.glob("results/runs/*/capture/py_spy/rep0/capture.json")
    asked = profkit(folder, "why", str(path.relative_to(folder))).stdout
    assert "is fresh\n  py_spy recorded ranks " in asked
    page = page_text(folder / "results/report.html")
    assert "2 of 4 ranks were recorded by py_spy" in page
    assert "stand for all 4 ranks" in page


def test_raw_files_became_tables_in_the_scratch_which_is_empty(folder):
    assert [*(folder / "scratch/x").iterdir()] == []
    names = {path.name.partition(".")[2] for path in folder.glob("results/runs/*/capture/*/rep0/*")}
    assert not {name for name in names if name.endswith(("marks.jsonl", "raw"))}
    (record,) = folder.glob("results/runs/*/tables/py_spy/convert.json")
    assert json.loads(record.read_text())["status"] == "ok"


def test_nothing_is_made_again(folder):
    done = profkit(folder, "plan", *OVERRIDES)
    assert "nothing" in done.stdout, done.stdout
