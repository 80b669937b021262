"""Ranges that outlive their recording, in a process of its own: PyTorch alone crashes there."""

import subprocess

from tests.warm_ranks import warm_rank_python

PROGRAM = """
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from profkit.capture.harness.ranks.recording import step_markers

step_markers()

@torch.jit.script
def scripted(x):
    with record_function("scripted"):
        return x + 1

cpu = {"activities": [ProfilerActivity.CPU]}
for _ in range(20):
    with profile(**cpu, profile_memory=True, record_shapes=True):
        [scripted(torch.ones(2)) for _ in range(50)]
        outer, inner = record_function("outer"), record_function("inner")
        outer.__enter__(), inner.__enter__()
        with record_function("closed") as again:
            torch.ones(2).sum()
    with profile(**cpu) as later:
        inner.__exit__(None, None, None)
        outer.__exit__(None, None, None)
        with again, record_function("new"):
            torch.ones(2).sum()
print({row.key: row.count for row in later.key_averages() if "::" not in row.key})
"""


def test_ranges_that_end_in_a_later_recording_harm_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [warm_rank_python(), str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout == "{'closed': 1, 'new': 1}\n", result.stderr[-2000:]
