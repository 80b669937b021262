import gzip
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from profkit import marks
from profkit.capture import _averages as averages
from profkit.capture import _step_memory, torch_profiler
from profkit.capture.base import Rank
from profkit.capture.torch_profiler import Capture, Experimental, Schedule
from profkit.core.errors import ConfigError, ProfkitError
from profkit.core.settings import checked

# How TensorBoard's plugin and HTA find traces.
TENSORBOARD = re.compile(r"^(.*?)(\.\d+)?\.pt\.trace\.json(\.gz)?$")


def events(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        return json.load(file)["traceEvents"]


def recorded_steps(path):
    names = [event["name"] for event in events(path) if event.get("cat") == "user_annotation"]
    return sorted(name for name in names if name.startswith("ProfilerStep#"))


@pytest.fixture(scope="module")
def profiled(capture, tmp_path_factory):
    return capture("torch_profiler", tmp_path_factory.mktemp("torch_profiler"), {})


def traces(folder):
    return sorted(folder.glob("*.pt.trace.json*"))


def test_each_rank_leaves_one_trace_named_as_tensorboard_wants_it(profiled):
    assert profiled.record["status"] == "ok", profiled.record
    labels = [TENSORBOARD.match(path.name)[1] for path in traces(profiled.folder)]
    assert labels == ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]


def test_the_trace_holds_the_active_steps_under_the_harness_numbers(profiled):
    for path in traces(profiled.folder):
        assert recorded_steps(path) == [f"ProfilerStep#{index}" for index in (5, 6, 7)]


def test_steps_and_phases_are_marked(profiled):
    names = [event.get("name") for event in events(traces(profiled.folder)[0])]
    marked = ("step#5", "data", "forward", "backward", "optimizer")
    assert [names.count(name) for name in marked] == [1, 3, 3, 3, 3]


def test_the_trace_says_which_rank_it_is_of(profiled):
    with gzip.open(traces(profiled.folder)[1], "rt") as file:
        about = json.load(file)["distributedInfo"]
    assert (about["rank"], about["world_size"]) == (1, 2)


def test_pytorchs_own_tables_are_there_by_name_and_by_shape(profiled):
    text = (profiled.folder / "rank0_dp0_tp0_pp0.key_averages.txt").read_text()
    titles = [line for line in text.splitlines() if line.startswith("operators")]
    assert titles == [
        f"{rows}, by {order}"
        for rows in ("operators", "operators and input shapes")
        for order in ("self_cpu_time_total", "cpu_time_total", "self_cpu_memory_usage")
    ]
    assert "aten::addmm" in text


def test_stacks_that_pytorch_keeps_are_written_for_flame_graphs(tmp_path):
    def export_stacks(path, metric):
        Path(path).write_text("a.py(1): f 3\n" if metric == "self_cpu_time_total" else "")

    tool = Capture(with_stack=True, experimental=Experimental(verbose=True))
    profiler = SimpleNamespace(export_stacks=export_stacks)
    for settings in (Capture(with_stack=True), tool):
        averages.export_stacks(profiler, settings, tmp_path / "rank0")
    (file,) = tmp_path.iterdir()
    assert file.name == "rank0.cpu.stacks.txt"
    assert file.read_text() == "a.py(1): f 3\n"


def record(tool, folder, steps):
    """Record a loop without a model, in this process."""
    with tool.record(folder, Rank()) as recorder:
        recorder.begin()
        for _ in range(steps):
            recorder.step()


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_a_periodic_schedule_leaves_a_trace_per_cycle(tmp_path):
    record(Capture(schedule="periodic", gzip=False, key_averages_rows=0), tmp_path, 12)
    assert [recorded_steps(path) for path in traces(tmp_path)] == [
        ["ProfilerStep#5"],
        ["ProfilerStep#8"],
        ["ProfilerStep#11"],
    ]
    assert not list(tmp_path.glob("*.txt"))


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_a_cycle_that_is_cut_short_still_leaves_its_trace(tmp_path):
    record(Capture(schedule="early"), tmp_path, 2)
    (path,) = traces(tmp_path)
    assert recorded_steps(path)[:2] == ["ProfilerStep#0", "ProfilerStep#1"]


def test_nothing_is_recorded_when_the_workload_fails_before_its_first_step(tmp_path):
    with pytest.raises(ValueError, match="early"), Capture().record(tmp_path, Rank()):
        raise ValueError("early")
    assert list(tmp_path.iterdir()) == []


def test_what_is_set_replaces_the_schedules_own():
    tool = Capture(schedule="periodic", active=5, skip_first=0)
    assert tool.cycles == Schedule(skip_first=0, wait=1, warmup=1, active=5, repeat=3)


def test_a_schedule_that_does_not_fit_is_refused_with_its_sum():
    assert Capture().check(8) == ""
    assert Capture().check(7) == (
        "schedule 'stable' needs 8 steps (skip_first=3 and 1 x (wait=1 + warmup=1 + active=3)),"
        " and the workload runs 7; run more steps or lower one of these"
    )
    assert Capture(schedule="periodic").check(12) == ""
    assert Capture(schedule="periodic").check(11).startswith("schedule 'periodic' needs 12 steps")
    assert Capture(repeat=0).check(8) == ""


