"""Commands of the kinds that people type, followed into the processes that they start."""

import gzip
import json
import sys
from pathlib import Path

import psutil
import pytest

from profkit.capture.harness.record import capture_json, rank_errors

PROGRAMS = Path(__file__).parents[3] / "programs"
KINDS = ("sources.json", "steps.json")


def test_a_program_in_a_shell_script_computes_the_same_when_it_is_followed(followed, plainly):
    made = followed("bash train.sh --steps 3 --accumulate 2")
    assert made.result.returncode == 0, made.result.stderr
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0"], [3])
    assert made.printed == ["prepared", *plainly("train.py", "--steps", "3", "--accumulate", "2")]
    (note,) = made.notes
    assert note.startswith("Each step of the optimizer has 2 forward passes of Sequential")


@pytest.mark.parametrize("tool", ["baseline", "torch_profiler"])
def test_each_backward_pass_of_tensors_that_are_updated_by_hand_is_a_step(followed, plainly, tool):
    made = followed("python by_hand.py", tool)
    assert made.result.returncode == 0, made.result.stderr
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0"], [12])
    assert [line for line in made.printed if line[:4] == "loss"] == plainly("by_hand.py")
    assert made.found.facts["step_is"] == "backward pass"
    (note,) = made.notes
    assert note == "Without a module and an optimizer, each backward pass counts as a step."


def test_the_first_step_of_an_optimizer_counts_where_no_module_is_called(followed):
    made = followed("python by_hand.py optimizer")
    assert "step_is" not in made.found.facts
    assert (made.result.returncode, made.steps, made.notes) == (0, [12], [])


