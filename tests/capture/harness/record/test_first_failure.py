"""Who failed first: by the errors of ranks, the summaries of launchers, and the log."""

import os

import pytest

from profkit.capture.base import Rank
from profkit.capture.harness.record.first_failure import (
    ExitStatus,
    Failure,
    first_failure,
    refused_option,
)
from profkit.capture.harness.record.rank_errors import write_error
from profkit.core.secret_masking import Masker

RANKS = [Rank(rank=number, world_size=2, dp=number) for number in (0, 1)]
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2205"
TORCHRUN = """
raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  time      : 2026-11-23_18:20:36
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 6747)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_18:20:36
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 6748)  ({name})
"""
DEEPSPEED = (
    "[ERROR] [launch.py:259:sigkill_handler] ['/v/bin/python', '-m', 'x', '--local_rank=1'] exits"
    " with return code = {code}\n"
)


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("summary", [TORCHRUN, DEEPSPEED])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "killed by signal 9 (SIGKILL)"),
        (-11, "killed by signal 11 (SIGSEGV)"),
        (134, "killed by signal 6 (SIGABRT)"),
        (3, "exit status 3, without an error of its own"),
    ],
)
def test_a_rank_that_died_is_named_and_not_the_one_that_noticed(
    tmp_path, summary, code, words, noticed
):
    (tmp_path / "capture.log").write_text(summary.format(code=code, name="..."))
    if noticed:
        write_error(tmp_path, RANKS[0], LOST, "")
    failure = first_failure(tmp_path, RANKS, ExitStatus(1), "", {})
    assert failure.summary == f"rank1_dp1_tp0_pp0: {words}"
    assert failure.signum == {-9: 9, -11: 11, 134: 6}.get(code, 0)


def test_the_last_line_of_the_rank_that_died_is_quoted_and_of_no_other(tmp_path):
    (tmp_path / "capture.log").write_text("loss 1.0\n")
    (tmp_path / "capture.node1.log").write_text(TORCHRUN.format(code=-6, name="SIGABRT"))
    said = {"rank0_dp0_tp0_pp0": LOST, "rank1_dp1_tp0_pp0": "lost the mount /data"}
    found = first_failure(tmp_path, RANKS, ExitStatus(1), "", said).summary
    died = "rank1_dp1_tp0_pp0: killed by signal 6 (SIGABRT)"
    assert found == f"{died}; the last line that it printed: lost the mount /data"
    del said["rank1_dp1_tp0_pp0"]
    assert first_failure(tmp_path, RANKS, ExitStatus(1), "", said).summary == died


def test_an_error_counts_before_a_connection_that_was_lost_earlier(tmp_path):
    write_error(tmp_path, RANKS[0], LOST, "")
    write_error(tmp_path, RANKS[1], "ValueError: boom:\n  more", "Traceback ...")
    os.utime(tmp_path / "rank0_dp0_tp0_pp0.error.txt", (0, 0))
    failure = first_failure(tmp_path, RANKS, ExitStatus(1), "", {})
    assert failure.summary == "rank1_dp1_tp0_pp0: ValueError: boom: more"
    assert "Traceback ..." in failure.details


def test_the_error_that_came_first_is_the_reason_although_others_died_of_it(tmp_path):
    (tmp_path / "capture.log").write_text(TORCHRUN.format(code=-6, name="SIGABRT"))
    write_error(tmp_path, RANKS[0], "ValueError: boom", "")
    assert first_failure(tmp_path, RANKS, ExitStatus(1), "", {}).summary.endswith(
        "ValueError: boom"
    )


def test_what_no_encoding_can_hold_is_no_full_disk(tmp_path):
    write_error(tmp_path, RANKS[0], "ValueError: bad \ud800 text", "line \udcff")
    failure = first_failure(tmp_path, RANKS, ExitStatus(1), "", {})
    assert failure.summary == r"rank0_dp0_tp0_pp0: ValueError: bad \ud800 text"


def test_a_rank_that_could_not_write_what_it_failed_of_had_no_room(tmp_path):
    (tmp_path / "rank0_dp0_tp0_pp0.error.txt").touch()
    summary = first_failure(tmp_path, RANKS, ExitStatus(1), "", {}).summary
    assert summary.startswith("rank0_dp0_tp0_pp0: no space was left on the disk")


