"""The verdict as the page shows it: bounds, evidence, and what could not be looked at."""

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
from profkit.report.shown_verdict import shown

CAUSES = (
    Cause(id="gpu_computing", title="GPU computing", ms_per_step=99.5, gain_ms=99.5, share=0.995),
    Cause(id="python", title="Python", ms_per_step=0.5, gain_ms=0.5, share=0.005),
)
ACTION = Action(cause="python", title="Launch less", advice="Use graphs.", gain_ms=12.0)
VERDICT = Verdict(
    limiter=Limiter.GPU,
    headline="GPU busy.",
    step_ms=100.0,
    traced_ms=100.0,
    confidence=Confidence.LOW,
    causes=CAUSES,
    actions=(ACTION,),
)


def test_a_gain_says_what_it_is_of_or_that_it_is_not_known():
    unknown = replace(ACTION, gain_ms=0.0)
    made = shown(replace(VERDICT, actions=(ACTION, unknown)))
    assert [action.gain for action in made.actions] == [
        "up to 12% of a step less (12 of 100 ms)",
        "Gain not known",
    ]
    assert made.nothing == ""


def test_evidence_is_that_of_the_action_if_it_has_any_and_no_flag():
    causes = (*CAUSES[:1], replace(CAUSES[1], evidence={"is_launching": True, "gaps": 7}))
    own = replace(ACTION, evidence={"calls_per_step": 3.0, "is_mutual": 1})
    made = shown(replace(VERDICT, causes=causes, actions=(ACTION, own)))
    assert [[(item.label, item.value) for item in one.evidence] for one in made.actions] == [
        [("Gaps", 7)],
        [("Calls per step", 3.0)],
    ]


def test_how_traced_steps_differ_from_others_is_said():
    assert (shown(VERDICT).of_step, shown(VERDICT).about_step) == (
        "Causes of a step of 100 ms",
        "",
    )
    known = replace(VERDICT, is_unprofiled=True, step_ms=90.0)
    assert shown(known).of_step == "Causes of a traced step of 100 ms"
    assert shown(known).about_step == (
        "Traced steps take 100 ms; a typical one of the unprofiled run, which has more, 90 ms."
    )
    (seldom,) = (replace(action, in_steps="1 of 15") for action in known.actions[:1])
    in_some = shown(replace(known, actions=(seldom, *known.actions[1:]))).about_step
    assert in_some.startswith("The bar is of a step without that. Traced steps take 100 ms;")
    slowed = replace(known, overhead_ms=40.0)
    assert shown(slowed).of_step == "Causes of a step of 100 ms"
    assert shown(slowed).about_step == (
        "Traced steps take 140 ms; the 40 ms by which the profiler slows the CPU down are left out."
    )


@pytest.mark.parametrize(
    ("limiter", "headline", "said"),
    [
        (Limiter.GPU, "GPU busy.", "GPU busy."),
        (Limiter.UNSTABLE, "Unstable: steps of 2 ms vary.", "steps of 2 ms vary."),
        (Limiter.UNKNOWN, "Not enough recorded to say it.", "to say it."),
    ],
)
def test_the_limiter_before_the_headline_is_not_said_twice(limiter, headline, said):
    assert shown(replace(VERDICT, limiter=limiter, headline=headline)).headline == said


def test_parts_too_small_to_be_drawn_are_named():
    hidden = replace(VERDICT.causes[-1], id="loading_data", ms_per_step=0.0007, share=7e-6)
    made = shown(replace(VERDICT, causes=(*VERDICT.causes, hidden)))
    assert [part.title for part in made.parts] == ["GPU computing"]
    assert made.small == ("Python 0.5 ms",)


@pytest.mark.parametrize(
    ("silences", "said"),
    [
        ((), "No known loss was recognised."),
        (("gpu_idle",), "Could not look at GPU idle time: see why below."),
        (("compiler",), "Could not look at the causes: see why below."),
    ],
)
def test_to_have_found_nothing_is_not_to_have_looked_at_nothing(silences, said):
    check = Trust(check="CPU", passed=not silences, message="", silences=silences)
    assert shown(replace(VERDICT, actions=(), trust=(check,))).nothing == said


def test_memory_and_kernels_lead_to_their_views_and_rows():
    memory = MemoryVerdict(
        headline="2 GiB", place="f (a.py:3)", filled_by={"parameters": 2}, evidence={"rank": 3}
    )
    kernels = KernelVerdict(
        headline="gemm: small grid.", kernel="gemm", rule="Grid", launches=2, gain_percent=40.0
    )
    first, second = shown(replace(VERDICT, memory=memory, kernels=kernels)).others
    assert (first.topic, first.names, first.evidence[0].value) == ("memory", ("f (a.py:3)",), 3)
    assert (second.topic, second.names) == ("compute", ("gemm", "Grid"))
    assert second.gain == "up to 40 % of 2 measured launches less"
    (without,) = shown(replace(VERDICT, memory=replace(memory, place=""))).others
    assert without.names == ("parameters",)
