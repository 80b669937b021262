"""Lines that are written at once, and let no other thread go on."""

import errno
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from profkit.capture.harness.ranks.held_lines import HeldLines


def test_what_is_written_is_there_at_once_and_replaces_an_earlier_file(tmp_path):
    path = tmp_path / "lines"
    path.write_text("what was before\n" * 9)
    with closing(HeldLines(path)) as lines:
        lines.write("1\n")
        assert path.read_text() == "1\n"
        lines.write("zwei ä 2\n")
    assert path.read_text() == "1\nzwei ä 2\n"


def test_no_other_thread_goes_on_while_lines_are_written(tmp_path):
    def count():
        while not is_over:
            time.sleep(0)
            counted.append(None)

    is_over, counted = [], []
    interval_s = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    try:
        with closing(HeldLines(tmp_path / "lines")) as lines:
            # Only who lets go of the interpreter loses it then.
            sys.setswitchinterval(60)
            before = len(counted)
            for number in range(1000):
                lines.write(f"{number}\n")
            after = len(counted)
    finally:
        sys.setswitchinterval(interval_s)
        is_over.append(True)
        thread.join()
    assert counted
    assert after == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is a file of Linux")
def test_a_full_disk_is_an_error_as_of_other_files():
    with (
        closing(HeldLines(Path("/dev/full"))) as lines,
        pytest.raises(OSError, match="No space") as failed,
    ):
        lines.write("1\n")
    assert failed.value.errno == errno.ENOSPC