@pytest.mark.parametrize(
    ("log", "summary"),
    [
        (
            (
                "/usr/bin/python3: Error while finding module specification for 'profkit.capture'"
                " (ModuleNotFoundError: No module named 'profkit')"
            ),
            (
                "/usr/bin/python3 has no profkit; /usr/bin/python3 -m pip install profkit, or"
                " choose another Python: launcher.python"
            ),
        ),
        (
            "RuntimeError: Error downloading a.gz:\n\nTried https://a.org,\nhttps://b.org\nBye\n",
            "exit status 2: RuntimeError: Error downloading a.gz: Tried https://a.org, https://b.org",
        ),
        (
            "Traceback (most recent call last):\n  File ...\nValueError: unknown flag: --x\n",
            "exit status 2: ValueError: unknown flag: --x",
        ),
        (
            "torch.distributed.DistNetworkError: port: 29500, EADDRINUSE",
            (
                "exit status 2: torch.distributed.DistNetworkError: port: 29500, EADDRINUSE; end"
                " the program that uses the port, or choose another port"
            ),
        ),
        (
            "Traceback:\n  ...\nModuleNotFoundError: No module named 'torch'",
            "exit status 2: ModuleNotFoundError: No module named 'torch'",
        ),
        ("Collecting data...\nNo such GPU: 0\n\n", "exit status 2: No such GPU: 0"),
        ("Killed by an operator\n********\n", "exit status 2: Killed by an operator"),
        ("", "exit status 2: it printed nothing"),
    ],
)
def test_a_program_before_the_ranks_is_quoted_whole(tmp_path, log, summary):
    (tmp_path / "capture.log").write_text(log)
    assert first_failure(tmp_path, RANKS, ExitStatus(2), "", {}).summary == summary


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("RuntimeError: Distributed package doesn't have NCCL built in", "has no NCCL: install"),
        ("DistNetworkError: address already in use", "end the program that uses the port"),
    ],
)
def test_what_can_be_done_is_told(tmp_path, error, advice):
    write_error(tmp_path, RANKS[0], error, "")
    assert advice in first_failure(tmp_path, RANKS, ExitStatus(1), "", {}).summary


@pytest.mark.parametrize(
    ("summary", "signum", "expected"),
    [
        ("KeyError: 'data'", 0, True),
        ("exit status 2: unknown flag", 0, True),
        ("killed by signal 11", 11, False),
        (LOST, 0, False),
        ("OSError: [Errno 28] No space left on device", 0, False),
        ("DistNetworkError: EADDRINUSE", 0, False),
        ("urllib3.exceptions.ReadTimeoutError: hub", 0, False),
        ("OSError: We couldn't connect to 'https://hub'", 0, False),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", 0, False),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", 0, False),
        ("ProcessExitedException: process 1 terminated with signal SIGSEGV", 0, False),
        ("KeyboardInterrupt", 0, False),
        ("MemoryError", 0, True),
        ("ValueError: the host signal is unreachable code", 0, True),
    ],
)
def test_what_passes_by_is_told_from_what_repeats(summary, signum, expected):
    assert Failure(summary=summary, signum=signum).would_repeat is expected


def test_a_capture_that_went_well_has_no_failure(tmp_path):
    (tmp_path / "capture.log").write_text("ValueError: caught\n")
    assert first_failure(tmp_path, RANKS, ExitStatus(0), "", {}) is None


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
    assert refused_option(log, ["nsys", "--foo=1"]) == f"the tool refused an option: {said}"
    # A program of the user's may refuse one of its own.
    assert not refused_option(log, ["nsys", "--trace=cuda", "--foot"])
    assert not refused_option(log, [])


def test_a_log_without_refusals_tells_of_none(tmp_path):
    log = tmp_path / "capture.log"
    log.write_text("CUDA error: invalid argument\nloss 3.1\n")
    assert not refused_option(log, ["nsys", "--foo"])


