"""Two runs compared in the terminal: what is said, and what is not."""

import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest

from profkit.analyze import steps
from profkit.cli import main
from profkit.cli.comparison import compared_runs
from profkit.cli.comparison_section import section
from profkit.cli.explained import explained
from profkit.cli.measured_run import measured, result_of
from profkit.cli.run_folders import RunFolder, run_named
from profkit.core.errors import InputError
from profkit.core.result import Abstention, Metric, Result, Table
from profkit.core.sealed_json import sealed
from profkit.testing import run
from profkit.testing.result_tree import ResultTree
from tests.cli.measured_runs import MACHINE, STEADY, leave_peak, leave_result, leave_run
from tests.cli.test_show import write_trace


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return an empty folder, in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compared(capsys, *options, status=0):
    """Return what is printed on the runs ``one`` and ``two``."""
    assert main(["compare", "one", "two", *options]) == status
    return capsys.readouterr().out.splitlines()


def test_uneven_steps_are_compared_by_their_mean(folder, capsys):
    """Where batches of several workers come together, some steps are short and others long."""
    for second, (name, steps_ms) in enumerate((("one", [158, 158, 176]), ("two", [10, 310, 310]))):
        leave_run(folder, name, 100 * STEADY, second=second)
        ends = np.cumsum([0, *np.tile(steps_ms, 6)]) * 1_000_000
        rows = [
            {"repeat": repeat, "step": step, "start_ns": ends[step], "end_ns": ends[step + 1]}
            for repeat in range(6)
            for step in range(len(ends) - 1)
        ]
        result = run(steps.analyze, steps={"baseline": rows}, skip_first=0)
        leave_result(folder / "results/runs" / name, "steps", result)
    lines = [line for line in compared(capsys) if "step time" in line or "show" in line]
    assert lines[0].startswith("step time 164 ms -> 210 ms: ")
    assert lines[1] == "  (means of uneven steps; `profkit show RUN` prints 158 ms -> 210 ms)"
    capsys.readouterr()
    one, two = (measured(run_named(name)) for name in ("one", "two"))
    assert [round(found.metrics["step_time_ns"].value / 1e6) for found in (one, two)] == [158, 210]


def leave_uneven(folder, name, every, second=0):
    """Leave a run of steps of 10 ms, where each so many takes 400 ms more in an evaluation."""
    causes = {"python": np.array([10, 10.2, 9.9, 10.1, 9.8, 10]) * STEADY}
    leave_run(folder, name, 10 * STEADY, second=second, causes=causes)
    path = folder / "results/runs" / name
    ends = np.cumsum([0, *np.where(np.arange(96) % every == every - 1, 410, 10)]) * 1_000_000
    rows = [
        {"repeat": repeat, "step": step, "start_ns": ends[step], "end_ns": ends[step + 1]}
        for repeat in range(6)
        for step in range(96)
    ]
    leave_result(path, "steps", run(steps.analyze, steps={"baseline": rows}, skip_first=0))
    columns = ("title", "place", "covered_ms", "in_steps")
    seldom = ("train.evaluate", "train.py(9): main", 400 / every, f"{96 // every} of 96")
    matches = Table(title="", columns=columns, rows=(seldom, ("Graph breaks", "", 3.0, "")))
    found = result_of(RunFolder(path), "causes")
    leave_result(path, "causes", replace(found, tables={**found.tables, "matches": matches}))


def test_a_call_in_a_few_steps_is_compared_though_the_median_step_does_not_show_it(folder, capsys):
    leave_uneven(folder, "one", every=12)
    leave_uneven(folder, "two", every=48, second=30)
    lines = compared(capsys)
    assert any(line.startswith("step time 43.3 ms -> 18.3 ms: faster, -57.7%") for line in lines)
    assert "  (means of uneven steps; `profkit show RUN` prints 10 ms -> 10 ms)" in lines
    at = lines.index("in some steps only, mean over all steps:")
    assert lines[at + 1] == (
        "  33.3 ms (8 of 96) -> 8.33 ms (2 of 96)  train.evaluate, train.py(9): main"
    )
    assert lines[at + 2].startswith("why, from 10 to 10 ms per step")
    sides = [measured(run_named(name)) for name in ("one", "two")]
    comparison = replace(compared_runs(*sides, band=0.01), why=explained(*sides))
    (row,) = section(comparison).tables["in_some_steps"].records()
    assert (row["before_steps"], row["after_ms"]) == ("8 of 96", pytest.approx(400 / 48))


def test_a_mean_and_a_median_are_no_ends_of_what_causes_explain(folder, capsys):
    for second, (name, every) in enumerate((("one", 12), ("two", 5))):
        leave_uneven(folder, name, every, second=second)
        path = folder / "results/runs" / name
        found = result_of(RunFolder(path), "causes")
        tables = {key: of for key, of in found.tables.items() if key != "matches"}
        leave_result(path, "causes", replace(found, tables=tables))
    lines = compared(capsys)
    assert any(line.startswith("why, from 10 to 10 ms per traced step") for line in lines)
    assert not any("overhead" in line for line in lines)


