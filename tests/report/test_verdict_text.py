"""The verdict in lines for a terminal."""

from dataclasses import replace
from itertools import pairwise

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
from profkit.report.shown_verdict import shown
from profkit.report.verdict_text import MOST_LINES, bar, lines, step_time


def cause(name, ms, title=""):
    return Cause(id=name, title=title or name, ms_per_step=ms, gain_ms=ms, share=ms / 100)


VERDICT = Verdict(
    limiter=Limiter.INPUT,
    headline="GPU idle 60 of 100 ms per step: 50 ms loading data.",
    step_ms=90,
    traced_ms=100,
    is_unprofiled=True,
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
    trust=(Trust(check="steps", passed=True, message="6 steady steps."),),
)  # fmt: skip


def test_limiter_bar_actions_and_trust_are_printed():
    assert lines(VERDICT) == [
        "Input-bound: GPU idle 60 of 100 ms per step: 50 ms loading data.",
        "|==========Loading data 50===========|=======GPU computing 40=======|==a===|=b=|",
        " a Python 9  b other 1",
        "1  up to 50% of a step less (50 of 100 ms traced): Waiting for data. Use",
        "   workers.",
        "Confidence high. 6 steady steps.",
    ]


def test_what_is_said_of_trust_ends_with_a_sentence_however_much_else_there_is():
    (action,) = VERDICT.actions
    long = Trust(
        check="growing steps",
        passed=False,
        message="Steps grow from 68 ms to 188 ms over 17 unprofiled steps (medians of the first "
        "and the last third): later steps cost more than those that were recorded, as where each "
        "works on all data of the steps before it.",
    )
    memory = MemoryVerdict(headline="Memory grows.", advice=" ".join(["Keep no graph"] * 24) + ".")
    action = replace(action, advice=" ".join(["Pass states on detached"] * 17) + ".")
    found = lines(replace(VERDICT, actions=(action,), trust=(long,), memory=memory))
    assert len(found) <= MOST_LINES
    assert found[-1].endswith("first and the last third).")


def test_no_advice_is_cut_off_within_brackets():
    advice = "Sort them (a sampler that sorts; of `Trainer` a setting), or pack several. Or not."
    (action,) = VERDICT.actions
    found = lines(replace(VERDICT, actions=(replace(action, advice=advice),) * 3))
    assert [line for line in found if "sampler that sorts; of" in line]
    assert sum("pack several" in line for line in found) == 3


@pytest.mark.parametrize(
    ("place", "advice", "shown"),
    [
        ("train.py(3): save", "Save less.", "A title, train.py(3): save."),
        ("train.py(3): save", "Save less in train.py(3): save.", "A title. Save"),
        ("optimizer Adam", "Fuse it.", "A title. Fuse it."),
    ],
    ids=["a line", "said already", "no line"],
)
def test_an_action_has_its_line_where_the_advice_does_not_say_it(place, advice, shown):
    action = Action(cause="python", title="A title", advice=advice, gain_ms=5, place=place)
    made = lines(replace(VERDICT, actions=(action,)), 120)
    assert any(shown in line for line in made)


def test_the_bar_of_other_steps_is_called_so():
    (action,) = VERDICT.actions
    _, named, drawn, *_ = lines(replace(VERDICT, actions=(replace(action, in_steps="1 of 15"),)))
    assert named == "Without that, a step takes 100 ms:"
    assert drawn.startswith("|===")


LONG = "Set `a` in train.py(3): main to 4. Then measure again, with the same seed; keep the faster."


@pytest.mark.parametrize("width", [60, 80, 120])
def test_however_much_there_is_to_say_it_fits_in_whole_sentences(width):
    action = replace(VERDICT.actions[0], advice=f"{LONG} {LONG}", title="A long title of a cause")
    failed = Trust(check="steps", passed=False, message="Few steps were recorded, of one rank.")
    full = replace(
        VERDICT,
        headline="GPU idle 60 of 100 ms per step: 50 ms blocked in cudaStreamSynchronize_ptsz.",
        actions=(action,) * 3,
        trust=(failed,) * 5,
        memory=MemoryVerdict(headline="12 GiB at the peak: 40 % activations, 30 % gradients."),
        kernels=KernelVerdict(headline="Occupancy of gemm: up to 20 % less time."),
    )
    made = lines(full, width)
    assert len(made) <= MOST_LINES
    assert max(map(len, made)) <= width
    assert all(
        f"{number}  up to 50% of a step less (50 of 100 ms traced): A" in " ".join(made)
        for number in (1, 2)
    )
    text = " ".join(line.strip() for line in made)
    assert "..." not in text
    assert (
        text.endswith("Also: too few steps, too few steps, too few steps, too few steps.")
        or width > 60
    )
    for line, after in pairwise(made):
        begins = after[0] in "123" or after.startswith(("Memory", "Kernels", "Confidence"))
        assert not begins or line.endswith((".", "other 1"))


