"""The command line that ncu receives, and how its kernels are chosen."""

import os
import re
import shutil
import subprocess
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from profkit.capture import _profiled_steps, base
from profkit.capture import ncu as module
from profkit.capture._profiled_steps import ProfiledSteps
from profkit.capture.base import NullRecorder, Rank
from profkit.capture.harness.followed.request import from_environment
from profkit.capture.harness.job import prepare
from profkit.capture.harness.machine import nvml, permissions
from profkit.capture.harness.ranks import nvtx_ranges
from profkit.capture.harness.spec import Spec
from profkit.capture.ncu import Capture
from profkit.core import result
from profkit.core.errors import InputError
from profkit.core.run_settings import RunSettings
from tests.waiting import LIMIT_S

OUT = Path("/out")
RANK = Rank(rank=1, dp=1, world_size=2)
REPORT = "/out/rank1_dp1_tp0_pp0"
FIXED = [f"--export={REPORT}", "--force-overwrite", "--nvtx", "--target-processes=all"]
CONTROLS = ["--replay-mode=kernel", "--clock-control=base", "--cache-control=all"]
NAMED = [f"--kernel-name={module._NO_COMMUNICATION}", "--kernel-name-base=function"]
FILTERS = [*NAMED, "--filter-mode=global"]
NONE = {"set": "none", "sections": ()}


def flags(**settings):
    command = Capture(**settings).command(["python", "x.py"], OUT, RANK)
    assert command[0] == "ncu"
    assert command[-2:] == ["python", "x.py"]
    return [word for word in command[1:-2] if word not in module._IN_SHELL]


def test_the_default_command_collects_what_the_analyses_read_and_no_communication():
    sections = [
        "--section=ComputeWorkloadAnalysis",
        "--section=SchedulerStats",
        "--section=WarpStateStats",
        "--section=MemoryWorkloadAnalysis_Tables",
        "--section=SpeedOfLight_HierarchicalSingleRooflineChart",
        "--section=SpeedOfLight_HierarchicalHalfRooflineChart",
        "--section=SpeedOfLight_HierarchicalTensorRooflineChart",
    ]
    assert flags() == [*FIXED, "--set=detailed", *sections, *CONTROLS, *FILTERS]


