import pytest

from profkit import testing
from profkit.analyze import memory_peak
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert
from profkit.testing import rows

FORWARD = "main (t.py:1);_call_impl (/torch/nn/modules/module.py:1);forward (m.py:5);aten::mm"
STEP = "main (t.py:9);step (/torch/optim/adam.py:3)"


def block(size, start, end=-1, stack="", **rest):
    where = {"rank": 0, "repeat": 0, "device": "cuda:0", "size_bytes": size}
    line = stack.partition(";")[0]
    events = {"start_event": start, "end_event": end, "stack": stack, "line": line}
    return where | events | rest


def run(*allocations, **settings):
    return testing.run(memory_peak.analyze, allocations=allocations, **settings)


def test_the_peak_counts_what_was_live_before_and_is_split_by_who_allocated():
    result = run(
        block(100, -1),
        block(50, -1, 1),
        block(30, 0, 3, FORWARD, step=4),
        block(200, 2, -1, STEP, step=4),
        block(20, 4, stack=FORWARD),
    )
    assert rows(result, "peaks") == [
        {
            "rank": 0, "repeat": 0, "device": "cuda:0", "peak_bytes": 330, "before_bytes": 150,
            "at_end_bytes": 320, "step": 4, "allocations": 5,
            "from_history": 3,
            "of_training": 1,
            "scores_bytes": 0,
        }
    ]  # fmt: skip
    origins = rows(result, "by_origin")
    assert [(row["origin"], row["live_bytes"], row["count"]) for row in origins] == [
        ("optimizer", 200, 1), ("before the history", 100, 1), ("forward", 30, 1),
    ]  # fmt: skip
    assert [(row["operator"], row["live_bytes"]) for row in rows(result, "by_operator")] == [
        ("(not recorded)", 300), ("aten::mm", 30),
    ]  # fmt: skip
    assert rows(result, "by_module")[-1]["module"] == "m.py:5"
    assert [abstention.what for abstention in result.abstentions] == [
        "who allocated 100 B of the peak"
    ]


def test_the_most_may_lie_before_the_first_entry():
    result = run(block(100, -1, 0), block(10, 1))
    assert rows(result, "peaks")[0]["peak_bytes"] == 100
    assert rows(result, "peaks")[0]["step"] is None
    assert [row["step"] for row in rows(result, "by_step")] == [None]


LIBRARY = "nn.Module: Linear_4;forward (/torch/nn/modules/linear.py:134)"


@pytest.mark.parametrize(
    ("stack", "module"),
    [
        (f"main (t.py:1);nn.Module: Gpt_0;forward (m.py:5);{LIBRARY};aten::mm", "Gpt_0.Linear_4"),
        ("forward (m.py:5);forward (/a/torch/nn/modules/linear.py:134);aten::mm", "m.py:5"),
        (r"forward (D:\x\torch\nn\modules\linear.py:134);aten::mm", "linear.py:134"),
        ("main (t.py:1);aten::mm", "(not recorded)"),
    ],
    ids=["named", "the program's own line", "the library's alone", "none"],
)
def test_a_module_is_named_or_the_line_that_tells_it_from_others(stack, module):
    (row,) = rows(run(block(10, 0, stack=stack)), "by_module")
    assert row["module"] == module


def test_what_was_found_when_memory_ran_out_has_no_origin_but_that():
    late = block(70, 1)
    result = run(block(10, 0, stack=FORWARD, start_ns=5), late, block(3, 0, device="cuda:1"))
    assert [(row["origin"], row["live_bytes"]) for row in rows(result, "by_origin")] == [
        ("after the window", 70), ("forward", 10),
    ]  # fmt: skip
    assert "tools.memory_snapshot.first_step" in result.abstentions[0].reason


def test_a_range_that_was_open_tells_more_than_the_stack():
    result = run(block(10, 0, stack=FORWARD, annotation="Optimizer.step#Adam.step", step=0))
    assert rows(result, "by_origin")[0]["origin"] == "optimizer"


