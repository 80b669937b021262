"""The last line of each rank, although all ranks and their launcher print into one log."""

import signal
import subprocess
import sys
import uuid
from contextlib import closing

import pytest

from profkit.capture.harness.record import bounded_log, last_words

PROGRAM = """
import os, signal, sys, types
from pathlib import Path
from profkit.capture.harness.record import last_words

print("before it is a rank", flush=True)
rank = types.SimpleNamespace(label=sys.argv[3])
last_words.hand_over(Path(sys.argv[1]), sys.argv[2], rank)
print("ready", file=sys.stderr, flush=True)
exec(sys.argv[4])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def capture(tmp_path):
    """Return the log of a capture, and a function that starts a rank in it and waits for it."""
    log, token = tmp_path / "capture.log", uuid.uuid4().hex

    def rank(label, act):
        with log.open("ab") as output:
            words = [sys.executable, "-c", PROGRAM, str(tmp_path), token, label, act]
            status = subprocess.run(words, stdout=output, stderr=output, check=False).returncode
            assert status == -signal.SIGKILL, log.read_text()

    with closing(last_words.Listener(token)) as listener:
        yield log, listener, rank


def test_each_rank_is_quoted_and_neither_its_launcher_nor_the_one_that_noticed(capture):
    log, listener, rank = capture
    rank("rank1_dp1_tp0_pp0", "os.system('echo no shard 7 >&2; echo \"USDT:x] profiler_start\"')")
    rank("rank0_dp0_tp0_pp0", "print('Connection closed by peer', flush=True)")
    rank("rank2_dp2_tp0_pp0", "os.dup2(os.open(os.devnull, os.O_WRONLY), 1); os.close(2)")
    with log.open("a") as output:
        output.write("E1124 torch: failed (exitcode: -9)\n")
    listener.write(log)
    assert last_words.collect(log.parent) == {
        "rank0_dp0_tp0_pp0": "Connection closed by peer",
        "rank1_dp1_tp0_pp0": "no shard 7",
        "rank2_dp2_tp0_pp0": "ready",
    }
    assert list(log.parent.iterdir()) == [log]
    assert log.read_text().splitlines()[2] == "no shard 7", "the log has everything, in its order"


def test_nothing_is_quoted_of_a_log_that_was_shortened(capture, monkeypatch):
    log, listener, rank = capture
    rank("rank0_dp0_tp0_pp0", "")
    monkeypatch.setattr(bounded_log, "TAIL_BYTES", 1)
    listener.write(log)
    assert last_words.collect(log.parent) == {}
