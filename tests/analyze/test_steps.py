import itertools
from dataclasses import replace

import pandas as pd
import pytest

from profkit import testing
from profkit.analyze import steps
from profkit.core.result import Metric, Result, Severity
from profkit.core.result import table as result_table
from profkit.tables import schema
from profkit.testing import rows

MS = 1_000_000
GIB = 2**30
# Beyond 2**53, where a float would lose nanoseconds.
ORIGIN = 1_790_000_000_000_000_000


def table(*rows):
    """Rows of rank, repeat, step, duration in ms, and perhaps samples and memory."""
    return schema.frame(
        "steps",
        [
            {
                "rank": rank,
                "repeat": repeat,
                "step": step,
                "start_ns": ORIGIN + step * 1000 * MS,
                "end_ns": ORIGIN + step * 1000 * MS + int(ms * MS),
                "samples": rest[0] if rest else -1,
                "peak_memory_bytes": rest[1] if rest else -1,
            }
            for rank, repeat, step, ms, *rest in rows
        ],
    )


def run(tables, **settings):
    return testing.run(steps.analyze, steps=tables, **{"skip_first": 0} | settings)


@pytest.mark.parametrize(("gap_ms", "share"), [(0.9, None), (2, None), (25, 0.5)])
def test_time_between_steps_is_a_number_where_it_is_much(gap_ms, share):
    every = itertools.product((0, 1), (0, 1), range(5), [10])
    even = table(*every)
    # Behind every second of five steps.
    step = even["step"].astype("int64")
    begun = ORIGIN + step * 10 * MS + step // 2 * int(gap_ms * MS)
    moved = even.assign(start_ns=begun, end_ns=begun + 10 * MS)
    found = run({"baseline": moved}).metrics.get("between_steps_share")
    assert (found and found.value) == (share and pytest.approx(share, rel=1e-5))
    assert "between_steps_share" not in run({"torch_profiler": moved}).metrics


def test_the_slowest_rank_is_the_clock():
    result = run({"baseline": table((0, 0, 0, 10, 4, GIB), (1, 0, 0, 30, 4, 2 * GIB))})
    assert rows(result, "clock") == [
        {"repeat": 0, "step": 0, "step_time_ns": 30 * MS, "slowest_rank": 1, "samples": 8}
    ]
    assert {name: metric.value for name, metric in result.metrics.items()} == {
        "step_time_ns": 30 * MS,
        "throughput_per_s": 8 / 0.03,
        "peak_memory_bytes": 2 * GIB,
        "rank_difference": 2.0,
        "memory_growth_share": 0,
    }


def test_warm_up_steps_count_nowhere():
    captured = table((0, 0, 0, 500, 1, GIB), (0, 0, 1, 10, 1, 3 * GIB), (0, 0, 2, 10, 1, 4 * GIB))
    result = run({"baseline": captured}, skip_first=1)
    assert result.metrics["step_time_ns"].value == 10 * MS
    assert result.metrics["throughput_per_s"].value == 100
    assert result.metrics["memory_growth_share"].value == 0.25
    assert [row["steps"] for row in rows(result, "per_rank")] == [2]
    assert result.tables["clock"].note.endswith(", without the first step of each.")
    every = run({"baseline": captured})
    assert every.tables["clock"].note == "Captured with baseline: 1 rank and 1 repeat."


def test_all_steps_being_warm_up_is_said():
    result = run({"baseline": table((0, 0, 0, 10), (0, 0, 1, 10))}, skip_first=3)
    assert [abstention.reason for abstention in result.abstentions] == [
        "all 2 steps are warm-up: run more than 3 or set warmup_steps"
    ]


def test_the_unprofiled_capture_is_preferred():
    profiled, plain = table((0, 0, 0, 20, 1, 1)), table((0, 0, 0, 10, 1, 1))
    both = run({"torch_profiler": profiled, "baseline": plain})
    assert both.metrics["step_time_ns"].value == 10 * MS
    assert [abstention.what for abstention in both.abstentions] == ["interval of the step time"]
    alone = run({"torch_profiler": profiled, "baseline": schema.frame("steps")})
    assert alone.metrics["step_time_ns"].value == 20 * MS
    assert alone.abstentions[0].what == "unprofiled step times"


def test_traced_steps_take_what_their_causes_sum_to():
    divided = Result(
        metrics={"step_ms": Metric(value=21.5, unit="ms", title="", by_repeat={0: 21.5})}
    )
    profiled, plain = table((0, 0, 0, 20), (0, 0, 1, 22)), table((0, 0, 0, 10))
    step = run({"torch_profiler": profiled}, causes=divided).metrics["step_time_ns"]
    assert (step.value, step.by_repeat) == (21.5 * MS, {0: 21.5 * MS})
    assert step.title == "Step time, mean, with torch_profiler"
    assert run({"torch_profiler": profiled}).metrics["step_time_ns"].value == 21 * MS
    both = run({"torch_profiler": profiled, "baseline": plain}, causes=divided)
    assert both.metrics["step_time_ns"].value == 10 * MS


