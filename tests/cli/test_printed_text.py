"""What profkit itself prints has no control characters, and what a program prints is left alone."""

import io
import os
import signal
import subprocess
import sys

import pytest
from rich.table import Table

from profkit.cli.printed_text import printed_text
from profkit.cli.terminal import Terminal

HOSTILE = "a\x1b[31m\x00\x07\x7f\x9bb\u202ec"
SAFE = "a b c"


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_text_is_cleaned_and_bytes_are_not(capfdbinary, name):
    with printed_text():
        stream = getattr(sys, name)
        stream.write(f"{HOSTILE}\tx\n")
        stream.writelines([f"{HOSTILE}\n"])
        print(HOSTILE, file=stream)
        stream.flush()
        stream.buffer.write(b"\x1b[0m\n")
        stream.flush()
    assert getattr(sys, name) is not stream
    expected = f"{SAFE}\tx\n{SAFE}\n{SAFE}\n".encode() + b"\x1b[0m\n"
    assert getattr(capfdbinary.readouterr(), name[3:]) == expected


def test_a_job_in_a_fork_of_a_command_cleans_once():
    with printed_text():
        outer = sys.stdout
        with printed_text():
            assert sys.stdout is outer


def test_a_table_may_have_colors_and_its_words_have_none():
    stream = io.StringIO()
    terminal = Terminal(
        stream, markup=False, width=60, force_terminal=True, color_system="standard"
    )
    table = Table("head")
    table.add_row(HOSTILE)
    terminal.print(table)
    printed = stream.getvalue()
    assert "\x1b[1m" in printed
    assert f" {SAFE} " in printed
    assert not {"\x1b[31m", "\x9b"} & {
        printed[at : at + width] for width in (1, 5) for at in range(len(printed))
    }


@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        (">&-", 1, "profkit: the standard output is closed\n  hint: >/dev/null hides it\n"),
        ("2>&-", 0, "profkit "),
        ("<&-", 0, "profkit "),
    ],
)
def test_a_closed_stream_is_no_crash(closed, status, said):
    command = f'"$0" -m profkit --version {closed}'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable], check=False, capture_output=True, text=True
    )
    assert ended.returncode == status
    assert (ended.stdout + ended.stderr).startswith(said)
    assert "Traceback" not in ended.stderr


def test_a_table_whose_reader_has_gone_ends_as_other_commands_do():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "profkit", "list"]
    ended = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")
