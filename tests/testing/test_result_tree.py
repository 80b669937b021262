"""Tables and result trees made by hand go through the stages as those of captures do."""

import pandas as pd
import pytest

from profkit.analyze import breakdown
from profkit.api import InputError
from profkit.tables import schema
from profkit.testing import ORIGIN_NS, ResultTree, frame, rows, run, span

STEPS = '{"rank": 0, "steps": [[10, 20, 4, 99], [20, 35, 4, 100]]}'


def test_rows_are_dictionaries_or_tuples():
    steps = frame("steps", [(0, 1, 5), (1, 1, 6)], "rank repeat step")
    row = {"repeat": 1, "rank": 0, "step": 5}
    pd.testing.assert_frame_equal(steps, schema.frame("steps", [row, row | {"rank": 1, "step": 6}]))
    pd.testing.assert_frame_equal(frame("steps"), schema.frame("steps"))
    with pytest.raises(ValueError, match="zip"):
        frame("steps", [(0,)], "rank step")


def test_a_time_that_became_a_float_is_seen():
    assert span(0, 5, rank=2)["start_ns"] == ORIGIN_NS != int(float(ORIGIN_NS))


def test_an_analysis_runs_on_rows_with_settings():
    steps = [span(0, 10), span(10, 30, step=1)]
    ops = [span(0, 20, name="a", kind="operator")]
    result = run(breakdown.analyze, steps=steps, cpu_ops=ops, skip_first=1)
    assert [row["step"] for row in rows(result, "parts")] == [1]
    with pytest.raises(TypeError, match="skip_frist"):
        run(breakdown.analyze, steps=steps, skip_frist=1)


def test_captures_become_tables_and_tables_results(tmp_path):
    tree = ResultTree(tmp_path)
    tree.capture("baseline", {"rank0_dp0_tp0_pp0.steps.json": STEPS})
    tree.capture("baseline", {}, repeat=1, status="timeout")
    converted = tree.convert("baseline")
    assert converted.table("steps")["end_ns"].tolist() == [20, 35]
    assert [note["file"] for note in tree.notes("baseline")] == ["rep1/capture.json"]
    tree.table("nsys", "steps", [(0, 0, 0, 10, 40), (0, 0, 1, 40, 70)], COLUMNS)
    result = tree.analyze("observer_tax", skip_first=0)
    assert result.metrics["nsys_slowdown_ratio"].value == pytest.approx(30 / 12.5, rel=0.2)
    assert converted.results == ("observer_tax",)


COLUMNS = "rank repeat step start_ns end_ns"


def test_what_an_analysis_needs_has_to_be_there(tmp_path):
    with pytest.raises(InputError, match="no file named 'kernels' was given"):
        ResultTree(tmp_path).analyze("kernels")
