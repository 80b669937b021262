from dataclasses import replace

import numpy as np
import pytest

from profkit.analyze import comparison, steps
from profkit.core.errors import ConfigError
from profkit.core.result import Abstention, Metric, Result, Table
from profkit.core.step_time import step_time_title
from profkit.tables import schema
from tests.analyze.shared.test_uncertainty import QUIET, bound, studies

SIX = np.array([100, 104, 98, 101, 99, 103])


def measured(values, began=None):
    """Return the steps of a run whose repeats have these step times."""
    began = began or [f"2026-01-01 00:0{repeat}" for repeat in range(len(values))]
    return Result(
        metrics={
            "step_time_ns": Metric(
                value=float(np.median(values)),
                unit="ns",
                title="Unprofiled step time, median",
                by_repeat=dict(enumerate(map(float, values))),
            )
        },
        tables={
            "per_repeat": Table(
                title="Repeats", columns=("repeat", "began"), rows=tuple(enumerate(began))
            )
        },
    )


def run(by_run, **settings):
    return comparison.analyze.run(by_run, config=comparison.Config(**settings))


def pairs(result):
    table = result.tables["pairs"]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def announced(result):
    """Return in how many runs the report says that some number differs."""
    return sum(int(finding.value) for finding in result.findings)


def test_a_run_that_was_timed_with_a_profiler_is_left_out_and_named():
    traced = measured(SIX * 2)
    title = step_time_title("torch_profiler")
    time = replace(traced.metrics["step_time_ns"], title=title)
    traced = replace(traced, metrics={"step_time_ns": time})
    found = run({"traced": traced, "small": measured(SIX), "large": measured(SIX * 3)})
    assert [pair["run"] for pair in pairs(found)] == ["large"]
    assert found.abstentions[0] == Abstention(
        what="what traced is against others",
        reason="Step time, mean, with torch_profiler; others: Unprofiled step time, median",
    )
    (only, nothing) = run({"traced": traced, "small": measured(SIX)}).abstentions
    assert (only, nothing.what) == (found.abstentions[0], "differences between runs")


def test_a_run_that_takes_half_as_long_again_is_announced_with_its_interval():
    result = run({"small": measured(SIX), "large": measured([150, 157, 146, 151, 149, 154])})
    (finding,) = result.findings
    assert finding.message == (
        "Unprofiled step time, median: differs from that of small in 1 of 1 other run, most in "
        "large: 1.5 times (95% interval 1.49 to 1.51, 6 repeats)."
    )
    assert (finding.metric, finding.value) == ("comparison.step_time_ns_differing_runs", 1)
    (pair,) = pairs(result)
    assert (pair["run"], pair["differs"], pair["repeats"]) == ("large", "yes", 6)
    assert pair["low_ratio"] < pair["ratio"] < pair["high_ratio"]
    assert (pair["more_repeats"], result.abstentions) == (None, ())


def test_a_difference_that_may_be_chance_is_called_that():
    result = run({"one": measured([100, 120, 90] * 2), "same": measured([110, 100, 99] * 2)})
    (finding,) = result.findings
    assert finding.value == 0
    assert finding.message.startswith(
        "Unprofiled step time, median: no difference from one is beyond chance in 1 other run; "
    )
    (pair,) = pairs(result)
    assert (pair["differs"], pair["more_repeats"]) == ("not beyond chance", 0)


def test_the_more_runs_are_compared_the_more_it_takes():
    alike = {"one": measured(SIX), "near": measured([103, 106, 100, 101, 101, 106])}
    assert announced(run(alike)) == 1
    others = {f"other{index}": measured([100 + index, 103, 99] * 2) for index in range(40)}
    assert announced(run(alike | others)) == 0