SLOWER = "The same steps take 2.98 times as long with the profiler."
FASTER = (
    "The two runs differ: with the profiler the same steps took 57% of the time. `--again` repeats"
    " both."
)
DOUBTS = (
    Trust(check="machine", passed=False, message=f"The machine was busy. {LONG} {LONG}"),
    Trust(check="profiler overhead", passed=False, message="With the profiler all is slower."),
)


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        (
            DOUBTS,
            "Confidence low: the machine was busy, steps differ with the profiler.",
        ),
        (
            (DOUBTS[0], replace(DOUBTS[1], message=SLOWER)),
            "the machine was busy, steps take 2.98 times as long with the profiler.",
        ),
        (
            (DOUBTS[0], replace(DOUBTS[1], message=FASTER)),
            "the machine was busy, the two runs differ.",
        ),
        (
            (
                Trust(check="growing steps", passed=False, message=f"Steps grow. {LONG} {LONG}"),
                *DOUBTS,
            ),
            "Confidence low. Steps grow.",
        ),
    ],
)
def test_an_action_goes_before_sentences_on_how_sure_it_is(trust, said):
    action = replace(VERDICT.actions[0], advice=f"{LONG} {LONG}", title="A long title of a cause")
    headline = "GPU idle 60 of 100 ms per step: 50 ms blocked in cudaStreamSynchronize_ptsz."
    full = replace(
        VERDICT, headline=headline, actions=(action,) * 3, trust=trust, confidence=Confidence.LOW
    )
    made = lines(full)
    assert len(made) <= MOST_LINES
    assert any(line.startswith("3  ") for line in made)
    assert said in " ".join(made)


@pytest.mark.parametrize(
    ("check", "confidence", "is_first"),
    [
        ("machine", Confidence.LOW, True),
        ("cores", Confidence.LOW, True),
        ("machine", Confidence.MEDIUM, False),
        ("growing steps", Confidence.LOW, False),
    ],
)
def test_what_other_work_may_have_made_is_doubted_before_it_is_said(check, confidence, is_first):
    doubt = Trust(check=check, passed=False, message="Not on an idle machine.")
    verdict = replace(VERDICT, confidence=confidence, trust=(doubt,))
    starts = [line.split()[0] for line in lines(verdict)]
    assert (starts.index("Confidence") < starts.index("1")) == is_first
    assert starts.count("Confidence") == 1
    assert shown(verdict).is_disturbed == is_first


def test_the_step_time_says_whether_it_is_unprofiled():
    assert step_time(VERDICT) == "step 90 ms unprofiled"
    assert step_time(replace(VERDICT, is_unprofiled=False)) == "step 90 ms profiled"
    assert step_time(replace(VERDICT, step_ms=0)) == ""


@pytest.mark.parametrize("count", [1, 7, 30])
def test_the_bar_is_as_wide_as_asked(count):
    parts = [cause(f"part{number}", 100 / count) for number in range(count)]
    made = bar(parts, 100, 80)
    assert max(map(len, made)) <= 80
    assert "other" in " ".join(made) or count < 10


@pytest.mark.parametrize(("largest", "lines_below"), [(40, 2), (91, 1)])
def test_what_has_no_room_in_the_bar_is_named_below_it_unless_it_is_small(largest, lines_below):
    titles = ("Waiting for other ranks", "Launched but not started", "One-off start-up", "Transfer")
    times = (largest, *[(100 - largest) / 3] * 3)
    _, *below = made = bar([*map(cause, titles, times)], 100, 60, 2)
    assert len(below) == lines_below
    assert all(title in " ".join(made) for title in titles) == (largest < 80)
    assert max(map(len, made)) <= 60


