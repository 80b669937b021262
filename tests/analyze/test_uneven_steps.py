"""What is said of steps whose mean is far from their median."""

import pytest

from profkit.analyze._uneven_steps import beside_steps, not_said_beside, uneven_steps
from profkit.analyze.shared.step_times import BETWEEN_STEPS, BETWEEN_STEPS_BY_CALL
from profkit.core.result import Metric, Result, Table
from profkit.core.step_time import BASELINE, step_time_title
from profkit.core.verdict import Action


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("torch.utils.data.dataloader.__del__", "keep one iterator, or workers with `persist"),
        ("train.evaluate", "do it less often, or make it cheaper"),
    ],
)
def test_workers_that_end_between_steps_are_to_be_kept(call, what):
    columns = ("place", "call", "share", "line")
    calls = Table(title="", columns=columns, rows=(("train.py(9): main", call, 0.47, ""),))
    metrics = {
        "step_time_ns": Metric(value=80e6, unit="ns", title=step_time_title(BASELINE)),
        BETWEEN_STEPS: Metric(value=0.2, unit="share", title=""),
    }
    steps = Result(metrics=metrics, tables={BETWEEN_STEPS_BY_CALL: calls})
    (action,) = beside_steps(steps, memory_grows=False)
    assert action.advice.startswith(f"`{call}` takes 47% of that: {what}")


@pytest.mark.parametrize(
    ("loads_data", "sizes_vary", "why"),
    [
        (True, False, "workers come together, or other programs have the cores"),
        (False, False, "does more in some of them, or other programs have the cores"),
        (True, True, "than others, as the sizes of tensors are not the same in all of them"),
    ],
)
def test_workers_are_suspected_only_where_data_is_loaded(loads_data, sizes_vary, why):
    table = Table(title="", columns=("mean_ns", "median_ns"), rows=((90e6, 20e6), (70e6, 20e6)))
    step = Metric(value=80e6, unit="ns", title=step_time_title(BASELINE, is_mean=True))
    steps = Result(metrics={"step_time_ns": step}, tables={"per_repeat": table})
    (check,) = uneven_steps(steps, 0.0, loads_data=loads_data, sizes_vary=sizes_vary)
    assert check.message.endswith(f"{why}.")
    assert "80 ms, and not the median, 20 ms" in check.message


def test_steps_of_which_many_are_faster_are_not_called_slower():
    table = Table(title="", columns=("mean_ns", "median_ns"), rows=((20e6, 90e6),))
    step = Metric(value=20e6, unit="ns", title=step_time_title(BASELINE, is_mean=True))
    steps = Result(metrics={"step_time_ns": step}, tables={"per_repeat": table})
    (check,) = uneven_steps(steps, 0.0, loads_data=True, sizes_vary=False)
    assert check.message.endswith("the median, 90 ms: some are far faster than others.")


@pytest.mark.parametrize(("known", "passed"), [(0.5, True), (0.3, False)])
def test_uneven_steps_are_no_doubt_where_it_is_known_what_some_of_them_do(known, passed):
    table = Table(title="", columns=("mean_ns", "median_ns"), rows=((100e6, 20e6),))
    step = Metric(value=100e6, unit="ns", title=step_time_title(BASELINE, is_mean=True))
    steps = Result(metrics={"step_time_ns": step}, tables={"per_repeat": table})
    (check,) = uneven_steps(steps, known, loads_data=True, sizes_vary=False)
    assert check.passed == passed
    assert check.message.endswith("as the program does more in some of them.") == passed


@pytest.mark.parametrize("is_known", [True, False])
def test_time_between_steps_is_not_said_a_second_time_of_a_traced_step(is_known):
    between = Metric(value=0.8, unit="share", title="")
    steps = Result(metrics={BETWEEN_STEPS: between} if is_known else {})
    causes = ("python.between loading and the next batch", "python.a_py(3): f", "cpu_operators")
    actions = [Action(cause=cause, title="", advice="", gain_ms=9.0) for cause in causes]
    left = [action.cause for action in not_said_beside(actions, steps)]
    assert left == [*causes[1 if is_known else 0 :]]
    assert not_said_beside(actions, None) == actions