BASIC = ["--section=LaunchStats", "--section=Occupancy", "--section=SpeedOfLight"]
OPTIONS = {
    "basic set": ({"set": "basic", "sections": ()}, [*CONTROLS, *FILTERS]),
    "basic set and a section": (
        {"set": "basic", "sections": ("SchedulerStats",)},
        [*BASIC, "--section=SchedulerStats", *CONTROLS, *FILTERS],
    ),
    "detailed set": (
        {"set": "detailed", "sections": ()},
        ["--set=detailed", *CONTROLS, *FILTERS],
    ),
    "full set": ({"set": "full", "sections": ()}, ["--set=full", *CONTROLS, *FILTERS]),
    "roofline set": ({"set": "roofline", "sections": ()}, ["--set=roofline", *CONTROLS, *FILTERS]),
    "source set": ({"set": "source", "sections": ()}, ["--set=source", *CONTROLS, *FILTERS]),
    "metrics": (
        {**NONE, "metrics": ("a.sum", "regex:^b")},
        ["--metrics=a.sum,regex:^b", *CONTROLS, *FILTERS],
    ),
    "kernel": (
        {**NONE, "kernel": "regex:gemm", "kernel_name_base": "demangled"},
        [
            *CONTROLS,
            "--kernel-name=regex:gemm",
            "--kernel-name-base=demangled",
            "--filter-mode=global",
        ],
    ),
    "kernel id": (
        {**NONE, "kernel_id": "::foo:2", "kernel_name_base": "mangled"},
        [*CONTROLS, "--kernel-id=::foo:2", "--kernel-name-base=mangled", "--filter-mode=global"],
    ),
    "launches": (
        {**NONE, "launch_skip": 3, "launch_count": 5, "filter_mode": "per-gpu"},
        [*CONTROLS, *NAMED, "--filter-mode=per-gpu", "--launch-skip=3", "--launch-count=5"],
    ),
    "ranges": (
        {**NONE, "nvtx_include": ("step#3/", "a"), "nvtx_exclude": ("b/",)},
        [
            *CONTROLS,
            *FILTERS,
            "--nvtx-include=step#3/",
            "--nvtx-include=a",
            "--nvtx-exclude=b/",
        ],
    ),
    "controls": (
        {**NONE, "replay_mode": "application", "clock_control": "none", "cache_control": "none"},
        [
            "--replay-mode=application",
            "--clock-control=none",
            "--cache-control=none",
            *FILTERS,
        ],
    ),
    "range replay": (
        {**NONE, "replay_mode": "range"},
        ["--replay-mode=range", *CONTROLS[1:]],
    ),
    "replay of ranges by application": (
        {**NONE, "replay_mode": "app-range"},
        ["--replay-mode=app-range", *CONTROLS[1:]],
    ),
    "steps": ({**NONE, "steps": (3, 4)}, [*CONTROLS, "--profile-from-start=no", *FILTERS]),
    "source": ({**NONE, "import_source": True}, [*CONTROLS, *FILTERS, "--import-source=yes"]),
    "csv": (
        {**NONE, "csv": True},
        [*CONTROLS, *FILTERS, "--csv", "--page=raw", f"--log-file={REPORT}.ncu.csv"],
    ),
    "extra": ({**NONE, "extra": ("--rule=X",)}, [*CONTROLS, *FILTERS, "--rule=X"]),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_every_setting_becomes_its_flag(what):
    settings, expected = OPTIONS[what]
    assert flags(**settings) == [*FIXED, *expected]


def test_processes_of_a_rank_can_be_left_alone():
    command = flags(**NONE, target_processes="application-only")
    assert command == [*FIXED[:3], "--target-processes=application-only", *CONTROLS, *FILTERS]


def test_a_percent_sign_in_a_path_is_no_place_to_fill_in():
    command = Capture().command(["python"], Path("/50%"), RANK)
    assert command[1] == "--export=/50%%/rank1_dp1_tp0_pp0"


# The installed release is older than the modes of app-range and per-launch-config.
ACCEPTED = [name for name in OPTIONS if name not in ("extra", "replay of ranges by application")]


@pytest.mark.parametrize(
    ("last", "status"), [("kill -9 $$", 137), ("kill -15 $$", 143), ("exit 9", 9), ("exit 0", 0)]
)
def test_the_exit_status_tells_a_signal_from_a_number(tmp_path, last, status):
    if not shutil.which("ncu"):
        pytest.skip("no ncu on PATH: install Nsight Compute")
    command = Capture().command(["sh", "-c", last], tmp_path, RANK)
    assert subprocess.run(command, check=False, timeout=LIMIT_S).returncode == status


@pytest.mark.slow  # starts Nsight Compute for each flag
@pytest.mark.parametrize("what", [["default"], ACCEPTED[:7], ACCEPTED[7:]], ids="-".join)
def test_the_real_ncu_takes_every_flag(tmp_path, what):
    if not shutil.which("ncu"):
        pytest.skip("no ncu on PATH: install Nsight Compute")
    for name in what:
        settings = OPTIONS[name][0] if name in OPTIONS else {}
        command = Capture(**settings).command(["/bin/true"], tmp_path, RANK)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        output += "".join(path.read_text() for path in tmp_path.glob("*.ncu.csv"))
        assert "were profiled" in output, (command, output)
        assert "==ERROR==" not in output, (command, output)


ROWS = (
    ("gemm", "[1]", 2, 1, 1, 1),
    ("norm<", "[1]", 5, 2, 9, 9),
    ("gemm", "[2]", 9, 3, 30, 30),
    ("late", "[1]", 40, 9, 90, 90),
)


@pytest.fixture
def targets(tmp_path):
    """Return a result of the analysis, as its job leaves it."""
    columns = ("function", "grid", "measured_by_shape", "count_by_shape")
    columns += ("measured_in_order", "count_in_order")
    found = result.Result(
        metrics={"step": result.Metric(value=6, unit="id", title="s")},
        tables={"targets": result.Table(title="t", columns=columns, rows=ROWS)},
    )
    provenance = result.Provenance(settings={}, modules={}, packages={}, inputs={})
    document = result.Document(
        analysis="ncu_targets", title="t", summary="s", result=found, provenance=provenance
    )
    path = tmp_path / "ncu_targets.json"
    result.write(path, document)
    return {"ncu_targets": path}


def chosen(monkeypatch, targets, version, **settings):
    monkeypatch.setattr(base, "executable_version", lambda _: version)
    tool = Capture(**settings).with_results(targets)
    return tool.kernel, tool.filter_mode, tool.launch_count, tool.steps


def test_the_kernels_worth_it_are_measured_once_in_each_shape_within_the_budget(
    monkeypatch, targets
):
    choice = chosen(monkeypatch, targets, "2024.3.1", budget_s=20, launch_s=2)
    assert choice == ("regex:^(gemm|norm<)$", "per-launch-config", 3, (6,))


def test_around_a_whole_command_the_same_kernels_are_measured(monkeypatch, targets):
    monkeypatch.setattr(base, "executable_version", lambda _: "2024.3.1")
    workload = {"name": "script", "command": "python train.py"}
    spec = Spec(
        token="",
        tool="ncu",
        out="/results/runs/r/capture/ncu/rep0",
        settings={"budget_s": 20, "launch_s": 2},
        reads=[str(path) for path in targets.values()],
        workload={"workload": workload, "launcher": {"name": "command"}, "world_size": 1},
    )
    job = prepare(spec, RunSettings())
    (words,) = job.tool_commands
    assert {"--kernel-name=regex:^(gemm|norm<)$", "--launch-count=3"} < set(words)
    assert "--profile-from-start=no" in words
    request = from_environment(job.environment)
    assert request.tool == job.tool
    assert request.tool.steps == (6,)


def test_a_release_without_counts_by_shape_measures_in_the_order_of_launches(monkeypatch, targets):
    choice = chosen(monkeypatch, targets, "2022.3.0.0", budget_s=20, launch_s=2)
    assert choice == ("regex:^(gemm|norm<)$", "global", 9, (6,))


def test_what_does_not_fit_the_budget_at_all_is_still_the_best_kernel(monkeypatch, targets):
    choice = chosen(monkeypatch, targets, "2024.1", budget_s=1, launch_s=2)
    assert choice == ("regex:^(gemm)$", "per-launch-config", 1, (6,))


def test_targets_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "ncu_targets.json"
    path.write_text("{")
    with pytest.raises(InputError, match="Nsight Compute candidates cannot be read"):
        Capture().with_results({"ncu_targets": path})


def test_without_targets_the_second_step_is_measured_until_the_budget_ends():
    left = Capture(budget_s=20, launch_s=2).with_results({})
    assert (left.kernel, left.steps, left.launch_count) == ("", (1,), 10)


def test_a_filter_of_the_users_own_leaves_nothing_to_be_chosen():
    mine = Capture(kernel="gemm")
    assert mine.input_analyses() == ()
    assert mine.with_results({}) == mine
    assert Capture(targets="all").with_results({}) == Capture(targets="all")
    assert Capture().input_analyses() == ("ncu_targets",)


def test_steps_that_do_not_run_are_refused():
    assert Capture(steps=(8,)).check(8) == "steps: there is no step 8 of 8, counted from 0"
    assert Capture(steps=(7,)).check(8) == ""


def test_kernels_cannot_be_named_where_ranges_are_measured():
    assert Capture(replay_mode="range").check(8) == ""
    reason = "kernel: replay_mode=range measures ranges, not kernels of a name"
    assert Capture(replay_mode="range", kernel="x").check(8) == reason


def test_cuda_is_profiled_around_the_chosen_steps_and_nothing_else(monkeypatch):
    calls = []
    monkeypatch.setattr(_profiled_steps, "_switch", lambda *, on: calls.append((steps.index, on)))
    with Capture(steps=(2, 3)).inside_workload(OUT, Rank()) as steps:
        assert isinstance(steps, ProfiledSteps)
        steps.begin()
        for _ in range(6):
            steps.step()
    assert calls == [(2, True), (4, False)]
    with Capture().inside_workload(OUT, Rank()) as nothing:
        assert isinstance(nothing, NullRecorder)


def test_modules_have_ranges_if_wanted(monkeypatch):
    opened = []
    monkeypatch.setattr(nvtx_ranges, "is_recorded", lambda: True)
    monkeypatch.setattr(nvtx_ranges, "spans", lambda: lambda name: nullcontext(opened.append(name)))
    model = torch.nn.Sequential(torch.nn.ReLU())
    for wanted in (False, True):
        with Capture(module_ranges=wanted).inside_workload(OUT, Rank()):
            model(torch.zeros(1))
    assert opened == ["nn.Module: Sequential", "nn.Module: 0"]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that makes this machine one with so many GPUs."""

    def make(gpus):
        @contextmanager
        def opened(_library=None):
            yield SimpleNamespace() if gpus else None

        monkeypatch.setattr(nvml, "opened", opened)
        monkeypatch.setattr(nvml, "devices", lambda _: [{}] * gpus)
        monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
        monkeypatch.setattr(base, "executable", lambda _: "/bin/ncu")
        return tmp_path

    return make


def test_it_says_when_there_is_no_gpu(machine):
    machine(gpus=0)
    assert Capture.unavailable_reason().startswith("no NVIDIA GPU is there")


def test_it_says_when_counters_are_not_permitted(machine, monkeypatch):
    machine(gpus=1)
    assert Capture.unavailable_reason() == ""
    monkeypatch.setattr(permissions, "are_counters_restricted", lambda _: True)
    monkeypatch.setattr(permissions, "_may", lambda *_: False)
    assert "for administrators only" in Capture.unavailable_reason()


def test_it_says_when_the_lock_is_somebody_elses(machine, monkeypatch):
    folder = machine(gpus=1)
    (folder / "nsight-compute-lock").touch()
    assert Capture.unavailable_reason() == ""
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    assert re.search("nsight-compute-lock belongs to somebody else", Capture.unavailable_reason())


def test_it_says_when_the_binary_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(base.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Capture.unavailable_reason().startswith("ncu is not installed; install Nsight Compute")


def test_ncu_leaves_nothing_in_the_home_of_the_user(tmp_path, monkeypatch):
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {**os.environ, **Capture.environment_variables}
    listed = subprocess.run(
        ["ncu", "--list-sections"], env=environment, capture_output=True, text=True, check=True
    )
    assert "SpeedOfLight" in listed.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "is_measured"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", False),
        ("cross_device_reduce_1stage", False),
        ("multimem_all_reduce_kernel", False),
        ("two_shot_all_reduce_kernel", False),
        ("nvshmemi_transfer", False),
        ("reduce_kernel", True),
        ("ampere_sgemm_128x64_tn", True),
    ],
)
def test_kernels_that_wait_for_other_ranks_are_not_measured(name, is_measured):
    pattern = module._NO_COMMUNICATION.removeprefix("regex:")
    assert bool(re.match(pattern, name)) == is_measured
