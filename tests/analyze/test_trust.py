"""Checks of a recording, each with what fails it."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from profkit.analyze.base import Recording
from profkit.analyze.division import trust
from profkit.analyze.division.periods import Periods
from profkit.analyze.division.unrecorded_gpu import LOST, OF_APPLE
from profkit.convert.torch_profiler.turns import AT_ONCE
from profkit.core.result import Interval, Metric
from profkit.report import failed_checks
from profkit.tables import schema
from profkit.tables.rank_clocks import MatchedCollectives

MS = 1_000_000


def steps(*lengths_ms):
    return pd.DataFrame(
        [
            {"rank": 0, "repeat": 0, "step": n, "start_ns": 0, "end_ns": int(length * MS)}
            for n, length in enumerate(lengths_ms)
        ]
    )


def matched(wait_ns, *residual_ns):
    rows = pd.DataFrame({"wait_ns": [wait_ns], "transfer_ns": [0]})
    clocks = pd.DataFrame({"repeat": range(len(residual_ns)), "residual_ns": residual_ns})
    return MatchedCollectives(rows=rows, clocks=clocks, unmatched=0)


NONE = MatchedCollectives(
    rows=pd.DataFrame(), clocks=pd.DataFrame(columns=["repeat", "residual_ns"]), unmatched=0
)
GOOD = trust.Seen(
    periods=Periods(rows=steps(10, 10, 10, 10), one_off_ns={}),
    matched=NONE,
    collectives=schema.frame("collectives"),
    recordings={},
    slowdown=None,
    over_usual=1.0,
    misplaced=0,
    kernels=1000,
    unlaunched=0,
    has_cpu=True,
    lacks_operators=False,
    unrecorded_gpu="",
    is_one_host=False,
    known_anyway=frozenset(),
    steps=4,
    rows=5000,
    working=0.4,
    missing_in_graphs=0.0,
    on_cpu=0.5,
    calls_per_ms=0.0,
    ranges_per_ms=0.0,
    has_python=True,
    sizes_vary=lambda: False,
    queued=0.05,
)


def noted(text):
    return {"recordings": {"x": Recording(notes=(text,))}}


def slowed(ratio, low=None):
    around = None if low is None else Interval(low=low, high=9.0, confidence=0.95)
    metric = Metric(value=ratio, unit="ratio", title="", interval=around)
    return {"slowdown": metric}


WAITING = ("exposed_communication.waiting",)
CASES = {
    "whole steps": (
        {
            "recordings": {
                "x": Recording(warnings=("It fills the memory: recording ended within it.",))
            }
        }
        | slowed(0.3),
        (),
    ),
    "cut off": (noted("The trace is cut off at byte 7: later events are missing."), ()),
    "lost events": (noted("3 events could not be read (near byte 7)."), ()),
    "misplaced kernels": ({"misplaced": 2}, ()),
    "graphs": ({"missing_in_graphs": 0.3}, ("gpu_idle.not_started",)),
    "stacks": ({"calls_per_ms": 150}, ()),
    "ranges": ({"ranges_per_ms": 40}, ()),
    "overlaps": (noted("51 rows end after the row around them: asynchronous."), ()),
    "repeated steps": (
        noted("2 steps have the number of an earlier one: all were numbered on by time."),
        (),
    ),
    "odd times": (noted("1,005 events end before they begin and count as 0 ns long."), ()),
    "ranks": ({"collectives": schema.frame("collectives", [{"group_size": 8}])}, ()),
    "named ranks": (
        {"recordings": {"x": Recording(warnings=("The command names 2 ranks, and 1 ran; so.",))}},
        (),
    ),
    "clocks": ({"matched": matched(1000, 5 * MS)}, WAITING),
    "ends": ({"matched": matched(1000, 5 * MS), "is_one_host": True}, WAITING),
    "machine": ({"recordings": {"x": Recording(warnings=("other processes took 20 %",))}}, ()),
    "cores": ({"queued": 0.5}, ()),
    "program": (noted("PyTorch was not found in the report: advice on it is left out."), ()),
    "threads": (noted(AT_ONCE), ()),
    "profiler overhead": (slowed(1.11), ()),
    "other steps": (slowed(0.3), ()),
    "usual steps": ({"over_usual": 2.4}, ()),
    "steps": ({"periods": Periods(rows=steps(10), one_off_ns={})}, ()),
    "few steps": ({"periods": Periods(rows=steps(10, 10), one_off_ns={})}, ()),
    "variation": ({"periods": Periods(rows=steps(10, 30, 10, 40), one_off_ns={})}, ()),
    "sizes": (
        {"periods": Periods(rows=steps(10, 30, 10, 40), one_off_ns={}), "sizes_vary": lambda: True},
        (),
    ),
    "excerpt": ({"rows": 20, "steps": 1}, trust.EVERYTHING),
    "GPU work": (
        noted("1,399 of 1,401 launches have no work on a device in the file."),
        trust.EVERYTHING,
    ),
    "GPU": ({"unrecorded_gpu": "The GPU worked."}, trust.EVERYTHING),
    "MPS": ({"unrecorded_gpu": OF_APPLE}, trust.EVERYTHING),
    "kernels": ({"unrecorded_gpu": LOST}, trust.EVERYTHING),
    "CPU": ({"has_cpu": False}, ("gpu_idle",)),
    "operators": ({"lacks_operators": True}, ()),
    "launches": ({"unlaunched": 300}, ()),
}


def failed(**changes):
    return {
        check.check: check for check in trust.checks(replace(GOOD, **changes)) if not check.passed
    }


@pytest.mark.parametrize(
    ("note", "check"),
    [
        ("1 row ends after the row around it: asynchronous, without self time.", "overlaps"),
        ("1 kernel, copy or set stands in the file twice, with the same times.", "overlaps"),
        ("1 event ends before it begins and counts as 0 ns long.", "odd times"),
        (
            "1 step has the number of an earlier one: all were numbered on by time.",
            "repeated steps",
        ),
        ("1 event without a usable time was left out.", "lost events"),
    ],
)
def test_a_note_on_one_thing_is_known_as_well(note, check):
    found = {one.check: one for one in trust.checks(replace(GOOD, rows=50, **noted(note)))}
    assert not found[check].passed
    said = "1 of 50 operators overlaps without nesting: its time may belong to either."
    assert found[check].message == (said if check == "overlaps" else note)


def test_gaps_of_a_file_that_holds_few_of_the_calls_mean_nothing():
    note = "1,204 runtime calls are in the file, under 2 % of their ids: most are missing."
    found = failed(**noted(note))
    assert (found["lost events"].message, found["lost events"].silences) == (note, ("gpu_idle",))


def test_a_file_that_is_cut_off_and_not_in_order_says_nothing_of_any_step():
    notes = ("The trace is cut off at byte 7: later events are missing.", "3 events were lost.")
    out_of_order = (
        *notes,
        "The file is not in the order of time: events of every step may be missing.",
    )
    found = failed(recordings={"x": Recording(notes=out_of_order)})
    assert found["cut off"].silences == trust.EVERYTHING
    assert found["cut off"].message.startswith(notes[0])
    assert found["lost events"].message == notes[1]
    assert failed(recordings={"x": Recording(notes=notes)})["cut off"].silences == ()


def test_some_launches_without_work_say_nothing_of_the_others():
    assert failed(**noted("300 of 600 launches have no work on a device in the file.")) == {}


def test_a_short_recording_that_is_filled_with_work_is_no_excerpt():
    assert failed(rows=26, steps=0, working=0.97) == {}
    assert "excerpt" in failed(rows=26, steps=0, working=0.03)


def test_what_is_known_whatever_the_gpu_did_is_said():
    known = frozenset({"cpu_operators"})
    found = failed(unrecorded_gpu=LOST, known_anyway=known, rows=20, steps=1)
    for check in ("kernels", "excerpt"):
        assert {*trust.EVERYTHING} - {*found[check].silences} == known


def test_two_steps_that_differ_say_no_more_than_many_that_do():
    assert "variation" in failed(periods=Periods(rows=steps(35, 74), one_off_ns={}))
    assert "variation" not in failed(periods=Periods(rows=steps(35, 40), one_off_ns={}))
    left_out = Periods(rows=steps(35, 40), one_off_ns={3: 90_000_000}, skipped=2)
    assert failed(periods=left_out)["few steps"].message.endswith(
        "vary; 2 first steps and 1 slow first step (90 ms) left out."
    )
    # Of many the mean is known better.
    several = steps(*([20, 60] * 6))
    assert "variation" not in failed(periods=Periods(rows=several, one_off_ns={}))
    assert "variation" in failed(periods=Periods(rows=steps(20, 60, 60), one_off_ns={}))


@pytest.mark.parametrize("name", CASES)
def test_each_check_fails_alone_and_silences_what_depends_on_it(name):
    changes, silenced = CASES[name]
    found = failed(**changes)
    assert list(found) == [name]
    assert found[name].silences == silenced
    assert found[name].message.endswith(".")


def test_steps_of_another_run_are_not_compared_with_most_of_it_as_well():
    assert [*failed(**slowed(0.3), over_usual=2.4)] == ["other steps"]


def test_ranks_that_a_trace_states_are_missing_where_no_group_is_known():
    text = "Rank 0 of 8; the trace says nothing of their groups."
    assert failed(**noted(text))["ranks"].message == "1 of 8 ranks recorded."


@pytest.mark.parametrize(
    "changes",
    [
        {},
        slowed(1.09),
        {"matched": matched(5 * MS, 1000)},
        noted("7 rows ended up to 2 us after the row around them, and were cut."),
        noted("50 rows end after the row around them: asynchronous."),
        noted("5 events end before they begin and count as 0 ns long."),
    ],
)
def test_what_is_as_it_should_be_fails_nothing(changes):
    assert failed(**changes) == {}


def test_clocks_say_which_of_several_repeats_agree_least():
    def said(*residual_ns):
        found = trust.checks(replace(GOOD, matched=matched(100 * MS, *residual_ns)))
        (message,) = [check.message for check in found if check.check == "clocks"]
        return message

    assert said(1000, 2000, 500).endswith("in the worst of 3 repeats.")
    assert "repeats" not in said(1000)


@pytest.mark.parametrize(("long_ns", "passed"), [(100 * MS, True), (2 * MS, False)])
def test_a_few_long_waits_are_known_beside_many_short_ones(long_ns, passed):
    waits = [long_ns, 0, 0, 0, 0]
    rows = pd.DataFrame({"wait_ns": waits, "transfer_ns": [MS // 10] * 5})
    found = trust.checks(replace(GOOD, matched=replace(matched(0, MS // 2), rows=rows)))
    assert [check.passed for check in found if check.check in {"clocks", "ends"}] == [passed]


def test_losses_that_could_not_be_looked_for_differ_from_those_that_were_not_found():
    found = trust.checks(replace(GOOD, has_python=False))
    (check,) = (check for check in found if check.check == "patterns")
    assert check.passed
    said = r"Calls of functions were not recorded: \d+ of \d+ patterns need them\."
    assert re.fullmatch(said, check.message)
    assert "patterns" not in {check.check for check in trust.checks(GOOD)}


def test_an_overhead_that_may_be_chance_says_so():
    message = failed(**slowed(1.5, low=0.9))["profiler overhead"].message
    assert message == (
        "The same steps take 1.50 times as long with the profiler; that may be chance."
    )


@pytest.mark.parametrize("ratio", [0.98, 1.03])
def test_steps_that_take_as_long_with_the_profiler_are_called_that(ratio):
    (found,) = (
        one
        for one in trust.checks(replace(GOOD, **slowed(ratio)))
        if one.check == "profiler overhead"
    )
    said = f"The same steps take about as long ({ratio:.2f} times) with the profiler."
    assert (found.message, found.passed) == (said, True)


def test_what_several_captures_note_alike_is_said_once():
    recordings = noted("60 rows end after the row around them.")["recordings"]
    (overlaps,) = failed(recordings={**recordings, "y": recordings["x"]}).values()
    assert overlaps.message.startswith("60 of 5,000 operators overlap without nesting")


@pytest.mark.parametrize(
    ("queued", "remedy"), [(0.5, " or with fewer threads (`OMP_NUM_THREADS`)."), (0, ".")]
)
def test_threads_that_wait_for_cores_on_a_busy_machine_may_be_too_many(queued, remedy):
    (found,) = failed(**CASES["machine"][0], queued=queued).values()
    assert found.message.endswith(f": repeat on an idle machine{remedy}")


def test_each_check_has_words_for_a_terminal():
    of_verdict = {"late rank"}
    assert {*CASES, *of_verdict} == set(failed_checks.SHORT)


@pytest.mark.parametrize(("ratio", "check"), [(0.6, "profiler overhead"), (0.5, "other steps")])
def test_steps_that_are_much_shorter_with_the_profiler_are_those_of_another_run(ratio, check):
    (found,) = failed(**slowed(ratio)).values()
    assert found.check == check
    said = f"The two runs differ: with the profiler the same steps took {ratio:.0%} of the"
    assert found.message.startswith(said)