def test_an_average_that_differs_from_what_show_prints_is_named(folder, capsys):
    noisy = np.array([80, 100, 100, 100, 100, 160])
    leave_run(folder, "one", 100 * STEADY)
    leave_run(folder, "two", noisy, second=30)
    lines = compared(capsys)
    (number,) = [line for line, text in enumerate(lines) if text.startswith("step time ")]
    assert lines[number].startswith("step time 100 ms -> 104 ms: ")
    assert lines[number + 1] == (
        "  (geometric means of the repeats; `profkit show RUN` prints 100 ms -> 100 ms)"
    )


def test_time_between_steps_is_said_to_be_left_out_where_it_is_much(folder, capsys):
    leave_run(folder, "one", 100 * STEADY)
    leave_run(folder, "two", 100 * STEADY, second=30)
    path = folder / "results/runs/two"
    before = Metric(value=0.764, unit="share", title="Time between steps")
    found = result_of(RunFolder(path), "steps")
    leave_result(
        path, "steps", replace(found, metrics=found.metrics | {"between_steps_share": before})
    )
    (said,) = [line for line in compared(capsys) if "leaves out" in line]
    assert said == "  (it leaves out what passes between steps, of the run: little -> 76%)"
    capsys.readouterr()
    leave_run(folder, "three", 100 * STEADY, second=40)
    assert main(["compare", "one", "three"]) == 0
    assert "leaves out" not in capsys.readouterr().out


def test_a_setting_that_the_program_of_one_run_never_gets_is_unset_there(folder, capsys):
    leave_run(folder, "one", 100 * STEADY, batch=8)
    leave_run(folder, "two", 100 * STEADY, second=30)
    about = {"run": "two", "command": "", "behaviour": {}, "tools": {}, "captures": []}
    manifest = json.dumps(about | {"unread": ["batch"]}).encode()
    (folder / "results/runs/two/manifest.json").write_bytes(sealed(manifest + b"\n"))
    said = compared(capsys)
    assert "differences: batch 8 -> unset" in said
    assert not any("batches differ" in line for line in said)


def test_a_slower_run_that_takes_less_memory_is_said_to_be_both(folder, capsys):
    leave_run(folder, "one", 100 * STEADY, peaks=[200] * 6)
    leave_run(folder, "two", 110 * STEADY[::-1], peaks=[150] * 6, batch=4, second=30)
    assert compared(capsys) == [
        "A  one  6 repeats  2026-01-01 10:00",
        "B  two  6 repeats  2026-01-01 10:00",
        "differences: batch 2 -> 4",
        "step time 100 ms -> 110 ms: slower, +10.0% (95% interval +9.7% to +10.3%, 6 pairs)",
        "peak memory 200 MiB -> 150 MiB: less, -25.0% (95% interval -25.0% to -25.0%, 6 pairs)",
        "not measured in a repeat of both: throughput",
        "note: batches differ, 2 -> 4: for throughput, add workload.samples='${batch}'",
        (
            "what fills the peaks was not recorded: +tool=memory_snapshot records tensors, "
            "+tool=host_memory what else a CPU holds"
        ),
    ]
    made = json.loads("\n".join(compared(capsys, "--json")))
    assert made["metrics"]["step_time"]["outcome"] == "higher"
    assert made["differences"] == [{"key": "batch", "before": "2", "after": "4"}]
    assert "no difference that matters" in compared(capsys, "--band", "12%")[3]


def test_the_largest_causes_of_a_difference_are_named_with_their_intervals(folder, capsys):
    quiet = {"python": 9 * STEADY, "garbage_collection": 5 * STEADY}
    leave_run(folder, "one", 100 * STEADY, causes=quiet | {"cpu_operators": 95 * STEADY})
    slow = {"cpu_operators": 95 * STEADY[::-1], "loading_data": 10 * STEADY}
    leave_run(folder, "two", 110 * STEADY[::-1], causes=quiet | slow, second=30)
    assert compared(capsys)[-2:] == [
        "why, from 100 to 110 ms per step, rank 0 (95% intervals over 6 pairs):",
        "  +10 ms (+9.99 to +10)  Loading data, new",
    ]
    why = json.loads("\n".join(compared(capsys, "--json")))["why"]["step_time"]
    assert why["bars"][0]["id"] == "loading_data"
    total = sum(bar["difference_ms"] for bar in why["bars"])
    assert total == pytest.approx(why["after_ms"] - why["before_ms"], rel=1e-3)


