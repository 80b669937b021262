"""Energy of steps and phases, from a counter that moves every 100 ms."""

import numpy as np
import pandas as pd
import pytest

from profkit import testing
from profkit.analyze.energy import analyze
from profkit.tables import schema
from profkit.testing import rows

MS = 1_000_000
# A float64 does not hold such a time to the nanosecond.
BEGIN = 1_795_000_000_000_000_001


def counter(joules_at, *, until_ms, rank=0, repeat=0):
    """Return what is read every 20 ms of a counter that is renewed every 100 ms."""
    times, update_ms = np.arange(0, until_ms + 1, 20), 100
    return schema.frame(
        "samples",
        [
            {"rank": rank, "repeat": repeat, "device": "gpu0", "metric": "energy_j"}
            | {"kind": "counter", "unit": "j", "time_ns": BEGIN + int(at) * MS, "step": -1}
            | {"value": 1000 + joules_at(at // update_ms * update_ms / 1000)}
            for at in times
        ],
    )


def spans(table, *spans_ms, rank=0, repeat=0, **columns):
    return schema.frame(
        table,
        [
            {"rank": rank, "repeat": repeat, "step": index, **columns}
            | {"start_ns": BEGIN + start * MS, "end_ns": BEGIN + end * MS}
            for index, (start, end) in enumerate(spans_ms)
        ],
    )


def run(samples, steps, annotations=None, **settings):
    return testing.run(
        analyze,
        samples={"nsys": (), "system": samples},
        steps={"nsys": steps, "system": steps},
        annotations=None if annotations is None else {"system": annotations},
        skip_first=0,
        **settings,
    )


def even(seconds):
    return 200 * seconds


LONG = ((1000, 3000), (3000, 5000))
SHORT = tuple((1000 + 40 * index, 1040 + 40 * index) for index in range(100))


def test_even_power_gives_its_energy_to_every_step_and_sample():
    result = run(counter(even, until_ms=6000), spans("steps", *LONG, samples=4))
    assert result.metrics["per_step_j"].value == pytest.approx(400)
    assert result.metrics["per_sample_j"].value == pytest.approx(100)
    assert [row["energy_j"] for row in rows(result, "by_step")] == pytest.approx([400, 400])
    (device,) = rows(result, "by_device")
    assert (device["mean_w"], device["energy_j"]) == pytest.approx((200, 800))
    assert [abstention.what for abstention in result.abstentions] == ["energy of phases"]


def test_short_steps_have_energy_together_but_not_each():
    result = run(counter(even, until_ms=6000), spans("steps", *SHORT, samples=4))
    assert result.metrics["per_step_j"].value == pytest.approx(8)
    assert {row["energy_j"] for row in rows(result, "by_step")} == {None}
    assert "the counter moves every 100 ms" in result.abstentions[0].reason


def test_a_window_shorter_than_ten_updates_has_no_energy():
    result = run(counter(even, until_ms=6000), spans("steps", *SHORT[:20], samples=4))
    assert "per_step_j" not in result.metrics
    assert "do not last 1 s" in result.abstentions[0].reason


def test_phases_take_what_is_drawn_while_they_run():
    forward = spans("annotations", (1000, 2000), (3000, 4000), name="forward")
    backward = spans("annotations", (2000, 3000), (4000, 5000), name="backward")
    optimizer = spans("annotations", (2990, 3000), (4990, 5000), name="optimizer")

    def alternating(seconds):
        """100 W in whole seconds that are odd, 300 W in the others."""
        return 200 * seconds - (
            100 * (seconds % 2) if seconds % 2 <= 1 else 100 * (2 - seconds % 2)
        )

    result = run(
        counter(alternating, until_ms=6000),
        spans("steps", *LONG, samples=-1),
        pd.concat([forward, backward, optimizer]),
    )
    found = {row["phase"]: row["energy_j"] for row in rows(result, "by_phase")}
    assert found.pop("optimizer") is None
    assert found == pytest.approx({"forward": 300, "backward": 100})
    assert "per_sample_j" not in result.metrics


def test_ranks_add_up_and_repeats_are_averaged():
    samples, steps = [], []
    for rank, repeat, factor in ((0, 0, 1), (1, 0, 2), (0, 1, 1), (1, 1, 4)):
        where = {"rank": rank, "repeat": repeat}
        samples.append(counter(lambda s, factor=factor: factor * even(s), until_ms=6000, **where))
        steps.append(spans("steps", *LONG, samples=4, **where))
    metric = run(pd.concat(samples), pd.concat(steps)).metrics["per_step_j"]
    assert metric.by_repeat == pytest.approx({0: 1200, 1: 2000})
    assert metric.value == pytest.approx(1600)


def test_a_counter_that_was_not_read_all_through_tells_nothing():
    result = run(counter(even, until_ms=4000), spans("steps", *LONG, samples=4))
    assert "per_step_j" not in result.metrics


@pytest.mark.parametrize("joules", [lambda _: 5, lambda s: -s], ids=["stands", "falls"])
def test_a_counter_that_does_not_count_is_no_counter(joules):
    result = run(counter(joules, until_ms=6000), spans("steps", *LONG, samples=4))
    assert "per_step_j" not in result.metrics
    assert result.abstentions


def test_without_a_counter_the_reason_is_given():
    power = counter(even, until_ms=100).assign(metric=pd.Categorical(["power_w"] * 6))
    assert "Volta" in run(power, spans("steps", *LONG)).abstentions[0].reason
