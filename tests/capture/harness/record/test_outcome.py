import pytest

from profkit.capture import tool as tool_named
from profkit.capture.base import Rank, Tool
from profkit.capture.harness.launch import ProcessEnd
from profkit.capture.harness.record.first_failure import Failure
from profkit.capture.harness.record.outcome import (
    Outcome,
    is_kept,
    judge_capture,
    missing_files,
    what_helps,
)

CUDA = "rank1_dp1_tp0_pp0: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (None, "ok"),
        (Failure(summary=CUDA), "oom"),
        (Failure(summary="rank0: DefaultCPUAllocator: can't allocate memory"), "oom"),
        (Failure(summary="rank0: MemoryError"), "oom"),
        (Failure(summary="killed by signal 6", details="by 'std::bad_alloc'", signum=6), "oom"),
        (Failure(summary="killed by signal 9", signum=9), "error"),
        (Failure(summary="killed by signal 11", signum=11), "error"),
        (Failure(summary="rank0: ValueError: boom"), "error"),
    ],
)
def test_the_status_follows_from_what_failed_first(failure, status):
    assert judge_capture(ProcessEnd(exit_code=0), 60, failure, []).status == status


@pytest.mark.parametrize(
    ("ended", "failure", "repeats"),
    [
        ({}, {"summary": "rank0: ValueError: boom"}, True),
        ({}, {"summary": "rank0: exit status 3, without an error of its own"}, True),
        ({}, {"summary": "rank0: MemoryError"}, True),
        ({}, {"summary": CUDA}, True),
        ({}, {"summary": "killed by signal 6", "details": "std::bad_alloc", "signum": 6}, False),
        ({"shortage": "9 MB were left"}, {"summary": "killed by 9", "signum": 9}, False),
        ({"stopped": "less than 100 MB is left"}, {"summary": "rank0: MemoryError"}, False),
        ({}, {"summary": "rank0: RuntimeError: Connection closed by peer"}, False),
        ({}, {"summary": "rank0: ConnectionRefusedError: x"}, False),
        ({}, {"summary": "rank0: ConnectionResetError: peer"}, False),
        ({}, {"summary": "rank0: BrokenPipeError"}, False),
        ({}, {"summary": "rank0: http.client.RemoteDisconnected: closed"}, False),
        ({}, {"summary": "rank0: requests.exceptions.SSLError: EOF"}, False),
        ({}, {"summary": "rank0: OSError: [Errno 5] Input/output error: 'data'"}, False),
        ({}, {"summary": "rank0: ValueError: no connection of layers"}, True),
        ({"timed_out": True}, {"summary": "rank0: ValueError: boom"}, False),
    ],
)
def test_what_the_program_does_by_itself_would_repeat_and_what_is_done_to_it_not(
    ended, failure, repeats
):
    outcome = judge_capture(ProcessEnd(exit_code=1, **ended), 60, Failure(**failure), [])
    assert outcome.would_repeat is repeats


def test_what_a_person_interrupted_did_not_fail_of_what_it_says_then():
    ended = ProcessEnd(exit_code=1, interrupted=True)
    outcome = judge_capture(ended, 60, Failure(summary="rank0: KeyboardInterrupt"), [])
    assert (outcome.status, outcome.reason) == ("error", "it was interrupted")


def test_a_killed_rank_ran_out_of_memory_only_with_evidence():
    failure = Failure(summary="rank1: killed by signal 9 (SIGKILL)", signum=9)
    plain, short = ProcessEnd(exit_code=1), ProcessEnd(exit_code=1, shortage="only 9 MB were left")
    assert "nothing says that memory ran out" in judge_capture(plain, 60, failure, []).reason
    assert judge_capture(short, 60, failure, []) == Outcome(
        status="oom",
        reason="rank1: killed by signal 9 (SIGKILL): only 9 MB were left; lower batch or the"
        " model's sizes",
    )


def test_a_capture_without_its_files_has_failed():
    outcome = judge_capture(ProcessEnd(exit_code=0), 60, None, ["rank0_dp0_tp0_pp0*.json"])
    assert outcome == Outcome(
        status="error", reason="no file matches rank0_dp0_tp0_pp0*.json", would_repeat=True
    )


def test_a_program_that_never_steps_is_told_from_a_tool_that_leaves_no_file():
    missing = ["rank0_x*.steps.json", "rank1_x*.steps.json", "rank0_x*.svg"]
    reason = judge_capture(ProcessEnd(exit_code=0), 60, None, missing).reason
    assert reason == "no step was seen on rank0_x, rank1_x: the program ended before it made one"


def test_out_of_memory_says_what_to_do():
    reason = judge_capture(ProcessEnd(exit_code=1), 60, Failure(summary=CUDA), []).reason
    assert reason == f"{CUDA}; lower batch or the model's sizes"
    more = f"{CUDA}. GPU 0 has a total capacity of 79 GiB of which 166.19 MiB is free."
    rest = (
        " Including non-PyTorch memory, this process has 79.01 GiB memory in use. Of the rest ..."
    )
    reason = judge_capture(ProcessEnd(exit_code=1), 60, Failure(summary=more + rest), []).reason
    assert reason == f"{more.rstrip('.')}; lower batch or the model's sizes"
    helps = what_helps(tool_named("torch_profiler")())
    stopped = ProcessEnd(exit_code=-9, stopped="no memory is left")
    reason = judge_capture(stopped, 60, None, [], helps).reason
    assert reason.startswith("no memory is left; mark shorter steps with `profkit.step()`")
    assert reason.endswith(", or lower batch or the model's sizes")
    assert what_helps(tool_named("baseline")()) == "lower batch or the model's sizes"


def test_a_timeout_is_one_whatever_the_exit_status():
    outcome = judge_capture(ProcessEnd(exit_code=-9, timed_out=True), 60, None, [])
    assert outcome.status == "timeout"
    assert outcome.reason.startswith("not finished after 60 s")


def test_every_rank_must_leave_what_the_tool_promises(tmp_path):
    class Profiler(Tool):
        outputs = ("*.trace.json",)

    for name in ("rank0_x.steps.json", "rank0_x.7.trace.json", "rank1_x.steps.json"):
        (tmp_path / name).touch()
    missing = missing_files(Profiler(), tmp_path, {"rank0_x": True, "rank1_x": True})
    assert missing == ["rank1_x*.trace.json"]


def test_what_was_recorded_is_kept_of_a_program_that_failed_or_was_killed():
    ended = Outcome(status="error", reason="killed by signal 11 (SIGSEGV)")
    rank = Rank(rank=0, world_size=1, local_rank=0)
    assert is_kept(ended, [], [rank])
    assert not is_kept(ended, ["*.json"], [rank])
