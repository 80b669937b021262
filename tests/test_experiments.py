"""The studies in ``conf/experiment``, as the runs that they select."""

import pytest

from profkit.core import resources
from profkit.planning.build import make
from profkit.planning.model import differing

ZERO = [("none", "torch")]
ZERO += [(f"zero{stage}", by) for stage in (1, 2, 3) for by in ("torch", "deepspeed")]
EXPECTED = {
    "batch_sweep": [{"batch": batch} for batch in (1, 2, 4, 8)],
    "compile_sweep": [{"compile": mode} for mode in ("none", "default")],
    "precision_sweep": [{"precision": precision} for precision in ("fp32", "bf16")],
    "workers_sweep": [{"workload.workers": workers} for workers in (0, 1, 2, 4)],
    "zero_sweep": [{"zero": name, "zero.backend": backend} for name, backend in ZERO],
}


def test_every_study_is_listed_here():
    written = {path.stem for path in (resources.CONF / "experiment").glob("*.yaml")}
    assert written == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_study_selects_runs_that_differ_in_what_it_studies(name):
    plan = make(resources.CONF, ["analysis=[steps]", f"+experiment={name}"])
    differs = differing(plan.runs)
    assert [differs[run.name] for run in plan.runs] == EXPECTED[name]


def test_a_study_goes_with_other_overrides():
    plan = make(
        resources.CONF, ["analysis=[steps]", "+experiment=zero_sweep", "model=vit_tiny", "batch=4"]
    )
    assert len(plan.runs) == 7
    assert all(run.name.startswith("vit_tiny-train-b4-w2-") for run in plan.runs)