@pytest.mark.parametrize("repeats", [1, 3, 5])
def test_few_repeats_give_a_factor_and_no_announcement(repeats):
    result = run({"one": measured(SIX[:repeats]), "other": measured(2.5 * SIX[:repeats])})
    assert result.findings == ()
    (pair,) = pairs(result)
    assert (pair["ratio"], pair["differs"]) == (pytest.approx(2.5), "not known")
    (abstention,) = result.abstentions
    assert abstention.reason.endswith("takes 6 repeats or more of both: repeats=6")


def test_runs_that_drift_are_void_and_not_announced():
    result = run({"one": measured(SIX), "other": measured(SIX * np.linspace(1.2, 1.8, 6))})
    assert result.findings == ()
    assert [row["differs"] for row in pairs(result)] == ["void"]
    assert "faster or slower" in result.abstentions[0].reason


def test_runs_that_were_not_captured_in_turn_are_named():
    yesterday = ["2025-12-31 00:00", "2025-12-31 00:01", "2025-12-31 00:02"]
    result = run({"one": measured([1, 2, 3]), "before": measured([1, 2, 3], yesterday)})
    abstention = result.abstentions[-1]
    assert abstention.what == "what the machine has to do with the differences of before"
    assert "at another time than one" in abstention.reason


def test_a_run_without_step_times_is_no_reference_and_is_named():
    result = run({"failed": Result(), "one": measured([1, 2]), "other": measured([3, 4])})
    assert [row["run"] for row in pairs(result)] == ["other"]
    assert [abstention.what for abstention in result.abstentions] == [
        "differences of failed",
        "whether other differs from the reference",
    ]


@pytest.mark.parametrize("by_run", [{"one": measured([1, 2])}, {"one": Result(), "two": Result()}])
def test_one_run_is_compared_with_nothing(by_run):
    result = run(by_run)
    assert [abstention.what for abstention in result.abstentions] == ["differences between runs"]


def test_runs_without_a_common_repeat_are_not_compared():
    other = measured([1.0, 2.0])
    other.metrics["step_time_ns"].by_repeat.pop(0)
    one = measured([1.0, 2.0])
    one.metrics["step_time_ns"].by_repeat.pop(1)
    (abstention,) = run({"one": one, "other": other}).abstentions
    assert "no repeat was measured" in abstention.reason


def test_a_reference_is_chosen_by_name():
    by_run = {"one": measured([1, 2, 3]), "other": measured([3, 4, 7])}
    assert [row["run"] for row in pairs(run(by_run, reference="other"))] == ["one"]
    with pytest.raises(ConfigError, match="no run named 'oter'"):
        run(by_run, reference="oter")


@pytest.mark.parametrize("repeats", [6, 10])
@pytest.mark.parametrize("runs", [2, 6])
def test_equal_runs_are_announced_as_different_no_more_often_than_stated(runs, repeats):
    """An A/A study on step times that drift, remember, and have heavy tails."""
    count = 500
    medians = np.exp(np.median(studies((count, runs, repeats, 9)), axis=-1))
    wrong = sum(
        announced(run({f"run{i}": measured(results) for i, results in enumerate(study)})) > 0
        for study in medians
    )
    assert wrong <= bound(count)


def test_a_run_that_is_slower_by_a_tenth_is_announced_most_of_the_time():
    medians = np.exp(np.median(studies((200, 2, 6, 9), **QUIET | {"drift": 0.0}), axis=-1))
    medians[:, 1] *= 1.1
    found = [announced(run({"one": measured(a), "slow": measured(b)})) for a, b in medians]
    assert np.mean(found) > 0.9


def test_the_steps_of_a_table_are_what_is_compared():
    def result(base):
        rows = [
            {"repeat": repeat, "step": step, "start_ns": at, "end_ns": at + base + repeat + step}
            for repeat in range(6)
            for step in range(4)
            for at in [repeat * 10**12 + step * 10**9]
        ]
        config = steps.Config(skip_first=0, bootstrap_draws=100)
        return steps.analyze.run({"baseline": schema.frame("steps", rows)}, config=config)

    compared = run({"one": result(10**6), "other": result(2 * 10**6)})
    assert announced(compared) == 1
    assert compared.abstentions == ()
