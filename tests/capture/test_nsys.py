"""Nsight Systems: what nsys is told, and what it really leaves."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from profkit.capture import nsys
from profkit.capture.base import Rank, executable
from profkit.capture.nsys import Capture, step_window
from profkit.capture.nsys import flags as nsys_flags
from profkit.capture.nsys.flags import KnownFlags, apis_in, flags_in
from profkit.capture.nsys.importer import import_left
from profkit.convert.__main__ import convert
from profkit.core.errors import ProfkitError

OUT = Path("/results/50%/rep0")
RANK = Rank(rank=1, dp=1, world_size=2, local_rank=1)
OUTPUT = ["--output=/results/50%%/rep0/rank1_dp1_tp0_pp0.%h", "--force-overwrite=true"]
DEFAULT = ["--cuda-graph-trace=node", "--osrt-threshold=1000"]
ALWAYS = ["--sample=none", "--cpuctxsw=none", "--wait=all"]
TRACE = "--trace=cuda,nvtx,osrt,cudnn,cublas"


@pytest.fixture
def everything_known(monkeypatch):
    """Pretend that the installed version knows every flag."""
    monkeypatch.setattr(nsys, "known_flags", lambda _: KnownFlags())


@pytest.fixture
def some_known(monkeypatch):
    """Return a function that says what the installed version knows."""
    return lambda **flags: monkeypatch.setattr(
        nsys,
        "known_flags",
        lambda _: KnownFlags({name: frozenset(known) for name, known in flags.items()}),
    )


@pytest.mark.usefixtures("everything_known")
def test_the_default_command_traces_the_whole_run():
    expected = ["nsys", "profile", TRACE, *OUTPUT, *DEFAULT, *ALWAYS, "python", "x.py"]
    assert Capture().command(["python", "x.py"], OUT, RANK) == expected


@pytest.mark.usefixtures("everything_known")
@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"delay_s": 1.5}, ["--delay=1.5"]),
        ({"duration_s": 20}, ["--duration=20", "--kill=none"]),
        ({"wait": "primary"}, ["--wait=primary"]),
        (
            {"sample": "process-tree", "backtrace": "fp"},
            ["--sample=process-tree", "--backtrace=fp"],
        ),
        ({"sampling_frequency_hz": 500}, ["--sampling-frequency=500"]),
        ({"cpuctxsw": "system-wide"}, ["--cpuctxsw=system-wide"]),
        (
            {"python_sampling": True, "python_sampling_frequency_hz": 200},
            ["--python-sampling=true", "--python-sampling-frequency=200"],
        ),
        ({"python_backtrace": "cuda"}, ["--python-backtrace=cuda"]),
        ({"pytorch": "autograd-nvtx"}, ["--pytorch=autograd-nvtx"]),
        ({"pytorch": "autograd-shapes-nvtx"}, ["--pytorch=autograd-shapes-nvtx"]),
        ({"cuda_graph_trace": "graph"}, ["--cuda-graph-trace=graph"]),
        ({"cuda_memory_usage": True}, ["--cuda-memory-usage=true"]),
        ({"cuda_backtrace": "kernel"}, ["--cudabacktrace=kernel"]),
        ({"cuda_flush_interval_ms": 0}, ["--cuda-flush-interval=0"]),
        (
            {"gpu_metrics_devices": ("0", "1"), "gpu_metrics_frequency_hz": 100},
            ["--gpu-metrics-devices=0,1", "--gpu-metrics-frequency=100"],
        ),
        ({"gpu_metrics_set": "ga100"}, ["--gpu-metrics-set=ga100"]),
        ({"osrt_threshold_ns": 50000}, ["--osrt-threshold=50000"]),
        ({"stats": True}, ["--stats=true"]),
        (
            {"capture_range": "nvtx"},
            ["--capture-range=nvtx", "--nvtx-capture=capture@profkit", "--capture-range-end=stop"],
        ),
        (
            {"capture_range": "cudaProfilerApi"},
            ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"],
        ),
        ({"extra": ("--nic-metrics=true",)}, ["--nic-metrics=true"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_each_setting_becomes_its_flags(settings, flags):
    before = set(Capture().command(["python"], OUT, RANK))
    command = Capture(**settings).command(["python"], OUT, RANK)
    assert set(command) - before == set(flags)
    replaced = {flag.partition("=")[0] for flag in flags}
    kept = [flag for flag in before if flag.partition("=")[0] not in replaced]
    assert set(kept) <= set(command)
    assert command[-1] == "python"


@pytest.mark.usefixtures("everything_known")
def test_nothing_to_trace_is_said_so():
    command = Capture(trace=()).command(["python"], OUT, RANK)
    assert command == ["nsys", "profile", "--trace=none", *OUTPUT, *ALWAYS, "python"]


def test_launching_and_starting_share_the_flags_between_them(some_known):
    some_known(
        launch=("cuda-graph-trace", "wait", "session-new", "trace"),
        start=("sample", "cpuctxsw", "stats", "output"),
    )
    tool = Capture(mode="launch", stats=True, trace=("cuda",), extra=("--x=1",))
    command = tool.command(["python"], OUT, RANK)
    session = command[2].removeprefix("--session-new=")
    assert session.endswith("-rank1")
    flags = ["--cuda-graph-trace=node", "--wait=all", "--x=1"]
    assert command == [
        "nsys",
        "launch",
        f"--session-new={session}",
        "--trace=cuda",
        *flags,
        "python",
    ]
    started = ["start", f"--session={session}", *OUTPUT, "--stats=true", *ALWAYS[:2]]
    assert tool.start(OUT, RANK) == started


def test_what_a_version_lacks_is_left_out_and_said(monkeypatch):
    known = KnownFlags(
        {"profile": frozenset({"sample", "gpu-metrics-device"})}, frozenset({"nvtx"})
    )
    monkeypatch.setattr(nsys, "known_flags", lambda _: known)
    tool = Capture(
        trace=("nvtx", "cuda"),
        python_sampling=True,
        gpu_metrics_devices=("0",),
        pytorch="autograd-nvtx",
    )
    flags = ["--gpu-metrics-device=0", "--sample=none"]
    assert tool.command(["python"], OUT, RANK) == [
        "nsys", "profile", "--trace=nvtx", *OUTPUT, *flags, "python",
    ]  # fmt: skip
    told = "\n".join(tool.warnings())
    wanted = ["python_sampling is left out", "gpu_metrics_frequency_hz", "trace=cuda is left out"]
    assert [text for text in [*wanted, "profkit's ranges around modules"] if text not in told] == []


def test_long_recordings_are_warned_about(everything_known):
    del everything_known
    assert "more than 60 s" in Capture(duration_s=61).warnings()[0]
    assert Capture(duration_s=60).warnings() == []


def test_what_ranges_of_functions_cost_is_said(everything_known):
    del everything_known
    assert "slows every call" in Capture(function_ranges="python").warnings()[0]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, ""),
        ({"capture_range": "nvtx", "first_step": 3, "steps": 5}, ""),
        ({"capture_range": "nvtx", "first_step": 4, "steps": 5}, "need 9 steps"),
        ({"mode": "launch", "first_step": 8}, "need 9 steps"),
        ({"first_step": 1}, "first_step and steps need capture_range"),
        ({"mode": "launch", "capture_range": "nvtx"}, "capture_range is for mode=profile"),
        ({"mode": "launch", "delay_s": 1}, "are for mode=profile"),
        ({"duration_s": 0.5}, "at least 1 for nsys"),
        ({"capture_range": "nvtx", "trace": ("cuda",)}, "needs nvtx in trace"),
        ({"capture_range": "cudaProfilerApi", "trace": ("nvtx",)}, "needs cuda in trace"),
        ({"per": "host", "ranks": (0,)}, "per=host records all ranks"),
        ({"function_ranges": "python", "trace": ("cuda",)}, "function_ranges needs nvtx"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, reason):
    found = Capture(**settings).check(8)
    assert reason in found
    assert bool(found) is bool(reason)


def test_the_help_of_both_generations_is_understood():
    old = "\t-t, --trace=\n\n Possible values are 'cuda', 'nvtx',\n 'osrt' or 'none'.\n Select the"
    old += (
        " API(s) to trace\n\t--nvtx-domain-[include|exclude]=\n\t--export=<format>[,<format>...]\n"
    )
    expected = {"trace", "nvtx-domain-include", "nvtx-domain-exclude", "export"}
    assert flags_in(old) == expected
    assert apis_in(old) == {"cuda", "nvtx", "osrt", "none"}
    assert flags_in("\t--gpu-metrics-devices=\n\t    --pytorch=\n") == {
        "gpu-metrics-devices",
        "pytorch",
    }


def test_the_installed_version_says_what_it_knows():
    known = nsys_flags.known_flags("nsys")
    assert set(known.flags) == {"profile", "launch", "start"}
    assert {"cuda", "nvtx", "osrt"} <= known.apis
    assert known.name("launch", ("wait",)) == "wait"
    assert known.name("start", ("wait",)) == ""


def test_of_an_nsys_whose_help_does_not_end_nothing_more_is_asked(tmp_path, monkeypatch):
    asked, hanging = tmp_path / "asked", tmp_path / "nsys"
    hanging.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nsleep 999\n')
    hanging.chmod(0o755)
    monkeypatch.setattr(nsys_flags, "_HELP_TIMEOUT_S", 0.5)
    assert nsys_flags.known_flags(str(hanging)) == KnownFlags()
    assert asked.read_text() == "profile --help\n"


class Opened:
    """What a window opens and closes, as a list."""

    def __init__(self, events):
        self.events = events

    def __enter__(self):
        self.events.append("open")

    def __exit__(self, *_):
        self.events.append("close")


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        (0, 0, ["open", 0, 1, 2, 3, "close"]),
        (1, 2, [0, "open", 1, 2, "close", 3]),
        (0, 1, ["open", 0, "close", 1, 2, 3]),
        (3, 1, [0, 1, 2, "open", 3, "close"]),
        (9, 1, [0, 1, 2, 3]),
    ],
)
def test_a_window_opens_and_closes_between_steps(first, count, expected):
    events = []
    window = step_window.StepWindow(first, count, lambda: Opened(events), 0)
    window.begin()
    for step in range(4):
        events.append(step)
        window.step()
    window.close()
    assert events == expected


def test_a_window_that_was_open_long_is_noted(monkeypatch):
    noted = []
    monkeypatch.setattr(step_window.marks, "note", noted.append)
    monkeypatch.setattr(step_window.time, "monotonic", iter([10.0, 75.0]).__next__)
    window = step_window.StepWindow(0, 0, lambda: Opened([]), 0)
    window.begin()
    window.close()
    assert noted[0].startswith("nsys recorded 65 s")


def test_the_profiler_calls_of_cuda_need_cuda():
    with pytest.raises(ProfkitError, match="needs CUDA"), step_window.open_cuda_profiler():
        pass


def test_a_session_that_does_not_exist_fails_with_what_nsys_says():
    with pytest.raises(ProfkitError, match=r"nsys stop failed: \w+"):
        step_window._run("nsys", ["stop", "--session=profkit-nobody"])


@pytest.fixture
def recording(nsys_profile, tmp_path):
    """Return a recording of an nsys that does not find its importer."""
    real = Path(executable("nsys")).resolve()
    apart = tmp_path / "apart" / real.parent.name
    apart.mkdir(parents=True)
    for path in real.parent.iterdir():
        (apart / path.name).symlink_to(path)
    (apart / "nsys").unlink()
    shutil.copy(real, apart / "nsys")
    flags = ["--trace=osrt", "--sample=none", "--cpuctxsw=none", "--output", tmp_path / "rank0.vm"]
    command = [apart / "nsys", "profile", *flags, "true"]
    done = nsys_profile(command)
    path = tmp_path / "rank0.vm.qdstrm"
    assert path.is_file(), done.stdout + done.stderr
    return path


def test_a_recording_that_was_left_behind_is_imported(recording):
    (told,) = import_left(recording.parent, "nsys")
    assert "profkit imported it with" in told
    assert not recording.exists()
    assert (recording.parent / "rank0.vm.nsys-rep").stat().st_size > 1000
    assert import_left(recording.parent, "nsys") == []


def test_a_recording_is_named_where_no_importer_of_its_version_is(tmp_path):
    (tmp_path / "rank0.vm.qdstrm").write_bytes(b"x")
    fake = tmp_path / "bin/nsys"
    importer = tmp_path / "opt/nvidia/nsight-systems/2024.1/host-linux-x64/QdstrmImporter"
    for path, version in ((fake, "2023.4.1"), (importer, "2024.1.1")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\necho NVIDIA Nsight Systems version {version}\n")
        path.chmod(0o755)
    (told,) = import_left(tmp_path, str(fake), root=tmp_path)
    assert told.startswith("rank0.vm.qdstrm: nsys 2023.4.1 did not find its importer")
    assert (tmp_path / "rank0.vm.qdstrm").exists()


SMALL = {"steps": 4, "model": {"name": "gpt_tiny", "family": "gpt", "layers": 1}}
ALONE = {"launcher": {"name": "python"}, "world_size": 1}
PHASES = ("data", "forward", "backward", "optimizer")


def converted(capture, tmp_path):
    """Return the tables of a capture and the notes on them."""
    tables, files = tmp_path / "tables", tmp_path / "files"
    convert("nsys", [capture.folder], tables, files)
    notes = json.loads((tables / "convert.json").read_text())["notes"]
    return tables, files, [note["text"] for note in notes]


def read(tables, name):
    return pd.read_parquet(tables / f"{name}.parquet")


def counted(tables, rank):
    """Return the steps of a rank, and how often it went through each phase."""
    steps, ranges = read(tables, "steps"), read(tables, "annotations")
    names = ranges[ranges["rank"] == rank]["name"].value_counts()
    return steps[steps["rank"] == rank]["step"].tolist(), {names.get(phase, 0) for phase in PHASES}


def test_two_ranks_are_recorded_whole(capture, tmp_path_factory):
    out = tmp_path_factory.mktemp("nsys")
    settings = {"trace": ["cuda", "nvtx", "osrt"], "pytorch": "module-ranges"}
    made = capture("nsys", out, settings, **SMALL)
    assert made.record["status"] == "ok", made.told
    reports = sorted(path.name for path in made.folder.glob("*.nsys-rep"))
    assert [name.partition(".")[0] for name in reports] == [
        "rank0_dp0_tp0_pp0",
        "rank1_dp1_tp0_pp0",
    ]
    assert any("holds all environment variables" in warning for warning in made.record["warnings"])
    tables, files, notes = converted(made, out)
    assert notes.count("The report holds no kernel, copy or set: CUDA was not recorded.") == 2
    for rank in (0, 1):
        assert counted(tables, rank) == ([0, 1, 2, 3], {4})
    steps, os_calls = read(tables, "steps"), read(tables, "os_calls")
    assert set(os_calls["rank"]) == {0, 1}
    assert (os_calls["step"] >= 0).any()
    # The harness timed the same steps on the same clock.
    for rank in (0, 1):
        timed = made.steps(rank)
        ours = steps[steps["rank"] == rank]
        assert abs(ours["start_ns"].to_numpy() - [step[0] for step in timed]).max() < 50_000_000
    modules = read(tables, "python_calls")
    attention = modules[modules["module"] == "DistributedDataParallel;module;blocks.0;attention"]
    assert attention.groupby("rank").size().to_dict() == {0: 4, 1: 4}
    csvs = {path.name for path in files.glob("*.csv")}
    for stem in (name.removesuffix(".nsys-rep") for name in reports):
        assert {f"{stem}.rep0_nvtxsum.csv", f"{stem}.rep0_osrtsum.csv"} <= csvs


def test_an_nsys_that_ends_before_its_program_begins_is_started_again(
    capture, misbehaving, tmp_path, monkeypatch
):
    failed, fake = tmp_path / "failed", tmp_path / "bin/nsys"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\n[ "$2" = --trace=nvtx ] && [ ! -e {failed} ] && touch {failed} && exit 1\n'
        f'exec {executable("nsys")} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    made = capture("nsys", tmp_path, {"trace": ["nvtx"]}, **misbehaving("nothing"))
    assert made.record["status"] == "ok", made.told
    assert failed.exists()
    (told,) = (warning for warning in made.record["warnings"] if "started again" in warning)
    assert told.startswith("the tool ended before the program began (exit status 1; the log")
    assert len(list(made.folder.glob("*.nsys-rep"))) == 1


def test_all_ranks_of_a_host_are_recorded_between_nvtx_ranges(capture, tmp_path_factory):
    out = tmp_path_factory.mktemp("host")
    settings = {"trace": ["nvtx", "osrt"], "per": "host", "capture_range": "nvtx"}
    made = capture("nsys", out, settings | {"first_step": 1, "steps": 2}, **SMALL)
    assert made.record["status"] == "ok", made.told
    assert made.record["profiled"] == ["rank0_dp0_tp0_pp0"]
    assert len(list(made.folder.glob("*.nsys-rep"))) == 1
    tables, _, _ = converted(made, out)
    assert counted(tables, 0) == ([1, 2], {2})
    # The window is that of the first rank; the other is at most a step ahead or behind.
    steps, _ = counted(tables, 1)
    assert {1, 2} & set(steps) <= set(steps) <= {0, 1, 2, 3}


def test_recording_is_started_and_stopped_around_steps(capture, tmp_path_factory):
    out = tmp_path_factory.mktemp("launch")
    settings = {"trace": ["nvtx"], "mode": "launch", "first_step": 1, "steps": 2}
    settings["function_ranges"] = "python"
    made = capture("nsys", out, settings, **SMALL, **ALONE)
    assert made.record["status"] == "ok", made.told
    assert len(made.steps()) == 4
    assert any("slows every call" in warning for warning in made.record["warnings"])
    tables, _, _ = converted(made, out)
    assert counted(tables, 0) == ([1, 2], {2})
    # Each function has its range, also with versions that drop those of the package nvtx.
    calls = read(tables, "python_calls")
    zeroing = calls["name"].str.contains(r"^optimizer\.py\(\d+\): zero_grad$")
    assert calls[zeroing]["step"].tolist() == [1, 2]
    assert calls.groupby("step").size()[[1, 2]].min() > 100


@pytest.mark.parametrize("per", ["rank", "host"])
def test_the_program_goes_on_when_the_recording_has_ended(capture, tmp_path_factory, per):
    out = tmp_path_factory.mktemp("duration")
    # Over before the first step.
    settings = {"trace": ["osrt"], "duration_s": 1, "per": per}
    made = capture("nsys", out, settings, **SMALL, **ALONE)
    assert made.record["status"] == "ok", made.told
    assert len(made.steps()) == 4
    tables, _, notes = converted(made, out)
    assert len(read(tables, "os_calls")) > 0
    assert any("No step of rank 0, of 4, lies in what was recorded" in note for note in notes)