def test_the_difference_is_drawn_as_a_flame_graph_with_noise_in_grey(folder, capsys):
    same = {"cpu_operators": 95 * STEADY}
    leave_run(folder, "one", 100 * STEADY, causes=same)
    slow = {"cpu_operators": 95 * STEADY[::-1], "loading_data": 10 * STEADY}
    leave_run(folder, "two", 110 * STEADY, causes=slow, second=30)
    compared(capsys, "--flame-graph", "graph.svg")
    drawn = (folder / "graph.svg").read_text()
    assert "+10 ms" in drawn
    assert "hsl(5 75%" in drawn
    leave_run(folder, "three", 110 * STEADY, causes={"cpu_operators": 95 * STEADY[::-1]}, day=2)
    assert main(["compare", "one", "three", "--flame-graph", "graph.svg"]) == 0
    assert "hsl(5 75%" not in (folder / "graph.svg").read_text()


FILLING = ("forward;Net;aten::mm", "optimizer;;")


def test_what_fills_the_peak_says_why_it_differs(folder, capsys):
    for name, sizes in (("one", (70, 20)), ("two", (70, 50))):
        leave_run(folder, name, [100], second=30 * (name == "two"))
        leave_peak(folder / "results/runs" / name, **dict(zip(FILLING, sizes, strict=True)))
    assert compared(capsys)[-2:] == [
        "why, from 90 MiB to 120 MiB allocated at the peak:",
        "  +30 MiB  optimizer",
    ]
    why = json.loads("\n".join(compared(capsys, "--json")))["why"]["peak_memory"]
    assert sum(bar["difference_bytes"] for bar in why["bars"]) == 30 * 2**20


def test_one_capture_of_each_names_causes_without_intervals(folder, capsys):
    leave_run(folder, "one", [100], causes={"python": [100]})
    leave_run(folder, "two", [90], causes={"python": [90]}, second=30)
    assert compared(capsys)[-2:] == [
        "why, from 100 to 90 ms per step, rank 0 (no intervals: one capture of each):",
        "  -10 ms  Python",
    ]


@pytest.mark.parametrize(
    ("unprofiled", "traced", "said"),
    [
        ((100, 104), (100, 104), "  so little may be chance in one capture of each: repeats=6"),
        ((100, 150), (90, 80), "  not known: traced steps took 90 and 80 ms; repeat on an idle"),
        ((100, 150), (120, 140), "  these are causes of traced steps, which took 120 and 140 ms"),
    ],
)
def test_causes_of_other_steps_or_of_chance_are_not_reasons(
    folder, capsys, unprofiled, traced, said
):
    for second, (name, own, causes) in enumerate(
        zip(("one", "two"), unprofiled, traced, strict=True)
    ):
        leave_run(folder, name, [own], causes={"python": [causes]}, second=30 * second)
    printed = compared(capsys)
    assert printed[-1].startswith(said)
    assert not any("verhead" in line for line in printed)
    assert any(line.startswith("  +20 ms  Python") for line in printed) == (traced == (120, 140))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([120], "+20.0% in one pair of captures: inconclusive, needs 6 pairs (repeats=6)"),
        (120 * STEADY[:4], "4 pairs); needs about 2 more pairs: a statement takes 6"),
        (100 * STEADY[::-1], "no difference that matters, +0.0%"),
        (100 * np.linspace(1, 1.2, 6), "; the difference drifts by +2"),
        (101 * STEADY[::-1], "+1.3%, 6 pairs); about as large as the change that matters"),
    ],
)
def test_no_more_is_said_than_the_pairs_support(folder, capsys, times, said):
    leave_run(folder, "one", 100 * STEADY)
    leave_run(folder, "two", times, second=30)
    (line,) = (line for line in compared(capsys) if line.startswith("step time"))
    assert said in line


def test_another_machine_is_not_compared_unless_that_is_asked_for(folder, capsys):
    leave_run(folder, "one", 100 * STEADY)
    other = MACHINE | {"cpu_count": 4, "gpus": [{"name": "A100", "uuid": "b"}]}
    leave_run(folder, "two", 50 * STEADY, machine=other, day=2)
    lines = compared(capsys, status=3)
    assert lines[2] == (
        "not comparable: machine.cpu_count 2 -> 4, machine.gpus.0.name H100 -> A100"
    )
    assert not any("step time" in line for line in lines)
    lines = compared(capsys, "--anyway")
    assert any("faster, -50.0%" in line for line in lines)
    assert any(line.startswith("note: the runs were not captured in turn") for line in lines)
    assert json.loads("\n".join(compared(capsys, "--json", status=3)))["comparable"] is False


def test_imported_runs_are_of_the_machines_that_their_recordings_name(folder, capsys):
    for name, gpus in (("one", ["A100", "A100"]), ("two", ["V100"])):
        leave_run(folder, name, [100], machine={}, second=30 * (name == "two"))
        rows = [{"device": index, "name": gpu} for index, gpu in enumerate(gpus)]
        ResultTree(folder, name).table("torch_profiler", "devices", rows)
    assert compared(capsys, status=3)[2] == "not comparable: recorded_gpu A100 -> V100"