def test_each_rank_has_its_details_from_its_highest_repeat():
    result = run(
        block(10, 0, stack=FORWARD),
        block(30, 0, stack=STEP, rank=1),
        block(40, 0, stack=FORWARD, rank=1, repeat=1),
        max_rows=1,
    )
    live = [(row["rank"], row["origin"], row["live_bytes"]) for row in rows(result, "by_origin")]
    assert live == [(1, "forward", 40), (0, "forward", 10)]
    assert [(row["rank"], row["part"], row["size_bytes"]) for row in rows(result, "parts")] == [
        (1, "forward;m.py:5;aten::mm", 40), (0, "forward;m.py:5;aten::mm", 10),
    ]  # fmt: skip
    assert {chart.choose for chart in result.charts} == {"rank"}


def test_stacks_begin_where_they_part():
    below = [
        "main (r.py:1);run (r.py:2);" + stack for stack in ("a (p.py:3);x", "a (p.py:3);y", "b")
    ]
    result = run(*(block(10 - n, n, stack=text) for n, text in enumerate(below)))
    assert [row["stack"] for row in rows(result, "stacks")] == [
        "run (r.py:2);a (p.py:3);x", "run (r.py:2);a (p.py:3);y", "run (r.py:2);b",
    ]  # fmt: skip
    alone = run(block(10, 0, stack=below[0]))
    assert [row["stack"] for row in rows(alone, "stacks")] == ["x"]


def test_rings_of_one_part_are_not_drawn():
    assert [chart.kind for chart in run(block(10, 0)).charts] == ["bar"]
    two = run(block(10, -1), block(10, 0, 3, FORWARD))
    assert [chart.kind for chart in two.charts] == ["sunburst", "bar"]


def test_the_flame_graph_has_all_of_the_peak_by_origin_with_whose_code_frames_are():
    result = run(block(100, -1), block(30, 0, 3, FORWARD), block(200, 2, -1, STEP))
    (detail,) = result.drawings["peak_frames"].details
    tree = detail.data()
    assert (detail.name, sum(tree["own"][0])) == ("rank 0, cuda:0", 330)
    assert tree["groups"] == [["optimizer"], ["before the history"], ["forward"]]
    kind_of = [tree["kinds"][kind] for kind in tree["kind"]]
    kinds = dict(zip(tree["names"], kind_of, strict=True))
    assert kinds["(stack not recorded)"] == "other"
    assert kinds["step (/torch/optim/adam.py:3)"] == "library:torch"
    assert (kinds["forward (m.py:5)"], kinds["aten::mm"]) == ("program", "operator")


def test_many_rows_are_divided_among_the_ranks_and_what_is_left_out_is_said():
    many = [block(1, n, stack=f"f{n} (a.py:{n})", rank=rank) for rank in (0, 1) for n in range(30)]
    result = run(*many, max_rows=40)
    assert len(result.tables["by_line"].rows) == 40
    note = "The first 20 rows of each rank; 20 more are left out."
    assert result.tables["by_line"].note == note


# Peaks from what was live before on; those of the plain replay are in the converter's tests.
@pytest.mark.parametrize(
    ("name", "peak_bytes"),
    [
        ("magma27_memory_snapshot", 13923997700),
        ("niu_forward_100", 412643888),
        ("silmont_mem_snapshot", 3249143816),
    ],
)
def test_peaks_of_real_snapshots(real_data, tmp_path, name, peak_bytes):
    raw = Raw(path=real_data / "memory" / f"{name}.pickle", label="r", rank=0, repeat=0)
    allocations = convert.run(raw, tmp_path).tables["allocations"].to_pandas()
    result = memory_peak.analyze.run(allocations=allocations, config=memory_peak.Config())
    assert result.metrics["peak_bytes"].value == peak_bytes
    for by in ("origin", "line", "operator", "module", "step"):
        assert sum(row["live_bytes"] for row in rows(result, f"by_{by}")) == peak_bytes


def test_the_most_of_each_phase_is_what_was_allocated_after_it_allocated():
    result = run(
        block(100, -1),
        block(30, 0, 3, FORWARD),
        block(200, 2, 5, STEP),
        block(20, 4, stack=FORWARD),
        block(10, 1, -1, FORWARD, device="cuda:1"),
    )
    assert {row["phase"]: row["peak_bytes"] for row in rows(result, "phases")} == {
        "before the history": 100, "forward": 320, "optimizer": 330,
    }  # fmt: skip
