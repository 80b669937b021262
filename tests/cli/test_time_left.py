"""How long a run will still take."""

import pytest

from profkit.cli.time_left import Jobs, time_left_s


def jobs(total, ended=(), running=()):
    return Jobs(total=total, ended_s=ended, running_s=running)


@pytest.mark.parametrize(
    ("captures", "others", "expected"),
    [
        (jobs(2, running=[5]), jobs(10), None),
        (jobs(2, ended=[10]), jobs(10), 10 + 0.5 * 10 / 2),
        (jobs(3, ended=[10], running=[4]), jobs(10), 10 + 6 + 0.5 * 10 / 2),
        (jobs(2, ended=[10], running=[14]), jobs(0), 0),
        (jobs(2, ended=[10, 10]), jobs(4, ended=[1, 3]), 2 * 2 / 2),
        (jobs(0), jobs(4), 0.5 * 4 / 2),
    ],
)
def test_jobs_to_come_take_as_long_as_those_that_have_ended(captures, others, expected):
    assert time_left_s(captures, others, workers=2) == expected
