"""Two sides that are captured in pairs to be compared; what captures is tested elsewhere."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from profkit.cli import compare_sides, main
from profkit.cli.captured_pairs import CapturedPairs, sides_without_tools
from profkit.cli.compare import _parser
from profkit.cli.measured_run import Difference, measured
from profkit.cli.run_folders import run_named
from profkit.core.errors import ConfigError, InputError
from profkit.core.job_record import NOTHING
from profkit.core.result import Document, Finding, Result, Severity
from profkit.dag.overrides import last_runs, save_selection
from profkit.planning.model import Pairing
from profkit.planning.sides import Sides
from profkit.report.kept_comparison import data, read_comparison, with_comparison
from profkit.report.result_tree import Run, Selected
from tests.cli.measured_runs import STEADY, leave_peak, leave_run

PAIRING = Pairing(a="x-b4-1-a77", b="x-b8-2-b77", coin=0)
LONG = np.concatenate([STEADY, STEADY[::-1], STEADY, STEADY[:2]])


def cut(run, count):
    """Return what is measured of a run after `count` of its repeats."""
    metrics = {
        name: replace(metric, by_repeat={k: metric.by_repeat[k] for k in range(count)})
        for name, metric in run.metrics.items()
    }
    began = {repeat: run.began[repeat] for repeat in range(count)}
    return replace(run, metrics=metrics, began=began)


@pytest.fixture
def captures(tmp_path, monkeypatch):
    """Return what leaves the captures of both sides, and the overrides that they were made with."""
    monkeypatch.chdir(tmp_path)
    planned = []

    def leave(before, after, peaks=((), ())):
        leave_run(tmp_path, PAIRING.a, before, peaks=peaks[0])
        leave_run(tmp_path, PAIRING.b, after, batch=8, second=30, noisy=(2,), peaks=peaks[1])

        def pairs(sides, most, _args):
            planned.append(sides)
            runs = [measured(run_named(name)) for name in (PAIRING.a, PAIRING.b)]
            for count in range(1, most + 1):
                both = [cut(run, count) for run in runs]
                yield CapturedPairs(before=both[0], after=both[1], count=count, pairing=PAIRING)

        monkeypatch.setattr(compare_sides, "captured_pairs", pairs)
        monkeypatch.setattr(compare_sides.run, "make", lambda *_: True)
        plan = SimpleNamespace(runs=())
        monkeypatch.setattr(compare_sides, "load", lambda words: planned.append(words) or plan)
        return planned

    return leave


def test_sides_are_captured_compared_and_kept(captures, capsys):
    planned = captures(100 * STEADY, 110 * STEADY[::-1])
    assert main(["compare", "steps=9", "--a", "batch=4", "--b", "batch=8"]) == 0
    assert planned[0] == Sides(common=("steps=9",), a=("batch=4",), b=("batch=8",))
    assert "repeats=6" in planned[1]
    assert "tool=[]" not in planned[1]
    out, progress = capsys.readouterr()
    assert "step time 100 ms -> 110 ms: slower, +10.0% (95% interval" in out
    assert progress.splitlines()[0] == "pair 1 of 6: step time +10.0%"
    assert "pair 6 of 6: step time +10.0% (95% interval +9.7% to +10.3%)" in progress
    save_selection(("--a", "batch=4", "--b", "batch=8"), (PAIRING.a, PAIRING.b))
    for named in (["x-b4-vs-x-b8-77"], ["x-b4-v"], []):
        assert main(["show", *named]) == 0
        assert capsys.readouterr().out == out
    kept = read_comparison("results/comparisons/x-b4-vs-x-b8-77.json")
    assert data(kept)["metrics"]["step_time"]["outcome"] == "higher"
    assert [pair["first"] for pair in data(kept)["pairs"]] == ["a"] * 6
    finding = Finding(
        severity=Severity.INFO, message="1.39 times", metric="ratio", value=1.39, unit=""
    )
    said = Result(findings=(finding,))
    documents = {
        name: Document(analysis=name, title="", summary="", result=said, provenance=NOTHING)
        for name in ("comparison", "sweep")
    }
    whole = Run(selected=Selected(run="all", folder="."), documents=documents)
    across = with_comparison(whole, kept)
    assert across.selected.analyses == ("pairs",)
    # Each result once: of the differences between runs only the table is left.
    assert across.documents["comparison"].result == Result()
    assert across.documents["sweep"].result == said
    section = across.documents["pairs"].result
    assert section.findings[0].message.startswith("Step time, 100 ms to 110 ms: slower, +10.0%")
    assert {"metrics", "pairs"} <= set(section.tables)
    assert any("not quiet in repeat 2" in one.reason for one in section.abstentions)


def test_nothing_is_traced_where_there_is_nothing_to_explain(captures, capsys):
    planned = captures(100 * STEADY, 100 * STEADY[::-1])
    assert main(["compare", "--a", "", "--b", "", "--quiet", "--json"]) == 0
    assert "tool=[]" in planned[1]
    out, progress = capsys.readouterr()
    assert json.loads(out)["coin"] == 0
    assert not progress


@pytest.mark.parametrize("is_made", [True, False])
def test_a_comparison_is_the_last_selection_once_it_is_done(captures, monkeypatch, is_made):
    captures(100 * STEADY, 100 * STEADY[::-1])
    save_selection(("batch=2",), ("mine",))

    def make(*_):
        save_selection(("--a", "", "--b", ""), (PAIRING.a, PAIRING.b))
        return is_made

    monkeypatch.setattr(compare_sides.run, "make", make)
    assert main(["compare", "--a", "", "--b", "", "--quiet"]) == (not is_made)
    assert last_runs() == ((PAIRING.a, PAIRING.b) if is_made else ("mine",))


def test_a_peak_that_alone_differs_is_explained_alone(captures, capsys, tmp_path):
    planned = captures(100 * STEADY, 100 * STEADY[::-1], peaks=([300] * 6, [400] * 6))
    for name, kept in ((PAIRING.a, 300), (PAIRING.b, 400)):
        leave_peak(tmp_path / "results/runs" / name, **{"forward;Net;aten::mm": kept})
    assert main(["compare", "--a", "", "--b", "", "--quiet"]) == 0
    assert "tool=[]" not in planned[1]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "why, from 300 MiB to 400 MiB allocated at the peak:",
        "  +100 MiB  forward, Net, aten::mm",
    ]


@pytest.mark.parametrize(("spread", "count"), [(1, 6), (8, 20)])
def test_pairs_are_added_until_the_interval_is_narrow(captures, capsys, spread, count):
    planned = captures(100 * LONG**spread, 110 * LONG[::-1] ** spread)
    assert main(["compare", "repeats=auto", "--a", "batch=4", "--b", "batch=8"]) == 0
    assert f"repeats={count}" in planned[1]
    assert f"pair {count} of at most 20" in capsys.readouterr().err


def sides(*argv, command=("python", "train.py", "${batch}")):
    args = _parser().parse_intermixed_args(argv)
    return compare_sides.sides_of_words(args, command)


def test_a_command_is_that_of_both_sides_or_of_the_python_of_each(tmp_path):
    found, wanted = sides("--a", "batch=4", "--b", "+x=8", "--pairs", "9", "toolset=full")
    assert wanted == 9
    assert found.common[-1] == "workload.command=\"python train.py '${batch}'\""
    assert "workload.stop_after=20" in found.common
    assert "toolset=full" in found.common
    assert not any(word.startswith("repeats") for word in found.common)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").touch()
    pythons = [f"{tmp_path}/{name}/python" for name in ("one", "two")]
    found, _ = sides("--a", "", "--b", "", "--python", ",".join(pythons))
    assert pythons[0] in found.a[-1]
    assert pythons[1] in found.b[-1]
    found, _ = sides("--a", "", "--b", "", "--python", pythons[0], command=())
    assert found.a == found.b == (f"launcher.python={pythons[0]}",)


@pytest.mark.parametrize(
    ("argv", "error", "said"),
    [
        (["--a", "", "--b", "", "repeats=many"], ConfigError, "a number of pairs, or auto"),
        (["--a", "'", "--b", ""], ConfigError, "No closing quotation"),
        (["--a", "", "--b", "", "--python", "a,b,c"], InputError, "one for each side"),
        (["--a", "", "--b", "", "--python", "/nowhere/python"], InputError, "is not there"),
    ],
)
def test_mistakes_are_named(argv, error, said):
    with pytest.raises(error, match=said):
        sides(*argv)


def test_sides_that_the_command_does_not_tell_apart_are_refused():
    apart = ["--a", "batch=4", "--b", "batch=8"]
    with pytest.raises(ConfigError, match="both sides would be the same"):
        sides(*apart, command=["python", "train.py"])
    assert sides(*apart, command=["python", "train.py", "${batch}"])
    assert sides("--a", "", "--b", "seed=1 launcher.env.LR=2", command=["python", "train.py"])


def test_revisions_need_a_command(capsys):
    assert main(["compare", "--revisions", "main,HEAD"]) == 1
    assert "no command is given" in capsys.readouterr().err


def test_pairs_are_timed_without_tools_and_other_analyses():
    common = ("steps=9", "+tool=nsys", "tools.torch_profiler.x=1", "analyses.steps.skip_first=1")
    found = sides_without_tools(Sides(common=common, a=("batch=4", "toolset=full"), coin=2))
    assert found.common == ("steps=9", common[-1], "tool=[]", "analysis=[steps]")
    assert (found.a, found.coin) == (("batch=4",), 2)


def test_revisions_go_by_what_the_user_calls_them(captures, capsys, monkeypatch):
    captures(100 * STEADY, 110 * STEADY[::-1])
    short = {"main": "a1b2c3", "fast": "d4e5f6"}
    monkeypatch.setattr(compare_sides, "revision", lambda name: SimpleNamespace(short=short[name]))
    folders = nullcontext([Path("one"), Path("two")])
    monkeypatch.setattr(compare_sides, "worktrees", lambda *_: folders)
    differ = compare_sides.compared_runs

    def in_folders(*runs, **given):
        folder = Difference(key="launcher.cwd", before="one", after="two")
        return replace(differ(*runs, **given), found=(folder,))

    monkeypatch.setattr(compare_sides, "compared_runs", in_folders)
    assert main(["compare", "--revisions", "main,fast", "--", "python", "train.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1] for line in lines[:2]] == ["main (a1b2c3)", "fast (d4e5f6)"]
    assert not any("launcher.cwd" in line for line in lines)


def test_revisions_are_two(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--revisions", "main"])
    assert ended.value.code == 2
    assert "name two, as in main,HEAD" in capsys.readouterr().err
