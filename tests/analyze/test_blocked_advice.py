"""What is advised against calls that hold the CPU."""

import pytest

from profkit.analyze._blocked_advice import blocked
from profkit.core.verdict import Cause


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("cudaStreamSynchronize", "Avoid `.item()`, `.cpu()` and prints of GPU values: "),
        ("urEventWait", "Avoid `.item()`, `.cpu()` and prints of GPU values: "),
        ("cudaEventSynchronize", "Wait for events, such as those for timing, after the steps: "),
    ],
)
def test_what_waits_for_an_event_is_no_value_that_is_read(call, advice):
    cause = Cause(id=f"gpu_idle.blocked.{call}", title="", ms_per_step=1.0, gain_ms=1.0, share=0.1)
    assert blocked(cause).startswith(advice)
    assert call in blocked(cause)
