"""Traces that the diagnosis benchmark generates: consistent, and at the stated cost."""

import pytest

from benchmarks.diagnosis import generated_kinds
from benchmarks.diagnosis.generated import Job, Knobs

KINDS = {kind.name: kind for kind in generated_kinds.KINDS}


@pytest.mark.parametrize("name", [".item() in each layer", "allocation calls", "missing ranks"])
def test_pytorch_finds_no_rule_broken_in_a_generated_trace(name, tmp_path):
    validator = pytest.importorskip("torch.profiler._trace_validator")
    generated_kinds.make(KINDS[name], 0, tmp_path)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == (2 if name == "missing ranks" else 1)
    for path in paths:
        assert validator.validate_trace(str(path)) == (True, [])


@pytest.mark.parametrize(
    ("fault", "added_ms"),
    [
        ({"loader_ms": 10}, 10),
        ({"world": 4, "exposed_ms": 10}, 10),
        ({"world": 4, "late_gpu_ms": 10}, 10),
        ({"first_step_ms": 80}, 0),
        ({"pageable_mib": 60}, 60 * 2**20 / 6e6),
    ],
)
def test_a_fault_adds_what_it_takes_to_a_steady_step(fault, added_ms):
    clean = Knobs(world=fault.get("world", 1))
    added = Job(Knobs(**fault)).step_ms() - Job(clean).step_ms()
    assert added == pytest.approx(added_ms, abs=0.01)
