"""memory_fit: lines, their intervals and what they are not used for."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from profkit.analyze import _linear_fit as linear_fit
from profkit.analyze import memory_fit
from profkit.analyze._peak_curves import fitted_peak
from profkit.core.hardware import Hardware
from profkit.core.result import Metric, Result, table

GIB = 2**30


def result(metric, value):
    return Result(metrics={metric: Metric(value=value, unit="bytes", title="x")})


def asked(batch, zero="none", stage=0, **other):
    sharding = {"name": zero, "stage": stage, "backend": "torch", "offload": "none"}
    return {"batch": batch, "zero": sharding, "precision": "fp32", **other}


def fitted(peaks, card=10 * GIB, metric="peak_bytes", **settings):
    """Return the analysis of runs with these behaviours and peaks."""
    runs = {f"run{number}": peak for number, peak in enumerate(peaks)}
    results = {run: result(metric, peak) for run, (_, peak) in runs.items()}
    return memory_fit.analyze.run(
        memory_peak=results if metric == "peak_bytes" else None,
        steps=results if metric == "peak_memory_bytes" else None,
        memory_model=results if metric == "held_bytes" else None,
        behaviour={run: behaviour for run, (behaviour, _) in runs.items()},
        hardware={run: Hardware(name="card", memory_bytes=card) for run in runs},
        config=memory_fit.Config(usable_share=1.0, **settings),
    )


def rows(found, name="fits"):
    table = found.tables[name]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("metric", ["peak_bytes", "peak_memory_bytes", "held_bytes"])
def test_two_batches_give_a_line_but_no_interval(metric):
    peaks = [(asked(batch), GIB + batch * GIB // 4) for batch in (2, 4)]
    found = fitted(peaks, metric=metric)
    (row,) = rows(found)
    # 1 GiB and a quarter for each sample: 36 samples fit 10 GiB.
    assert (row["largest_batch"], row["surely_batch"]) == (36, None)
    assert (row["fixed_bytes"], row["per_sample_bytes"]) == (pytest.approx(GIB), GIB / 4)
    assert "two batches lie on a line" in found.abstentions[0].reason
    assert found.findings[0].value == 36
    is_held = any("temporaries" in abstention.reason for abstention in found.abstentions)
    assert is_held is (metric == "held_bytes")
    assert "far beyond what was measured" in found.findings[0].message


def test_the_interval_is_that_of_a_prediction():
    batches = np.array([1, 2, 4, 8])
    peaks = GIB + batches * GIB / 4 + np.array([9, -8, 7, -5]) * 2**20
    line = linear_fit.fitted(batches, peaks)
    fit = stats.linregress(batches, peaks)
    assert line.factors == pytest.approx((fit.intercept, fit.slope))
    # The standard error of a prediction from the errors that scipy states of both parameters.
    batch = 30
    error = np.hypot(
        np.hypot(fit.intercept_stderr, 0),
        np.sqrt(max(fit.stderr**2 * (batch**2 - 2 * batch * batches.mean()), 0)),
    )
    residual = fit.stderr * np.sqrt(((batches - batches.mean()) ** 2).sum())
    expected = stats.t.ppf(0.975, 2) * np.hypot(error, residual)
    assert line.margin(batch, 0.95) == pytest.approx(expected)
    (row,) = rows(fitted([(asked(int(b)), p) for b, p in zip(batches, peaks, strict=True)]))
    limit = 10 * GIB
    assert line.at(row["largest_batch"]) <= limit < line.at(row["largest_batch"] + 1)
    surely, perhaps = row["surely_batch"], row["perhaps_batch"]
    assert surely < row["largest_batch"] < perhaps
    assert line.at(surely) + line.margin(surely, 0.95) <= limit
    assert line.at(surely + 1) + line.margin(surely + 1, 0.95) > limit
    assert row["recommended_batch"] == surely


def test_each_way_to_shard_has_a_line_and_a_place_on_the_frontier():
    peaks = []
    for batch in (1, 2, 4):
        peaks.append((asked(batch), 4 * GIB + batch * GIB))
        peaks.append((asked(batch, "zero3", 3), GIB + batch * GIB))
    found = fitted(peaks)
    assert {row["mode"]: row["largest_batch"] for row in rows(found)} == {
        "zero=none": 6,
        "zero=zero3 torch": 9,
    }
    scatter, frontier = found.charts
    assert (scatter.kind, frontier.y) == ("scatter", ("recommended_batch",))
    series = {row["series"] for row in rows(found, "lines")}
    assert {"zero=none", "zero=none, line", "zero=none, at most", "limit of 10 GiB"} <= series
    assert set(scatter.lines) == series - {"zero=none", "zero=zero3 torch"}


def test_runs_that_differ_in_more_than_the_batch_make_no_line():
    found = fitted([(asked(1), GIB), (asked(2, precision="bf16"), GIB)])
    assert not found.tables
    whats = [abstention.what for abstention in found.abstentions]
    assert whats == [
        "the largest batch of zero=none precision=fp32",
        "the largest batch of zero=none precision=bf16",
    ]


def test_a_peak_that_does_not_grow_is_not_extrapolated():
    found = fitted([(asked(1), GIB), (asked(2), GIB)])
    assert "does not grow with the batch" in found.abstentions[0].reason
    assert not found.findings


def test_without_a_card_there_are_lines_but_no_batch():
    found = fitted([(asked(1), GIB), (asked(2), 2 * GIB)], card=0)
    assert rows(found)[0]["largest_batch"] is None
    assert any(
        "memory of the card is not known" in abstention.reason for abstention in found.abstentions
    )
    assert not found.findings
    assert [chart.kind for chart in found.charts] == ["scatter"]


def test_the_card_can_be_set_and_may_be_too_small():
    found = fitted([(asked(1), GIB), (asked(2), 2 * GIB)], card_bytes=GIB // 2)
    assert rows(found)[0]["largest_batch"] == 0
    assert found.findings[0].severity == "warn"


def test_a_bend_is_reported():
    peaks = [(asked(batch), GIB * batch**2) for batch in (1, 2, 4, 8)]
    found = fitted(peaks)
    assert any("off the line" in abstention.reason for abstention in found.abstentions)


def test_each_phase_has_a_line_and_the_highest_is_the_peak():
    batches = (1, 2, 4)
    phases = [{"optimizer": 20.0, "backward": 10.0 + 2 * batch} for batch in batches]
    peak = fitted_peak(batches, phases)
    assert [peak.at(batch) for batch in (3, 5, 6, 16)] == pytest.approx([20, 20, 22, 42])
    assert peak.largest_below(21) == 5
    # As a whole, the peaks of these batches would not grow.
    flat = fitted_peak(batches, [{"": max(one.values())} for one in phases])
    assert flat.at(16) == pytest.approx(20)
    # A phase without the peak may be missing; where another has it, only the whole is known.
    phases[0]["data"] = 3.0
    assert fitted_peak(batches, phases).at(16) == pytest.approx(42)
    phases[1] = {"forward": 30.0}
    assert len(fitted_peak(batches, phases).curves) == 1


def test_small_batches_above_the_line_of_the_others_are_left_out():
    batches = np.array([1, 2, 4, 8, 16, 32])
    line = linear_fit.fitted_above(batches, np.maximum(20, 10 + 2 * batches))
    assert (line.xs, line.at(64)) == ((8, 16, 32), pytest.approx(138))
    # Two that are left lie on a line whatever happens.
    assert linear_fit.fitted_above([1, 2, 4], [20, 20, 30]).xs == (1, 2, 4)


def test_a_phase_with_two_peaks_is_the_higher_of_two_lines():
    # The backward pass of FSDP2, where gathered parameters or activations are most.
    batches, peaks = [1, 2, 4, 8], [13_696_488, 15_309_288, 21_363_944, 36_345_064]
    curve = fitted_peak(batches, [{"backward": peak} for peak in peaks])
    assert [curve.at(batch) for batch in batches] == pytest.approx(peaks)
    assert [curve.at(batch) for batch in (3, 6, 16)] == pytest.approx(
        [17_618_664, 28_854_504, 66_307_304]
    )
    one = linear_fit.fitted_above(batches, peaks)
    assert curve.margin(3, 0.95) == one.margin(3, 0.95) > 0
    # What bends downwards, or by less than noise, is one line.
    assert len(fitted_peak(batches, [{"": peak} for peak in (10, 30, 40, 42)]).curves) == 1
    assert len(fitted_peak(batches, [{"": peak} for peak in (10, 20, 40, 80.4)]).curves) == 1


def test_peaks_far_off_their_line_set_no_upper_end():
    peaks = [(asked(1), 1.0 * GIB), (asked(2), 1.5 * GIB), (asked(4), 1.6 * GIB)]
    found = fitted(peaks)
    (row,) = rows(found)
    assert (row["perhaps_batch"], row["surely_batch"] < row["largest_batch"]) == (None, True)
    assert f"95%: {row['surely_batch']} or more)" in found.findings[0].message


def test_a_batch_that_was_measured_and_fits_is_recommended_whatever_the_line_says():
    found = fitted([(asked(1), 1.0 * GIB), (asked(2), 6.0 * GIB), (asked(4), 9.9 * GIB)])
    (row,) = rows(found)
    assert row["surely_batch"] < 4
    assert row["recommended_batch"] == found.metrics["largest_batch"].value == 4


def test_the_largest_place_below_a_limit_is_exact():
    line = fitted_peak([1, 2], [{"": 3}, {"": 5}])
    assert [line.largest_below(limit) for limit in (1, 2.9, 3, 4.9, 5, 2001)] == [
        0,
        0,
        1,
        1,
        2,
        1000,
    ]


def test_on_a_cpu_the_limit_is_one_of_the_process():
    def peaks(device):
        held = table(pd.DataFrame({"device": [device]}), title="")
        return {
            f"run{number}": replace(result("peak_bytes", GIB * number), tables={"peaks": held})
            for number in (1, 2)
        }

    def largest(device):
        found = memory_fit.analyze.run(
            memory_peak=peaks(device),
            steps={
                f"run{number}": result("peak_memory_bytes", GIB * 2 * number) for number in (1, 2)
            },
            memory_model=None,
            behaviour={f"run{number}": asked(number) for number in (1, 2)},
            hardware={
                f"run{number}": Hardware(name="x", memory_bytes=8 * GIB) for number in (1, 2)
            },
            config=memory_fit.Config(usable_share=1.0),
        )
        return found.metrics["largest_batch"].value

    assert (largest("cpu:0"), largest("cuda:0")) == (4, 8)


@pytest.mark.parametrize(
    ("runs", "what", "reason"),
    [
        ([0], "the largest batch that fits", "its batch is not known: a line needs two"),
        ([4], "the largest batch that fits", "4 is its only batch: a line needs two"),
        ([4, 8], "the largest batch of zero=none precision=fp32", "4 is its only batch"),
    ],
)
def test_one_batch_gives_no_line_and_an_unknown_one_no_number(runs, what, reason):
    kinds = ["fp32", "bf16"]
    peaks = [(asked(batch) | {"precision": kind}, GIB) for batch, kind in zip(runs, kinds)]  # noqa: B905
    (missing, *_) = fitted(peaks).abstentions
    assert missing.what == what
    assert missing.reason.startswith(reason)