def test_folders_of_recordings_are_compared_under_the_names_by_which_they_differ(folder, capsys):
    for name in ("before", "after"):
        (folder / name / "traces").mkdir(parents=True)
        for rank in (0, 1):
            write_trace(folder / name / "traces" / f"{rank}.json", rank)
    assert main(["compare", "before/traces", "after/traces"]) == 0
    sides = capsys.readouterr().out.splitlines()[:2]
    names = [line.split("  ")[1] for line in sides]
    assert names == ["before/traces", "after/traces"]
    (folder / "empty").mkdir()
    assert main(["compare", "before/traces", "empty"]) == 1
    assert "empty: neither a run nor a folder of recordings" in capsys.readouterr().err


def test_a_recording_is_not_compared_with_unprofiled_steps(folder, capsys):
    leave_run(folder, "one", [100])
    (folder / "traces").mkdir()
    write_trace(folder / "traces/0.json", 0)
    assert main(["compare", "one", "traces"]) == 3
    said = capsys.readouterr().out.splitlines()
    assert said[2].startswith("not comparable: tool baseline -> torch_profiler")


def test_a_recording_that_is_cut_off_is_named(folder, capsys):
    for name in ("one", "two"):
        write_trace(folder / f"{name}.json", 0)
    cut = folder / "two.json"
    cut.write_text(cut.read_text()[:-150])
    assert main(["compare", "one.json", "two.json"]) == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: tw")]
    assert note.startswith("note: two: The trace is cut off at byte ")


def test_nothing_is_missing_in_recordings_of_memory_but_memory(folder, capsys):
    for name, count in (("one", 1), ("two", 3)):
        entries = [
            {"action": "alloc", "addr": 64 << number, "size": 64 << 20, "stream": 0, "frames": []}
            for number in range(count)
        ]
        snapshot = {"segments": [], "device_traces": [entries]}
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(snapshot))
    assert main(["compare", "one.pickle", "two.pickle"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["A  one", "B  two", "why, from 64 MiB to 192 MiB allocated at the peak:"]


def test_repeats_on_a_busy_machine_are_named_and_lines_are_few(folder, capsys):
    leave_run(folder, "one", 100 * STEADY, noisy=(1,))
    versions = {f"setting{index}": index for index in range(30)}
    leave_run(folder, "two", 110 * STEADY, noisy=(1, 4), batch=versions, second=30)
    lines = compared(capsys)
    assert "note: the machine was not quiet in repeats 1, 4 (capture.json: conditions)" in lines
    assert "and 27 more (--json)" in lines[2]
    assert len(lines) <= 15


def test_a_program_that_failed_after_what_was_recorded_is_named(folder, capsys):
    failure = "The program failed after what was recorded: rank0: RuntimeError: disk full"
    leave_run(folder, "one", 100 * STEADY)
    leave_run(folder, "two", 110 * STEADY, second=30, warnings=("something else", failure))
    lines = compared(capsys)
    assert [line for line in lines if line.startswith("note: ")] == [f"note: two: {failure}"]
    nothing = Result(abstentions=(Abstention(what="step times", reason="3 steps are warm-up"),))
    leave_result(folder / "results/runs/two", "steps", nothing)
    with pytest.raises(InputError, match=f"{failure}; 3 steps are warm-up"):
        measured(run_named("two"))


def test_a_run_is_compared_with_what_it_was_before_its_script_changed(folder, capsys):
    leave_run(folder, "one", 100 * STEADY)
    assert main(["baseline", "save", "before"]) == 0
    shutil.rmtree("results/runs")
    leave_run(folder, "one", 110 * STEADY, day=2, script="b")
    capsys.readouterr()
    assert main(["compare", "before", "one"]) == 0
    lines = capsys.readouterr().out.splitlines()
    script, commit = f"{'a' * 12} -> {'b' * 12}", "c" * 12
    commits = f"{commit} -> {commit} with changes"
    assert lines[:3] == [
        "A  before  6 repeats  2026-01-01 10:00",
        "B  one  6 repeats  2026-01-02 10:00",
        f"differences: sources.train.py {script}, git.project {commits}",
    ]
    assert "slower, +10.0%" in lines[3]


def test_mistakes_are_named(folder, capsys):
    leave_run(folder, "one", 100 * STEADY)
    (folder / "results/runs/bare/capture").mkdir(parents=True)
    for names, said in (
        (("one", "one"), "compared with itself"),
        (("one", "bare"), "nothing was measured"),
    ):
        assert main(["compare", *names]) == 1
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "one", "bare", "--band", "much"])
    assert stopped.value.code == 2