def test_a_rank_that_only_gave_a_status_is_quoted_by_what_it_printed(tmp_path):
    said = "train.py: error: the following arguments are required: --lr"
    lines = TORCHRUN.format(code=2, name="") + "line of torchrun\n" * 60
    (tmp_path / "capture.log").write_text(f"usage: train.py [-h]\n{said}\n{lines}")
    write_error(tmp_path, RANKS[1], "exit status 2", "")
    summary = first_failure(tmp_path, RANKS, ExitStatus(1), "", {}).summary
    assert summary == f"rank1_dp1_tp0_pp0: exit status 2: {said}"


def test_the_frames_of_a_traceback_within_an_error_are_left_out_of_its_line(tmp_path):
    inner = """Traceback (most recent call last):
  File "/v/torch/utils/data/_utils/worker.py", line 374, in _worker_loop
    data = fetcher.fetch(index)
           ^^^^^^^^^^^^^^^^^^^^
ValueError: sample 40 is damaged
"""
    text = f"ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal {inner}"
    write_error(tmp_path, RANKS[0], text, f"Traceback\n{text}")
    failure = first_failure(tmp_path, RANKS, ExitStatus(1), "", {})
    assert failure.summary == (
        "rank0_dp0_tp0_pp0: ValueError: Caught ValueError in DataLoader worker process 0."
        " ValueError: sample 40 is damaged"
    )
    assert "_worker_loop" in failure.details


def test_an_error_of_any_length_is_kept_with_its_ends_and_its_size(tmp_path):
    text = "ValueError: " + "A" * 5_000_000 + " the last words"
    write_error(tmp_path, RANKS[0], text, f"Traceback\n{text}")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 200_000
    failure = first_failure(tmp_path, RANKS, ExitStatus(1), "", {})
    assert failure.summary.startswith("rank0_dp0_tp0_pp0: ValueError: AAA")
    assert "of 5,000,027 characters left out ...]" in failure.summary
    assert failure.summary.endswith("A the last words")
    assert failure.details.rstrip().endswith("A the last words")


def test_a_secret_in_a_long_error_is_masked_wherever_the_error_is_cut(tmp_path):
    for before in range(40):
        text = "x" * before + " api_key=Secret(value='hunter2') --token hunter2" * 9_000
        write_error(tmp_path, RANKS[0], text, text)
        (path,) = tmp_path.iterdir()
        # Half of the word says nothing; the harness masks what stands in the file with its name.
        assert "hunter2" not in Masker({}).text(path.read_text())


def test_a_rank_whose_end_a_tool_hides_is_named_and_not_the_one_that_noticed(tmp_path):
    write_error(tmp_path, RANKS[0], LOST, "")
    named = first_failure(
        tmp_path, RANKS[:2], ExitStatus(1), "", {RANKS[1].label: "step 3"}
    ).summary
    assert named.startswith(f"{RANKS[1].label}: ended before the others, without an error")
    assert "the last line that it printed: step 3; then rank0" in named
    # Of several that wrote none it is not known which was first.
    assert first_failure(
        tmp_path, [*RANKS[:2], RANKS[1]], ExitStatus(1), "", {}
    ).summary.startswith("rank0")


def test_an_absent_host_goes_before_the_connections_that_it_broke(tmp_path):
    write_error(tmp_path, RANKS[0], LOST, "")
    absent = "host 1 of 2 (counted from 0) did not report"
    assert first_failure(tmp_path, RANKS, ExitStatus(1), absent, {}).summary == absent
    assert "Connection closed" in first_failure(tmp_path, RANKS, ExitStatus(1), "", {}).summary


@pytest.mark.parametrize("code", [130, 137, 143, 134])
def test_a_program_may_end_with_the_status_of_a_signal(tmp_path, code):
    """A shell ends with it for a process that was killed; one that came to its end chose it."""
    for ranks in (RANKS, RANKS[:1], []):
        log = TORCHRUN.format(code=code, name="...") if len(ranks) > 1 else "loss 1.0"
        (tmp_path / "capture.log").write_text(log)
        shells, own = (
            first_failure(tmp_path, ranks, ExitStatus(code, is_of_program=is_own), "", {})
            for is_own in (False, True)
        )
        assert "killed by signal" in shells.summary
        assert shells.signum == code - 128
        assert f"exit status {code}" in own.summary
        assert own.signum == 0