@pytest.mark.parametrize(
    ("kind", "steps", "turn"),
    [("critics", 10, "5 calls of Adam and 1 call of Adam"), ("meta", 8, "3 calls of SGD and 1 c")],
)
def test_a_step_of_several_optimizers_is_a_round_of_them(followed, plainly, kind, steps, turn):
    first = followed(f"python rounds.py {kind}")
    assert first.result.returncode == 0, first.result.stderr
    assert (first.steps, first.printed) == ([steps], plainly("rounds.py", kind))
    assert f"Several optimizers take turns: a step is a round of {turn}" in first.notes[-1]
    made = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(first.out, made | first.found.facts)
    # What comes after knows it from the first call on.
    later = followed(f"python rounds.py {kind}", "torch_profiler")
    assert (later.steps, later.found.facts["round"]) == ([steps], first.found.facts["round"])
    (trace,) = later.out.glob("*.pt.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    ranges = [event.get("name", "") for event in events if event.get("cat") == "user_annotation"]
    updates = [name for name in ranges if name.startswith("Optimizer.step")]
    # Of the sixth step to the last, or to one before where they last long enough.
    of_each = sum(first.found.facts["round"]["calls"])
    assert len(updates) in {rounds * of_each for rounds in range(3, steps - 4)}


def test_calls_of_a_model_before_there_is_an_optimizer_are_a_part_of_its_first_step(
    followed, plainly
):
    first = followed("python shapes.py")
    assert (first.steps, first.printed) == ([12], plainly("shapes.py"))
    assert first.found.facts["first_passes"] == 3
    (note,) = first.notes
    assert note.startswith("The model was called 3 times before there was an optimizer")
    made = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(first.out, made | first.found.facts)
    # What comes after counts, and records, steps of the optimizer alone.
    later = followed("python shapes.py", "torch_profiler")
    assert (later.steps, later.notes) == ([12], [])


def test_optimizers_of_stages_end_a_step_each(followed, plainly):
    made = followed("python rounds.py layers")
    assert (made.steps, made.printed) == ([18], plainly("rounds.py", "layers"))
    (note,) = made.notes
    assert note.startswith("From step 9 on, a step ends with SGD")


def test_each_batch_of_a_fold_is_a_step(followed, plainly):
    made = followed("python rounds.py folds")
    assert (made.steps, made.printed) == ([30], plainly("rounds.py", "folds"))
    (note,) = made.notes
    assert note.startswith("Between steps the program calls modules in evaluation mode")


def test_ranks_that_the_program_starts_itself_are_found(followed):
    made = followed("python spawn.py fork")
    assert made.result.returncode == 0, made.result.stderr
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"], [3, 3])
    by = {"launched_by": "multiprocessing", "numbered_by": "torch.distributed"}
    assert made.found.facts == {"world_size": 2, **by}
    of_each = [f"{label}.{kind}" for label in made.labels for kind in KINDS]
    assert made.names == [f"{made.labels[0]}.software.json", *of_each]


@pytest.mark.parametrize("way", ["fork", "forkserver"])
def test_processes_that_train_are_ranks_and_one_that_evaluates_is_none(followed, way):
    made = followed(f"python processes.py {way}", "torch_profiler", {"key_averages_rows": 0})
    assert made.printed == ["statuses [0, 0]"]
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"], [4, 4])
    assert made.found.facts["launched_by"] == "multiprocessing"
    traces = [name.partition(".")[0] for name in made.names if name.endswith("trace.json.gz")]
    assert traces == made.labels


def test_a_package_with_workers_is_one_rank_that_ends_after_the_steps_asked_for(followed):
    made = followed("python -m package.train", stop_after=6)
    assert made.result.returncode == 0, made.result.stderr
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0"], [6])
    (note,) = made.notes
    assert note.startswith("Between steps the program calls modules in evaluation mode")
    _, ran = json.loads((made.out / f"{made.labels[0]}.sources.json").read_text())
    assert {Path(source).name for source in ran} >= {"sizes.py", "train.py"}


@pytest.mark.parametrize(
    ("tool", "is_longer"), [("baseline", True), ("torch_profiler", True), ("system", False)]
)
def test_short_steps_go_on_for_a_while_where_they_are_only_timed(followed, tool, is_longer):
    made = followed("python leaving.py thread 100000", tool, stop_after=8, stop_after_s=2.0)
    assert made.result.returncode == 0
    assert (made.steps[0] > 8) == is_longer


@pytest.mark.parametrize(("how", "status"), [("_exit", 0), ("hook", 1)])
def test_what_was_recorded_is_kept_however_a_program_ends(followed, how, status):
    made = followed(f"python leaving.py {how} 3", "torch_profiler")
    assert (made.result.returncode, made.steps) == (status, [3])
    assert [name for name in made.names if name.endswith("pt.trace.json.gz")]
    assert any(note.startswith("The program made 3 steps") for note in made.notes) == (not status)


def test_a_program_whose_own_thread_computes_ends_well_after_the_steps_asked_for(followed):
    made = followed("python leaving.py thread 1000", stop_after=3)
    assert (made.result.returncode, made.result.stderr, made.steps) == (0, "", [3])


_PYTEST = "python -m pytest -p no:cacheprovider -c /dev/null -o python_functions=check_*"


@pytest.mark.parametrize(
    "command",
    [f"{_PYTEST} {{}}::check_training", f"{_PYTEST} {{}}::Training", "python -m unittest {}"],
)
def test_a_test_that_trains_has_not_failed_where_it_is_ended_early(followed, command):
    name = "tested" if "unittest" in command else PROGRAMS / "tested.py"
    made = followed(command.format(name), stop_after=3)
    assert (made.result.returncode, made.steps) == (0, [3]), made.result.stdout
    assert "SystemExit" not in made.result.stdout + made.result.stderr


def test_a_process_that_the_program_would_wait_for_ends_with_it(followed):
    made = followed("python acting.py 0", stop_after=3)
    assert (made.steps, made.result.returncode, made.result.stderr) == ([3], 0, "")
    [actor] = made.printed
    assert not psutil.pid_exists(int(actor))


@pytest.mark.parametrize("tool", ["baseline", "torch_profiler"])
def test_a_rank_that_makes_no_step_ends_before_the_one_that_it_sends_to(followed, tool):
    run = "python -m torch.distributed.run --standalone --nproc-per-node 2"
    made = followed(f"{run} acting_ranks.py", tool, stop_after=9)
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0"], [9])
    assert made.result.returncode == 0, made.result.stderr
    assert "Error" not in made.result.stderr


@pytest.mark.parametrize("answers", ["on an executor", "itself"])
def test_a_server_is_ended_after_the_steps_asked_for_without_an_error(followed, answers):
    made = followed(f"python asking.py {answers.split()[0]}", stop_after=5)
    assert (made.result.returncode, made.result.stderr, made.steps) == (0, "", [5])


@pytest.mark.parametrize("answers", ["on an executor", "itself"])
def test_a_server_that_ends_well_at_an_interrupt_is_interrupted_after_the_steps(followed, answers):
    made = followed(f"python asking.py well {answers.split()[0]}", stop_after=5)
    assert (made.result.returncode, made.result.stderr, made.steps) == (0, "", [5])
    assert made.printed == ["stopped"]


def test_a_program_that_clears_its_environment_before_it_imports_torch_is_followed(followed):
    run_it = "runpy.run_path('train.py', run_name='__main__')"
    made = followed(f'python -c "import os, runpy; os.environ.clear(); {run_it}"')
    assert made.result.returncode == 0, made.result.stderr
    assert made.steps == [3]


@pytest.mark.parametrize("tool", ["baseline", "torch_profiler"])
def test_each_answer_of_a_server_is_a_step_whatever_thread_it_is_on(followed, tool):
    made = followed("python serving.py 4", tool)
    assert made.result.returncode == 0, made.result.stderr
    assert (made.steps, made.printed) == ([12], ["[4, 8]"] * 12)
    assert made.found.facts["step_is"] == "forward pass"
    (note,) = made.notes
    assert note.startswith("Several threads call the model")
    if tool == "torch_profiler":
        (trace,) = made.out.glob("*.pt.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
        layers = [event for event in events if event.get("name") == "aten::addmm"]
        # Two in each step from the sixth on.
        assert len(layers) == 2 * (12 - 5)
        assert len({event["tid"] for event in layers}) == 3


@pytest.mark.parametrize("tool", ["baseline", "torch_profiler"])
def test_each_answer_is_a_step_where_threads_have_models_of_their_own(followed, tool):
    made = followed("python own_models.py", tool)
    assert (made.result.returncode, made.printed) == (0, ["answered"]), made.result.stderr
    assert made.steps == [40]


def test_a_server_is_recorded_whose_model_the_main_thread_has_called_before(followed):
    first = followed("python serving.py 4 warm")
    assert (first.result.returncode, first.steps) == (0, [13])
    assert first.found.facts["has_several_threads"]
    made = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(first.out, made | first.found.facts)
    later = followed("python serving.py 4 warm", "torch_profiler")
    assert (later.result.returncode, later.steps) == (0, [13]), later.result.stderr
    (trace,) = later.out.glob("*.pt.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    layers = [event for event in events if event.get("name") == "aten::addmm"]
    assert len(layers) == 2 * (13 - 5)
    (samples,) = later.out.glob("*.python.json")
    ends = json.loads(samples.read_text())["ends"]
    assert {event["tid"] for event in layers} <= {tid for _, tid in ends}


@pytest.mark.parametrize("tool", ["torch_profiler", "pyinstrument", "memory_layers"])
def test_a_recording_of_the_main_thread_alone_ends_where_another_one_goes_on(followed, tool):
    made = followed("python serving.py 4 warm", tool)
    assert (made.result.returncode, made.printed) == (0, ["[4, 8]"] * 12), made.result.stderr
    (error,) = made.out.glob(f"*{rank_errors.SUFFIX}")
    assert "a step ended on another" in error.read_text()


def test_forward_passes_are_the_steps_of_a_program_whose_optimizer_makes_none(
    capture, followed, plainly, tmp_path
):
    command = f"{sys.executable} {PROGRAMS / 'evaluating.py'}"
    behaviour = {
        "workload": {"name": "script", "command": command},
        "launcher": {"name": "command"},
    }
    made = capture("baseline", tmp_path / "whole", {}, world_size=1, **behaviour)
    assert (made.record["status"], made.record["reason"]) == ("ok", "")
    assert len(made.steps()) == 7
    assert made.record["step_is"] == "forward pass"
    (warning,) = (text for text in made.record["warnings"] if "made no step" in text)
    assert warning.startswith("The optimizer made no step in 7 forward passes: the program was")
    # What comes after knows it from the first call on.
    first = followed("python evaluating.py")
    assert first.found.lack
    known = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(first.out, known | first.found.facts)
    later = followed("python evaluating.py", "torch_profiler")
    assert (later.steps, later.printed) == ([7], plainly("evaluating.py"))


def test_a_command_without_torch_or_without_a_step_says_what_to_do(followed):
    assert "no process of the command imported torch" in followed("python -c pass").found.lack
    lack = followed("python -c 'import torch'", "system").found.lack
    assert lack.startswith("1 process imported torch, and none made a step: call profkit.step()")


def test_a_program_that_removes_the_folder_of_its_capture_hears_nothing_of_it(followed, tmp_path):
    folder = tmp_path / "results/runs/r/capture/baseline/rep0"
    made = followed(f"python removing.py {folder}", stop_after=1000)
    # Where it would be ended anyway, it need not go on; in a step nothing is written that fails.
    ends = {"before the model": 1, "before the first step": 1, "after a step": 0, "at the end": 0}
    assert made.printed == [f"{moment} {status}" for moment, status in ends.items()]
    assert (made.result.returncode, made.result.stderr) == (0, "")
