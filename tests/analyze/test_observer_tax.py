from profkit import schema
from profkit.analyze import observer_tax
from profkit.result import Severity


def table(*rows):
    return schema.frame(
        "steps",
        [
            {"rank": rank, "repeat": repeat, "step": step, "start_ns": 5, "end_ns": 5 + duration}
            for rank, repeat, step, duration in rows
        ],
    )


def run(tables):
    return observer_tax.analyze.run(tables, config=observer_tax.Config(skip_first=1))


def test_a_tool_is_compared_on_the_same_ranks_and_steps_without_warm_up():
    base = table((0, 0, 0, 999), (0, 0, 1, 10), (0, 0, 2, 20), (0, 1, 2, 20), (1, 0, 2, 40))
    tool = table((0, 0, 0, 1), (0, 0, 2, 30), (0, 1, 2, 40), (1, 0, 2, 40), (1, 0, 7, 5))
    result = run({"baseline": base, "nsys": tool})
    columns = ("tool", "rank", "repeat", "steps", "median_ns", "baseline_ns", "slowdown_ratio")
    assert result.tables["by_repeat"].columns == columns
    assert result.tables["by_repeat"].rows == (
        ("nsys", 0, 0, 1, 30.0, 20.0, 1.5),
        ("nsys", 0, 1, 1, 40.0, 20.0, 2.0),
        ("nsys", 1, 0, 1, 40.0, 40.0, 1.0),
    )
    assert {name: metric.value for name, metric in result.metrics.items()} == {
        "nsys_slowdown_ratio": 1.5
    }
    assert result.findings[0].severity is Severity.WARN
    assert result.findings[0].message == (
        "Steps take 1.50 times as long with nsys as without any tool "
        "(1.00 to 2.00 over 2 rank(s) and 2 repeat(s))."
    )


def test_the_costliest_tool_comes_first():
    base = table((0, 0, 1, 10))
    tools = {"py_spy": table((0, 0, 1, 10)), "nsys": table((0, 0, 1, 13))}
    result = run({"baseline": base, **tools})
    assert [row[0] for row in result.tables["by_tool"].rows] == ["nsys", "py_spy"]
    assert [each.severity for each in result.findings] == [Severity.WARN, Severity.INFO]


def test_without_a_baseline_nothing_is_known():
    tool = table((0, 0, 1, 10))
    assert run({"nsys": tool}).abstentions[0].what == "slowdown of the tools"
    empty = run({"baseline": schema.frame("steps"), "nsys": tool})
    assert empty.abstentions[0].what == "slowdown of the tools"
    assert run({"baseline": tool}).abstentions[0].reason == "only the baseline ran"


def test_a_tool_without_steps_in_common_is_named():
    result = run({"baseline": table((0, 0, 1, 10)), "nsys": table((0, 0, 9, 10))})
    assert [each.what for each in result.abstentions] == ["slowdown by nsys"]
    assert result.metrics == {}
