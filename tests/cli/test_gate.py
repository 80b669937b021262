"""The gate against a saved baseline: exit codes, and the files for CI."""

import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from profkit.cli import main
from profkit.cli.comparison import compared_runs
from profkit.cli.measured_run import measured
from profkit.cli.run_folders import run_named
from profkit.cli.saved_comparison import keep
from tests.cli.measured_runs import MACHINE, STEADY, leave_run

SLOWER = ["--fail-if", "step_time > +3%"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with a baseline, in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    leave_run(tmp_path, "old", 100 * STEADY, peaks=[200] * 6)
    assert main(["baseline", "save", "main"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("times", "status", "said"),
    [
        (110 * STEADY, 1, "FAIL  step_time > +3%: +10.0% (95% interval"),
        (100 * STEADY[::-1], 0, "PASS  step_time > +3%: +0.0%"),
        (90 * STEADY, 0, "PASS"),
        (103 * STEADY[::-1], 3, "INCONCLUSIVE"),
        (110 * STEADY[:3], 3, "it takes 6 pairs (repeats=6)"),
        (110 * np.linspace(1, 1.02, 6), 1, "FAIL"),
        (100 * np.linspace(1, 1.3, 6), 3, "void, the difference drifts"),
    ],
)
def test_the_exit_status_says_what_is_known(folder, capsys, times, status, said):
    leave_run(folder, "new", times, day=2)
    assert main(["gate", "new", "--against", "main", *SLOWER]) == status
    printed = capsys.readouterr().out
    assert said in printed
    assert "not captured in turn" in printed


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.06, 1)])
def test_equal_runs_pass_and_slowed_ones_fail_twenty_times(folder, factor, status):
    random, found = np.random.default_rng(4), []
    for trial in range(20):
        times = 100 * factor * np.exp(random.normal(0, 0.005, 6))
        leave_run(folder, f"new{trial}", times, day=2)
        found.append(main(["gate", f"new{trial}", "--against", "main", *SLOWER]))
    # One in 30 seems to drift by chance, and is void.
    assert set(found) <= {status, 3}
    assert found.count(status) >= 18


def test_a_failed_gate_says_which_cause_grew_from_what_the_baseline_kept(folder, capsys):
    causes = {"python": 30 * STEADY, "gpu_computing": 70 * STEADY}
    leave_run(folder, "before", 100 * STEADY, causes=causes)
    assert main(["baseline", "save", "kept", "before"]) == 0
    shutil.rmtree("results/runs/before")
    leave_run(folder, "new", 110 * STEADY, day=2, causes=causes | {"python": 40 * STEADY})
    assert main(["gate", "new", "--against", "kept", *SLOWER, "--markdown", "gate.md"]) == 1
    lines = capsys.readouterr().out.splitlines()
    why = lines.index("why, from 100 to 110 ms per step, rank 0 (95% intervals over 6 pairs):")
    assert lines[why + 1].startswith("  +10 ms")
    assert lines[why + 1].endswith("Python")
    assert lines[why + 1] in Path("gate.md").read_text()


