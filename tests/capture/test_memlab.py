"""memlab with the real pytorch_memlab where it is installed, over counters that stand in for CUDA.

There is no GPU here: what PyTorch would count is counted by the program itself.
"""

import json
import subprocess

import pytest

from profkit.capture.base import distribution_version
from profkit.capture.memlab import Capture
from profkit.convert.base import Raw
from profkit.convert.memlab import convert
from profkit.core.errors import InputError
from tests.warm_ranks import warm_rank_python

PROGRAM = """
import contextlib, sys
from pathlib import Path
import torch

now, peak, allocated, freed = 0, 0, 0, 0

def allocate(size):
    global now, peak, allocated
    now += size
    allocated += size
    peak = max(peak, now)

def free(size):
    global now, freed
    now -= size
    freed += size

def stats():
    counted = {"active_bytes.all.peak": peak, "reserved_bytes.all.peak": 2 * peak}
    counted |= {"allocated_bytes.all.allocated": allocated, "allocated_bytes.all.freed": freed}
    return counted | {"num_alloc_retries": 0, "num_ooms": 0}

def reset_peak():
    global peak
    peak = now

def reset_sums():
    global allocated, freed
    allocated = freed = 0

cuda = torch.cuda
cuda.is_available, cuda.current_device = (lambda: True), (lambda: 0)
cuda.device, cuda.empty_cache, cuda.memory_stats = contextlib.nullcontext, (lambda: None), stats
cuda.reset_peak_memory_stats, cuda.reset_accumulated_memory_stats = reset_peak, reset_sums

def inner():
    allocate(30)
    free(30)

class Model:
    def forward(self, size):
        allocate(size)  # line one
        inner()  # line two
        return free(size)  # line three

from profkit.capture.base import Rank
from profkit.capture.memlab import Capture

names = ("__main__:Model.forward", "__main__:inner", "__main__:absent", "nowhere:f")
settings = Capture(functions=names, first_step=1, steps=1)
with settings.record(Path(sys.argv[1]), Rank()) as recorder:
    recorder.begin()
    for size in (900, 100, 700):
        Model().forward(size)
        recorder.step()
"""


@pytest.fixture
def recorded(tmp_path):
    if not distribution_version("pytorch_memlab"):
        pytest.skip("pytorch_memlab is not installed: pip install pytorch_memlab")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [warm_rank_python(), str(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path / "rank0_dp0_tp0_pp0.memlab.json"


def test_lines_of_the_functions_in_the_window_have_their_peaks(recorded, tmp_path):
    raw = Raw(path=recorded, label="rank0_dp0_tp0_pp0", rank=0, repeat=0)
    converted = convert.run(raw, tmp_path)
    rows = converted.tables["memory_lines"].to_pylist()
    counted = ("peak_bytes", "reserved_peak_bytes", "allocated_bytes", "freed_bytes")
    # Of the second step alone, and a line has what the function that it calls needed.
    assert {row["code"]: tuple(row[name] for name in counted) for row in rows if row["code"]} == {
        "def forward(self, size):": (0, 0, 0, 0),
        "allocate(size)  # line one": (100, 200, 100, 0),
        "inner()  # line two": (130, 260, 30, 30),
        "return free(size)  # line three": (100, 200, 0, 100),
        "def inner():": (100, 200, 0, 0),
        "allocate(30)": (130, 260, 30, 0),
        "free(30)": (130, 260, 0, 30),
    }
    assert {row["device"] for row in rows} == {"cuda:0"}
    assert converted.notes == (
        "There is no Python function __main__:absent: check tools.memlab.functions.",
        "There is no Python function nowhere:f: check tools.memlab.functions.",
    )


def test_without_the_package_or_a_device_the_reason_is_told():
    (trouble,) = Capture.problems()
    if Capture.version():
        assert "sees no CUDA device" in trouble.what
    else:
        assert trouble.what == "pytorch_memlab is not installed"
        assert trouble.advice == "pip install pytorch_memlab"
    assert Capture.unavailable_reason()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "no function is named: tools.memlab.functions="),
        ({"functions": ("forward",)}, "'forward' is not module:function"),
        ({"functions": ("a:b",), "first_step": 8}, "the window ends after step 8"),
        ({"functions": ("a:b",)}, ""),
    ],
)
def test_settings_that_record_nothing_are_refused(settings, reason):
    problem = Capture(**settings).check(8)
    assert problem.startswith(reason)
    assert bool(problem) == bool(reason)


def test_a_file_of_another_kind_is_named(tmp_path):
    path = tmp_path / "rank0_dp0_tp0_pp0.memlab.json"
    path.write_text(json.dumps({"traceEvents": []}))
    with pytest.raises(InputError, match="not what memlab left") as caught:
        convert.run(Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0), tmp_path)
    assert str(path) in str(caught.value)
