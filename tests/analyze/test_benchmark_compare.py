"""Benchmarks of all runs side by side, as torch.utils.benchmark.Compare has them."""

import re

import pandas as pd
import pytest
from torch.utils.benchmark import Compare, Measurement, TaskSpec

from profkit.analyze.benchmark_compare import Config, analyze
from profkit.tables import schema
from profkit.testing import rows

RUNS = ("small", "large")


def benchmarks(times_ns):
    """Return the table of {(run, part, rank, repeat): times}."""
    rows = []
    for (run, part, rank, repeat), times in times_ns.items():
        where = {"rank": rank, "repeat": repeat, "part": part, "threads": 2, "device": "cpu"}
        measurements = [
            {**where, "measurement": index, "calls": 3, "call_ns": float(time_ns)}
            for index, time_ns in enumerate(times)
        ]
        frame = schema.frame("benchmarks", measurements)
        rows.append(frame.assign(run=pd.Categorical([run] * len(frame), RUNS)))
    return pd.concat(rows, ignore_index=True)


def test_a_time_is_the_median_on_the_slowest_rank():
    given = benchmarks(
        {("small", "forward", 0, 0): [10, 11, 12], ("small", "forward", 1, 0): [20, 30, 70]}
    )
    (cell,) = rows(analyze.run(benchmarks=given, config=Config()), "cells")
    assert (cell["median_ns"], cell["measurements"]) == (30, 3)
    assert (cell["low_quartile_ns"], cell["high_quartile_ns"]) == (25, 50)


def test_the_table_is_that_of_torchs_own_compare():
    times = {
        ("small", "forward"): [1_000_000.0, 1_010_000.0, 990_000.0],
        ("small", "backward"): [2_500_000.0, 2_510_000.0, 2_490_000.0],
        ("large", "forward"): [4_000_000.0, 4_010_000.0, 3_990_000.0],
        ("large", "backward"): [7_200_000.0, 7_210_000.0, 7_190_000.0],
    }
    given = benchmarks({(run, part, 0, 0): times_ns for (run, part), times_ns in times.items()})
    ours = rows(analyze.run(benchmarks=given, config=Config()), "compare")
    theirs = str(
        Compare(
            [
                Measurement(
                    number_per_run=3,
                    raw_times=[3 * value / 1e9 for value in values],
                    task_spec=TaskSpec(stmt="", setup="", sub_label=part, description=run),
                )
                for (run, part), values in times.items()
            ]
        )
    )
    assert [row["part"] for row in ours] == ["forward", "backward"]
    for row in ours:
        (line,) = [line for line in theirs.splitlines() if row["part"] in line]
        printed = [float(number) for number in re.findall(r"\d+\.\d+", line)]
        unit = {"(ms)": 1e6, "(us)": 1e3}[re.search(r"\((ms|us)\)", theirs)[0]]
        assert [row["small_ns"], row["large_ns"]] == pytest.approx(
            [unit * x for x in printed], rel=0.06
        )


def test_a_difference_beyond_chance_is_announced_and_others_are_not():
    times = {}
    for repeat in range(4):
        times["small", "step", 0, repeat] = [100 + repeat] * 5
        times["large", "step", 0, repeat] = [200 + repeat] * 5
        times["small", "forward", 0, repeat] = [50 + 5 * repeat] * 5
        times["large", "forward", 0, repeat] = [62 - 3 * repeat] * 5
    result = analyze.run(benchmarks=benchmarks(times), config=Config())
    (finding,) = result.findings
    assert finding.metric == "benchmark_compare.step_ratio"
    assert finding.value == pytest.approx(2, rel=0.03)
    ratios = {(row["run"], row["part"]): row["ratio"] for row in rows(result, "cells")}
    assert ratios["small", "step"] is None
    assert ratios["large", "step"] == pytest.approx(finding.value)


def test_what_varies_and_what_is_alone_is_said():
    given = benchmarks({("small", "forward", 0, 0): [10, 20, 30]})
    reasons = [
        abstention.what for abstention in analyze.run(benchmarks=given, config=Config()).abstentions
    ]
    assert reasons == ["a sure time of the forward of small", "differences between runs"]
