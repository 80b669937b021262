import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.capture import base
from profkit.capture.base import Rank
from profkit.capture.harness.machine import permissions
from profkit.capture.py_spy import Capture
from tests.waiting import LIMIT_S, until

OUT = Path("/out")
FIXED = ["--format=speedscope", "--output=/out/rank1_dp1_tp0_pp0.speedscope.json"]
RANK = Rank(rank=1, dp=1, world_size=2)
PROGRAM = [sys.executable, "-m", "profkit.capture.py_spy"]


def test_the_default_command_samples_a_hundred_times_a_second():
    flags = [*FIXED, "--rate=100"]
    command = Capture().command(["python", "x.py"], OUT, RANK)
    assert command == [*PROGRAM, "record", *flags, "--", "python", "x.py"]
    later = [["py-spy", "record", *flags, "--pid", "PID"]]
    assert Capture().later_commands(OUT, RANK) == later


def test_every_setting_becomes_its_flag():
    tool = Capture(
        rate=250,
        native=True,
        subprocesses=True,
        nonblocking=True,
        gil=True,
        idle=True,
        threads=True,
        function=True,
        full_filenames=True,
        extra=("--duration=3",),
    )
    flags = ["--native", "--subprocesses", "--nonblocking", "--gil", "--idle", "--threads"]
    flags += ["--function", "--full-filenames", "--duration=3"]
    expected = [*PROGRAM, "record", *FIXED, "--rate=250", *flags, "--", "python"]
    assert tool.command(["python"], OUT, RANK) == expected


def test_dumps_are_taken_by_a_parent_of_the_rank():
    tool = Capture(mode="dump", dump_period_s=2, native=True, gil=True, full_filenames=True)
    flags = ["--out=/out/rank1_dp1_tp0_pp0", "--period-s=2", "--flag=--native", "--only=active"]
    flags += ["--only=owns_gil", "--filename=filename", "--", "python", "x.py"]
    assert tool.command(["python", "x.py"], OUT, RANK) == [*PROGRAM, "dump", *flags]


WAITING = """
import sys, threading, time
def nap():
    time.sleep(60)
threading.Thread(target=nap, daemon=True, name="napper").start()
def spin():
    end = time.time() + 1.5
    while time.time() < end:
        sum(range(1000))
spin()
sys.exit(7)
"""


@pytest.mark.parametrize(("only", "seen"), [((), {"nap", "spin"}), (("active",), {"spin"})])
def test_dumps_of_a_real_process_show_its_threads_and_keep_its_status(tmp_path, only, seen):
    flags = [
        f"--out={tmp_path / 'rank0'}",
        "--period-s=0.3",
        *(f"--only={state}" for state in only),
    ]
    program = [*PROGRAM, "dump", *flags, "--"]
    done = subprocess.run([*program, sys.executable, "-c", WAITING], check=False)
    assert done.returncode == 7
    document = json.loads((tmp_path / "rank0.speedscope.json").read_text())
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert seen == {"nap", "spin"} & set(names)
    (main,) = [profile for profile in document["profiles"] if "MainThread" in profile["name"]]
    assert 0 < sum(main["weights"]) == main["endValue"]
    assert [names[frame] for frame in main["samples"][-1]][-2:] == ["<module>", "spin"]
    lines = (tmp_path / "rank0.dumps.jsonl").read_text().splitlines()
    assert len(lines) >= len(main["samples"]) > 0


ENDS = {
    "": 0,
    "os._exit(0)": 0,
    "os._exit(3)": 3,
    "sys.exit(3)": 3,
    "raise ValueError": 1,
    "os.abort()": 128 + signal.SIGABRT,
    **{
        f"os.kill(os.getpid(), {int(number)})": 128 + number
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1)
    },
}


@pytest.mark.parametrize("mode", ["record", "dump"])
@pytest.mark.parametrize("last", ENDS)
def test_the_exit_status_is_that_of_the_program_however_it_ended(tmp_path, mode, last):
    options = {
        "record": ["--format=speedscope", f"--output={tmp_path}/x"],
        "dump": [f"--out={tmp_path}/x", "--period-s=9"],
    }
    # Long enough for the recorder to find it on a busy machine.
    code = f"import os, sys, time; time.sleep(0.5); {last}"
    command = [*PROGRAM, mode, *options[mode], "--", sys.executable, "-c", code]
    assert subprocess.run(command, check=False, timeout=LIMIT_S).returncode == ENDS[last]


