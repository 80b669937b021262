"""Causes and actions of programs that are not of PyTorch."""

import pytest

from profkit.analyze._cause_advice import actions
from profkit.analyze._other_programs import in_general, named
from profkit.core.verdict import Action, Cause

HALF = {"title": "of PyTorch", "ms_per_step": 5.0, "gain_ms": 5.0, "share": 0.5}


def advised(cause, **evidence):
    """Return what is advised on half of the time, of a program of PyTorch and of any other."""
    (of_pytorch,) = actions([Cause(id=cause, **HALF, evidence=evidence)], frozenset())
    return of_pytorch.advice, *(action.advice for action in in_general([of_pytorch], ()))


@pytest.mark.parametrize(
    ("cause", "evidence", "words"),
    [
        ("gpu_idle.python", {"short_gaps_share": 0.9}, "or a CUDA graph"),
        ("gpu_idle.python", {"longest_ns": 11_400_000}, "the longest gap is 11.4 ms"),
        ("gpu_idle.blocked.cudaFree", {}, "cudaMallocAsync"),
        ("gpu_idle.blocked.cudaMemcpyAsync", {}, "cudaMallocHost"),
        ("gpu_idle.blocked.cudaEventSynchronize", {}, "Wait for the GPU less often"),
        ("exposed_copies.HtoD_pageable", {}, "on another stream"),
    ],
)
def test_advice_is_in_the_words_of_any_program(cause, evidence, words):
    of_pytorch, of_any = advised(cause, **evidence)
    assert words in of_any != of_pytorch


@pytest.mark.parametrize("cause", ["exposed_copies.UVM DtoH", "gpu_idle.blocked.cuModuleLoadData"])
def test_advice_that_holds_anyway_stays(cause):
    of_pytorch, of_any = advised(cause)
    assert of_any == of_pytorch


def test_what_only_a_program_of_pytorch_can_do_is_left_out():
    of_pattern = Action(
        cause="gpu_computing.gemm", title="FP32", advice="bf16", gain_ms=5, pattern="fp32_matmuls"
    )
    short = Action(
        cause="gpu_idle.python", title="Short", advice="compile", gain_ms=5, pattern="short_kernels"
    )
    (left,) = in_general([of_pattern, short, short], ())
    assert (left.title, left.pattern) == ("GPU waits for the CPU to launch", "")


def test_no_python_is_said_to_run_between_launches():
    both = [Cause(id=name, **HALF) for name in ("gpu_idle.python", "gpu_computing")]
    assert [cause.title for cause in named(both)] == ["CPU work between launches", "of PyTorch"]


@pytest.mark.parametrize(("launched", "waits"), [(1.0, False), (3.0, True)])
def test_a_gpu_for_which_hardly_anything_is_launched_waits_for_no_launches(launched, waits):
    kernel = Cause(id="gpu_computing.add", **HALF, evidence={"calls_per_step": launched})
    idle = Cause(id="gpu_idle.python", **HALF)
    (of_pytorch,) = actions([idle], frozenset())
    assert bool([*in_general([of_pytorch], [idle, kernel])]) == waits
    (first, _) = named([idle, kernel])
    assert first.title == f"CPU work {'between launches' if waits else 'beside the GPU'}"
