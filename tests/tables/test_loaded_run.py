import pandas as pd
import pytest

from profkit.api import InputError, load
from profkit.core import result
from profkit.tables import schema


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Make one run in a result tree, and return its folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results/runs/demo"
    for tool, table in (("baseline", "steps"), ("nsys", "steps"), ("nsys", "kernels")):
        path = folder / "tables" / tool / f"{table}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema.frame(table, [{"rank": 3}]).to_parquet(path)
    (folder / "analyze").mkdir()
    made_from = result.Provenance(settings={}, modules={}, packages={}, inputs={})
    document = result.Document(
        analysis="steps", title="Steps", summary="", result=RESULT, provenance=made_from
    )
    result.write(folder / "analyze/steps.json", document)
    return folder


RESULT = result.Result.abstain("the clock", "there is none")


def test_a_run_says_what_there_is_and_gives_it(run):
    for loaded in (load("demo"), load(run), load("results/runs/demo")):
        assert loaded.tables == {"kernels": ("nsys",), "steps": ("baseline", "nsys")}
        assert loaded.results == ("steps",)
        assert loaded.result("steps") == RESULT
        pd.testing.assert_frame_equal(
            loaded.table("kernels"), schema.frame("kernels", [{"rank": 3}])
        )
        assert loaded.table("steps", tool="nsys")["rank"].tolist() == [3]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: load("dem"), "no run named 'dem'\n  hint: did you mean 'demo'?"),
        (
            lambda: load("demo").table("kernel"),
            "no table named 'kernel'\n  hint: did you mean 'ker",
        ),
        (lambda: load("demo").table("kernels", tool="ncu"), "choose from: nsys"),
        (lambda: load("demo").table("steps"), "2 tools made table 'steps': baseline, nsys"),
        (lambda: load("demo").result("step"), "no result named 'step'"),
        (lambda: load("results"), "not a run"),
    ],
)
@pytest.mark.usefixtures("run")
def test_errors_name_what_there_is(ask, message):
    with pytest.raises(InputError) as raised:
        ask()
    assert message in str(raised.value)


def test_without_results_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="there is none; run profkit in this folder first"):
        load("demo")


def test_a_damaged_table_is_named(run):
    (run / "tables/nsys/kernels.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"nsys/kernels\.parquet: cannot be read"):
        load("demo").table("kernels")


def test_what_analyses_across_runs_left_opens_too(run):
    folder = run.parents[1] / "selection"
    folder.mkdir()
    (run / "analyze").rename(folder / "analyze")
    assert load("results/selection").results == ("steps",)
