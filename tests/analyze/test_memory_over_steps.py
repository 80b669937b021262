from profkit import testing
from profkit.analyze import memory_over_steps
from profkit.testing import rows

PLACE = {"rank": 0, "repeat": 0}
STEPS = [{**PLACE, "step": n, "start_ns": 100 * n, "end_ns": 100 * n + 100} for n in range(8)]


def block(line, size, start_ns, end_ns=-1):
    live = {"start_event": 0, "end_event": -1 if end_ns < 0 else 1}
    times = {"start_ns": start_ns, "end_ns": end_ns}
    return {**PLACE, "device": "cuda:0", "line": line, "size_bytes": size, **live, **times}


def run(allocations, steps=STEPS, **settings):
    given = {"allocations": allocations, "steps": steps}
    return testing.run(memory_over_steps.analyze, **given, **settings)


def steady(step):
    return block("forward (m.py:1)", 500_000, 100 * step + 10, 100 * step + 90)


def test_a_line_that_leaves_more_after_every_step_leaks():
    kept = [block("log (t.py:9)", 10_000, 100 * step + 50) for step in range(8)]
    result = run([*kept, *map(steady, range(8))])
    assert rows(result, "growth") == [
        {
            **PLACE, "device": "cuda:0", "line": "log (t.py:9)", "first_bytes": 40_000,
            "last_bytes": 80_000, "steps": 5, "growing_share": 1.0, "per_step_bytes": 10_000,
            "leaks": "yes",
        }
    ]  # fmt: skip
    assert result.metrics["growth_bytes"].value == 10_000


def test_states_that_the_first_step_makes_are_no_leak():
    states = [block("adam (t.py:3)", 90_000, 80)]
    result = run([*states, *map(steady, range(8))])
    assert rows(result, "growth") == []
    assert [row["live_bytes"] for row in rows(result, "totals")] == [90_000] * 5


def test_what_was_live_before_is_counted_and_steps_outside_are_not():
    before = block("", 7, -1) | {"start_event": -1}
    result = run([before, block("a", 1, 410), block("a", 2, 710, 720)], skip_first=0)
    assert [(row["step"], row["live_bytes"]) for row in rows(result, "totals")] == [
        (4, 8), (5, 8), (6, 8), (7, 8),
    ]  # fmt: skip


def test_two_steps_tell_of_no_growth():
    result = run([block("a", 1, 10), block("a", 1, 110)], STEPS[:2])
    assert [abstention.what for abstention in result.abstentions] == ["growth from step to step"]
