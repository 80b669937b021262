"""memory_model: measured beside the closed form, and the difference by name."""

import pytest

from profkit.analyze import memory_model
from profkit.tables import schema
from profkit.workloads.models.gpt import Model

GPT = {"name": "t", "family": "gpt", "vocabulary": 64, "context": 8, "layers": 2, "width": 16}
COUNT = Model(vocabulary=64, context=8, layers=2, width=16).parameter_count()


def asked(stage=0, backend="torch", **other):
    zero = {"name": "z", "stage": stage, "backend": backend, "offload": "none"}
    train = {"name": "train"}
    return {"workload": train, "model": GPT, "zero": zero, "world_size": 2, "batch": 2, **other}


def row(kind, size, rank=0, point="backward", **other):
    where = {"rank": rank, "repeat": 0, "step": 2, "point": point, "model": "Gpt"}
    return {**where, "kind": kind, "size_bytes": size, "device": "cpu", "tensors": 1, **other}


def found(rows, behaviour):
    layers = schema.frame("layers", rows)
    return memory_model.analyze.run(
        layers=layers, behaviour=behaviour, config=memory_model.Config()
    )


def table(result, name="compared"):
    rows = result.tables[name]
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


def test_the_difference_is_uneven_shares_counters_and_padding():
    half = 4 * COUNT
    rows = []
    for rank, more in ((0, 100), (1, -100)):
        rows.append(row("parameters", 4 * COUNT, rank))
        rows.append(row("gradients", 4 * COUNT + 32, rank))
        rows.append(row("states", half + more + 24, rank, tensors=18))
    result = found(rows, asked(stage=1))
    states = [row for row in table(result) if row["quantity"] == "states"]
    assert [row["closed_form_bytes"] for row in states] == [half, half]
    assert [row["difference_bytes"] for row in states] == [124, -76]
    assert [row["uneven_bytes"] for row in states] == [100, -100]
    # 18 tensors are two moments and a counter of 4 bytes for each of 6.
    assert [row["counters_bytes"] for row in states] == [24, 24]
    assert [row["padding_bytes"] for row in states] == [0, 0]
    gradients = next(row for row in table(result) if row["quantity"] == "gradients")
    assert gradients["padding_bytes"] == 32
    assert not result.findings, "within 2 % of what is expected"


@pytest.mark.parametrize(("more", "counters"), [(0, 0), (10, 10), (30, 24), (-100, 0)])
def test_counters_are_never_more_than_what_is_there(more, counters):
    rows = [row("parameters", 4 * COUNT), row("states", 8 * COUNT + more, tensors=18)]
    (states,) = (
        row for row in table(found(rows, asked(world_size=1))) if row["quantity"] == "states"
    )
    assert states["counters_bytes"] == counters
    assert states["padding_bytes"] == max(more - counters, 0), "padding is never negative"
    assert states["missing_bytes"] == max(-more, 0)
    parts = ("uneven_bytes", "counters_bytes", "padding_bytes")
    assert sum(states[part] for part in parts) - states["missing_bytes"] == more


def test_what_is_far_off_is_a_warning_that_names_it():
    rows = [row("parameters", 4 * COUNT), row("gradients", 8 * COUNT), row("states", 8 * COUNT)]
    result = found(rows, asked(world_size=1))
    (finding,) = result.findings
    assert finding.severity == "warn"
    assert finding.message.endswith("expected: +100.0% on the mean of ranks.")


def test_the_most_of_any_instant_counts_and_the_cache_does_not():
    rows = [
        row("parameters", 100, point="set_up"),
        row("activations", 50, point="forward"),
        row("parameters", 100, point="forward"),
        row("cache", 1000, point="set_up"),
    ]
    result = found(rows, asked())
    assert result.metrics["held_bytes"].value == 150
    assert result.metrics["held_bytes"].by_repeat == {0: 150}
    assert [row["kind"] for row in table(result, "beyond")] == ["cache"]
    layout = {row["path"]: row["size_bytes"] for row in table(result, "layout")}
    assert layout == {"parameters;Gpt": 100, "activations;Gpt": 50}


def test_what_nobody_looked_for_is_an_abstention_and_no_zero():
    result = found([row("parameters", 4 * COUNT, point="set_up")], asked())
    assert {row["quantity"] for row in table(result)} == {"parameters", "masters"}
    whats = {abstention.what for abstention in result.abstentions}
    assert {"gradients", "states", "activations"} <= whats


def test_scripts_have_no_closed_form():
    result = found([row("parameters", 100)], asked(workload={"name": "script"}))
    assert result.abstentions[0].what == "the closed form of memory"
    assert table(result)[0]["closed_form_bytes"] is None
    assert not result.findings


@pytest.mark.parametrize(
    "other",
    [{"model": {**GPT, "dropout": 0.1}}, {"compile": "default"}],
    ids=["masks", "compiled"],
)
def test_activations_without_a_closed_form_are_an_abstention(other):
    result = found([row("parameters", 4 * COUNT)], asked(**other))
    assert "the closed form of activations" in [
        abstention.what for abstention in result.abstentions
    ]


def test_a_model_that_cannot_tell_its_size_is_counted():
    hf = {"name": "hf", "family": "hf", "layers": 1, "vocabulary": 64, "context": 8, "width": 16}
    result = found([row("parameters", 400, elements=100)], asked(model={**hf, "hidden": 24}))
    closed = table(result)[0]["closed_form_bytes"]
    known = [
        abstention
        for abstention in result.abstentions
        if abstention.what == "the closed form of memory"
    ]
    assert closed == 400 or known
