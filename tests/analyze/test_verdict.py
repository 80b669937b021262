"""What limits the step, and what to do first, from causes."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from profkit.analyze import _worthwhile, verdict
from profkit.analyze import steps as step_times
from profkit.analyze._compared_ranks import Compared
from profkit.analyze._late_advice import late_advice, late_place
from profkit.analyze._late_rank import with_late_rank
from profkit.analyze.base import Recording
from profkit.analyze.shared.step_times import BETWEEN_STEPS
from profkit.core.result import Abstention, Finding, Metric, Result, Severity, Table, table
from profkit.core.verdict import Action, Cause, Confidence, Limiter, MemoryVerdict
from profkit.planning.cache import load
from profkit.report import verdict_text
from profkit.report.verdict_text import gain, step_time
from profkit.testing import run, span

COLUMNS = (
    "rank",
    "id",
    "title",
    "ms_per_step",
    "median_ms",
    "gain_ms",
    "share",
    "place",
    "evidence",
)
CHECKS = ("check", "passed", "message", "silences")
MATCHES = (
    *("pattern", "title", "cause", "advice", "covered_ms", "place", "confidence", "source"),
    *("also", "evidence", "in_steps"),
)


def causes(  # noqa: PLR0913 - the parts of a recording
    times, *, typical=None, about=None, checks=(), matches=(), late=None
):
    """Return the result of the causes: ms by id, of rank 0, and `late` those of rank 1.

    `about` are place and evidence by id.
    """
    step = sum(times.values())
    rows = []
    for rank, parts in enumerate([times, *([late] if late else [])]):
        above = {}
        for name, ms in parts.items():
            for end in range(1, name.count(".") + 1):
                up = ".".join(name.split(".")[:end])
                above[up] = above.get(up, 0) + ms
        for name, ms in {**parts, **above}.items():
            median = (typical or parts).get(name) if name in parts else None
            place, evidence = (about or {}).get(name, ("", {}))
            given = (rank, name, name.rpartition(".")[2], ms, median, ms, ms / step)
            rows.append((*given, place, json.dumps(evidence)))
    tables = {
        "causes": Table(title="", columns=COLUMNS, rows=tuple(rows)),
        "ranks": Table(title="", columns=("rank", "decisive"), rows=((0, "true"), (1, "false"))),
        "trust": Table(title="", columns=CHECKS, rows=tuple(checks)),
        "matches": Table(title="", columns=MATCHES, rows=tuple(matches)),
    }
    return Result(tables=tables, metrics={"step_ms": Metric(value=step, unit="ms", title="")})


def on(times, *, imported="trace", **more):
    return judged(causes=causes(times, **more), imported=imported)


def judged(*, imported="trace", stop_after=None, **given):
    behaviour = {"imported": imported, "workload": {"stop_after": stop_after}}
    return run(verdict.analyze, behaviour=behaviour, **given).verdict


@pytest.mark.parametrize(
    ("times", "limiter", "headline"),
    [
        (
            {"gpu_computing": 94, "gpu_idle.python": 6},
            Limiter.GPU,
            "GPU computing 94 of 100 ms per step.",
        ),
        (
            {"gpu_computing": 60, "gpu_idle.loading_data": 40},
            Limiter.INPUT,
            "GPU idle 40 of 100 ms per step: 40 ms loading_data.",
        ),
        (
            {"gpu_computing": 14, "gpu_idle.blocked.cudaFree": 80, "gpu_idle.python": 6},
            Limiter.CPU,
            "GPU idle 86 of 100 ms per step: 80 ms blocked in cudaFree.",
        ),
        (
            {"gpu_computing": 50, "exposed_communication.transfer": 50},
            Limiter.COMMUNICATION,
            "Exposed communication 50 of 100 ms per step: 50 ms transfer.",
        ),
        (
            {"gpu_computing": 30, "exposed_copies.HtoD_of_weights": 70},
            Limiter.COPIES,
            "HtoD_of_weights 70 of 100 ms per step.",
        ),
        (
            {"gpu_computing": 30, "exposed_copies.HtoD_pageable": 70},
            Limiter.INPUT,
            "HtoD_pageable 70 of 100 ms per step.",
        ),
        (
            {"cpu_operators": 70, "python": 30},
            Limiter.CPU,
            "Operators on the CPU 70 of 100 ms per step.",
        ),
        (
            {"gpu_idle.not_recorded": 90, "gpu_computing": 10},
            Limiter.UNKNOWN,
            "Not enough recorded: GPU idle 90 of 100 ms per step: 90 ms not_recorded.",
        ),
        (
            {"not_recorded": 90, "cpu_operators": 10},
            Limiter.UNKNOWN,
            "Not enough recorded: what ran in 90 of 100 ms per step is not known.",
        ),
        (
            {"gpu_idle.start_up.cudaFree": 90, "gpu_computing": 10},
            Limiter.UNKNOWN,
            "One-off start-up 90 of 100 ms per step: no steady step.",
        ),
        (
            {"exposed_communication.start_up": 90, "gpu_computing": 10},
            Limiter.UNKNOWN,
            "One-off start-up 90 of 100 ms per step: no steady step.",
        ),
    ],
)
def test_the_limiter_is_what_the_step_waits_for_most(times, limiter, headline):
    found = on(times)
    assert (found.limiter, found.headline) == (limiter, headline)
    assert len(found.headline.split()) <= 15
    assert found.step_ms == 100
    assert [action.title for action in found.actions if limiter is Limiter.UNKNOWN] in (
        [],
        ["The recording is incomplete"],
    )


@pytest.mark.parametrize(
    ("largest", "said"),
    [(9, "of many kinds, in rl.py(58): act."), (10, "10 ms in aten::sum, rl.py(60): act.")],
)
def test_an_operator_with_little_of_the_time_is_not_named(largest, said):
    times = {"cpu_operators.aten::sum": largest, "cpu_operators.other": 100 - largest}
    about = {
        "cpu_operators": ("rl.py(58): act", {}),
        "cpu_operators.aten::sum": ("", {"line": "rl.py(60): act"}),
    }
    found = on(times, about=about)
    assert found.headline == f"CPU operators 100 of 100 ms per step, {said}"


def test_what_is_not_recorded_is_at_least_in_a_range_of_the_program():
    about = {"not_recorded": ("find_centers", {"at_place_share": 0.4})}
    found = judged(causes=causes({"not_recorded": 90, "cpu_operators": 10}, about=about))
    said = "Not enough recorded: 90 of 100 ms per step not known, 36 in find_centers."
    assert found.headline == said


@pytest.mark.parametrize(
    ("freeing", "starting", "headline"),
    [
        (60, 20, "CPU blocked in cudaFree 60 of 100 ms per step."),
        (0, 20, "One-off start-up 20 of 40 ms per step: no steady step."),
    ],
)
def test_calls_that_block_limit_a_program_whose_gpu_was_not_recorded(freeing, starting, headline):
    times = {"blocked.cudaFree": freeing, "start_up.cudaMalloc": starting, "python": 20}
    lost = ("kernels", "false", "No.", "python")
    steps = ("steps", "false", "No step was marked.", "")
    found = on({name: ms for name, ms in times.items() if ms}, checks=[steps, lost])
    assert (found.limiter is Limiter.CPU) == (freeing > 0)
    assert found.headline == headline


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("loading_data", "of 100 ms per step 80 ms are loading_data."),
        ("blocked.cudaFree", "of 100 ms per step 80 ms are in cudaFree."),
        ("exposed_copies.HtoD_pageable", "of 100 ms per step 80 ms are HtoD_pageable."),
        ("cpu_operators", "to say what limits 100 ms per step."),
    ],
)
def test_too_short_a_recording_says_what_most_of_it_waits_for(cause, said):
    few = ("steps", "false", "No step was marked.", " ".join((cause.split(".")[0], "python")))
    found = on({cause: 80, "python": 20}, checks=[few])
    assert found.limiter is Limiter.UNKNOWN
    assert found.headline.endswith(said)


def test_a_connection_that_starts_is_start_up_as_well():
    times = {"gpu_idle.python": 50, "exposed_communication.start_up": 15, "gpu_computing": 35}
    steps = ("steps", "false", "No step was marked.", "")
    assert on(times, checks=[steps]).limiter is Limiter.UNKNOWN


@pytest.mark.parametrize(
    ("cause", "count"), [("gpu_computing", 2), ("gpu_idle.python", 1), ("gpu_idle", 1)]
)
def test_what_the_gpu_computes_has_its_actions_also_in_a_recording_of_a_start(cause, count):
    times = {"gpu_idle.start_up.cudaFree": 50, "gpu_idle.python": 10, "gpu_computing": 40}
    steps = ("steps", "false", "No step was marked.", "")
    found = on(times, checks=[steps], matches=[match(cause, 10)])
    assert found.limiter is Limiter.UNKNOWN
    assert found.actions[0].title == "Too few steady steps"
    assert len(found.actions) == count


@pytest.mark.parametrize(("covers", "count"), [(0.4, 2), (0.9, 1)])
def test_what_the_gpu_computes_of_a_start_is_no_action_where_the_cpu_is_behind(covers, count):
    times = {"gpu_idle.start_up.cudaFree": 50, "gpu_idle.python": 10, "gpu_computing": 40}
    steps = ("steps", "false", "No step was marked.", "")
    about = {"gpu_computing": ("", {"only_hides_launching_share": covers})}
    found = on(times, about=about, checks=[steps], matches=[match("gpu_computing", 10)])
    assert len(found.actions) == count


def test_a_headline_that_is_too_long_loses_a_part_and_stays_a_sentence():
    steps = Result(metrics={"step_time_ns": Metric(value=80e6, unit="ns", title="")})
    name = "python.between the optimizer's step and the next forward"
    found = judged(
        causes=causes({name: 80, "cpu_operators": 20}), steps=steps, unprofiled=[{"step": 0}]
    )
    assert found.headline == "Python 80 of 100 ms per traced step."


def test_time_that_passes_between_steps_is_said_first():
    number = Metric(value=0.87, unit="share", title="")
    metrics = {"step_time_ns": Metric(value=80e6, unit="ns", title=""), BETWEEN_STEPS: number}
    found = judged(
        causes=causes({"python": 100}), steps=Result(metrics=metrics), unprofiled=[{"step": 0}]
    )
    assert found.confidence is Confidence.MEDIUM
    assert found.trust[0].message == (
        "87% of the time passes between steps, as in evaluation: the step time and its causes are "
        "of the rest."
    )


def _between_steps(share, of_call, call="train.evaluate"):
    """Return the verdict on a run with this share of its time between steps, mostly in one call."""
    metrics = {
        "between_steps_share": Metric(value=share, unit="share", title="Between"),
        "step_time_ns": Metric(value=100e6, unit="ns", title="Step time"),
    }
    row = {"place": "train.py(25): <module>", "call": call, "share": of_call}
    by_call = table(pd.DataFrame([row]), title="Between")
    steps = Result(metrics=metrics, tables={"between_steps_by_call": by_call})
    return judged(causes=causes({"python": 100}), steps=steps, unprofiled=[{"step": 0}])


@pytest.mark.parametrize(("share", "is_most"), [(0.8, True), (0.4, False)])
def test_where_most_time_passes_between_steps_that_is_the_answer(share, is_most):
    found = _between_steps(share, 0.9)
    said = "Between steps 400 ms pass for each step of 100 ms, mostly in train.evaluate."
    assert (found.headline == said) == is_most
    assert (found.limiter is Limiter.OUTSIDE) == is_most
    action = next(one for one in found.actions if one.title.endswith("passes between steps"))
    assert action.place == "train.py(25): <module>"
    assert action.advice.startswith("`train.evaluate` takes 90% of that: do it less often")
    shown = [gain(action, found) for action in found.actions]
    assert (shown[:1] == ["up to 80% of the time less"]) == is_most


def test_what_collects_experience_is_not_to_be_done_less_often():
    found = _between_steps(0.8, 0.9, call="ppo.on_policy_algorithm.collect_rollouts")
    assert found.actions[0].advice.startswith(
        "`ppo.on_policy_algorithm.collect_rollouts` takes 90% of that: let it act in more "
    )
    assert "mostly in `ppo.on_policy_algorithm.collect_rollouts`" in found.trust[0].message


def test_what_runs_between_steps_is_named_only_where_it_is_much_of_that():
    found = _between_steps(0.8, 0.2)
    assert found.headline == "Between steps 400 ms pass for each step of 100 ms."
    assert found.actions[0].place == ""
    assert "evaluation, checkpoints or logs, as a rule" in found.actions[0].advice


def _with_slow_steps(slow, works="cpu_operators", traced_ms=10, warnings=(), **given):
    """Return the verdict on a run with unprofiled steps of 10 ms, and some of 400 ms."""
    ends = np.cumsum([0, *[10] * 50, *[400, 10, 10] * slow]) * 1_000_000
    rows = [
        {"step": step, "start_ns": start, "end_ns": end}
        for step, (start, end) in enumerate(pairwise(ends.tolist()))
    ]
    timed = run(step_times.analyze, steps={"baseline": rows}, skip_first=0)
    of_step = causes({works: traced_ms}, checks=given.pop("checks", ()))
    given = {"stop_after": 20, "recordings": {"baseline": Recording(warnings=warnings)}, **given}
    return judged(causes=of_step, steps=timed, unprofiled=rows, **given)


def test_slow_steps_of_which_none_was_traced_are_the_answer_where_most_of_the_time_is_theirs():
    found = _with_slow_steps(3)
    assert found.limiter is Limiter.UNKNOWN
    assert found.headline == "66% of the time is in 3 of 59 steps, none of them traced."
    (action,) = found.actions
    assert gain(action, found) == "up to 66% of the time less"
    assert action.advice == (
        "3 of 59 unprofiled steps took 400 ms, the median 10 ms, as with evaluation or logs: "
        "`--all` looks at all steps."
    )


def test_slow_steps_of_a_gpu_are_looked_at_by_lines():
    (action,) = _with_slow_steps(3, stop_after=None, works="gpu_computing").actions
    assert action.advice.endswith("`+tool=py_spy` shows its lines.")


def test_one_slow_step_may_be_chance():
    found = _with_slow_steps(1)
    assert found.limiter is Limiter.CPU
    assert [action.confidence for action in found.actions] == [Confidence.LOW]


BUSY = "other processes took more than 10% of the CPUs' time; see conditions in capture.json"


@pytest.mark.parametrize(
    "checks", [(), [("machine", "false", "The machine was busy while it was traced.", "")]]
)
def test_that_the_machine_was_busy_in_the_unprofiled_run_is_said_once(checks):
    found = _with_slow_steps(3, checks=checks, warnings=(BUSY,))
    said = [check.message for check in found.trust if check.check == "machine"]
    busy = "Other processes took more than 10% of the CPUs' time: repeat on an idle machine."
    assert said == ([message for *_, message, _ in checks] or [busy])
    assert found.trust[0].message == said[0]
    assert any(not check.passed for check in found.trust[1:])
    assert found.confidence is Confidence.LOW


@pytest.mark.parametrize(
    "known",
    [
        {"traced_ms": 40},  # what they do was traced, and the mean is less
        {"traced_ms": 45, "slow": 20},  # or more, and no profiler slows so much
        {"stop_after": None},  # all steps were looked at
        {"checks": [("machine", "false", "It was busy.", "")]},
        {"warnings": (BUSY,)},
    ],
)
def test_nothing_is_said_of_slow_steps_that_were_looked_at_or_are_chance(known):
    found = _with_slow_steps(known.pop("slow", 3), **known)
    assert all("traced" not in action.title for action in found.actions)


GROWTH = Finding(
    severity=Severity.WARN,
    message="Steps grow.",
    metric="steps.growth_share",
    value=1.5,
    unit="share",
    evidence={"first_ns": 20e6, "last_ns": 50e6},
    advice="Record later steps.",
)


@pytest.mark.parametrize(("pattern", "is_known"), [("name", False), ("growing_cache", True)])
def test_steps_that_grow_are_said_first_and_are_no_doubt_where_it_is_known_why(pattern, is_known):
    metrics = {"step_time_ns": Metric(value=80e6, unit="ns", title="")}
    few = ("steps", "false", "1 steady step.", "")
    found = judged(
        causes=causes({"python": 100}, checks=[few], matches=[(pattern, *match("python", 40)[1:])]),
        steps=Result(metrics=metrics, findings=(GROWTH,)),
        unprofiled=[{"step": 0}],
    )
    said = [(check.check, check.passed, check.message) for check in found.trust]
    assert said[0] == ("growing steps", is_known, "Steps grow. Record later steps.")
    assert [check for check, *_ in said] == ["growing steps", "steps"]


@pytest.mark.parametrize(
    ("share", "order"), [(0.4, ["", "gpu_idle.python"]), (0.2, ["gpu_idle.python", ""])]
)
def test_time_between_steps_is_an_action_among_the_others(share, order):
    metrics = {
        "between_steps_share": Metric(value=share, unit="share", title="Between"),
        "step_time_ns": Metric(value=50e6, unit="ns", title="Step time"),
    }
    found = judged(
        causes=causes({"gpu_computing": 60, "gpu_idle.python": 40}),
        steps=Result(metrics=metrics),
        unprofiled=[{"step": 0}],
    )
    assert [action.cause for action in found.actions] == order
    between = next(action for action in found.actions if not action.cause)
    assert between.title == "Much of the time passes between steps"
    assert between.gain_ms == pytest.approx(50 * share / (1 - share))
    assert gain(between, found) == f"up to {share:.0%} of the time less"


@pytest.mark.parametrize(("grown", "is_said"), [("memory", True), ("", False)])
def test_steps_that_grow_with_the_memory_are_an_action(grown, is_said):
    metrics = {"step_time_ns": Metric(value=35e6, unit="ns", title="Step time")}
    memory = MemoryVerdict(headline="Grows.", is_growing=bool(grown))
    found = judged(
        causes=causes({"gpu_computing": 100}, checks=[("variation", "false", "They vary.", "")]),
        steps=Result(metrics=metrics, findings=(GROWTH,)),
        memory_verdict=Result(memory=memory),
        unprofiled=[{"step": 0}],
    )
    titles = [(action.title, action.gain_ms) for action in found.actions]
    assert (("Steps take longer and longer", 15) in titles) == is_said
    assert (found.limiter is Limiter.UNSTABLE) != is_said


def test_a_little_start_up_is_not_what_the_headline_tells():
    few = ("steps", "false", "1 steady step.", "")
    found = on({"gpu_idle.start_up.cudaFree": 15, "gpu_idle.python": 85}, checks=[few])
    assert found.limiter is Limiter.UNKNOWN
    assert found.headline == "Not enough recorded to say what limits 100 ms per step."


@pytest.mark.parametrize(("share", "said"), [(0.3, "GPU idle or communicating"), (0.1, "GPU idle")])
def test_time_in_which_the_gpu_only_communicates_is_not_called_idle(share, said):
    about = {"gpu_idle.python": ("", {"in_communication_share": share})}
    found = on({"gpu_computing": 40, "gpu_idle.python": 60}, about=about)
    assert found.headline == f"{said} 60 of 100 ms per step: 60 ms python."


def test_a_headline_names_the_line_of_the_largest_operator():
    times = {"cpu_operators.aten::mm": 60, "cpu_operators.other": 30, "python": 10}
    about = {"cpu_operators.aten::mm": ("aten::mm", {"line": "model.py(9): forward"})}
    found = on(times, about=about, checks=[("steps", "true", "5 steady steps.", "")])
    said = "CPU operators 90 of 100 ms per step, 60 ms in aten::mm, model.py(9): forward."
    assert found.headline == said


def test_a_headline_shortens_the_name_of_a_kernel():
    found = on({f"gpu_computing.Cijk_{'MT128x192x64_' * 40}": 94, "gpu_idle.python": 6})
    assert found.headline.startswith(
        "GPU computing 94 of 100 ms per step, 94 ms in Cijk_MT128x192x64_"
    )
    assert found.headline.endswith("_MT128x192x64_*.")
    assert len(found.headline) < 110
    found = on({"gpu_computing.Gemm<2, 3, 1, 3, 128, Tile<4>>": 94, "gpu_idle.python": 6})
    assert found.headline == "GPU computing 94 of 100 ms per step, 94 ms in Gemm<...>."


def test_what_is_no_step_is_not_called_one():
    whole = replace(
        causes({"gpu_computing": 100}), abstentions=(Abstention(what="single steps", reason=""),)
    )
    found = judged(causes=whole)
    assert found.headline == "GPU computing 100 of 100 ms recorded."
    assert step_time(found) == "100 ms recorded, no step marked"


def test_one_slow_step_limits_nothing_but_may_be_worth_an_action():
    times = {"gpu_computing": 60, "gpu_idle.python": 40}
    found = on(times, typical={"gpu_computing": 60, "gpu_idle.python": 5})
    assert found.limiter is Limiter.GPU
    assert [action.cause for action in found.actions] == ["gpu_idle.python"]


def test_what_is_most_of_the_time_is_the_limiter_though_a_typical_step_has_little_of_it():
    """As workers of a DataLoader that start anew with each short epoch."""
    times = {"cpu_operators": 19, "loading_data": 307, "python": 12}
    anew = match("loading_data", 306)
    found = on(times, typical=times | {"loading_data": 2}, matches=[anew])
    assert found.limiter is Limiter.INPUT
    assert found.headline == "loading_data 307 of 338 ms per step."
    assert verdict_text.lines(found, 80)[0].startswith("Input-bound: loading_data 307")


WAITING = "exposed_communication.waiting"


@pytest.mark.parametrize(
    ("late", "advice"),
    [
        (
            {"gpu_computing": 62, "python.log": 38},
            "Fix rank 1 first: 38 ms more Python than rank 0, in log.",
        ),
        (
            {"gpu_computing.aten::mm": 92, "gpu_computing.other": 8},
            "Fix rank 1 first: 92 ms more GPU computing than rank 0, in aten::mm.",
        ),
        # What is left over of many operators has no name.
        (
            {"gpu_computing.aten::mm": 14, "gpu_computing.other": 85},
            "Fix rank 1 first: 39 ms more GPU computing than rank 0.",
        ),
        (
            {"gpu_computing": 60, "gpu_idle.start_up.cudaFree": 40},
            "Fix rank 1 first: 40 ms more one-off start-up than rank 0, in cudaFree.",
        ),
        (
            {"gpu_computing": 62},
            "Fix rank 1 first: it may have begun late, as no part of its step is that much longer.",
        ),
    ],
    ids=["a line", "an operator", "a remainder", "a call", "nothing"],
)
def test_the_rank_that_is_late_is_named_with_what_it_does_more(late, advice):
    about = {WAITING: ("", {"late_rank": 1})}
    found = on({"gpu_computing": 60, WAITING: 40}, late=late, about=about)
    assert found.limiter is Limiter.STRAGGLER
    assert found.headline == "Waiting 40 of 100 ms per step for rank 1."
    assert (found.actions[0].title, found.actions[0].advice) == ("Ranks wait for rank 1", advice)


@pytest.mark.parametrize(
    ("share", "whom"), [(0.97, " for rank 1."), (0.82, ", 82% of it for rank 1.")]
)
def test_the_headline_says_how_much_of_the_waiting_is_for_the_rank_it_names(share, whom):
    about = {WAITING: ("", {"late_rank": 1, "waiting_for_it_share": share})}
    found = on({"gpu_computing": 60, WAITING: 40}, late={"gpu_computing": 99}, about=about)
    assert found.headline == f"Waiting 40 of 100 ms per step{whom}"


LATE_COLUMNS = ("rank", "place", "since", "fell_behind_in", "late_ns", "caused_wait_ns")


def with_launching(found, *launching_ms):
    """Return the causes with how long the CPU of each rank works in a step to launch."""
    columns = ("rank", "decisive", "launching_least_ns", "launching_most_ns")
    ranks = ((rank, str(rank == 0).lower(), ms * 1e6, ms * 1e6) for rank, ms in launching_ms)
    table = Table(title="", columns=columns, rows=tuple(ranks))
    return replace(found, tables=found.tables | {"ranks": table})


@pytest.mark.parametrize(
    ("own_ms", "since", "gain", "advice"),
    [
        # While rank 0 waits it launches as much as rank 1 does while its GPU is idle.
        (60, "before the step", 30, "it was 25 ms late before its step began."),
        (60, "in the step", 30, "it may have begun late, as no part of its step is that much"),
        (20, "in the step", 40, "40 ms more Python and dispatch than rank 0, in aten::sort."),
        (20, "before the step", 40, "40 ms more Python and dispatch than rank 0."),
        (75, "before the step", 25, "it was 25 ms late before"),  # so long it launches
    ],
)
def test_what_a_rank_launches_while_it_waits_is_no_difference(own_ms, since, gain, advice):
    waits = {"gpu_computing": 40, "gpu_idle.python": 20, WAITING: 40}
    late = {"gpu_computing": 10, "gpu_idle.python": 60}
    about = {WAITING: ("", {"late_rank": 1})}
    fell = [
        (1, "host", since, "aten::sort", 25e6, 30e6),
        (1, "device", "in the step", "gemm", 5e6, 5e6),
        (0, "host", "in the step", "aten::mm", 9e6, 90e6),
    ]
    found = judged(
        causes=with_launching(causes(waits, late=late, about=about), (0, own_ms), (1, 60)),
        stragglers=Result(
            tables={"causes": Table(title="", columns=LATE_COLUMNS, rows=tuple(fell))}
        ),
    )
    (first, *_) = found.actions
    assert first.gain_ms == pytest.approx(gain)
    assert first.advice.startswith(f"Fix rank 1 first: {advice}")


def test_ranks_that_come_last_in_turn_have_a_known_cause_in_common():
    about = {WAITING: ("", {"late_rank": 1, "waiting_for_it_share": 0.4})}
    late = {"gpu_computing": 60, "gpu_idle.blocked.cudaMalloc": 40}
    found = on({"gpu_computing": 60, WAITING: 40}, late=late, about=about)
    assert found.actions[0].advice == (
        "Ranks come last in turn, each for at most 40% of the waiting: rank 1 has 40 ms more "
        "CPU blocked in a call than rank 0, in cudaMalloc, as where GPU memory is full."
    )


@pytest.mark.parametrize(
    ("waits_ms", "place"),
    [
        ((40, 0, 38, 4), "ranks 1 and 3"),
        ((40, 0, 38, 10), "rank 1"),  # they come one after another
        ((40, 0, 1, 2, 38, 37, 40, 39), "ranks 1, 2 and 3"),
        ((40, 0, 38, 30), "rank 1"),
        ((40, 0, 5, 5), "rank 1"),  # most ranks are late then
        ((40, 0), "rank 1"),
    ],
)
def test_ranks_that_come_nearly_last_are_late_as_well(waits_ms, place):
    rows = [
        {"rank": rank, "id": WAITING, "ms_per_step": float(ms), "evidence": "{}"}
        for rank, ms in enumerate(waits_ms)
    ]
    waiting = Cause(
        id=WAITING, title="", ms_per_step=40.0, gain_ms=40.0, share=0.4, evidence={"late_rank": 1}
    )
    known = Compared(stragglers=None, flops=None, launching_ms={}, by_step=())
    (found,) = with_late_rank([waiting], rows, 0, known)
    assert late_place(found) == place
    assert late_advice(found).startswith(f"Fix {place} first")


@pytest.mark.parametrize(
    ("flops", "gain", "advice"),
    [
        ((1e9, 5e9 / 3), 20.5, "Give all ranks equal work: rank 1 has 1.67 times the FLOPs"),
        # Computing takes the late rank less than its FLOPs would, as there is more of it at once.
        ((1e9, 9e9), 20.5, "Give all ranks equal work: rank 1 has 9 times the FLOPs"),
        ((1e9, 1.1e9), 40, "Fix rank 1 first: 39 ms more GPU computing than rank 0."),
        (
            (1e9, 1.01e9),
            40,
            "Fix rank 1 first: 39 ms more GPU computing than rank 0. Its FLOPs are those of others",
        ),
        ((0.0, 1e9), 40, "Fix rank 1 first"),
    ],
    ids=["two ranks", "far more", "a slow host", "equal work", "none known"],
)
def test_equal_work_for_a_rank_with_more_gains_less_than_the_waiting(flops, gain, advice):
    rows = tuple(enumerate(flops))
    table = Table(title="", columns=("rank", "model_flops"), rows=rows)
    waits = {"gpu_computing": 60, WAITING: 40}
    about = {WAITING: ("", {"late_rank": 1})}
    found = judged(
        causes=causes(waits, late={"gpu_computing": 99}, about=about),
        flops=Result(tables={"by_rank": table}),
    )
    (first,) = found.actions
    assert first.gain_ms == pytest.approx(gain)
    assert first.advice.startswith(advice)


@pytest.mark.parametrize(("flops", "is_said"), [(5e9 / 3, False), (1e9, True)])
def test_data_of_a_rank_that_waits_for_one_with_more_work_is_not_to_blame(flops, is_said):
    (_, *rest) = match("cpu_operators", 20)
    waits = {"cpu_operators": 60, WAITING: 40}
    about = {WAITING: ("", {"late_rank": 1})}
    padded = [("padded_batches", *rest)]
    table = Table(title="", columns=("rank", "model_flops"), rows=((0, 1e9), (1, flops)))
    found = judged(
        causes=causes(waits, late={"cpu_operators": 99}, about=about, matches=padded),
        flops=Result(tables={"by_rank": table}),
    )
    assert ("Do this." in [action.advice for action in found.actions]) == is_said


def test_the_thread_is_named_that_has_the_gil_of_a_rank_that_is_late():
    late = {"cpu_operators": 50, "waiting_for_thread.gil": 50}
    about = {
        WAITING: ("", {"late_rank": 1}),
        "waiting_for_thread.gil": ("train.py(9): main", {"thread": "metrics.py(12): run"}),
    }
    (first, *_) = on({"cpu_operators": 60, WAITING: 40}, late=late, about=about).actions
    assert first.advice == (
        "Fix rank 1 first: 50 ms more gil than rank 0, as another thread of it runs "
        "metrics.py(12): run. Move that work to a process (`multiprocessing`), or let it sleep "
        "between its pieces."
    )


SENT = "exposed_communication.waiting_or_transfer"


@pytest.mark.parametrize(
    ("late", "operation", "limiter", "gain"),
    [
        # Rank 1 works 180 ms and both 120 on average; what it sends itself is no work.
        ({"cpu_operators": 180, SENT: 20}, "send", Limiter.STRAGGLER, 60),
        ({"cpu_operators": 180, SENT: 20}, "allreduce", Limiter.COMMUNICATION, 140),
        ({"cpu_operators": 70, SENT: 130}, "recv", Limiter.COMMUNICATION, 140),
        (None, "recv", Limiter.COMMUNICATION, 140),
    ],
    ids=["a large stage", "no stages", "equal stages", "one rank"],
)
def test_stages_wait_for_one_that_works_longer(late, operation, limiter, gain):
    sent = {"operation": operation, "operation_share": 1.0, "at_best_share": 0.1, "fastest_ns": 9e3}
    found = on({"cpu_operators": 60, SENT: 140}, late=late, about={SENT: ("", sent)})
    (first,) = found.actions
    assert (found.limiter, first.gain_ms) == (limiter, pytest.approx(gain))
    if limiter is Limiter.STRAGGLER:
        assert found.headline == "Waiting 140 of 200 ms per step for rank 1."
        assert first.advice.startswith("Fix rank 1 first: 120 ms more operators on the CPU")
    # Stages of equal work wait by the order of their micro-batches; of others nothing is known.
    is_balanced = late is not None and late["cpu_operators"] < 100
    assert ("ScheduleInterleaved1F1B" in first.advice) == is_balanced


@pytest.mark.parametrize(("recorded", "count"), [("true", 1), ("false", 0)])
def test_bytes_are_no_matter_while_a_rank_that_may_be_waited_for_is_missing(recorded, count):
    times = {"gpu_computing": 40, "exposed_communication.transfer": 60}
    bytes_in_fp32 = ("fp32_reductions", *match("exposed_communication.transfer", 30)[1:])
    ranks = ("ranks", recorded, "2 of 3 ranks recorded.", "")
    found = on(times, matches=[bytes_in_fp32], checks=[ranks])
    assert [one.pattern for one in found.actions].count("fp32_reductions") == count


@pytest.mark.parametrize("has_pattern", [True, False])
def test_fewer_bytes_are_advised_once(has_pattern):
    sent = "exposed_communication.transfer"
    known = {"operation": "allreduce", "operation_share": 1.0, "message_bytes": 1 << 20}
    about = {sent: ("", known | {"fastest_ns": 1e3})}
    halved = ("fp32_reductions", *match(sent, 30)[1:])
    found = on(
        {"gpu_computing": 40, sent: 60}, about=about, matches=[halved] if has_pattern else []
    )
    general = next(one for one in found.actions if not one.pattern)
    assert "gradient accumulation with `no_sync()`" in general.advice
    assert ("bf16_compress_hook" in general.advice) != has_pattern


def test_what_shortens_all_communication_shortens_each_kind_of_it():
    times = {"gpu_computing": 40, WAITING: 40, "exposed_communication.transfer": 20}
    found = on(times, matches=[match("exposed_communication", 54, confidence="high")])
    # It leaves a tenth of both.
    assert found.actions[0].gain_ms == pytest.approx(54)
    assert [action.pattern for action in found.actions] == ["name"]


def test_what_is_sent_beside_matched_collectives_stays_what_it_is():
    sent = {"operation": "send", "operation_share": 1.0}
    about = {WAITING: ("", {"late_rank": 1}), SENT: ("", sent)}
    late = {"cpu_operators": 180, SENT: 20}
    found = on({"cpu_operators": 60, WAITING: 40, SENT: 100}, late=late, about=about)
    assert [cause.id for cause in found.causes].count(WAITING) == 1


def test_ranks_that_come_last_in_turn_are_not_blamed_on_one():
    about = {WAITING: ("", {"late_rank": 1, "waiting_for_it_share": 0.3})}
    found = on({"gpu_computing": 60, WAITING: 40}, late={"gpu_computing": 99}, about=about)
    assert found.headline == "Waiting 40 of 100 ms per step for other ranks in turn."
    assert "each for at most 30% of the waiting" in found.actions[0].advice


OF_STEPS = ("rank", "repeat", "step", f"{WAITING}_ns", "gpu_idle.python_ns", "gpu_computing_ns")


@pytest.mark.parametrize(
    ("waits", "python", "is_sure"),
    [
        ([40, 40, 40], [39, 39, 39], True),
        ([40, 60, 20], [39, 59, 19], True),
        ([118, 1, 1], [117, 0, 0], False),
        # Why it is late is not the same in each step.
        ([40, 40, 40], [117, 0, 0], False),
        ([120], [117], True),
    ],
)
def test_the_rank_that_is_late_in_one_step_may_not_be_in_others(waits, python, is_sure):
    given = {"gpu_computing": 60, WAITING: 40}
    late = {"gpu_computing": 61, "gpu_idle.python": 39}
    known = causes(given, late=late, about={WAITING: ("", {"late_rank": 1})})
    by_step = [(0, 0, step, ms * 1e6, None, 60e6) for step, ms in enumerate(waits)]
    by_step += [(1, 0, step, None, ms * 1e6, 61e6) for step, ms in enumerate(python)]
    table = Table(title="", columns=OF_STEPS, rows=tuple(by_step))
    found = judged(causes=replace(known, tables=known.tables | {"by_step": table}))
    assert found.headline == "Waiting 40 of 100 ms per step for rank 1."
    once = "" if is_sure else ", mostly in 1 of 3 steps"
    assert found.actions[0].advice == (
        f"Fix rank 1 first: 39 ms more Python and dispatch than rank 0{once}."
    )
    assert found.confidence is (Confidence.HIGH if is_sure else Confidence.MEDIUM)
    said = [check.message.partition(":")[0] for check in found.trust]
    assert said == ["What makes rank 1 late is mostly in 1 of 3 steps"] * (not is_sure)


@pytest.mark.parametrize(
    ("theirs", "whom", "share"),
    [(30, "other ranks in turn", "57%"), (14, "other ranks in turn", "74%"), (10, "rank 1", "")],
)
def test_two_ranks_that_wait_for_each_other_are_both_to_blame(theirs, whom, share):
    waits = causes({"gpu_computing": 60, WAITING: 40}, about={WAITING: ("", {"late_rank": 1})})
    late = causes({"gpu_computing": 90, WAITING: theirs}, about={WAITING: ("", {"late_rank": 0})})
    table = waits.tables["causes"]
    of_late = [(1, *row[1:]) for row in late.tables["causes"].rows]
    both = replace(table, rows=(*table.rows, *of_late))
    found = judged(causes=replace(waits, tables=waits.tables | {"causes": both}))
    assert found.headline == f"Waiting 40 of 100 ms per step for {whom}."
    in_turn = f"come last in turn, each for at most {share}"
    assert (in_turn in found.actions[0].advice) == bool(share)
    # It may be chance.
    assert (found.actions[0].confidence is Confidence.LOW) == bool(share)


@pytest.mark.parametrize(
    ("share", "cause"), [(0.06, "gpu_idle.python.train_py(9): log"), (0.2, "gpu_idle.python")]
)
def test_one_line_that_the_gpu_waits_for_is_worth_less_than_all_of_python(share, cause):
    line = {"gpu_idle.python.train_py(9): log": share, "gpu_computing": 0.99 - share}
    found = on(line | {"gpu_idle.python.other": 0.01})
    assert [action.cause for action in found.actions] == [cause]


HOST_COLUMNS = ("host", "ranks", "late_ranks", "caused_by_rank")


@pytest.mark.parametrize(
    ("late", "place", "words"),
    [
        (("n1", 2, 2, None), "host n1", "all its 2 ranks are late"),
        (("n1", 2, 1, 1), "rank 1", "only rank 1 of its 2 ranks is late"),
        (("n1", 2, 2, 1), "rank 1", "rank 1 of its 2 ranks holds up the others"),
    ],
)
def test_the_host_is_to_blame_if_all_its_ranks_are_late(late, place, words):
    waiting = "exposed_communication.waiting"
    tables = {
        "by_rank": Table(title="", columns=("rank", "host"), rows=((1, "n1"),)),
        "by_host": Table(title="", columns=HOST_COLUMNS, rows=(late,)),
    }
    about = {waiting: ("", {"late_rank": 1})}
    known = causes({"gpu_computing": 60, waiting: 40}, late={"gpu_computing": 100}, about=about)
    found = judged(causes=known, stragglers=Result(tables=tables))
    assert found.headline == f"Waiting 40 of 100 ms per step for {place}."
    assert found.actions[0].advice == (
        f"Fix {place} first: 40 ms more GPU computing than rank 0. Host n1: {words}."
    )


def test_at_most_three_actions_come_in_the_order_of_their_gains():
    calls = {
        f"gpu_idle.blocked.cuda{name}": ms for name, ms in zip("abcde", range(5, 10), strict=True)
    }
    found = on({"gpu_computing": 65, **calls})
    assert [action.gain_ms for action in found.actions] == [9, 8, 7]
    assert [cause.id for cause in found.causes if cause.advice] == [
        "gpu_idle.blocked.cudac",
        "gpu_idle.blocked.cudad",
        "gpu_idle.blocked.cudae",
    ]


def match(  # noqa: PLR0913 - the parts of a match
    cause, gain, advice="Do this.", confidence="high", *, place="", in_steps="", share=0.0, **also
):
    source = "https://docs.pytorch.org"
    also = json.dumps(also)
    evidence = json.dumps({"time_share": share} if in_steps else {})
    return (
        "name",
        "Title",
        cause,
        advice,
        gain,
        place,
        confidence,
        source,
        also,
        evidence,
        in_steps,
    )


@pytest.mark.parametrize(
    ("in_steps", "share", "is_known"),
    [("7 of 136", 0.33, True), ("0 of 136", 0.33, True), ("1,200 of 2,000", 0.33, False)],
)
def test_steps_may_vary_by_what_is_known_to_be_done_in_some_of_them(in_steps, share, is_known):
    seldom = match("cpu_operators", 20, in_steps=in_steps, share=share)
    vary = ("variation", "false", "Steps vary by 144%.", "")
    found = on({"cpu_operators": 100}, matches=[seldom], checks=[vary])
    (check,) = (one for one in found.trust if one.check == "variation")
    known = "Steps vary by 144%. Work that only some of them do explains that."
    assert (check.passed, check.message) == (is_known, known if is_known else vary[2])


def test_what_workers_do_most_is_where_data_is_loaded():
    line = "data.py(7): collate"
    (name, *rest) = match("loading_data", 60, place=line)
    waits = {"loading_data": ("train.py(3): main", {})}
    times = {"cpu_operators": 40, "loading_data": 60}
    for pattern, place in (("too_few_workers", line), (name, "train.py(3): main")):
        found = on(times, matches=[(pattern, *rest)], about=waits)
        assert found.headline == f"loading_data 60 of 100 ms per step: {place}."


def test_a_loop_over_parameters_is_said_once():
    seen = [("short_operators", 25), ("work_beside_the_model", 45)]
    loop = '{"is_loop_over_parameters": 1}'
    rows = [(name, *match("cpu_operators", gain)[1:-2], loop, "") for name, gain in seen]
    found = on({"cpu_operators": 60, "python": 40}, matches=rows)
    patterns = [action.pattern for action in found.actions if action.pattern]
    assert patterns == ["work_beside_the_model"]


def test_a_pattern_takes_the_place_of_the_advice_of_its_cause_and_gains_no_more_than_that():
    times = {"gpu_computing": 60, "gpu_idle.loading_data": 40}
    found = on(times, matches=[match("gpu_idle.loading_data", 90), match("gpu_idle.gone", 50)])
    assert [(one.advice, one.gain_ms, one.pattern) for one in found.actions] == [
        ("Do this.", 40, "name")
    ]


@pytest.mark.parametrize(
    ("named", "cause"),
    [
        ("gpu_computing.aten::mm", "gpu_computing"),
        ("exposed_communication.transfer", "exposed_communication.waiting_or_transfer"),
        ("exposed_communication", "exposed_communication.waiting_or_transfer"),
        ("gpu_idle.blocked.cudaMalloc", "gpu_idle.blocked"),
    ],
)
def test_a_pattern_that_names_too_small_a_cause_explains_the_one_above(named, cause):
    times = {
        "gpu_computing": 40,
        "exposed_communication.waiting_or_transfer": 30,
        "gpu_idle.blocked.cudaFree": 30,
    }
    found = on(times, matches=[match(named, 20)])
    assert [action.cause for action in found.actions if action.pattern] == [cause]


def test_communication_is_said_of_the_ranks_that_were_recorded():
    times = {"gpu_computing": 50, "exposed_communication.transfer": 50}
    found = on(times, checks=[("ranks", "false", "2 of 8 ranks recorded.", "")])
    (action,) = found.actions
    assert action.title == "Transfer, or waiting for a rank that was not recorded"
    assert action.advice.startswith(
        "2 of 8 ranks recorded: one of the others may be late, so record all of them. "
        "If it is transfer: overlap it with computing"
    )
    assert action.confidence is Confidence.LOW
    some = causes(times, checks=[("ranks", "false", "2 of 8 ranks recorded.", "")])
    (own,) = judged(causes=some, unprofiled=[{"step": 0, **span(0, 10**8)}]).actions
    assert "marks its steps with `profkit.step()`" in own.advice
    waits = {"exposed_communication.transfer": ("", {"at_best_share": 0.1, "fastest_ns": 9e3})}
    found = on(times, about=waits, checks=[("ranks", "false", "2 of 8 ranks recorded.", "")])
    assert found.actions[0].title == "Waiting for a rank that was not recorded"
    assert "If it is transfer" not in found.actions[0].advice
    slow = {"message_bytes": 16 << 20, "fastest_ns": 9e6}
    evidence = {"exposed_communication.transfer": ("", slow)}
    found = on(times, about=evidence, checks=[("ranks", "false", "2 of 8 ranks recorded.", "")])
    assert found.actions[0].advice.startswith("16 MiB take 9 ms at best, 1.9 GB/s: ")
    assert "slow one. 2 of 8 ranks recorded: " in found.actions[0].advice
    assert found.actions[0].advice.count("GB/s") == 1


@pytest.mark.parametrize(
    ("last", "missing", "count", "is_sure"),
    [
        (0, "", 2, True),
        (5, "", 2, False),
        (0, "the straggler of 8", 2, False),
        (0, "", 1, False),  # nothing is known of more ranks than were traced
    ],
)
def test_ranks_that_were_not_recorded_are_no_doubt_if_all_marks_say_who_is_last(
    last, missing, count, is_sure
):
    times = {"gpu_computing": 50, "exposed_communication.transfer": 50}
    late = Table(title="", columns=("rank", "caused_wait_ns"), rows=((last, 9), (7, 1))[:count])
    some = (Abstention(what=f"{missing} ranks", reason=""),) if missing else ()
    found = judged(
        causes=causes(times, checks=[("ranks", "false", "2 of 8 ranks recorded.", "")]),
        stragglers=Result(tables={"by_rank": late}, abstentions=some),
    )
    (action,) = found.actions
    assert ("record all of them" not in action.advice) == is_sure


@pytest.mark.parametrize(
    ("pattern", "times", "is_later"),
    [
        ("short_kernels", {"gpu_computing": 20, "gpu_idle.python": 80}, True),
        ("too_few_workers", {"gpu_computing": 20, "gpu_idle.loading_data": 80}, True),
        ("loading_in_main_process", {"gpu_computing": 20, "gpu_idle.loading_data": 80}, False),
        ("short_kernels", {"gpu_computing": 60, "gpu_idle.python": 40}, False),
    ],
)
def test_what_a_gpu_computes_that_waits_for_others_at_work_is_shortened_then(
    pattern, times, is_later
):
    wait = [*times][1]
    found = on(times, matches=[match("gpu_computing", 15), (pattern, *match(wait, 30)[1:])])
    titles = {action.cause: action.title for action in found.actions}
    words = f"(then, as the step is {found.limiter})"
    assert titles["gpu_computing"].endswith(words) == is_later
    assert words not in titles[wait]


@pytest.mark.parametrize(("pattern", "has_line"), [("short_kernels", False), ("other", True)])
def test_many_launches_of_a_step_are_made_at_no_single_line(pattern, has_line):
    line = "train.py(49): main"
    found = on(
        {"gpu_computing": 20, "gpu_idle.python": 80},
        about={"gpu_idle.python": (line, {})},
        matches=[(pattern, *match("gpu_idle.python", 30)[1:])],
    )
    assert found.actions[0].place == (line if has_line else "")


@pytest.mark.parametrize(("share", "is_later"), [(0.9, True), (0.2, False)])
def test_kernels_are_shortened_after_many_launches_and_not_after_a_few_long_waits(share, is_later):
    times = {"gpu_computing": 20, "gpu_idle.python": 80}
    about = {"gpu_idle.python": ("", {"short_gaps_share": share, "longest_ns": 1})}
    found = on(times, about=about, matches=[match("gpu_computing", 15)])
    assert ("(then, as" in found.actions[1].title) == is_later


@pytest.mark.parametrize(
    ("idle", "covers", "limiter"),
    [(15, 0.95, Limiter.CPU), (15, 0.5, Limiter.GPU), (9, 0.95, Limiter.GPU)],
)
def test_the_cpu_limits_sooner_where_computing_only_covers_what_it_launches(idle, covers, limiter):
    about = {"gpu_computing": ("", {"only_hides_launching_share": covers})}
    found = on({"gpu_computing": 100 - idle, "gpu_idle.python": idle}, about=about)
    assert found.limiter is limiter
    said = "launching throughout, GPU computing 85 of 100 ms per step."
    assert (found.headline == said) == (limiter is Limiter.CPU)


def test_what_helps_against_the_limiter_comes_before_a_larger_bound_elsewhere():
    times = {"gpu_computing": 60, "gpu_idle.loading_data": 40}
    found = on(times, matches=[match("gpu_computing", 55), match("gpu_idle.loading_data", 30)])
    assert (found.limiter, [one.gain_ms for one in found.actions]) == (Limiter.INPUT, [30, 55])
    assert found.actions[0].title.endswith(" (first, as the step is input-bound)")
    # Without a GPU nothing waits for the CPU: what gains most comes first.
    alone = on(
        {"cpu_operators": 70, "loading_data": 30},
        matches=[match("cpu_operators", 9), match("loading_data", 13)],
    )
    assert (alone.limiter, [one.gain_ms for one in alone.actions]) == (Limiter.CPU, [13, 9])
    # Waiting for ranks and what follows are one communication, whichever is longer.
    sent = {"gpu_computing": 30, WAITING: 30, "exposed_communication.transfer": 40}
    both = on(sent, matches=[match(WAITING, 29), match("exposed_communication.transfer", 20)])
    assert both.limiter is Limiter.COMMUNICATION
    assert [one.gain_ms for one in both.actions[:2]] == [29, 20]
    waits = {"gpu_computing": 60, WAITING: 40}
    ranks = on(waits, matches=[match("gpu_computing", 55), match(WAITING, 30)])
    assert ranks.actions[0].title.endswith(" (first, as ranks wait)")
    busy = {"gpu_computing": 82, "gpu_idle.loading_data": 18}
    bound = on(busy, matches=[match("gpu_computing", 10), match("gpu_idle.loading_data", 18)])
    assert (bound.limiter, [one.gain_ms for one in bound.actions]) == (Limiter.GPU, [18, 10])
    small = on(times, matches=[match("gpu_computing", 55), match("gpu_idle.loading_data", 27)])
    assert [one.gain_ms for one in small.actions] == [55, 27]
    assert "first" not in small.actions[0].title


@pytest.mark.parametrize(
    ("beside", "said"),
    [(30, ["x"]), (10, ["x", "single_rows"]), (0.1, ["single_rows"]), (0, ["single_rows"])],
)
def test_another_use_of_the_model_is_advised_last_and_where_it_gains_most(beside, said):
    single = ("single_rows", *match("cpu_operators", 20)[1:])
    others = [("x", *match("python", beside)[1:])] if beside else []
    found = on({"cpu_operators": 70, "python": 30}, matches=[single, *others])
    assert [action.pattern for action in found.actions] == said


@pytest.mark.parametrize(
    ("place", "gain", "said"),
    [("a.py(4): f", 9, ["name"]), ("a.py(4): f", 4, ["short_operators", "name"]),
     ("a.py(7): f", 9, ["short_operators", "name"])],
)  # fmt: skip
def test_what_is_known_of_a_line_is_said_and_not_what_fits_any_line(place, gain, said):
    times = {"cpu_operators": 60, "python": 40}
    general = ("short_operators", *match("cpu_operators", 15, place="a.py(4): f")[1:])
    found = on(times, matches=[general, match("python", gain, place=place)])
    assert [action.pattern for action in found.actions] == said


def test_what_is_sure_comes_before_what_is_not_and_gains_up_to_twice_as_much():
    times = {"cpu_operators": 60, "python": 40}
    sure, unsure = match("python", 20), match("cpu_operators", 38, confidence="low")
    found = on(times, matches=[unsure, sure])
    assert [one.gain_ms for one in found.actions] == [20, 38]
    assert found.actions[0].title.endswith(" (first, as more certain than the next)")
    more = match("cpu_operators", 42, confidence="low")
    assert [one.gain_ms for one in on(times, matches=[more, sure]).actions] == [42, 20]


@pytest.mark.parametrize(
    ("per_step_mib", "is_growing"), [(20, True), (1, False)], ids=["a graph", "a cache"]
)
def test_a_process_whose_memory_grows_with_every_step_will_run_out(per_step_mib, is_growing):
    mib = 1 << 20
    peaks = [400 * mib + max(number - 3, 0) * per_step_mib * mib for number in range(20)]
    steps = [
        {"rank": 0, "repeat": 0, "step": number, "peak_memory_bytes": peak}
        for number, peak in enumerate(peaks)
    ]
    found = judged(causes=causes({"cpu_operators": 100}), unprofiled=steps)
    assert (found.memory is not None) == is_growing
    if found.memory:
        assert found.memory.headline == "Memory grows 20 MiB with each step; 720 MiB so far."
        assert any(".detach()" in line for line in verdict_text.lines(found))


def test_what_was_recorded_of_a_few_steps_does_not_hide_that_memory_grows():
    peaks = [(400 + 20 * number) << 20 for number in range(20)]
    steps = [
        {"rank": 0, "repeat": 0, "step": number, "peak_memory_bytes": peak}
        for number, peak in enumerate(peaks)
    ]
    within = MemoryVerdict(headline="300 MiB at the peak.", limit_bytes=1 << 30)
    given = {"causes": causes({"cpu_operators": 100}), "unprofiled": steps}
    found = judged(**given, memory_verdict=Result(memory=within)).memory
    assert found.headline == "Memory grows 20 MiB with each step; 780 MiB so far."
    assert found.limit_bytes == 1 << 30
    full = replace(within, is_limit=True)
    assert judged(**given, memory_verdict=Result(memory=full)).memory == full


def test_a_process_with_a_first_peak_alone_does_not_grow():
    steps = [
        {"rank": 0, "repeat": 0, "step": number, "peak_memory_bytes": (300 + 50 * min(number, 9))}
        for number in range(20)
    ]
    assert judged(causes=causes({"cpu_operators": 100}), unprofiled=steps).memory is None


def test_on_a_busy_machine_little_is_worth_a_word_only_if_it_is_sure():
    times = {"cpu_operators": 93, "python": 7}
    busy = [("machine", "false", "Others took the CPUs.", "")]
    unsure, sure = match("python", 7, confidence="low"), match("python", 7)
    assert [one.gain_ms for one in on(times, matches=[unsure]).actions] == [7]
    assert on(times, matches=[unsure], checks=busy).actions == ()
    found = on(times, matches=[sure], checks=busy)
    assert [one.gain_ms for one in found.actions] == [7]


def test_more_threads_are_advised_only_where_others_leave_cores():
    found = ("idle_cores", *match("cpu_operators", 50)[1:])
    busy = [("machine", "false", "Others took the CPUs.", "")]
    times = {"cpu_operators": 93, "python": 7}
    assert [one.gain_ms for one in on(times, matches=[found]).actions] == [50]
    assert on(times, matches=[found], checks=busy).actions == ()


@pytest.mark.parametrize(
    ("busy", "confidence", "least"),
    [(0, "low", 4), (0, "medium", 2), (1, "low", 16), (1, "medium", 8)],
)
def test_of_what_is_not_likely_half_counts(busy, confidence, least):
    checks = [("machine", "false", "Others took the CPUs.", "")] * busy
    for ms in (least - 1, least):
        times = {"cpu_operators": 100 - ms, "python": ms}
        found = on(times, matches=[match("python", ms, confidence=confidence)], checks=checks)
        assert len(found.actions) == (ms == least)


def test_what_happens_in_some_steps_is_spread_over_all_and_may_be_the_limiter():
    times = {"cpu_operators": 35, "loading_data": 5}
    seldom = {"place": "train.py(9): fit", "in_steps": "3 of 12", "share": 0.52}
    restarts = [match("loading_data", 44, **seldom), match("python", 4, **seldom)]
    restarts.append(match("python", 9, **seldom | {"place": "train.py(2): fit"}))
    found = on(times, matches=restarts)
    assert found.limiter is Limiter.INPUT
    assert found.headline == "52% of the time: Title, in 3 of 12 steps."
    assert found.actions[0].title == "Title, in 3 of 12 steps"
    assert gain(found.actions[0], found) == "up to 52% of the time less"
    assert [one.gain_ms for one in found.actions if one.in_steps] == [44]
    decisive = on(times, matches=[match("loading_data", 25, **seldom)])
    assert decisive.limiter is Limiter.INPUT
    assert decisive.headline == "52% of the time: Title, in 3 of 12 steps."
    unsure = on(times, matches=[match("loading_data", 25, confidence="low", **seldom)])
    assert unsure.limiter is Limiter.CPU
    assert unsure.headline == "Operators on the CPU 35 of 40 ms per step."
    small = on(times, matches=[match("loading_data", 2, **seldom)])
    assert small.limiter is Limiter.CPU
    assert small.headline == "Operators on the CPU 35 of 40 ms per step."


def test_a_line_with_an_action_of_its_own_keeps_the_rest_of_its_time():
    times = {"cpu_operators.aten::mm": 60, "cpu_operators.aten::fill_": 40}
    line = {"place": "train.py(9): embed"}
    one_hot = match("cpu_operators.aten::mm", 40, **line)
    whole = match("cpu_operators.aten::fill_", 90, confidence="low", **line)
    also = json.dumps({"cpu_operators.aten::mm": 30})
    whole = (*whole[:8], also, *whole[9:])
    assert sorted(one.gain_ms for one in on(times, matches=[whole, one_hot]).actions) == [40, 50]
    most = match("cpu_operators.aten::mm", 60, **line)
    assert [one.gain_ms for one in on(times, matches=[whole, most]).actions] == [60]


def test_what_sleeps_waits_and_the_first_words_say_so():
    about = {"waiting_in_call": ("train.py(3): load", {"call": "sleep"})}
    found = on({"cpu_operators": 20, "waiting_in_call": 80}, about=about)
    assert found.limiter is Limiter.WAITING
    assert found.headline == "Waiting in sleep 80 of 100 ms per step: train.py(3): load."
    assert verdict_text.lines(found)[0] == found.headline
    assert found.actions[0].advice.startswith("`sleep` waits in train.py(3): load: leave it out")
    about = {"waiting_in_call": ("serve.py(3): look_up", {"call": "recv_into"})}
    found = on({"cpu_operators": 20, "waiting_in_call": 80}, about=about)
    assert "`recv_into` waits in serve.py(3): look_up: ask for all at once" in (
        found.actions[0].advice
    )
    about = {"waiting_in_call": ("rl.py(3): main", {"call": "multiprocessing.queues.get"})}
    found = on({"cpu_operators": 20, "waiting_in_call": 80}, about=about)
    assert "waits in rl.py(3): main for another process: make its" in found.actions[0].advice


def test_an_empty_queue_is_blamed_on_the_thread_that_fills_it():
    evidence = {"thread": "train.py(4): decode", "waits_for": "a queue"}
    about = {"waiting_for_thread.lock": ("train.py(9): main", evidence)}
    found = on({"cpu_operators": 20, "waiting_for_thread.lock": 80}, about=about)
    assert found.limiter is Limiter.WAITING
    empty = "The queue is empty in train.py(9): main: train.py(4): decode"
    assert f"{empty} fills it too slowly" in found.actions[0].advice
    about["waiting_for_thread.lock"][1]["thread_waits"] = True
    waiting = on({"cpu_operators": 20, "waiting_for_thread.lock": 80}, about=about)
    assert f"{empty}, which fills it, waits as well" in waiting.actions[0].advice


def test_a_certain_line_is_kept_beside_the_general_advice_on_its_cause():
    times = {"gpu_computing": 40, "gpu_idle.python": 60}
    general = match("gpu_idle.python", 60, "Launch fewer.", confidence="medium")
    line = match("gpu_idle.python", 20, "Change this.", place="train.py(3): main")
    found = on(times, matches=[general, line])
    assert [(one.advice, one.gain_ms) for one in found.actions] == [
        ("Launch fewer.", 40),
        ("Change this.", 20),
    ]
    assert len(on(times, matches=[general, match("gpu_idle.python", 20)]).actions) == 1


@pytest.mark.parametrize(
    ("gain", "said"),
    [(20, [(20, True), (20, False)]), (4, [(36, False), (4, True)]), (31, [(31, True)])],
)
def test_communication_that_a_pattern_explains_in_part_keeps_its_own_advice(gain, said):
    times = {"gpu_computing": 60, "exposed_communication.transfer": 40}
    found = on(times, matches=[match("exposed_communication.transfer", gain)])
    assert [(one.gain_ms, bool(one.pattern)) for one in found.actions] == said


@pytest.mark.parametrize(("gain", "said"), [(6, [(54, False), (6, True)]), (30, [(30, True)])])
def test_a_pattern_that_gains_little_does_not_hide_that_the_gpu_waits_for_launches(gain, said):
    times = {"gpu_computing": 40, "gpu_idle.python": 60}
    found = on(times, matches=[match("gpu_idle.python", gain)])
    assert [(one.gain_ms, bool(one.pattern)) for one in found.actions] == said


NORMAL, EMPTY, COMPILED = "aten::normal_", "aten::empty", "## Call CompiledFxGraph abc ##"


@pytest.mark.parametrize(
    ("operator", "evidence", "headline", "advice"),
    [
        (NORMAL, {}, f"CPU operators, mostly {NORMAL}.", f"`{NORMAL}` runs on the CPU: move it"),
        (NORMAL, {"operator_share": 0.3}, "python.", "`aten::normal_` takes 30% of this, the long"),
        (NORMAL, {"is_launching": True}, "python.", "`aten::normal_` takes 80% of this, the"),
        (EMPTY, {}, "python.", "Find out what holds up the CPU: `aten::empty` takes 80% of this"),
        ("delta_r2", {}, "python.", "Find out what holds up the CPU: `delta_r2` takes 80% of this"),
        (
            COMPILED,
            {"is_launching": True},
            "python.",
            'mode="reduce-overhead")`: most of this',
        ),
        (
            NORMAL,
            {"operator_share": 0.2, "in_operators_share": 0.3},
            "python.",
            "Move CPU work out of the step: the longest gap is 149 ms, 70% of all is Python",
        ),
        (NORMAL, {"short_gaps_share": 0.9}, "python.", "Launch fewer, larger kernels"),
    ],
)
def test_an_operator_that_computes_on_the_cpu_while_the_gpu_waits_is_named(
    operator, evidence, headline, advice
):
    given = {"short_gaps_share": 0.1, "in_operators_share": 0.9, "operator_share": 0.8}
    given |= {"operator": operator, "longest_ns": 149_000_000} | evidence
    times = {"gpu_computing": 40, "gpu_idle.python": 60}
    found = on(times, about={"gpu_idle.python": ("", given)})
    assert found.headline == f"GPU idle 60 of 100 ms per step: 60 ms {headline}"
    assert advice in found.actions[0].advice


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        ({"streams": 1, "longest_ns": 363_000}, "no other stream, up to 0.363 ms at a time"),
        ({"streams": 2, "longest_ns": 363_000}, "an event of another stream"),
        ({"blocked_in": "cudaFree"}, "The CPU is blocked in cudaFree meanwhile"),
        (
            {"between_kernels_ns": 2_750, "gaps_per_step": 2483.0},
            "The GPU takes 2.8 us from one kernel to the next, 2,483 times: use fewer",
        ),
    ],
)
def test_work_that_does_not_start_on_the_only_stream_waits_for_no_other(evidence, says):
    times = {"gpu_computing": 40, "gpu_idle.not_started": 60}
    found = on(times, about={"gpu_idle.not_started": ("", evidence)})
    assert found.limiter is Limiter.WAITING
    (action,) = found.actions
    assert says in action.advice


def test_a_small_collective_does_not_hide_the_late_rank():
    evidence = {"late_rank": 1, "waiting_for_it_share": 1.0}
    about = {"exposed_communication.waiting": ("", evidence)}
    times = {"gpu_computing": 60, "exposed_communication.waiting": 40}
    found = on(times, about=about, matches=[match("exposed_communication", 3)])
    assert [(one.title, one.gain_ms) for one in found.actions] == [
        ("Ranks wait for rank 1", 37),
        ("Title", 3),
    ]


def test_two_patterns_that_see_the_same_line_are_one_action():
    times = {"cpu_operators": 40, "python.loop": 50, "python.other": 10}
    place = {"place": "train.py(3): accuracy"}
    both = [match("python", 55, **place), match("python.loop", 50, **place, confidence="low")]
    assert [one.gain_ms for one in on(times, matches=both).actions] == [55]
    elsewhere = match("python.loop", 50, place="train.py(9): log")
    assert len(on(times, matches=[both[0], elsewhere]).actions) == 2
    reads = match("python.loop", 90, cpu_operators=40, **place)
    short = match("cpu_operators", 80, python=42, **place)
    assert [one.gain_ms for one in on(times, matches=[reads, short]).actions] == [90]


def test_one_action_explains_all_calls_that_its_gain_is_of():
    times = {"gpu_computing": 80, "gpu_idle.blocked.cudaMalloc": 14, "gpu_idle.blocked.cudaFree": 6}
    both = match("gpu_idle.blocked.cudaMalloc", 20, **{"gpu_idle.blocked.cudaFree": 5})
    assert [one.gain_ms for one in on(times, matches=[both]).actions] == [20]


@pytest.mark.parametrize(
    ("checks", "advice"),
    [
        ((), "Record again, and add `with_stack=True`."),
        (
            (("GPU", "false", "No.", ""),),
            (
                "Record again, and add `ProfilerActivity.CUDA`; if it was there, see what the"
                " profiler prints about CUPTI or roctracer."
            ),
        ),
        (
            (("GPU", "false", "No.", ""), ("cut off", "false", "No.", "")),
            (
                "Record again, and keep the whole file: it ends where it was no longer written or "
                "copied."
            ),
        ),
        (
            (("kernels", "false", "No.", ""),),
            (
                "Record again, and find why rows of GPU work are missing: see what the profiler "
                "prints about CUPTI or roctracer, end other profilers (`nsys`, `dcgmi`), use a "
                "driver and a PyTorch of matching CUDA versions."
            ),
        ),
        (
            (("steps", "false", "1.", ""),),
            (
                "Record 5 steady steps after warm-up: `schedule(wait=1, warmup=3, active=5)` and "
                "`prof.step()` after each, and add `with_stack=True`."
            ),
        ),
    ],
)
def test_what_to_record_names_what_is_missing_and_the_leaf_that_lacks_it(checks, advice):
    found = on({"gpu_computing": 10, "gpu_idle.not_recorded": 90}, checks=checks)
    assert [(one.cause, one.advice) for one in found.actions] == [("gpu_idle.not_recorded", advice)]


@pytest.mark.parametrize(
    ("imported", "words"),
    [("nsys", "torch.cuda.nvtx.range"), ("", "let the program make more steps")],
)
def test_what_to_record_is_said_in_the_words_of_the_tool(imported, words):
    few = [("steps", "false", "1.", "")]
    found = on({"gpu_idle.start_up.cudaFree": 90}, checks=few, imported=imported)
    assert words in found.actions[0].advice
    assert "prof.step" not in found.actions[0].advice


def test_what_to_record_of_a_program_without_pytorch_is_in_its_own_words():
    failed = [("steps", "false", "1.", ""), ("program", "false", "No PyTorch.", "")]
    found = on({"gpu_idle.not_recorded": 90}, checks=failed, imported="nsys")
    assert "`nvtxRangePush" in found.actions[0].advice
    assert "--sample=process-tree" in found.actions[0].advice
    assert "torch" not in found.actions[0].advice


def test_what_to_record_names_the_tool_that_may_not_have_been_used(tmp_path, monkeypatch):
    found = on({"not_recorded": 100}, imported="")
    words = "tool=torch_profiler tools.torch_profiler.with_stack=true"
    assert found.actions[0].advice == f"Record again, and use `{words}`."
    monkeypatch.chdir(tmp_path)
    (made,) = load(words.split()).runs
    assert list(made.tools) == ["baseline", "torch_profiler"]


def test_what_is_silenced_is_not_said_to_be_unrecorded():
    found = on({"cpu_operators": 100}, checks=[("GPU", "false", "No GPU.", "cpu_operators")])
    assert found.headline == "Not enough recorded to say what limits 100 ms per step."
    assert verdict_text.lines(found)[0] == found.headline


def test_the_step_time_of_a_run_of_a_few_steps_is_that_of_all_of_them():
    rows = [{"step": n, **span(n * 10**8, n * 10**8 + 30_000_000 * (n + 1))} for n in (0, 1)]
    few = Result.abstain("step times", "all 2 steps are warm-up")
    found = judged(causes=causes({"cpu_operators": 12}), steps=few, unprofiled=rows)
    assert (found.step_ms, found.is_unprofiled) == (45, True)
    assert found.headline == "Operators on the CPU 12 of 12 ms per traced step."


def test_the_step_time_is_that_of_the_unprofiled_run_where_there_is_one():
    steps = Result(metrics={"step_time_ns": Metric(value=80e6, unit="ns", title="")})
    given = {"causes": causes({"gpu_computing": 100}), "steps": steps}
    found = judged(**given, unprofiled=[{"step": 0}])
    assert (found.step_ms, found.traced_ms, found.is_unprofiled) == (80, 100, True)
    assert found.headline == "GPU computing 100 of 100 ms per traced step."
    assert judged(**given).step_ms == 100


def test_what_the_profiler_slows_down_is_left_out_of_the_step_and_limits_nothing():
    steps = Result(metrics={"step_time_ns": Metric(value=21e6, unit="ns", title="")})
    times = {"gpu_computing": 19, "gpu_idle.python": 2, "profiler_overhead": 27}
    given = {"causes": causes(times), "steps": steps}
    found = judged(**given, unprofiled=[{"step": 0}])
    assert (found.limiter, found.headline) == (Limiter.GPU, "GPU computing 19 of 21 ms per step.")
    assert (found.step_ms, found.traced_ms, found.overhead_ms) == (21, 21, 27)
    assert sum(cause.share for cause in found.causes if "." not in cause.id) == pytest.approx(1)
    assert "profiler_overhead" not in [cause.id for cause in found.causes]


def test_the_line_of_a_cause_is_kept_where_its_pattern_names_none():
    loading = "gpu_idle.loading_data"
    about = {loading: ("dataset.py(31): decode", {})}
    found = on({"gpu_computing": 60, loading: 40}, about=about, matches=[match(loading, 40)])
    assert found.actions[0].place == "dataset.py(31): decode"


def test_what_a_pattern_gains_in_several_causes_is_one_action():
    times = {"gpu_computing": 50, "gpu_idle.blocked.cudaFree": 20, "exposed_copies.DtoH": 30}
    both = match("gpu_idle.blocked.cudaFree", 60, **{"exposed_copies.DtoH": 25})
    # Of the 60 ms 35 are said to lie in a cause that takes 20.
    assert [action.gain_ms for action in on(times, matches=[both]).actions] == [45]
    little = match("gpu_idle.blocked.cudaFree", 25, **{"exposed_copies.DtoH": 5})
    gains = {action.gain_ms for action in on(times, matches=[little]).actions}
    assert gains == {30, 25}


def test_what_a_pattern_gains_in_lines_is_bounded_by_all_python():
    times = {"cpu_operators": 40, "python.open": 20, "python.write": 30, "python.other": 10}
    both = match("python.open", 45, **{"python.write": 15})
    assert [action.gain_ms for action in on(times, matches=[both]).actions] == [45]
    more = match("python.open", 70, **{"python.write": 15})
    assert [action.gain_ms for action in on(times, matches=[more]).actions] == [60]


def test_an_unsure_pattern_gives_way_to_a_sure_one_that_gains_a_little_less():
    sure, unsure = match("python", 20, "Sure."), match("python", 30, "Unsure.", "low")
    assert [one.advice for one in on({"python": 50}, matches=[unsure, sure]).actions] == ["Sure."]
    elsewhere = match("cpu_operators", 30, "Unsure.", "low", python=20)
    times = {"python": 50, "cpu_operators": 50}
    assert [one.advice for one in on(times, matches=[elsewhere, sure]).actions] == ["Sure."]
    unsure = match("python", 50, "Unsure.", "low")
    sure = match("python", 10, "Sure.")
    assert on({"python": 50}, matches=[sure, unsure]).actions[0].advice == "Unsure."


def test_the_headline_on_communication_names_the_largest_part_of_it():
    """A rank that waits in one step of three waits for none in the median of them."""
    waiting, transfer = (f"exposed_communication.{name}" for name in ("waiting", "transfer"))
    typical = {"cpu_operators": 3, waiting: 0, transfer: 5}
    found = on({"cpu_operators": 3, waiting: 40, transfer: 5}, typical=typical)
    assert found.limiter is Limiter.COMMUNICATION
    assert found.headline == "Exposed communication 45 of 48 ms per step: 40 ms waiting."


@pytest.mark.parametrize(
    ("times", "limiter"),
    [
        ({"cpu_operators": 45, "python": 10, "loading_data": 45}, Limiter.INPUT),
        ({"cpu_operators": 67, "loading_data": 33}, Limiter.CPU),
        ({"cpu_operators": 52, "python": 6, "loading_data": 42}, Limiter.CPU),
        ({"cpu_operators": 60, "exposed_communication.waiting": 40}, Limiter.STRAGGLER),
        ({"cpu_operators": 70, WAITING: 14, SENT: 16}, Limiter.COMMUNICATION),
        ({"cpu_operators": 82, WAITING: 8, SENT: 10}, Limiter.CPU),
        ({"cpu_operators": 60, "python": 30, "loading_data": 10}, Limiter.CPU),
    ],
)
def test_without_a_gpu_operators_are_the_computing_that_a_stall_keeps_waiting(times, limiter):
    assert on(times).limiter is limiter


def test_what_is_small_is_silent():
    times = {"gpu_computing": 98.5, "gpu_idle.blocked.cudaFree": 1.5}
    assert on(times, matches=[match("gpu_computing", 1.9)]).actions == ()


@pytest.mark.parametrize(
    ("checks", "confidence"),
    [
        ((("steps", "true", "5.", ""),), Confidence.HIGH),
        ((("ranks", "false", "1 of 2.", ""),), Confidence.MEDIUM),
        ((("steps", "false", "1.", ""),), Confidence.LOW),
    ],
)
def test_a_check_that_failed_lowers_the_confidence_of_the_verdict_and_its_actions(
    checks, confidence
):
    found = on({"gpu_computing": 100}, checks=checks, matches=[match("gpu_computing", 50)])
    assert [found.confidence, found.actions[0].confidence] == [confidence, confidence]


def test_a_check_that_failed_silences_what_depends_on_it():
    waiting = "exposed_communication.waiting"
    found = on({"gpu_computing": 50, waiting: 50}, checks=[("clocks", "false", "No.", waiting)])
    assert found.limiter is Limiter.UNKNOWN
    advice = "Record again, and synchronise the clocks of the hosts (NTP or PTP)."
    assert [action.advice for action in found.actions] == [advice]


def test_noise_without_a_cause_is_said_as_unstable():
    found = on({"gpu_computing": 100}, checks=[("variation", "false", "90 %.", "")])
    assert found.limiter is Limiter.UNSTABLE
    assert found.headline.startswith("Unstable")


@pytest.mark.parametrize(
    ("times", "is_even"),
    [
        ([10, 310] * 8 + [10], False),
        ([310, 10, 310] * 6, False),
        ([100] * 16 + [300], True),
        ([95, 105] * 8, True),
    ],
    ids=["bursts", "mostly waiting", "one slow step", "noise"],
)
def test_a_median_that_does_not_say_what_a_step_costs_is_said_to_be_one(times, is_even):
    ends = np.cumsum([0, *times]) * 1_000_000
    rows = [
        {"step": step, "start_ns": ends[step], "end_ns": ends[step + 1]}
        for step in range(len(times))
    ]
    found = run(step_times.analyze, steps={"baseline": rows}, skip_first=0)
    verdict_on = judged(causes=causes({"cpu_operators": 20}), steps=found, unprofiled=rows)
    said = [check.message for check in verdict_on.trust if not check.passed]
    assert bool(said) is not is_even
    assert is_even or f"so their mean counts, {np.mean(times):.0f} ms" in said[0]
    assert verdict_on.step_ms == (np.median(times) if is_even else pytest.approx(np.mean(times)))
    assert verdict_on.confidence is (Confidence.HIGH if is_even else Confidence.MEDIUM)


@pytest.mark.parametrize(
    ("idle", "covers", "order"),
    [
        ("python", 0.9, ["gpu_idle.python", "gpu_computing"]),
        ("python", 0.3, ["gpu_computing", "gpu_idle.python"]),
        ("loading_data", 0.9, ["gpu_idle.loading_data", "gpu_computing"]),
        ("loading_data", 0.3, ["gpu_computing", "gpu_idle.loading_data"]),
    ],
)
def test_computing_that_ends_before_the_next_launch_is_shortened_last(idle, covers, order):
    times = {"gpu_computing": 75, f"gpu_idle.{idle}": 25}
    about = {"gpu_computing": ("", {"only_hides_launching_share": covers})}
    matches = [match("gpu_computing", 60), match(f"gpu_idle.{idle}", 20)]
    found = on(times, about=about, matches=matches)
    assert [action.cause for action in found.actions] == order
    is_later = f"(then, as the step is {found.limiter})" in found.actions[-1].title
    assert is_later == (covers > 0.5)
    assert [action.gain_ms for action in found.actions if action.cause == "gpu_computing"] == [60]


@pytest.mark.parametrize(
    ("function", "gain", "told"), [("act", 7, 1), ("other", 7, 2), ("act", 25, 2)]
)
def test_a_function_with_a_finding_is_not_told_again_of_some_steps(function, gain, told):
    seldom = match("python", gain, place="ppo.py(9): main", in_steps="7 of 112", share=0.3)
    general = match("cpu_operators", 23, place=f"rl/ppo.py(126): {function}")
    found = on({"cpu_operators": 40}, matches=[general, ("", "ppo.act", *seldom[2:])])
    assert len(found.actions) == told


@pytest.mark.parametrize(
    ("start_ms", "check", "limiter"),
    [
        (30, "steps", Limiter.UNKNOWN),
        (10, "steps", Limiter.STRAGGLER),
        (30, "machine", Limiter.STRAGGLER),
    ],
)
def test_ranks_that_wait_while_others_start_are_no_steady_step(start_ms, check, limiter):
    waiting = "exposed_communication.waiting"
    times = {"gpu_idle.start_up": start_ms, waiting: 50, "gpu_computing": 50 - start_ms}
    assert on(times, checks=[(check, "false", "It may be.", "")]).limiter is limiter


def test_without_steps_nothing_is_counted_per_step():
    advice = "Call the model less often than 289 times a step: 905 operators per step take 3 µs."
    action = Action(
        cause="python", title="T", advice=advice, gain_ms=1, evidence={"kernels_per_step": 33.0}
    )
    found = _worthwhile.of_all(action)
    assert found.advice == ("Call the model less often than 289 times: 905 operators take 3 µs.")
    assert found.evidence == {"kernels": 33.0}
