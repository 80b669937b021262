"""Who holds what is live at the peak of the host's memory."""

import pandas as pd
import pytest

from profkit.analyze.host_memory_peak import Config, analyze
from profkit.tables import schema
from profkit.testing import rows

LOAD, PARSE = "load (data.py:3)", "parse (data.py:9)"


def stacks(*rows):
    return schema.frame(
        "host_stacks",
        [
            {"rank": rank, "repeat": 0, "stack": ";".join(frames)}
            | {"allocations": 1, "size_bytes": size}
            for rank, frames, size in rows
        ],
    )


def heap(*levels, rank=0):
    row = {"rank": rank, "repeat": 0, "device": "process", "metric": "heap_bytes"}
    return schema.frame(
        "samples",
        [{**row, "step": step, "value": float(level)} for step, level in enumerate(levels)],
    )


LIVE = stacks((0, (LOAD,), 100), (0, (LOAD, PARSE), 300), (1, (LOAD,), 50))


def test_what_is_live_belongs_to_who_asked_for_it_and_to_all_above():
    result = analyze.run(host_stacks={"host_memory": LIVE}, samples=None, config=Config())
    found = [
        (row["rank"], row["function"], row["self_bytes"], row["total_bytes"])
        for row in rows(result, "functions")
    ]
    assert found == [
        (0, "parse (data.py)", 300, 300),
        (0, "load (data.py)", 100, 400),
        (1, "load (data.py)", 50, 50),
    ]
    assert result.metrics["peak_bytes"].value == 400
    assert [abstention.what for abstention in result.abstentions] == ["growth of CPU memory"]


def test_what_profkit_holds_is_in_the_peak_and_among_no_functions():
    own = ("main (/x/profkit/capture/harness/rank.py:63)",)
    imported = (*own, "_find_and_load (<frozen importlib._bootstrap>:1)", "f (torch/a.py:1)")
    program = (*own, "run_path (<frozen runpy>:2)", LOAD)
    live = stacks((0, own, 500), (0, imported, 200), (0, program, 100))
    result = analyze.run(host_stacks={"x": live}, samples=None, config=Config())
    found = {row["function"]: row["self_bytes"] for row in rows(result, "functions")}
    assert found == {
        "f (torch/a.py)": 200,
        "load (data.py)": 100,
        "_find_and_load (<frozen importlib._bootstrap>)": 0,
    }
    assert result.metrics["peak_bytes"].value == 800
    nothing = analyze.run(host_stacks={"x": stacks((0, own, 5))}, samples=None, config=Config())
    assert nothing.abstentions[0].reason == "all that was live at the peak is of profkit itself"


def test_a_heap_that_grows_with_every_step_is_a_warning():
    steady, growing = heap(*[9_000_000] * 6, rank=1), heap(*(2_000_000 * step for step in range(6)))
    samples = {"host_memory": pd.concat([steady, growing])}
    result = analyze.run(host_stacks={"host_memory": LIVE}, samples=samples, config=Config())
    (finding,) = result.findings
    assert (finding.severity, finding.value) == ("warn", pytest.approx(2_000_000))
    assert finding.evidence == {"rank": 0}
    assert result.abstentions == ()


def test_without_an_allocation_nothing_is_known():
    result = analyze.run(host_stacks={"host_memory": stacks()}, samples=None, config=Config())
    assert result.findings == ()
    assert result.abstentions
