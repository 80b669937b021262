import numpy as np
import pytest
from scipy import stats

from profkit.analyze import observer_tax
from profkit.tables import schema


def table(*rows):
    return schema.frame(
        "steps",
        [
            {"rank": rank, "repeat": repeat, "step": step, "start_ns": 5, "end_ns": 5 + duration}
            for rank, repeat, step, duration in rows
        ],
    )


def run(tables, sampled_steps=None):
    config = observer_tax.Config(skip_first=1)
    return observer_tax.analyze.run(tables, sampled_steps, config=config)


def test_a_tool_is_compared_on_the_same_ranks_and_steps_without_warm_up():
    base = table((0, 0, 0, 999), (0, 0, 1, 10), (0, 0, 2, 20), (0, 1, 2, 25), (1, 0, 2, 40))
    tool = table((0, 0, 0, 1), (0, 0, 2, 30), (0, 1, 2, 50), (1, 0, 2, 40), (1, 0, 7, 5))
    result = run({"baseline": base, "nsys": tool})
    columns = ("tool", "rank", "repeat", "steps", "median_ns", "baseline_ns", "slowdown_ratio")
    assert result.tables["by_repeat"].columns == columns
    assert result.tables["by_repeat"].rows == (
        ("nsys", 0, 0, 1, 30.0, 20.0, 1.5),
        ("nsys", 0, 1, 1, 50.0, 25.0, 2.0),
        ("nsys", 1, 0, 1, 40.0, 40.0, 1.0),
    )
    # Of the first repeat's ranks the median is 1.25; the second has one rank.
    assert result.metrics["nsys_slowdown_ratio"].value == pytest.approx((1.25 * 2) ** 0.5)


def test_a_trace_is_compared_by_the_clock_of_the_baseline():
    """The CPU is done with a step long before the GPU is: three nanoseconds after its begin."""
    base = table((0, 0, 1, 10), (0, 0, 2, 30), (0, 0, 3, 20))
    trace, clock = table((0, 0, 2, 3), (0, 0, 3, 3)), table((0, 0, 2, 36), (0, 0, 3, 24))
    sampled = schema.frame(
        "sampled_steps", clock[["rank", "repeat", "step", "start_ns", "end_ns"]].to_dict("records")
    )
    result = run({"baseline": base, "torch_profiler": trace}, sampled)
    assert result.metrics["torch_profiler_slowdown_ratio"].value == pytest.approx(1.2)
    assert result.metrics["unprofiled_step_time_ns"].value == 20


def test_first_steps_count_where_a_tool_recorded_no_others():
    """On a busy machine the steps that a tool recorded may be slow ones by chance."""
    base = table(*[(0, 0, step, 100 if step < 3 else 10) for step in range(1, 20)])
    result = run({"baseline": base, "nsys": table((0, 0, 1, 140), (0, 0, 2, 160))})
    assert result.metrics["nsys_slowdown_ratio"].value == 1.5


def test_a_tool_is_not_compared_with_steps_that_the_machine_made_slow_in_the_baseline_alone():
    base = table(*[(0, 0, step, 2000 if step < 3 else 20) for step in range(1, 20)])
    result = run({"baseline": base, "nsys": table((0, 0, 1, 24), (0, 0, 2, 24))})
    assert result.metrics["nsys_slowdown_ratio"].value == 1.2


def test_the_interval_is_that_of_the_pairs_of_repeats():
    """The same machine is twice as slow in every repeat as in the one before: it cancels."""
    base = table(*[(0, repeat, 1, 1000 * 2**repeat) for repeat in range(3)])
    tool = table(*[(0, 0, 1, 1100), (0, 1, 1, 2420), (0, 2, 1, 4000)])
    result = run({"baseline": base, "nsys": tool})
    logs = np.log([1.1, 1.21, 1.0])
    expected = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    measured = result.metrics["nsys_slowdown_ratio"]
    assert measured.value == pytest.approx(np.exp(logs.mean()))
    assert (measured.interval.low, measured.interval.high) == pytest.approx(np.exp(expected))


def test_one_repeat_has_no_interval_and_says_so():
    result = run({"baseline": table((0, 0, 1, 10)), "nsys": table((0, 0, 1, 11))})
    assert result.metrics["nsys_slowdown_ratio"].interval is None
    assert [abstention.what for abstention in result.abstentions] == [
        "interval of the slowdown by nsys"
    ]


def test_the_costliest_tool_comes_first():
    base = table((0, 0, 1, 10))
    tools = {"py_spy": table((0, 0, 1, 10)), "nsys": table((0, 0, 1, 13))}
    result = run({"baseline": base, **tools})
    assert [row[0] for row in result.tables["by_tool"].rows] == ["nsys", "py_spy"]


def test_without_a_baseline_nothing_is_known():
    tool = table((0, 0, 1, 10))
    assert run({"nsys": tool}).abstentions[0].what == "slowdown of the tools"
    empty = run({"baseline": schema.frame("steps"), "nsys": tool})
    assert empty.abstentions[0].what == "slowdown of the tools"
    assert run({"baseline": tool}).abstentions[0].reason == "only the baseline ran"


def test_a_tool_without_steps_in_common_is_named():
    result = run({"baseline": table((0, 0, 1, 10)), "nsys": table((0, 0, 9, 10))})
    assert [abstention.what for abstention in result.abstentions] == ["slowdown by nsys"]
    assert result.metrics == {}
