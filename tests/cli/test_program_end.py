"""What is said of a program that ended badly, and the status that is passed on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.cli.program_end import exit_status, failures
from profkit.core.capture_record import FAILED_AFTER

PROGRAMS = Path(__file__).parents[1] / "programs"
LABEL = "rank0_dp0_tp0_pp0"


def record(tool, exit_code, reason="", ranks=(LABEL,)):
    warnings = ["another one", f"{FAILED_AFTER}{LABEL}: {reason}"] if reason else []
    about = {"tool": tool, "status": "ok", "exit_code": exit_code, "ranks": list(ranks)}
    return {**about, "warnings": warnings}


@pytest.mark.parametrize(
    ("codes", "expected"), [((0, 0), 0), ((0, 3), 3), ((4, 3), 4), ((-15, 0), 143), ((None, 0), 0)]
)
def test_the_status_is_that_of_the_first_run_in_which_it_is_not_0(codes, expected):
    assert exit_status([record("baseline", code) for code in codes]) == expected


def test_what_ended_for_its_tool_or_for_want_of_time_says_nothing_of_the_program():
    refused = {**record("nsys", 2), "status": "error"}
    late = {**record("baseline", -9), "status": "timeout"}
    assert exit_status([record("baseline", 0), refused, late]) == 0
    assert exit_status([{**late, "status": "error"}, refused]) == 137


def test_a_program_that_fails_in_each_run_is_told_of_once():
    both = [record(tool, 1, "ValueError: x") for tool in ("baseline", "torch_profiler")]
    assert [*failures(both)] == ["The program ended with exit status 1: ValueError: x"]


def test_one_that_fails_under_a_tool_only_is_told_of_with_the_tool():
    runs = [record("baseline", 0), record("torch_profiler", 1, "OSError: y")]
    (line,) = failures(runs)
    assert line == "The program ended under torch_profiler with exit status 1: OSError: y"


@pytest.mark.parametrize(
    ("code", "reason", "status"), [(3, "exit status 3: ", 3), (-15, "killed by signal 15: ", 143)]
)
def test_programs_that_end_alike_with_other_last_lines_are_told_of_once(code, reason, status):
    runs = [record(tool, code, reason + tool) for tool in ("baseline", "torch_profiler")]
    (line,) = failures(runs)
    assert line.startswith(f"The program ended with exit status {status}: ")
    assert line.count("exit status") == 1
    assert line.endswith("baseline")


def test_one_that_a_person_ended_has_not_failed():
    ended = record("torch_profiler", 1, "exit status 1: KeyboardInterrupt") | {"interrupted": True}
    (line,) = failures([record("baseline", 0), ended])
    assert line == "The program was interrupted under torch_profiler"
    assert [*failures([ended])] == ["The program was interrupted"]


def test_one_of_which_a_part_was_ended_early_may_have_failed_for_that():
    early = record("baseline", 1, "exit status 1: CellExecutionError") | {"ended_early": True}
    (line,) = failures([early])
    assert line.startswith("The program ended with exit status 1, maybe as profkit ended a part")
    assert line.endswith("(--all lets it run to its end): CellExecutionError")


def test_of_several_ranks_the_one_that_failed_is_named():
    ranks = [LABEL, "rank1_dp1_tp0_pp0"]
    (line,) = failures([record("baseline", 1, "ValueError: x", ranks)])
    assert line == f"The program ended with exit status 1: {LABEL}: ValueError: x"


def test_a_rank_that_is_killed_in_each_run_is_told_of_once():
    ranks = [LABEL, "rank1_dp1_tp0_pp0"]
    reasons = ("killed by signal 9", "killed by signal 9; the last line that it printed: 14")
    both = [record(tool, 1, reason, ranks) for tool, reason in zip("ab", reasons, strict=True)]
    (line,) = failures(both)
    assert line == f"The program ended with exit status 1: {LABEL}: killed by signal 9"


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), [("exit", 3), ("kill", 137)])
def test_a_command_that_fails_is_profiled_told_of_and_its_status_passed_on(tmp_path, how, status):
    shutil.copy(PROGRAMS / "leaving.py", tmp_path)
    words = ["profile", "tool=[]", "--", "python", "leaving.py", how, "5"]

    def profiled():
        command = [sys.executable, "-m", "profkit", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    for is_repeated in (False, True):
        made = profiled()
        assert made.returncode == status
        assert ("--again records it anew" in made.stderr) == is_repeated
        assert f"The program ended with exit status {status}" in made.stdout
        assert "step time" in made.stdout
        assert "report: results/report.html" in made.stdout
