import pandas as pd

from profkit.analyze import snapshot_diff
from profkit.tables import schema


def block(run, line, size, start, end=-1, **rest):
    where = {"rank": 0, "repeat": 0, "device": "cuda:0", "line": line, "size_bytes": size}
    return run, where | {"start_event": start, "end_event": end} | rest


def run(*blocks, **settings):
    frame = schema.frame("allocations", [row for _, row in blocks])
    frame["run"] = pd.Categorical(
        [name for name, _ in blocks], categories=list(dict.fromkeys(name for name, _ in blocks))
    )
    config = snapshot_diff.Config(**settings)
    return snapshot_diff.analyze.run(allocations=frame, config=config)


def rows(result, name):
    return list(result.tables[name].rows)


def test_runs_are_compared_with_the_first_by_line_largest_change_first():
    result = run(
        block("b2", "a", 10, 0), block("b2", "b", 30, 1),
        block("b4", "a", 20, 0), block("b4", "c", 50, 1), block("b4", "b", 30, 2, 3),
    )  # fmt: skip
    assert result.tables["between"].columns == (
        "run", "line", "before_bytes", "after_bytes", "change_bytes",
    )  # fmt: skip
    assert rows(result, "between") == [("b4", "c", 0, 50, 50), ("b4", "a", 10, 20, 10)]
    assert result.findings[0].message == (
        "b4 holds 60 B more than b2; what changed most, by 50 B, is from c."
    )


def test_two_instants_of_one_run_are_compared():
    result = run(
        block("x", "a", 10, -1, 1, step=-1),
        block("x", "b", 5, 0, step=0),
        block("x", "c", 7, 2, step=1),
        earlier=0,
        later="end",
    )
    assert rows(result, "within") == [("x", "a", 10, 0, -10), ("x", "c", 0, 7, 7)]
    assert [abstention.what for abstention in result.abstentions] == ["differences between runs"]


def test_of_each_run_the_device_with_the_highest_peak_counts():
    small = block("x", "a", 10, 0)
    large = block("x", "b", 90, 0, rank=1)
    result = run(small, large, block("y", "b", 90, 0))
    assert rows(result, "between") == []
    assert result.findings[0].message == "y holds 0 B more than x."