def test_a_program_with_nothing_to_mend_hears_so():
    nothing = "No known loss was recognised."
    assert nothing in lines(replace(VERDICT, actions=()))
    gemm = cause("gpu_computing.aten::mm", 35, "aten::mm")
    made = " ".join(lines(replace(VERDICT, actions=(), causes=(*VERDICT.causes, gemm))))
    assert (
        f"{nothing} The largest part is aten::mm, 35 of 100 ms. Nsight Compute (NVIDIA) or ROCm"
        in made
    )
    # So it is where what is to be done leaves most of what a GPU computes as it is.
    at_copies = replace(VERDICT.actions[0], cause="exposed_copies.HtoD")
    beside = replace(VERDICT, causes=(*VERDICT.causes, gemm), limiter=Limiter.GPU)
    said = "No known loss was recognised in computing. The largest part is aten::mm"
    for action, is_said in ((at_copies, True), (replace(at_copies, cause=gemm.id), False)):
        made = lines(replace(beside, actions=(action,), memory=None))
        assert (said in " ".join(made)) == is_said
    few = replace(gemm, ms_per_step=20)
    assert nothing in lines(replace(VERDICT, actions=(), causes=(*VERDICT.causes, few)))
    on_cpu = replace(gemm, id="cpu_operators.aten::mm")
    made = " ".join(lines(replace(VERDICT, actions=(), causes=(*VERDICT.causes, on_cpu))))
    assert "35 of 100 ms." in made
    assert "Nsight" not in made
    computing = replace(
        gemm, id="cpu_operators", place="m.py(3): f", evidence={"at_place_share": 0.9}
    )
    for ms, said in ((60, f"{nothing} Most is in m.py(3): f, 54 of 100 ms."), (30, nothing)):
        there = replace(computing, ms_per_step=ms)
        made = " ".join(lines(replace(VERDICT, actions=(), causes=(there,))))
        assert made.count(said) == 1
        assert ("Most is in" in made) == (ms == 60)


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
        "Memory: 12 GiB at the peak. Checkpoint it. Where: m.py:3.",
        "Confidence medium. How much memory the GPU has was not recorded.",
    ]
    known = replace(memory, limit_bytes=16 << 30, confidence=Confidence.HIGH)
    assert lines(replace(verdict, memory=known))[-1] == "Confidence high."
    assert lines(replace(verdict, memory=None))[0].endswith("No step time was recorded.")


@pytest.mark.parametrize(
    ("gain", "why"),
    [
        (20.0, "The gain is an estimate of ncu's rules."),
        (0.0, "Nothing measured says how much time this would save."),
    ],
)
def test_measured_kernels_alone_say_how_sure_their_gain_is(gain, why):
    kernels = KernelVerdict(
        headline="gemm: waits.", gain_percent=gain, advice="Fuse.", confidence=Confidence.LOW
    )
    verdict = replace(VERDICT, traced_ms=0, actions=(), kernels=kernels)
    assert lines(verdict)[-1] == f"Confidence low. {why}"
    assert shown(verdict).failed[-1:] == (why,)


def test_what_was_recorded_without_steps_is_none():
    said = " ".join(lines(replace(VERDICT, is_whole=True, is_unprofiled=False, step_ms=100)))
    assert "1  up to 50% less (50 of 100 ms recorded): Waiting for data." in said


def test_the_line_that_asked_is_said_though_more_follows_that_does_not_fit():
    asked = f"Asked by forward (/home/me/{'a' * 40}/model.py:181)."
    more = f"91.2 MiB were free. The peak is 90 % activations, {'most ' * 60}in one line."
    advice = f"Checkpoint the largest blocks {'again ' * 36}now. {asked} {more}"
    memory = MemoryVerdict(headline="Out of memory.", advice=advice, place="", is_limit=True)
    verdict = replace(VERDICT, traced_ms=0, actions=(), memory=memory)
    said = " ".join(" ".join(lines(verdict)).split())
    assert asked in said
    assert "The peak is" not in said


def test_memory_that_is_no_limit_has_no_advice_beside_that_of_the_step():
    memory = MemoryVerdict(headline="12 GiB at the peak.", advice="Checkpoint it.")
    assert "Memory: 12 GiB at the peak." in lines(replace(VERDICT, memory=memory))
    short = replace(VERDICT, memory=replace(memory, is_limit=True))
    assert "Memory: 12 GiB at the peak. Checkpoint it." in lines(short)
