import pytest

from profkit.capture.base import Rank, Tool
from profkit.capture.harness.launch import ProcessEnd
from profkit.capture.harness.record.outcome import (
    Outcome,
    first_error,
    judge_capture,
    missing_files,
    refused_option,
    write_error,
)

CUDA = "rank1_dp1_tp0_pp0: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
TORCHRUN_KILLED = "  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 42)"


@pytest.mark.parametrize(
    ("code", "error", "log", "status"),
    [
        (0, "", "it printed out of memory and went on", "ok"),
        (1, CUDA, "", "oom"),
        (1, "rank0: RuntimeError: DefaultCPUAllocator: can't allocate memory", "", "oom"),
        (1, "rank0: MemoryError", "", "oom"),
        (-6, "", "terminate called after throwing an instance of 'std::bad_alloc'", "oom"),
        (-9, "", "", "oom"),
        (1, "", TORCHRUN_KILLED, "oom"),
        (1, "rank0: ValueError: boom", "CUDA out of memory, said an earlier try", "error"),
        (-11, "", "", "error"),
        (0, "rank0: ValueError: boom", "", "error"),
    ],
)
def test_the_status_follows_from_the_first_error_and_the_exit(code, error, log, status):
    assert judge_capture(ProcessEnd(exit_code=code), 60, error, log, []).status == status


def test_a_capture_without_its_files_has_failed():
    outcome = judge_capture(ProcessEnd(exit_code=0), 60, "", "", ["rank0_dp0_tp0_pp0*.json"])
    assert outcome == Outcome(status="error", reason="no file matches rank0_dp0_tp0_pp0*.json")


def test_a_program_that_never_steps_is_told_from_a_tool_that_leaves_no_file():
    missing = ["rank0_x*.steps.json", "rank1_x*.steps.json", "rank0_x*.svg"]
    reason = judge_capture(ProcessEnd(exit_code=0), 60, "", "", missing).reason
    assert reason == "no step was seen on rank0_x, rank1_x: the program ended before it made one"


@pytest.mark.parametrize(
    "said",
    [
        "unrecognised option '--foo=1'",
        "==ERROR== unrecognised option '--foo'. Use --help for further details.",
        "memray run: error: unrecognized arguments: --foo",
        "error: unexpected argument '--foo' found",
    ],
)
def test_a_refused_option_is_found_before_what_the_launcher_prints(tmp_path, said):
    log = tmp_path / "capture.log"
    log.write_text(f"{said}\n\nusage: ...\n" + "Traceback of torchrun\n" * 200)
    assert refused_option(log) == f"the tool refused an option: {said}"


def test_a_log_without_refusals_tells_of_none(tmp_path):
    log = tmp_path / "capture.log"
    log.write_text("CUDA error: invalid argument\nloss 3.1\n")
    assert not refused_option(log)


def test_out_of_memory_says_what_to_do():
    reason = judge_capture(ProcessEnd(exit_code=1), 60, CUDA, "", []).reason
    assert reason == f"{CUDA}; lower batch or the model's sizes"


def test_a_timeout_is_one_whatever_the_exit_status():
    outcome = judge_capture(ProcessEnd(exit_code=-9, timed_out=True), 60, "", "", [])
    assert outcome.status == "timeout"
    assert outcome.reason.startswith("not finished after 60 s")


def test_every_rank_must_leave_what_the_tool_promises(tmp_path):
    class Profiler(Tool):
        outputs = ("*.trace.json",)

    for name in ("rank0_x.steps.json", "rank0_x.7.trace.json", "rank1_x.steps.json"):
        (tmp_path / name).touch()
    missing = missing_files(Profiler(), tmp_path, {"rank0_x": True, "rank1_x": True})
    assert missing == ["rank1_x*.trace.json"]


def test_a_rank_that_could_not_write_what_it_failed_of_had_no_room(tmp_path):
    (tmp_path / "rank0_dp0_tp0_pp0.error.txt").touch()
    assert first_error(tmp_path).startswith("rank0_dp0_tp0_pp0: no space was left on the disk")


def test_the_rank_that_failed_first_is_the_reason(tmp_path):
    assert first_error(tmp_path) == ""
    write_error(tmp_path, Rank(rank=1, dp=1), "ValueError: boom\nmore", "Traceback ...")
    write_error(tmp_path, Rank(), "RuntimeError: connection closed by peer", "")
    assert first_error(tmp_path) == "rank1_dp1_tp0_pp0: ValueError: boom\n\nTraceback ..."
