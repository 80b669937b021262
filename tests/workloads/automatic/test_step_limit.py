"""When a program is ended that is looked at for some steps."""

import pytest

from profkit.workloads.automatic import step_limit
from profkit.workloads.automatic.step_limit import StepLimit


@pytest.mark.parametrize(
    ("step_s", "uncounted", "ended"),
    [
        (0.5, 0, 20),  # half of the steps last 5 s
        (0.05, 0, 40),
        (2.0, 0, 10),
        (4.0, 0, 10),
        (1.5, 0, 14),
        (2.0, 12, 12),
        (0.5, 12, 20),
    ],
)
def test_long_steps_are_enough_by_half_and_short_ones_go_on(monkeypatch, step_s, uncounted, ended):
    """Of 20 steps for 2 s, the first of them perhaps uncounted, as they are traced."""
    monkeypatch.setattr(step_limit, "_test_runner", str)  # this one is of no script
    clock = [0.0]
    monkeypatch.setattr(step_limit.time, "monotonic", lambda: clock[0])
    limit = StepLimit(20, least_s=2.0, uncounted=uncounted)
    assert _steps_until_the_end(limit, clock, step_s) == ended


def _steps_until_the_end(limit, clock, step_s):
    """Return how many steps of `step_s` it lets pass, -1 for too many."""
    limit.begin()
    for number in range(1, 100):
        clock[0] += step_s
        limit.end_step()
        try:
            limit.step(-1)
        except SystemExit:
            return number
    return -1
