import pytest

from profkit import testing
from profkit.analyze import (
    breakdown,
    critical_path,
    hta,
    idle,
    kernels,
    launches,
    libraries,
    ncu_targets,
    overlap,
    sequences,
    transfers,
)
from profkit.analyze.base import NO_GPU_WORK
from profkit.core.hardware import Hardware
from profkit.testing import span

OF_GPUS = (
    *(breakdown, critical_path, hta, idle, kernels, launches, libraries, ncu_targets, overlap),
    *(sequences, transfers),
)


def run(module, **tables):
    """Run the analysis of `module` on those of the `tables` that it reads."""
    analysis = module.analyze
    known = {"hardware": Hardware()} if "hardware" in analysis.run_parameters else {}
    return testing.run(
        analysis, **{name: of for name, of in tables.items() if name in analysis.tables}, **known
    )


@pytest.mark.parametrize("module", OF_GPUS)
def test_analyses_of_a_run_on_the_cpu_give_one_reason(module):
    result = run(module, steps=[span(0, 10)], cpu_ops=[span(0, 9, name="aten::mm")])
    assert [one.reason for one in result.abstentions] == [NO_GPU_WORK]


def test_what_the_cpu_communicated_is_elsewhere():
    sent = span(0, 5, collective=0, operation="allreduce")
    [said] = testing.run(overlap.analyze, collectives=[sent]).abstentions
    assert said.reason.endswith("the breakdown has what the CPU communicated")


def test_operators_are_missing_where_only_the_gpu_was_recorded():
    [said] = testing.run(critical_path.analyze, kernels=[span(0, 5, kind="compute")]).abstentions
    assert said.reason == "no operator was recorded, only GPU work"


@pytest.mark.parametrize("module", [libraries, ncu_targets])
def test_copies_alone_are_gpu_work(module):
    [said] = run(module, kernels=[span(0, 5, kind="copy")]).abstentions
    assert said.reason != NO_GPU_WORK
