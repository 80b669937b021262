"""A script of a user's that really runs out of memory: what is kept, and what is told."""

import json
import resource
import textwrap

import pytest

from profkit.convert.memory_snapshot import snapshot
from profkit.convert.memory_snapshot.tables import live_at_peak

# Evaluates with gradients and keeps every output, so that activations pile up until none fits.
SCRIPT = """
import resource
import torch

def evaluate(model):
    return [model(torch.ones(2048, 8)) for _ in range(4000)]

model = torch.nn.Linear(8, 512)
optimizer = torch.optim.SGD(model.parameters())
for step in range(4):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
evaluate(model)
"""
OVERRIDES = (
    "workload=script",
    "workload.command=train.py",
    "tool=[memory_snapshot]",
    "tools.memory_snapshot.steps=8",
    "analysis=[memory_peak,memory_verdict,verdict]",
)


def test_a_script_that_runs_out_of_memory_leaves_its_last_snapshot_and_is_told_why(farm):
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("the address space is limited already")
    script = farm.folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    status, said = farm.finish(*OVERRIDES)
    assert status == 1, said
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    (folder,) = farm.folder.glob("results/runs/*/capture/memory_snapshot/rep0")
    record = json.loads((folder / "capture.json").read_text())
    assert record["status"] == "oom"
    assert record["exit_code"] != 0
    (path,) = folder.glob("rank0_*.memory.pickle")
    (device,) = snapshot.read(path).devices
    # At its peak: on the way out of the script, Python lets go of the list that it was making.
    filled = (device.allocations.size_bytes == 4 << 20) & live_at_peak(device)
    assert filled.sum() > 50
    # What filled the memory, as the verdict and on the page.
    (run,) = json.loads((farm.folder / "results/report.json").read_text())["runs"]
    memory = run["verdict"]["memory"]
    line = 1 + script.read_text().splitlines().index(
        "    return [model(torch.ones(2048, 8)) for _ in range(4000)]"
    )
    assert memory["place"].endswith(f"train.py:{line})")
    assert memory["filled_by"]["activations"] > 400 << 20
    assert memory["headline"] in farm.report()
    assert record["reason"] in farm.report()
    assert "timeline.html" in farm.report()
