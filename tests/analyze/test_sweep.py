"""sweep: what the repeats support, and no more."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from profkit.analyze import sweep
from profkit.analyze._sweep_axes import axes_of
from profkit.core.result import Metric, Result, table
from profkit.core.step_time import step_time_title

STEADY = np.array([1.0, 1.004, 0.997, 1.002, 0.999, 1.0])
MIB = 2**20
TITLES = {"step_time_ns": step_time_title("baseline")}


def steps(level, peak=None, repeats=STEADY, samples=0):
    """Return the steps of a run: its time in ms, peak in MiB, and samples of a step if counted."""
    times = 1e6 * level * np.asarray(repeats)
    values = {"step_time_ns": (times, "ns")}
    if samples:
        values["throughput_per_s"] = (samples * 1e9 / times, "per_s")
    if peak is not None:
        values["peak_memory_bytes"] = (np.full(len(times), peak * MIB), "bytes")
    return Result(
        metrics={
            name: Metric(
                value=float(np.median(of)),
                unit=unit,
                title="Throughput" if "put" in name else TITLES.get(name, name),
                by_repeat=dict(enumerate(of.tolist())),
            )
            for name, (of, unit) in values.items()
        }
    )


def asked(batch, world_size=1, zero="none"):
    return {"batch": batch, "world_size": world_size, "zero": {"name": zero, "stage": len(zero)}}


def swept(runs, memory_peak=None):
    """Return the analysis of runs, each given as its settings and its steps."""
    return sweep.analyze.run(
        steps={f"run{number}": found for number, (_, found) in enumerate(runs)},
        memory_peak=memory_peak,
        behaviour={f"run{number}": behaviour for number, (behaviour, _) in enumerate(runs)},
        config=sweep.Config(),
    )


def rows(found, name="runs"):
    return found.tables[name].records()


def by_batch(times, **more):
    batches = (1, 2, 4, 8)
    return [
        (asked(batch), steps(time, 100 + 10 * batch, **more))
        for batch, time in zip(batches, times, strict=True)
    ]


def test_a_run_that_was_timed_with_a_profiler_is_no_point_of_the_sweep():
    (batch, first), *others = by_batch([10, 11, 13, 40])
    time = replace(first.metrics["step_time_ns"], title="Step time, mean, with torch_profiler")
    traced = replace(first, metrics={"step_time_ns": time})
    found = swept([(batch, traced), *others])
    assert [row["run"] for row in rows(found)] == ["run1", "run2", "run3"]
    assert found.abstentions[0].what == "what run0 is against others"
    assert found.abstentions[0].reason.startswith("Step time, mean, with torch_profiler; others")


def test_the_batch_at_the_peak_is_recommended_and_only_what_differs_is_shown():
    found = swept(by_batch([10, 11, 13, 40]))
    (finding,) = found.findings
    assert finding.message == (
        "Take batch 4: throughput peaks there, at 307.7 samples/s (batch / step time); "
        "batch 8 also fits."
    )
    assert finding.evidence == {"run": "run2", "knee_batch": 4.0}
    assert list(rows(found)[0])[:2] == ["run", "batch"]
    assert [row["is_slower"] for row in rows(found)] == ["yes", "yes", "fastest", "yes"]
    # The largest takes more memory and is slower.
    assert [row["on_pareto_front"] for row in rows(found)] == ["yes", "yes", "yes", "no"]
    assert [row["run"] for row in found.tables["pareto"].records()] == [
        *("run0", "run1", "run2", "run3"),
        *["Pareto front"] * 3,
    ]
    (chart,) = found.charts
    assert (chart.table, chart.color, chart.lines) == ("pareto", "run", ("Pareto front",))
    assert found.abstentions[0].what == "step time at other values of batch"


def test_the_front_rises_with_memory_though_repeats_tell_little():
    batches = [(asked(batch), steps(time, memory)) for batch, time, memory in (
        (1, 10, 110), (2, 30, 120), (4, 39, 130), (8, 60, 100))]  # fmt: skip
    drawn = swept(batches).tables["pareto"].records()
    line = [row for row in drawn if row["run"] == "Pareto front"]
    speeds = [row["throughput_per_s"] for row in line]
    assert speeds == sorted(speeds)
    assert len(line) < len(batches)


def test_a_smaller_batch_with_most_of_the_throughput_is_named():
    (finding,) = swept(by_batch([10, 11, 20.5, 40])).findings
    assert finding.message == (
        "Take batch 8: throughput peaks there, at 200 samples/s (batch / step time); "
        "batch 2 has 91% of it."
    )
    assert finding.evidence == {"run": "run3", "knee_batch": 2.0}


def test_of_equally_fast_batches_the_one_with_less_memory_is_recommended():
    (finding,) = swept(by_batch([10, 11, 13, 26])).findings
    assert finding.message == (
        "Take batch 4: 307.7 samples/s (batch / step time), and batch 8 is not known to be faster "
        "and takes "
        "180 MiB instead of 140 MiB."
    )


@pytest.mark.parametrize(
    "repeats",
    [[1.0], STEADY[:3], [1.0, 1.9, 0.6, 1.5, 0.7, 1.1]],
    ids=["one repeat", "three repeats", "noise"],
)
def test_nothing_is_recommended_that_the_repeats_do_not_support(repeats):
    found = swept(by_batch([10, 11, 13, 24], repeats=repeats))
    turned = by_batch([10, 11, 13, 24], repeats=repeats)
    turned[1] = (turned[1][0], steps(11, 120, repeats=repeats[::-1]))
    noisy = swept([turned[0], turned[1]])
    assert noisy.findings == ()
    assert "fastest" not in [row["is_slower"] for row in rows(noisy)]
    [unsure] = [known for known in noisy.abstentions if "fastest" in known.what]
    assert " samples/s (batch / step time) against " in unsure.reason
    assert len(found.tables["runs"].rows) == 4


def test_a_run_that_is_only_not_known_to_be_slower_is_not_recommended():
    runs = by_batch([10, 11, 13, 26])
    # Batch 2 has less than half of the best throughput, in repeats too uneven to say so.
    runs[1] = (runs[1][0], steps(15, 120, repeats=[1.0, 2.9, 0.5, 2.8, 0.4, 1.1]))
    found = swept(runs)
    assert [row["is_slower"] for row in rows(found)] == ["yes", *["not known"] * 3]
    assert found.findings == ()
    speeds = (
        "307.7 samples/s (batch / step time) against 307.7 of batch 8, 127 of batch 2; "
        "their repeats do not"
    )
    assert found.abstentions[0].reason.startswith(speeds)


def test_batches_that_were_not_run_are_predicted_with_intervals():
    times = 5 + 2 * np.array([1, 2, 4, 8]) + np.array([0.01, -0.02, 0.01, 0.01])
    found = swept(by_batch(times))
    predictions = rows(found, "predicted_step_time_ns")
    assert [row["value"] for row in predictions] == [3, 6, 16]
    for row in predictions:
        assert row["low_ns"] < 1e6 * (5 + 2 * row["value"]) < row["high_ns"]
    (last,) = [row for row in rows(found, "predicted_peak_memory_bytes") if row["value"] == 16]
    assert last["peak_memory_bytes"] == pytest.approx(260 * MIB)


def test_scaling_is_throughput_per_rank_over_that_of_the_fewest():
    found = swept(
        [
            (asked(4, ranks), steps(10, samples=4 * ranks * share, repeats=STEADY))
            for ranks, share in ((1, 1.0), (2, 0.9), (4, 0.7))
        ]
    )
    shares = [row["scaling_share"] for row in rows(found)]
    assert shares[1:] == [pytest.approx(0.9), pytest.approx(0.7)]
    assert "With 4 ranks, throughput per rank is 70% of that with fewest." in [
        finding.message for finding in found.findings
    ]


def test_a_setting_that_does_not_follow_from_its_group_is_an_axis_of_its_own():
    runs = {
        f"{name}-{backend}": {"zero": {"name": name, "backend": backend, "stage": int(name[-1])}}
        for name in ("zero1", "zero2")
        for backend in ("torch", "deepspeed")
    }
    assert axes_of(runs)["zero1-torch"] == {"zero": "zero1", "zero.backend": "torch"}


def test_three_axes_make_a_map_of_the_first_and_the_others():
    points = [
        sweep.Point(
            run=f"{zero}{batch}{dtype}",
            choice={"zero": zero, "batch": batch, "dtype": dtype},
            speed=Metric(value=batch, unit="per_s", title="Speed"),
            memory=1.0,
        )
        for zero in ("zero1", "zero2")
        for batch in (10, 2)
        for dtype in ("fp32", "bf16")
    ]
    data = sweep._drawings(points)["by_axes"].data
    assert data["rows"]["names"] == ["zero1", "zero2"]
    assert data["columns"]["of"] == "batch and dtype"
    assert data["columns"]["names"][0] == "batch 2, bf16"
    assert data["names"][0] == "zero12bf16"
    assert len(data["names"]) == 8


def test_two_axes_make_a_map_and_a_group_is_one_axis():
    runs = [
        (asked(batch, zero=zero), steps(time, peak))
        for batch, zero, time, peak in (
            (2, "none", 15, 90),
            (1, "none", 10, 80),
            (1, "zero2", 12, 70),
        )
    ]
    drawing = swept(runs).drawings["by_axes"]
    speed, memory = drawing.data["layers"]
    assert drawing.data["rows"] == {"of": "batch", "names": [1, 2]}
    assert drawing.data["columns"] == {"of": "zero", "names": ["none", "zero2"]}
    assert speed["values"] == [*map(pytest.approx, (100.0, 1000 / 12, 2000 / 15)), None]
    assert memory["values"] == [80 * MIB, 70 * MIB, 90 * MIB, None]
    assert (speed["unit"], memory["unit"], memory["columns"]) == ("per_s", "bytes", 2)
    assert drawing.data["names"] == ["run1", "run2", "run0", ""]
    assert swept(by_batch([10, 11, 13, 40])).drawings == {}


@pytest.mark.parametrize("seeds", [(0,), (0, 1)], ids=["one run", "the noise"])
def test_without_an_axis_there_is_no_sweep(seeds):
    found = swept([(asked(1) | {"seed": seed}, steps(10 + seed)) for seed in seeds])
    assert found.abstentions[0].reason.startswith("it takes two runs")
    assert found.findings == ()


def test_memory_is_that_of_the_allocator_by_phase_where_it_was_recorded():
    runs = by_batch([10, 11, 13, 40])
    peaks = {}
    for number, batch in enumerate((1, 2, 4, 8)):
        phases = {"optimizer": 50 * MIB, "backward": (30 + 8 * batch) * MIB}
        peaks[f"run{number}"] = Result(
            tables={
                "phases": table(
                    pd.DataFrame({"phase": [*phases], "peak_bytes": [*phases.values()]}), title=""
                )
            }
        )
    found = swept(runs, peaks)
    assert [row["peak_memory_bytes"] / MIB for row in rows(found)] == [50, 50, 62, 94]
    predictions = rows(found, "predicted_peak_memory_bytes")
    assert [row["peak_memory_bytes"] / MIB for row in predictions] == pytest.approx([54, 78, 158])
    assert "allocator" in found.tables["predicted_peak_memory_bytes"].note


def test_noise_along_the_batch_is_not_taken_for_a_bend():
    times = 20 + 5 * np.array([1, 2, 4, 8]) + np.array([0.5, 0.5, -1.5, 0.5])
    predictions = rows(swept(by_batch(times)), "predicted_step_time_ns")
    assert predictions[-1]["step_time_ns"] == pytest.approx(100e6, rel=0.03)


@pytest.mark.parametrize(
    ("key", "values", "law", "asked_for"),
    [
        ("context", (32, 64, 128, 256), lambda x: 1 + x / 64 + (x / 64) ** 2, 512),
        ("world_size", (1, 2, 4), lambda x: 5 + 20 / x, 8),
    ],
    ids=["parabola of a sequence", "share of a rank"],
)
def test_other_axes_have_curves_of_their_own(key, values, law, asked_for):
    runs = [(asked(2) | {key: value}, steps(law(value), 10 * law(value))) for value in values]
    found = swept(runs)
    for metric, unit in (("step_time_ns", 1e6), ("peak_memory_bytes", 10 * MIB)):
        (row,) = [row for row in rows(found, f"predicted_{metric}") if row["value"] == asked_for]
        assert (row["axis"], row[metric]) == (key, pytest.approx(unit * law(asked_for), rel=0.01))