@pytest.mark.parametrize(("ranks", "means"), [((0, 1), [15 * MS, 17 * MS]), ((0,), [20 * MS] * 2)])
def test_the_steps_of_traced_ranks_are_those_that_were_divided(ranks, means):
    key = {"repeat": 0, "step": 5}
    divided = [{"rank": rank, **key, "step_time_ns": (15 + 2 * rank) * MS} for rank in ranks]
    causes = Result(tables={"by_step": result_table(pd.DataFrame(divided), title="")})
    profiled = table((0, 0, 5, 20), (1, 0, 5, 20), (0, 0, 6, 20), (1, 0, 6, 20))
    found = run({"torch_profiler": profiled}, causes=causes)
    # Of the ranks of which not all are there, none is told by them.
    assert [row["mean_ns"] for row in rows(found, "per_rank")] == means


def test_a_slow_step_is_an_outlier_of_its_own_repeat():
    steady = [(0, repeat, step, 10 + 5 * repeat) for repeat in (0, 1) for step in range(9)]
    result = run({"baseline": table(*steady, (0, 0, 9, 20), (0, 1, 9, 17))})
    assert rows(result, "outliers") == [
        {"repeat": 0, "step": 9, "step_time_ns": 20 * MS, "slowest_rank": 0, "samples": None}
        | {"excess_share": 1.0}
    ]


def drifting(*factors):
    """Return six steps for each repeat, of 10 ms and a little more or less, times its factor."""
    noise = (1.01, 0.99, 1.0, 1.02, 0.98, 1.0)
    return table(
        *[
            (0, repeat, step, 10 * factor * share)
            for repeat, factor in enumerate(factors)
            for step, share in enumerate(noise)
        ]
    )


def test_repeats_that_differ_more_than_their_steps_are_a_warning():
    result = run({"baseline": drifting(1.0, 1.1, 1.2)})
    (drift,) = result.findings
    assert drift.severity is Severity.WARN
    assert drift.message == (
        "Step times drift upwards from repeat to repeat: 12 ms in repeat 2 is 20% more than "
        "10 ms in repeat 0, and the steps within a repeat do not differ so."
    )
    assert (drift.evidence["slowest_repeat"], drift.evidence["fastest_repeat"]) == (2, 0)
    assert drift.evidence["p_value"] < drift.evidence["significance_level"] == 0.05
    assert abs(result.metrics["repeat_difference"].value - 0.2) < 1e-9
    other = run({"baseline": drifting(1.1, 1.0, 1.2)}).findings[0]
    assert other.message.startswith("Step times change from repeat to repeat")


def test_repeats_that_differ_no_more_than_their_steps_are_none():
    assert not run({"baseline": drifting(1.1, 1.2)}, warn_repeats=0.3).findings
    noise = [
        (0, repeat, step, 10 + 5 * ((step + repeat) % 2))
        for repeat in range(3)
        for step in range(7)
    ]
    result = run({"baseline": table(*noise)})
    assert result.metrics["repeat_difference"].value > 0.4
    assert "steps.repeat_difference" not in [finding.metric for finding in result.findings]


def test_too_few_steps_to_tell_drift_from_chance_is_said():
    result = run({"baseline": table((0, 0, 0, 10), (0, 1, 0, 12))})
    assert not result.findings
    assert "drift over the repeats" in [abstention.what for abstention in result.abstentions]


def test_a_warm_up_longer_than_what_is_left_out_is_a_warning_and_says_how_long():
    def warming(factor):
        return table(
            *[
                (0, repeat, step, (10 + repeat) * (factor if step < 5 else 1))
                for repeat in range(3)
                for step in range(2, 14)
            ]
        )

    result = run({"baseline": warming(1.3)})
    (finding,) = [
        finding for finding in result.findings if finding.metric == "steps.warm_up_excess"
    ]
    assert finding.message == (
        "Warm-up is longer than the steps left out: the first quarter of the counted steps takes "
        "30% longer than the second half, in 3 repeats alike."
    )
    assert finding.evidence["settled_step"] == 5
    assert finding.advice == "Leave out more: warmup_steps=5, with as many more steps."
    for none in (warming(1.04), warming(0.5)):
        metrics = [finding.metric for finding in run({"baseline": none}).findings]
        assert "steps.warm_up_excess" not in metrics


