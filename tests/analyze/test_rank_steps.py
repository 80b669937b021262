import pandas as pd

from profkit import testing
from profkit.analyze import rank_steps
from profkit.analyze.shared import matrix
from profkit.core.result import Result, Table
from profkit.testing import ORIGIN_NS, span

MS = 1_000_000


def step(rank, number, time_ms, **rest):
    start = ORIGIN_NS + number * 100 * MS
    return {"rank": rank, "step": number, "start_ns": start, "end_ns": start + time_ms * MS} | rest


def op(rank, number, phase, start, end):
    return span(start * MS, end * MS, rank=rank, step=number, phase=phase)


def layers(drawing):
    found = drawing.data["layers"]
    details = {detail.name: detail.data()["values"] for detail in drawing.details}
    return {one["title"]: details.get(one["title"]) or one["values"] for one in found}


CAUSES = Result(
    tables={
        "causes": Table(
            title="", columns=("id", "title"), rows=(("gpu_idle.blocked.cudaFree", "cudaFree"),)
        ),
        "by_step": Table(
            title="",
            columns=("rank", "repeat", "step", "step_time_ns", "gpu_idle.blocked.cudaFree_ns"),
            rows=tuple(
                (rank, repeat, 3, (10 + repeat) * MS, (1 + rank + repeat) * MS)
                for rank in range(2)
                for repeat in range(2)
            ),
        ),
    }
)


def test_each_rank_and_step_has_its_time_cause_and_phases():
    unprofiled = [step(rank, number, 10 + rank) for rank in range(2) for number in range(5)]
    result = testing.run(
        rank_steps.analyze,
        steps=[step(rank, 3, 20) for rank in range(2)],
        unprofiled=unprofiled,
        cpu_ops=[op(0, 3, "forward", 0, 4), op(0, 3, "forward", 1, 5), op(1, 3, "backward", 0, 2)],
        causes=CAUSES,
    )
    drawing = result.drawings["rank_steps"]
    assert drawing.data["rows"]["names"] == [0, 1]
    assert drawing.data["columns"]["names"] == [3, 4]
    assert layers(drawing) == {
        "Step time, unprofiled": [10_000, 10_000, 11_000, 11_000],
        "Step time, traced": [10_500, None, 10_500, None],
        "cudaFree": [1500, None, 2500, None],
        "Forward": [5000, None, None, None],
        "Backward": [None, None, 2000, None],
    }
    causes = result.drawings["rank_causes"].data
    assert (causes["columns"]["names"], causes["layers"][0]["values"]) == (
        ["cudaFree"],
        [1500, 2500],
    )


def test_of_more_ranks_than_are_drawn_the_map_says_how_many_there_are():
    result = testing.run(rank_steps.analyze, steps=[step(0, 3, 20)], causes=CAUSES, most_ranks=1)
    for drawing in result.drawings.values():
        assert (len(drawing.data["rows"]["names"]), drawing.data["rows"]["total"]) == (1, 2)
    assert len(result.drawings["rank_causes"].data["layers"][0]["values"]) == 1


def test_what_others_wait_for_is_a_mean_over_the_repeats_and_zero_elsewhere():
    stragglers = Result(
        tables={
            "by_step": Table(
                title="", columns=("step", "rank", "caused_wait_ns"), rows=((4, 1, 3000),)
            )
        }
    )
    steps = [step(rank, 4, 1, repeat=repeat) for rank in range(2) for repeat in range(2)]
    found = testing.run(rank_steps.analyze, steps=steps, stragglers=stragglers)
    assert layers(found.drawings["rank_steps"])["Others wait for it"] == [0, 1500]


def test_a_thousand_ranks_stay_small_and_keep_those_that_differ():
    rows = [
        (rank, number, 9e6 if rank == 777 else 1e6 + rank % 7)
        for rank in range(3000)
        for number in range(40)
    ]
    times = pd.DataFrame(rows, columns=["rank", "step", "time_ns"])
    layer = matrix.Layer(title="Step time", group="Step", times=times)
    found = matrix.by_step([layer], 1000, 20_000)
    assert len(found["layers"][0]["values"]) == 20_000
    assert found["rows"]["total"] == 3000
    assert (found["columns"]["names"][:2], found["columns"]["last"][:2]) == ([0, 2], [1, 3])
    row = found["rows"]["names"].index(777)
    assert set(found["layers"][0]["values"][row * 20 : row * 20 + 20]) == {9000}


def test_every_layer_says_which_ranks_are_alike():
    rows = tuple(
        (rank, 0, number, 10 * MS, (2 + 3 * (rank % 2)) * MS + rank)
        for rank in range(64)
        for number in range(3, 203)
    )
    columns = CAUSES.tables["by_step"].columns
    causes = Result(tables=CAUSES.tables | {"by_step": Table(title="", columns=columns, rows=rows)})
    found = testing.run(rank_steps.analyze, steps=[step(0, 3, 10)], causes=causes)
    drawing = found.drawings["rank_steps"]
    (of_cause,) = (detail.data() for detail in drawing.details)
    shown = [of_cause, *(one for one in found.drawings["rank_causes"].data["layers"])]
    for layer in shown:
        assert {frozenset(layer["alike"][:32]), frozenset(layer["alike"][32:])} == {
            frozenset(range(0, 64, 2)),
            frozenset(range(1, 64, 2)),
        }
    assert [layer.get("alike") for layer in drawing.data["layers"]] == [None, []]


def test_further_layers_are_read_when_they_are_asked_for():
    rows = tuple((rank, 0, 3, 10 * MS, 2 * MS) for rank in range(13_000))
    columns = CAUSES.tables["by_step"].columns
    causes = Result(tables=CAUSES.tables | {"by_step": Table(title="", columns=columns, rows=rows)})
    steps = [step(0, 3, 10)]
    found = testing.run(rank_steps.analyze, steps=steps, causes=causes, most_ranks=13_000)
    drawing = found.drawings["rank_steps"]
    assert [detail.name for detail in drawing.details] == ["cudaFree"]
    assert len(drawing.details[0].data()["values"]) == 13_000


def test_a_map_of_one_cell_is_none():
    result = testing.run(rank_steps.analyze, steps=[step(0, 3, 20)])
    assert not result.drawings
    assert result.abstentions[0].reason.startswith("one step of one rank was recorded")
