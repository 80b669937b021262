"""How large the page may be, and what goes first when it is too large."""

import pytest

from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result, Table
from profkit.report import view
from profkit.report.budget import page_bytes
from profkit.report.render import code_bytes, render
from profkit.report.settings import PageSize, Settings
from tests.report.test_build_view import arranged, run


def test_the_code_of_a_page_leaves_room_for_what_it_shows():
    assert code_bytes() <= 300_000


@pytest.mark.parametrize(
    ("runs", "size"),
    [(1, 6_000_000), (2, 6_202_020), (100, 26_000_000), (300, 33_000_000), (9000, 40_000_000)],
)
def test_a_page_of_more_runs_may_be_larger(runs, size):
    assert page_bytes(Settings().page_bytes, runs) == size


def test_a_single_size_holds_for_any_number_of_runs():
    assert {page_bytes((PageSize(runs=10, bytes=9),), runs) for runs in (1, 10, 100)} == {9}


def measured(rows: int, *details: int) -> Result:
    table = Table(title="Rows", columns=("name",), rows=(("kernel <1>" * 5,),) * rows)
    drawing = Drawing(
        kind="flame",
        title="Flame",
        data={"name": ["a" * 500]},
        details=tuple(Detail(name=f"{size}", packed="x" * size) for size in details),
    )
    return Result(tables={"rows": table}, drawings={"flame": drawing})


def limited(most: int, *runs) -> view.Report:
    sizes = (PageSize(runs=1, bytes=most),)
    return arranged(*runs, settings=Settings(key_metrics=(), page_bytes=sizes))


def test_a_page_stays_below_its_size_and_says_what_it_left_out():
    shown = limited(60_000, *(run(name, measured(2000, 3000, 90_000)) for name in "abc"))
    assert 45_000 < len(render(shown).encode()) - code_bytes() <= 60_000
    (cuts,) = shown.cuts
    assert cuts.startswith("Limited to 58.6 KiB: 3 of 3 tables cut, 3 of 6 details of drawings ")
    assert [detail.name for detail in shown.runs[2].drawn.drawings[0].details] == ["3000"]


def test_a_page_of_many_runs_stays_below_its_size_with_a_few_rows_of_each_table():
    shown = limited(
        230_000, *(run(f"{number}-{'long ' * 20}", measured(30)) for number in range(99))
    )
    assert 215_000 < len(render(shown).encode()) - code_bytes() <= 230_000
    assert {len(run.drawn.tables[0].rows) for run in shown.runs} <= {1, 2, 3, 4}


def test_what_one_run_leaves_the_next_has():
    shown = limited(60_000, run("a", measured(1)), run("b", measured(300, 9000)))
    assert shown.cuts == ()
    assert len(shown.runs[1].drawn.tables[0].rows) == 300


def test_a_drawing_without_room_has_no_data():
    shown = limited(1500, run("a", measured(1)))
    assert shown.runs[0].drawn.drawings[0].data is None
    assert "1 of 1 drawings left out" in shown.cuts[0]