def test_step_time_has_an_interval_and_a_value_for_each_repeat():
    result = run({"baseline": drifting(1.0, 1.02, 1.01)})
    step_time = result.metrics["step_time_ns"]
    assert step_time.interval.low < step_time.value < step_time.interval.high
    assert step_time.by_repeat == {0: 10 * MS, 1: 10.2 * MS, 2: 10.1 * MS}
    narrower = run({"baseline": drifting(1.0, 1.02, 1.01)}, confidence=0.8)
    assert narrower.metrics["step_time_ns"].interval.low > step_time.interval.low


def test_unknown_samples_and_memory_are_said_and_never_zero():
    result = run({"baseline": table((0, 0, 0, 10), (1, 0, 0, 10, 4, GIB))})
    assert "throughput_per_s" not in result.metrics
    assert result.metrics["peak_memory_bytes"].value == GIB
    assert result.metrics["peak_memory_bytes"].by_repeat == {0: GIB}
    nothing = run({"baseline": table((0, 0, 0, 10))})
    assert [abstention.what for abstention in nothing.abstentions][:2] == [
        "throughput",
        "peak memory",
    ]


def test_large_tables_are_cut_and_say_so():
    config = replace(steps.Config(), skip_first=0, max_rows=2)
    captured = table(*[(0, 0, step, 10) for step in range(5)])
    result = steps.analyze.run({"baseline": captured}, config=config)
    assert len(result.tables["clock"].rows) == 2
    assert result.tables["clock"].note.endswith("The first 2 of 5 rows.")


def trend(*times_ms):
    return {"baseline": table(*[(0, 0, step, ms) for step, ms in enumerate(times_ms)])}


def test_steps_that_grow_are_a_warning_and_a_number():
    noise = (0.4, -0.3, 0.1, 0.5, -0.4)
    times = [5 + 0.3 * step + noise[step % 5] for step in range(18)]
    times[2] = 40
    result = run(trend(*times))
    (finding,) = [found for found in result.findings if found.metric == "steps.growth_share"]
    assert finding.message == (
        "Steps grow from 6.1 ms to 9.45 ms over 18 unprofiled steps (medians of the first and the "
        "last third): later steps cost more than those that were recorded, as where each works on "
        "all data of the steps before it, or where other work has come to the machine."
    )
    assert result.metrics["growth_share"].value == finding.value == pytest.approx(9.45 / 6.1 - 1)
    traced = run({"torch_profiler": trend(*times)["baseline"]})
    assert "growth_share" not in traced.metrics
    assert not [found for found in traced.findings if found.metric == "steps.growth_share"]


@pytest.mark.parametrize(
    "times_ms",
    [
        [10] * 13 + [60, 10, 70, 80, 65],
        [10] * 11 + [30, 11, 28, 10, 31, 10, 10],
        [10, 31, 12, 29, 11, 14, 33, 10, 35, 13, 30, 12, 28, 31, 11, 36, 14, 33],
        [18, 16, 15, 14, 13, 13, 12, 12, 11, 11, 10, 10],
        [10 + 0.05 * step for step in range(18)],
        [5, 6, 7, 8, 9, 10],
        [0, *range(10, 30)],
    ],
    ids=[
        "slow at the end",
        "busy late",
        "busy throughout",
        "warming up",
        "growing little",
        "too few",
        "a time of zero",
    ],
)
def test_steps_do_not_grow_by_chance_or_where_some_are_slow(times_ms):
    result = run(trend(*times_ms))
    assert "growth_share" not in result.metrics
    assert "steps.growth_share" not in [finding.metric for finding in result.findings]


@pytest.mark.parametrize(
    ("later_ms", "is_grown"),
    [([64, 61, 69, 66, 62, 57, 58, 54], False), ([50, 52, 51, 56, 60, 61], True), ([60, 50], True)],
    ids=["shrinking", "growing", "too few"],
)
def test_steps_that_do_not_grow_when_the_program_runs_again_do_not_grow(later_ms, is_grown):
    """The run that is traced has a clock too, and steps after those that were recorded."""
    tables = trend(*range(30, 50)) | {"torch_profiler": table((0, 0, 5, 90), (0, 0, 6, 95))}
    again = table(*[(0, 0, 5, 90), *((0, 0, step, ms) for step, ms in enumerate(later_ms, 7))])
    columns = ["rank", "repeat", "step", "start_ns", "end_ns"]
    sampled = schema.frame("sampled_steps", again[columns].to_dict("records"))
    assert ("growth_share" in run(tables, clocked=sampled).metrics) == is_grown


def test_growth_is_that_of_each_repeat():
    grown = [(0, repeat, step, 10 + repeat + step) for repeat in range(3) for step in range(12)]
    assert "growth_share" in run({"baseline": table(*grown)}).metrics
    later = [(0, repeat, step, 10 + 5 * repeat) for repeat in range(3) for step in range(12)]
    assert "growth_share" not in run({"baseline": table(*later)}).metrics