def test_a_gate_that_fails_on_memory_alone_does_not_explain_the_step_time(folder, capsys):
    both = {"python": 30 * STEADY, "gpu_computing": 70 * STEADY}
    leave_run(folder, "before", 100 * STEADY, causes=both, peaks=[200] * 6)
    causes = both | {"python": 40 * STEADY}
    leave_run(folder, "new", 110 * STEADY, day=2, causes=causes, peaks=[250] * 6, batch=4)
    gate = ["gate", "new", "--against", "before", "--fail-if"]
    assert main([*gate, "peak_memory > 5%", "--fail-if", "throughput < -3%"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.startswith("why") for line in lines)
    assert lines[2].endswith("of both: add workload.samples='${batch}'")
    assert "differs: batch 2 -> 4" in lines
    assert main([*gate, "step_time > 5%"]) == 1
    assert any(line.startswith("why, from 100") for line in capsys.readouterr().out.splitlines())


def test_a_gate_without_a_baseline_is_on_the_newest_comparison(folder, capsys):
    leave_run(folder, "a", 100 * STEADY, day=3)
    leave_run(folder, "b", 110 * STEADY, day=3, second=30)
    assert main(["gate", *SLOWER]) == 2
    assert "no comparison was kept" in capsys.readouterr().err
    keep("ab", compared_runs(*(measured(run_named(name)) for name in "ab"), band=0.01))
    assert main(["gate", *SLOWER]) == 1
    said = capsys.readouterr().out
    assert said.startswith("b against a:\n")
    assert "not captured in turn" not in said
    assert main(["gate", "ab", "--fail-if", "step_time > +15%"]) == 0
    assert main(["gate", "nope", *SLOWER]) == 2


def test_a_gate_on_an_automatic_comparison_has_its_confidence_and_says_what_would_tell(
    folder, capsys
):
    leave_run(folder, "a", 100 * STEADY, day=3)
    leave_run(folder, "b", 102 * STEADY[::-1] ** 8, day=3, second=30)
    a, b = (measured(run_named(name)) for name in "ab")
    keep("ab", compared_runs(a, b, band=0.03, confidence=0.97))
    assert main(["gate", "ab", *SLOWER]) == 3
    printed = capsys.readouterr().out
    assert "+2.0% (97% interval" in printed
    assert (
        "needs about 5 more pairs\nto know it, compare on with --pairs auto --band 3%\n" in printed
    )
    assert main(["gate", "b", "--against", "a", *SLOWER]) == 3
    assert "to know it, measure both runs with repeats=10\n" in capsys.readouterr().out


def test_files_for_ci_say_which_condition_failed(folder):
    leave_run(folder, "new", 110 * STEADY, peaks=[200] * 6, day=2)
    files = ["--junit", "gate.xml", "--markdown", "gate.md"]
    memory = ["--fail-if", "peak_memory > +1%", "--fail-if", "throughput < -3%"]
    assert main(["gate", "new", "--against", "main", *SLOWER, *memory, *files]) == 1
    suite = ET.parse("gate.xml").getroot()  # noqa: S314 - written here
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1")
    cases = [(case.attrib["name"], [child.tag for child in case]) for case in suite]
    assert cases == [
        ("step_time > +3%", ["failure"]),
        ("peak_memory > +1%", []),
        ("throughput < -3%", ["error"]),
    ]
    text = (folder / "gate.md").read_text()
    assert text.startswith("### profkit gate: fail\n")
    assert "| peak_memory > +1% | pass | +0.0% (95% interval +0.0% to +0.0%, 6 pairs) |" in text


def test_another_machine_cannot_be_said_to_pass(folder, capsys):
    leave_run(folder, "new", 100 * STEADY, machine=MACHINE | {"cpu": "other"}, day=2)
    assert main(["gate", "new", "--against", "results/baselines/main.json", *SLOWER]) == 3
    assert "not comparable: machine.cpu one -> other" in capsys.readouterr().out


def test_a_run_cannot_pass_against_its_own_captures(capsys):
    assert main(["gate", "old", "--against", "main", *SLOWER]) == 3
    assert "profkit clean old --yes" in capsys.readouterr().out


def test_a_run_captured_in_turn_is_a_reference_without_a_note(folder, capsys):
    leave_run(folder, "head", 110 * STEADY, second=9)
    assert main(["gate", "head", "--against", "old", *SLOWER]) == 1
    printed = capsys.readouterr().out
    assert "FAIL  step_time > +3%: +10.0%" in printed
    assert "in turn" not in printed


def test_many_conditions_take_more_than_one(folder, capsys):
    jumps = 100 * 1.03 * np.exp(0.01 + np.array([0.02, -0.003, 0.02, 0.001, 0.015, 0.008]))
    leave_run(folder, "new", jumps, peaks=[200] * 6, day=2)
    assert main(["gate", "new", "--against", "main", *SLOWER]) == 1
    more = [word for at in range(9) for word in ("--fail-if", f"peak_memory > +{at}.5%")]
    many = ["--fail-if", "step_time > +3.0%"] * 9
    assert main(["gate", "new", "--against", "main", *SLOWER, *more, *many]) == 3
    assert "chance with all conditions taken together" in capsys.readouterr().out


def test_of_several_runs_the_one_whose_numbers_are_to_be_kept_is_named(folder, capsys):
    leave_run(folder, "new", 100 * STEADY, day=2)
    assert main(["baseline", "save", "kept"]) == 1
    said = capsys.readouterr().err
    assert "baseline save kept: 2 runs are selected: new, old" in said
    assert "profkit baseline save kept old" in said


def test_what_cannot_be_run_is_usage(folder, capsys):
    (folder / "bad.json").write_text("{}")
    for words in (
        ["--against", "mian", *SLOWER],
        ["--against", "bad.json", *SLOWER],
        ["nothing", "--against", "main", *SLOWER],
        ["--against", "main", *SLOWER, "--junit", "bad.json/gate.xml"],
    ):
        assert main(["gate", *words]) == 2
        assert "profkit gate: " in capsys.readouterr().err
    for bad in ("step_tim > 3%", "step_time > 3", "step_time > -100%"):
        with pytest.raises(SystemExit) as stopped:
            main(["gate", "--against", "main", "--fail-if", bad])
        assert stopped.value.code == 2
    assert main(["baseline", "save", "../x"]) == 1
    assert main(["baseline", "list"]) == 0
    assert capsys.readouterr().out == "main  old  6 repeats  2026-01-01 10:00\n"


def test_a_baseline_that_is_saved_again_says_what_it_replaces(folder, capsys):
    assert main(["baseline", "save", "main"]) == 0
    leave_run(folder, "new", 110 * STEADY, day=2)
    for _ in range(2):
        assert main(["baseline", "save", "main", "new"]) == 0
    Path("results/baselines/main.json").write_text("x")
    assert main(["baseline", "save", "main", "new"]) == 0
    new = "new  6 repeats  2026-01-02 10:00"
    saved = f"{new}  saved in results/baselines/main.json"
    lines = capsys.readouterr().out.splitlines()
    assert lines[-6:] == [
        *(saved, "it replaces  old  6 repeats  2026-01-01 10:00"),
        *(saved, f"it replaces  {new}"),
        *(saved, "it replaces a file that is no baseline"),
    ]
