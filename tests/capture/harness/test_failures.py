"""What a capture leaves when its workload, its tool or its user ends it."""

import io
import json
import signal
import subprocess

import psutil
import pytest

from profkit.capture.__main__ import main
from profkit.capture.py_spy import Capture
from tests.waiting import LIMIT_S, until


def running(folder, word=""):
    """Return the processes of captures below `folder` with `word` in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        belongs = str(folder) in (process.info["environ"] or {}).get("PROFKIT_CAPTURE", "")
        if belongs and word in " ".join(process.info["cmdline"] or []):
            found.append(process)
    return found


def test_a_workload_that_raises_keeps_the_steps_before(capture, misbehaving, tmp_path):
    failed = capture("baseline", tmp_path, {}, **misbehaving("raise"))
    assert failed.result.returncode == 0
    record = failed.record
    assert record["status"] == "error"
    assert record["reason"] == "rank0_dp0_tp0_pp0: ValueError: the loss is not a number second line"
    assert record["exit_code"] == 1
    assert "in the fourth step" in record["log_tail"]
    assert len(failed.steps()) == 3
    assert failed.result.stderr == f"baseline: error: {record['reason']}\n"


def test_an_exit_status_is_the_reason(capture, misbehaving, tmp_path):
    failed = capture("baseline", tmp_path, {}, **misbehaving("exit"))
    assert (failed.record["status"], failed.record["exit_code"]) == ("error", 7)
    assert failed.record["reason"] == "rank0_dp0_tp0_pp0: exit status 7"


def test_a_failure_under_a_wrapper_is_seen_although_the_wrapper_ends_well(
    capture, misbehaving, tmp_path
):
    failed = capture("py_spy", tmp_path, {}, **misbehaving("raise late"))
    assert failed.record["status"] == "error"
    assert "ValueError: the loss is not a number" in failed.record["reason"]
    assert list(failed.folder.glob("*.speedscope.json")), failed.told


HIDDEN = "the process ended before its program, and nothing says of what"
KILLED = "killed by signal {} ({}); the last line that it printed: in the fourth step"
ENDS = {
    "terminated": KILLED.format(15, "SIGTERM"),
    "abort": KILLED.format(6, "SIGABRT"),
    "exit": "exit status 7",
    "leave with 3": "exit status 3",
}


@pytest.mark.parametrize("tool", ["baseline", "py_spy", "hiding"])
@pytest.mark.parametrize("how", ENDS)
def test_how_a_rank_ended_is_known_whatever_the_tool_around_it_ends_with(
    capture, misbehaving, tmp_path, tool, how
):
    record = capture(tool, tmp_path, {}, **misbehaving(how)).record
    is_hidden = tool == "hiding" and ENDS[how].startswith("killed")
    reason = HIDDEN if is_hidden else ENDS[how]
    assert (record["status"], record["reason"]) == ("error", f"rank0_dp0_tp0_pp0: {reason}")


@pytest.mark.parametrize("tool", ["baseline", "py_spy", "hiding", "torch_profiler"])
def test_a_program_that_leaves_without_pythons_own_end_has_ended_well(
    capture, misbehaving, tmp_path, tool
):
    settings = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 1}
    settings = settings if tool == "torch_profiler" else {}
    made = capture(tool, tmp_path, settings, **misbehaving("leave"))
    assert made.record["status"] == "ok", made.told
    assert len(made.steps()) == 3


def test_an_allocation_that_python_cannot_make_is_out_of_memory(capture, misbehaving, tmp_path):
    failed = capture("baseline", tmp_path, {}, **misbehaving("exhaust"))
    assert failed.record["status"] == "oom"
    expected = "rank0_dp0_tp0_pp0: MemoryError; lower batch or the model's sizes"
    assert failed.record["reason"] == expected
    assert len(failed.steps()) == 3


def test_a_rank_that_is_killed_keeps_its_steps_and_has_not_run_out_of_memory(
    capture, misbehaving, tmp_path
):
    failed = capture("baseline", tmp_path, {}, **misbehaving("killed"))
    assert (failed.record["status"], failed.record["exit_code"]) == ("error", -9)
    assert failed.record["reason"] == (
        "rank0_dp0_tp0_pp0: killed by signal 9 (SIGKILL); the last line that it printed: in the"
        " fourth step; nothing says that memory ran out: a person, a scheduler or a limit killed it"
    )
    assert len(failed.steps()) == 3


def test_a_model_that_does_not_fit_is_out_of_memory_on_every_rank(capture, tmp_path):
    model = {"name": "gpt_tiny", "family": "gpt", "vocabulary": 1 << 40}
    failed = capture("baseline", tmp_path, {}, model=model)
    assert failed.record["status"] == "oom"
    assert "can't allocate memory" in failed.record["reason"]
    assert failed.record["log_tail"]
    assert running(tmp_path) == []


def launched(arguments_of, out, behaviour):
    """Start a capture that hangs, and return it once it is in its fourth step."""
    process = subprocess.Popen(arguments_of("baseline", out, {}, **behaviour))
    until(lambda: process.poll() is not None or running(out, "sleep 86399"))
    assert process.poll() is None
    return process


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_capture_that_is_told_to_stop_leaves_no_record_and_no_process(
    arguments_of, misbehaving, tmp_path, signum
):
    process = launched(arguments_of, tmp_path, misbehaving("hang"))
    process.send_signal(signum)
    assert process.wait(LIMIT_S) == 128 + signum
    assert running(tmp_path) == []
    assert not (tmp_path / "capture.json").exists()


def test_a_capture_that_is_killed_takes_all_with_it(arguments_of, misbehaving, tmp_path):
    process = launched(arguments_of, tmp_path, misbehaving("hang"))
    process.kill()
    process.wait(LIMIT_S)
    psutil.wait_procs(running(tmp_path), timeout=LIMIT_S)
    assert running(tmp_path) == []
    assert not (tmp_path / "capture.json").exists()


def test_a_capture_whose_inner_process_is_killed_says_so(arguments_of, misbehaving, tmp_path):
    process = launched(arguments_of, tmp_path, misbehaving("hang"))
    (inner,) = psutil.Process(process.pid).children()
    inner.kill()
    assert process.wait(LIMIT_S) == 0
    assert running(tmp_path) == []
    record = json.loads((tmp_path / "capture.json").read_text())
    assert (record["status"], record["exit_code"]) == ("error", -signal.SIGKILL)
    assert record["reason"].startswith("the process that captures was killed by signal 9")
    assert "in the fourth step" in record["log_tail"]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["capture.json", "capture.log", "rank0_dp0_tp0_pp0.steps.json"]


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        ("137", "", "the process that guards the capture was killed by signal 9"),
        ("1", "Traceback\n  File x\nKeyError: 'y'\n", "the capture left no record: KeyError: 'y'"),
        (
            "1",
            "profkit: no room\n  hint: make it\n",
            "the capture left no record: no room",
        ),
        (
            "1",
            "profkit: no host; ssh said:\nssh: no route to b\nnot reached\n  hint: x\n",
            "the capture left no record: no host; ssh said: ssh: no route to b; not reached",
        ),
        ("3", "", "the capture left no record: exit status 3"),
    ],
)
def test_a_capture_without_a_record_gets_one(tmp_path, monkeypatch, status, said, reason):
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    out = tmp_path / "r/capture/baseline/rep0"
    out.mkdir(parents=True)
    (out / "rank0_dp0_tp0_pp0.steps.json").write_text("{}")
    workload = '{"workload": {"name": "train"}, "steps": 2}'
    main(["baseline", "--out", str(out), "--workload", workload, "--lost", status])
    record = json.loads((out / "capture.json").read_text())
    assert (record["status"], record["reason"]) == ("error", reason)
    assert [file["path"] for file in record["files"]] == ["rank0_dp0_tp0_pp0.steps.json"]


def test_a_capture_that_was_told_to_stop_gets_no_record(tmp_path):
    out, status = tmp_path / "r/capture/baseline/rep0", 128 + signal.SIGTERM
    workload = '{"workload": {"name": "train"}, "steps": 2}'
    with pytest.raises(SystemExit, match="SIGTERM, which another program or person sent"):
        main(["baseline", "--out", str(out), "--lost", str(status), "--workload", workload])
    assert not out.exists()


def test_an_unavailable_tool_is_recorded_with_its_reason(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Capture, "unavailable_reason", classmethod(lambda _: "ptrace is forbidden"))
    out = tmp_path / "r/capture/py_spy/rep0"
    workload = '{"workload": {"name": "train"}, "steps": 2}'
    main(["py_spy", "--out", str(out), "--workload", workload])
    record = json.loads((out / "capture.json").read_text())
    assert (record["status"], record["reason"]) == ("unavailable", "ptrace is forbidden")
    assert (record["exit_code"], record["files"], record["log_tail"]) == (None, [], [])
    assert capsys.readouterr().err == "py_spy: unavailable: ptrace is forbidden\n"


def test_a_second_attempt_replaces_the_files_of_the_first(capture, misbehaving, tmp_path):
    first = capture("baseline", tmp_path, {}, **misbehaving("raise"))
    (first.folder / "notes.txt").write_text("mine")
    reason = first.record["reason"]
    second = capture("baseline", tmp_path, {}, "--attempt", "2", **misbehaving("nothing"))
    record = second.record
    assert (record["status"], record["attempt"]) == ("ok", 2)
    assert record["warnings"] == [f"attempt 1 ended as error: {reason}"]
    assert not list(second.folder.glob("*.error.txt"))
    assert (second.folder / "notes.txt").read_text() == "mine"
    assert len(second.steps()) == 8


@pytest.mark.parametrize(
    ("tool", "asked", "message"),
    [
        ("torch_profiler", {"settings": {"activ": 1}}, "tools.torch_profiler.activ: no such key"),
        ("torch_profiler", {"steps": 3}, "needs 8 steps"),
        ("baseline", {"launcher": {"name": "python"}}, "set launcher=torchrun"),
        ("baselin", {}, "did you mean 'baseline'?"),
        ("baseline", {"workload": {"name": "trian"}}, "no workload named 'trian'"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(capture, tmp_path, tool, asked, message):
    refused = capture(tool, tmp_path, **{"settings": {}} | asked)
    assert refused.result.returncode == 1
    assert message in refused.result.stderr
    assert "Traceback" not in refused.result.stderr
    assert not refused.folder.exists()
