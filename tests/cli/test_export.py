"""Copies of recordings, for people who keep those of several runs in one folder."""

import json

import pytest

from profkit.cli import main
from profkit.dag.overrides import save_selection
from tests.cli.test_run_folders import make_run

NAMES = ("gpt-train-b2-w2-none-fp32-00000001", "gpt-train-b4-w2-zero2-fp32-00000002")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with two runs, of which one is in the last selection."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        run = make_run(tmp_path, name)
        for file in (
            "capture/nsys/rep0/rank1_dp1.nsys-rep",
            "capture/nsys/rep0/rank1_dp1.steps.json",
            "capture/nsys/rep0/rank2_dp2.steps.part",
            "capture/nsys/rep0/rank1_dp1.python.json",
            "capture/nsys/rep0/capture.log",
            "convert/nsys/.snakemake_timestamp",
            "convert/nsys/rank1_dp1.rep0_nvtx_sum.csv",
            "convert/memory_layers/memory_trace/rank1.html",
            "timeline/torch_profiler.trace.json.gz",
            "timeline/torch_profiler.json",
        ):
            path = run / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} {file}")
    save_selection((), [NAMES[1]])
    return tmp_path


def exported(name):
    return [
        f"{name}.memory_layers.memory_trace.rank1.html",
        f"{name}.nsys.rank1_dp1.rep0_nvtx_sum.csv",
        f"{name}.nsys.rep0.rank1_dp1.nsys-rep",
        f"{name}.torch_profiler.timeline.trace.json.gz",
    ]


@pytest.mark.parametrize(
    ("words", "names"), [((), NAMES[1:]), (("gpt-train-b2",), NAMES[:1]), (NAMES, NAMES)]
)
def test_copies_of_what_people_open_are_named_by_run_tool_and_rank(folder, capsys, words, names):
    assert main(["export", *words, "--to", "traces/mine"]) == 0
    copies = sorted(path.name for path in (folder / "traces/mine").iterdir())
    assert copies == [file for name in names for file in exported(name)]
    trace = folder / f"traces/mine/{names[0]}.nsys.rep0.rank1_dp1.nsys-rep"
    assert trace.read_text() == f"{names[0]} capture/nsys/rep0/rank1_dp1.nsys-rep"
    assert capsys.readouterr().out.startswith(f"{4 * len(names)} files, ")


def test_a_run_without_a_recording_is_named(folder, capsys):
    make_run(folder, "bare")
    assert main(["export", "bare", "--to", "traces"]) == 1
    assert "bare: there is no recording to copy" in capsys.readouterr().err
    assert not (folder / "traces").exists()


def test_a_folder_that_cannot_be_made_is_named(capsys):
    assert main(["export", "--to", "/proc/absent"]) == 1
    assert "/proc/absent: No such file or directory" in capsys.readouterr().err


def test_what_a_capture_before_left_is_not_copied_where_none_was_made(folder):
    record = {"tool": "nsys", "repeat": 0, "attempt": 2, "status": "skipped", "reason": "not tried"}
    record |= {"settings": {}, "workload": {}}
    path = folder / "results/runs" / NAMES[1] / "capture/nsys/rep0/capture.json"
    path.write_text(json.dumps(record))
    assert main(["export", "--to", "traces"]) == 0
    copies = [path.name for path in (folder / "traces").iterdir()]
    assert sorted(copies) == [name for name in exported(NAMES[1]) if ".nsys." not in name]
