"""Advice that belongs to a cause itself."""

import pytest

from profkit.analyze._cause_advice import actions
from profkit.core.verdict import Cause


@pytest.mark.parametrize(("ms", "titles"), [(0.4, []), (0.6, ["Waiting for data"])])
def test_workers_are_no_advice_where_handing_a_batch_over_takes_as_long(ms, titles):
    waiting = Cause(
        id="gpu_idle.loading_data",
        title="Loading data",
        ms_per_step=ms,
        gain_ms=ms,
        share=0.2,
    )
    assert [action.title for action in actions([waiting], frozenset())] == titles


def of_half(name, **evidence):
    """Return what is advised on a cause of half of a step."""
    of_step = {"ms_per_step": 5, "gain_ms": 5, "share": 0.5}
    (action,) = actions([Cause(id=name, title="", **of_step, evidence=evidence)], frozenset())
    return action


@pytest.mark.parametrize(("first", "words"), [(1, "loads its code"), (0, "the queue of launches")])
def test_a_launch_that_blocks_has_advice_by_whether_its_kernel_is_new(first, words):
    action = of_half("gpu_idle.blocked.cudaLaunchKernel", first_launches=first)
    assert words in action.advice


@pytest.mark.parametrize(("share", "also"), [(0.9, ", 90% of it in communication"), (0.1, "")])
def test_communication_that_covers_launches_is_named(share, also):
    action = of_half("gpu_idle.python", in_communication_share=share, short_gaps_share=0.8)
    assert action.title == f"GPU waits for the CPU to launch{also}"
    assert ("Faster ranks or links gain nothing" in action.advice) == bool(also)