def test_only_changed_experimental_options_are_handed_to_pytorch():
    assert Experimental().chosen() == {}
    chosen = Experimental(verbose=True, profiler_metrics=("sm__cycles_active.avg",)).chosen()
    assert chosen == {"verbose": True, "profiler_metrics": ["sm__cycles_active.avg"]}


def test_a_misspelt_experimental_option_is_an_error():
    with pytest.raises(ConfigError, match=r"tools\.torch_profiler\.experimental.*verbos"):
        checked("tools.torch_profiler", Capture, {"experimental": {"verbos": True}})


def test_an_execution_trace_is_left_where_asked_for(tmp_path):
    record(Capture(execution_trace=True), tmp_path, 8)
    text = (tmp_path / "rank0_dp0_tp0_pp0.execution_trace.json").read_text()
    assert json.loads(text)["nodes"]


def test_all_of_pytorchs_settings_are_accepted_by_pytorch(tmp_path):
    tool = Capture(
        activities=("cpu",),
        with_stack=True,
        with_modules=True,
        acc_events=True,
        experimental=Experimental(verbose=True, profile_all_threads=True),
    )
    assert tool.profiler(tmp_path, Rank()).with_modules is True


def test_a_trace_that_does_not_fit_on_the_disk_is_no_trace(capture, small_disk, tmp_path):
    disk = small_disk(tmp_path / "disk", 2)
    alone = {"launcher": {"name": "python"}, "world_size": 1, "steps": 4}
    failed = capture("torch_profiler", disk, {"schedule": "early"}, **alone)
    record = failed.record
    assert record["status"] == "error"
    assert "could not write its trace" in record["reason"] or "no space" in record["reason"]
    assert list(failed.folder.glob("*.pt.trace.json*")) == []
    assert len(failed.steps()) >= 2


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_pytorchs_own_tables_are_not_made_of_very_many_events(tmp_path, monkeypatch):
    monkeypatch.setattr(averages, "_MOST_EVENTS", 0)
    record(Capture(schedule="periodic", gzip=False), tmp_path, 12)
    (table,) = tmp_path.glob("*.key_averages.txt")
    assert table.read_text().startswith("PyTorch would take too long for tables of ")


@pytest.mark.parametrize(
    ("full", "steps", "recorded", "calls"),
    [(1, 4, [0, 1], 7 + 5), (1, 9, [5, 6, 7], 3 * 7), (6, 9, [5, 6], 7 + 5)],
    ids=["of few steps", "the first ones", "those of the schedule"],
)
@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_a_step_that_fills_the_memory_leaves_the_trace_of_what_it_began_with(  # noqa: PLR0913, PLR0917
    tmp_path, monkeypatch, full, steps, recorded, calls
):
    held, notes = [0], []
    monkeypatch.setattr(_step_memory, "_resident_bytes", lambda: held[-1])
    monkeypatch.setattr(_step_memory, "_PERIOD_S", 0.0)
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    with Capture(least_s=0.0).record(tmp_path, Rank()) as recorder:
        begin, step = recorder.begin, lambda _: recorder.step()
        marks.listen(SimpleNamespace(begin=begin, step=step, note=notes.append))
        marks.observed_begin()
        for index in range(steps):
            for call in range(7):
                # What is there by the first calls is the program's.
                grown = 2 if index == full and call == 5 else 0
                held.append(held[-1] + grown * 300_000_000 if call > 3 else index << 32)
                with marks.observed_phase("forward"):
                    torch.full((call,), index)
            marks.observed_step()
    (path,) = traces(tmp_path)
    # The profiler that waits for its schedule marks the same steps.
    assert set(recorded_steps(path)) == {f"ProfilerStep#{index}" for index in recorded}
    operators = [event for event in events(path) if event["name"] == "aten::full"]
    assert len(operators) == calls
    cut = f"Step {full} has so many operators"
    assert [note.startswith(cut) for note in notes] == [True, False][: len(notes)]
    assert bool(notes) == (full in recorded)
    assert all("before call 6 of the model" in note for note in notes[:1])


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@pytest.mark.parametrize("is_last", [True, False])
def test_what_cannot_be_written_within_a_step_is_no_error_of_the_programs_line(
    tmp_path, monkeypatch, is_last
):
    def written(*_):
        raise ProfkitError("the disk is full")

    monkeypatch.setattr(torch_profiler, "export_compressed", written)
    monkeypatch.setattr(_step_memory.StepMemory, "is_full", lambda _: True)
    monkeypatch.setattr(marks, "_marks", marks._Marks())

    def program():
        with Capture(schedule="early").record(tmp_path, Rank()) as recorder:
            recorder.begin()
            recorder.at_phase("forward")
            # It goes on until its step ends, or it does.
            if not is_last:
                recorder.step()

    with pytest.raises(ProfkitError, match="disk is full"):
        program()
