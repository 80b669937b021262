from profkit import testing
from profkit.analyze import memory_lines


def run(*lines):
    return testing.run(memory_lines.analyze, memory_lines=lines)


def line(number, peak, **rest):
    where = {"rank": 0, "repeat": 0, "device": "cuda:0", "function": "f", "file": "a.py"}
    return where | {"line": number, "code": f"x{number}", "peak_bytes": peak} | rest


def test_lines_stand_in_the_order_of_the_source_at_their_most_over_repeats():
    result = run(line(2, 10), line(1, 7), line(2, 30, repeat=1), line(1, 9, rank=1))
    table = result.tables["lines"]
    chosen = [table.columns.index(name) for name in ("rank", "line", "peak_bytes", "place")]
    assert [tuple(row[at] for at in chosen) for row in table.rows] == [
        (0, 1, 7, "1 x1"), (0, 2, 30, "2 x2"), (1, 1, 9, "1 x1"),
    ]  # fmt: skip
    assert result.metrics["peak_bytes"].by_repeat == {0: 10, 1: 30}


def test_nothing_recorded_is_an_abstention():
    assert [abstention.what for abstention in run().abstentions] == ["memory line by line"]
