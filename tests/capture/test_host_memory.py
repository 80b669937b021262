"""memray runs each rank from its beginning."""

import re
import sys
from pathlib import Path

import pytest

from profkit.capture.base import Rank
from profkit.capture.host_memory import Capture

WORKLOAD = ["/bin/python", "-m", "profkit.capture.harness.rank"]
OUTPUT = "--output=/out/rank0_dp0_tp0_pp0.memray.bin"


def test_it_writes_the_peak_unless_told_to_keep_everything():
    command = ["memray", "run", "--quiet", OUTPUT, "--aggregate", *WORKLOAD[1:]]
    assert Capture().command(WORKLOAD, Path("/out"), Rank()) == command


def test_every_setting_becomes_its_flag():
    tool = Capture(keep="all", native=True, python_allocators=True, extra=("--follow-fork",))
    flags = ["--native", "--trace-python-allocators", "--follow-fork"]
    command = ["memray", "run", "--quiet", OUTPUT, *flags, *WORKLOAD[1:]]
    assert tool.command(WORKLOAD, Path("/out"), Rank()) == command


def test_it_says_which_version_is_installed():
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", Capture.version())


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ([sys.executable, "train.py"], True),
        ([sys.executable, "-m", "pkg.train"], True),
        ([sys.executable, "-u", "train.py"], False),
        (["bash", "train.sh"], False),
        (["/opt/other/bin/python", "train.py"], False),
    ],
)
def test_only_a_script_of_the_same_python_can_be_looked_at_in_a_command(words, fits):
    assert (Capture().unfit_command(words) == "") == fits
