"""The verdict in lines for a terminal."""

from dataclasses import replace

import pytest

from profkit.core.verdict import (
    Action,
    Cause,
    Confidence,
    KernelVerdict,
    Limiter,
    MemoryVerdict,
    Trust,
    Verdict,
)
from profkit.report.verdict_text import MOST_LINES, bar, lines


def cause(name, ms, title=""):
    return Cause(id=name, title=title or name, ms_per_step=ms, gain_ms=ms, share=ms / 100)


VERDICT = Verdict(
    limiter=Limiter.INPUT,
    headline="GPU idle 60 of 100 ms per step: 50 ms loading data.",
    step_ms=100,
    confidence=Confidence.HIGH,
    causes=(
        cause("gpu_computing", 40, "GPU computing"),
        cause("gpu_idle", 60),
        cause("gpu_idle.loading_data", 50, "Loading data"),
        cause("gpu_idle.python", 9, "Python"),
        cause("gpu_idle.not_started", 1, "Not started"),
    ),
    actions=(
        Action(cause="gpu_idle.loading_data", title="Waiting for data", advice="Use workers.",
               gain_ms=50),
    ),
    trust=(Trust(check="steps", passed=True, message="6 steady steps of 1 repeat."),),
)  # fmt: skip


def test_limiter_bar_actions_and_trust_are_printed():
    assert lines(VERDICT) == [
        "input-bound: GPU idle 60 of 100 ms per step: 50 ms loading data.",
        "|==========Loading data 50===========|=======GPU computing 40=======|Python|oth|",
        "1      up to -50 ms  Waiting for data",
        "   Use workers.",
        "Confidence high. 6 steady steps of 1 repeat.",
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_however_much_there_is_to_say_it_fits(width):
    action = replace(VERDICT.actions[0], advice="word " * 100, title="title " * 30)
    failed = Trust(check="steps", passed=False, message="long " * 100)
    full = replace(
        VERDICT,
        headline="headline " * 30,
        actions=(action,) * 3,
        trust=(failed,) * 9,
        memory=MemoryVerdict(headline="memory " * 30),
        kernels=KernelVerdict(headline="kernels " * 30),
    )
    made = lines(full, width)
    assert len(made) <= MOST_LINES
    assert max(map(len, made)) <= width
    assert made[-2].startswith("Confidence high.")


@pytest.mark.parametrize("count", [1, 7, 30])
def test_the_bar_is_as_wide_as_asked(count):
    parts = [cause(f"part{number}", 100 / count) for number in range(count)]
    assert len(bar(parts, 100, 80)) <= 80


def test_a_program_with_nothing_to_mend_hears_so():
    assert "Nothing stands out that is worth a change." in lines(replace(VERDICT, actions=()))


def test_a_recording_without_steps_is_judged_by_what_it_is_about():
    memory = MemoryVerdict(headline="12 GiB at the peak.", advice="Checkpoint it.", place="m.py:3")
    verdict = Verdict(
        limiter=Limiter.UNKNOWN,
        headline="No step time was recorded.",
        step_ms=0,
        confidence=Confidence.LOW,
        memory=memory,
    )
    assert lines(verdict) == [
        "Memory: 12 GiB at the peak.",
        "   Checkpoint it. m.py:3",
        "Confidence medium.",
    ]
    assert lines(replace(verdict, memory=None))[0].endswith("No step time was recorded.")


def test_memory_that_is_no_limit_has_no_advice_beside_that_of_the_step():
    memory = MemoryVerdict(headline="12 GiB at the peak.", advice="Checkpoint it.")
    assert "Memory: 12 GiB at the peak." in lines(replace(VERDICT, memory=memory))
    assert "   Checkpoint it." not in lines(replace(VERDICT, memory=memory))
    short = replace(VERDICT, memory=replace(memory, is_limit=True))
    assert "   Checkpoint it." in lines(short)