def test_a_program_that_outlasts_the_recording_is_not_ended_with_it(tmp_path):
    options = ["--format=speedscope", f"--output={tmp_path}/x", "--duration=1"]
    code = "import sys, time; time.sleep(2); sys.exit(7)"
    command = [*PROGRAM, "record", *options, "--", sys.executable, "-c", code]
    assert subprocess.run(command, check=False, timeout=LIMIT_S).returncode == 7
    assert (tmp_path / "x").is_file()


def test_a_program_that_cannot_be_started_is_said(tmp_path):
    options = ["--format=speedscope", f"--output={tmp_path}/x"]
    command = [*PROGRAM, "record", *options, "--", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (127, f"[Errno 13] Permission denied: '{tmp_path}'\n")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_program_once(tmp_path, signum):
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(signum)}, lambda *_: sys.exit(5))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(60)"
    )
    options = ["--format=speedscope", f"--output={tmp_path}/x"]
    process = subprocess.Popen([*PROGRAM, "record", *options, "--", sys.executable, "-c", code])
    until((tmp_path / "ready").exists)
    process.send_signal(signum)
    assert process.wait(LIMIT_S) == 5


# Hears of signals a second after it has started the program.
SLOW = """
import os, signal, sys, time
from profkit.capture import py_spy
install, own = signal.signal, os.getpid()
def late(signum, handler):
    if os.getpid() == own:
        time.sleep(1)
    return install(signum, handler)
signal.signal = late
sys.exit(py_spy.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ["record", "dump"])
def test_a_signal_as_soon_as_the_program_runs_reaches_it(tmp_path, mode):
    options = {
        "record": ["--format=speedscope", f"--output={tmp_path}/x"],
        "dump": [f"--out={tmp_path}/x", "--period-s=9"],
    }
    program = [
        "bash",
        "-c",
        f"trap 'exit 5' TERM; touch {tmp_path}/ready; for _ in {{1..600}}; do sleep 0.1; done",
    ]
    command = [sys.executable, "-c", SLOW, mode, *options[mode], "--", *program]
    process = subprocess.Popen(command)
    until((tmp_path / "ready").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 5


def test_it_says_when_the_binary_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(base.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Capture.unavailable_reason() == "py-spy is not installed; pip install py-spy"


@pytest.mark.parametrize(("scope", "reason"), [(1, ""), (3, "kernel.yama.ptrace_scope is 3")])
def test_it_says_when_the_kernel_forbids_tracing(monkeypatch, scope, reason):
    monkeypatch.setattr(permissions, "ptrace_scope", lambda _: scope)
    assert Capture.unavailable_reason().partition(",")[0] == reason


def test_it_says_which_version_is_installed():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", Capture.version())


def test_each_of_two_ranks_is_sampled_while_it_trains(capture, tmp_path):
    made = capture("py_spy", tmp_path, {})
    assert made.record["status"] == "ok", made.told
    for rank in (0, 1):
        path = made.folder / f"rank{rank}_dp{rank}_tp0_pp0.speedscope.json"
        recorded = json.loads(path.read_text())
        assert sum(len(profile["samples"]) for profile in recorded["profiles"]) > 10
        names = {frame["name"] for frame in recorded["shared"]["frames"]}
        assert "train" in names


def test_the_samples_of_a_whole_command_are_shared_out_to_its_ranks(tmp_path):
    names = [f"Process {number} Thread {number} {number}" for number in (7, 11, 12, 11)]
    parts = [{"name": name} for name in names]
    first = Rank(world_size=2)
    (tmp_path / f"{first.label}.speedscope.json").write_text(json.dumps({"profiles": parts}))
    ranks = {11: first, 12: Rank(rank=1, world_size=2, dp=1)}
    assert Capture().share_out(tmp_path, first, ranks) == list(ranks.values())
    shared = [
        json.loads((tmp_path / f"{rank.label}.speedscope.json").read_text())["profiles"]
        for rank in ranks.values()
    ]
    assert shared == [[parts[1], parts[3]], [parts[2]]]
