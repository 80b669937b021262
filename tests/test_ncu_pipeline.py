"""Nsight Compute in a whole run: what it waits for, and a machine without a GPU."""

import json

import pytest

from profkit.capture.ncu import Capture
from tests.conftest import SMALL
from tests.page_text import page_text

OVERRIDES = "tool=[torch_profiler,ncu] analysis=[ncu_targets,kernel_view,ncu_summary]"


@pytest.mark.skipif(not Capture.unavailable_reason(), reason="ncu can be used on this machine")
def test_without_a_gpu_the_report_is_complete_and_says_why_ncu_is_not_in_it(default_tree, tmp_path):
    tree = default_tree.copied(tmp_path, f"{SMALL} {OVERRIDES}")
    # A capture that could not be made is said by the exit status, and in the report.
    tree.snakemake("", status=1)
    (record,) = tree.folder.glob("results/runs/*/capture/ncu/rep0/capture.json")
    content = json.loads(record.read_bytes())
    assert content["status"] == "unavailable"
    assert content["reason"] == Capture.unavailable_reason()
    folder = record.parents[3]
    assert json.loads((folder / "analyze/ncu_summary.json").read_bytes())["result"]["abstentions"]
    assert content["reason"].partition(",")[0] in page_text(tree.folder / "results/report.html")
    # It waited for the analysis, which made again by other code is no reason to capture again.
    before = record.stat().st_mtime_ns
    path = "profkit/analyze/ncu_targets.py"
    tree.edited(path, "_SHAPE = [", "_UNUSED = 1\n_SHAPE = [")
    assert tree.jobs() == ["analyze_ncu_targets", "report"]
    tree.snakemake("", status=1)
    assert record.stat().st_mtime_ns == before
