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
