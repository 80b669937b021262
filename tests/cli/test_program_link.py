"""The terminal of the person who waits for a program."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from profkit.capture.harness.foreground import Foreground
from profkit.cli.live import View
from profkit.cli.program_link import linked_program
from tests.waiting import until


def printed(link, length):
    found = b""
    while len(found) < length:
        found += link.take()
        time.sleep(0.01)
    return found


def test_what_programs_print_arrives_one_after_the_other():
    with linked_program() as link:
        for text in (b"first \xff\n", b"second"):
            Path(Foreground.of(link.variables).output).write_bytes(text)
            assert printed(link, len(text)) == text
        assert link.take() == b""


def test_what_pytorch_says_of_the_profiler_is_not_shown():
    started = (
        b"USDT:2026-11-28 08:21:28 264:264 SyncActivityProfilerHandler.cpp:52] profiler_start\n"
    )
    block = b"Memory block of unknown size was allocated before the profiling started, so\n"
    warned = b"[W1128 08:21:28.268778936 CPUAllocator.cpp:245] " + block
    begun = b"ERROR: External init callback must run in same thread as registerClient (1 != -2)\n"
    other = b"[W1128 08:21:28.268778936 nnpack.cpp:80] Could not initialize NNPACK\n"
    with linked_program() as link:
        output = Path(Foreground.of(link.variables).output)
        output.write_bytes(b"loss 1\n" + started + begun + warned[:70])
        assert printed(link, 7) == b"loss 1\n"
        output.write_bytes(warned[70:] + other + b"epoch 2: ")
        shown = other + b"epoch 2: "
        assert printed(link, len(shown)) == shown


@pytest.mark.parametrize("text", [b"half a line", b"a line\n"])
def test_what_follows_a_program_begins_a_line(capfd, text, tmp_path):
    with linked_program() as link:
        Path(Foreground.of(link.variables).output).write_bytes(text)
        with View(verbose=False, link=link) as view:
            until(lambda: link.printed)
            view.show(tmp_path / "events", SimpleNamespace(total=0, captures=0))
        sys.stdout.write("the answer\n")
    assert capfd.readouterr().out == f"{text.decode().rstrip()}\nthe answer\n"


def test_quiet_hides_what_a_program_prints(capfd, tmp_path):
    with linked_program() as link:
        Path(Foreground.of(link.variables).output).write_bytes(b"loss 1.0")
        with View(verbose=False, quiet=True, link=link) as view:
            until(lambda: link.printed)
            view.show(tmp_path / "events", SimpleNamespace(total=0, captures=0))
    assert not link.printed
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("signum", "ends_all"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_ends_the_program_and_the_next_one_all(capsys, signum, ends_all):
    before = signal.getsignal(signum)
    with linked_program() as link:
        foreground = Foreground.of(link.variables)
        assert not foreground.is_to_end
        os.kill(os.getpid(), signum)
        assert foreground.is_to_end
        assert link.ended_by == signum
        assert "the report is made of what was recorded" in capsys.readouterr().err
        os.kill(os.getpid(), signum)  # at once, as of `timeout`: the same one
        link.ended_s -= 1
        with pytest.raises(ends_all):
            os.kill(os.getpid(), signum)
    assert signal.getsignal(signum) == before


def test_input_is_passed_on_from_a_terminal_alone(monkeypatch):
    with linked_program() as link:
        assert Foreground.of(link.variables).input == os.devnull
        monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 0)
        monkeypatch.setattr(os, "ttyname", lambda descriptor: f"/dev/pts/{descriptor}")
        assert Foreground.of(link.variables).input == "/dev/pts/0"
