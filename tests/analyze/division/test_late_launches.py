"""Communication while nothing else is launched: what is gained without it, and what is not."""

import json
import random

import pytest

from tests.analyze.test_causes import call, divided, kernel, op, step, times, tree


def sent(correlation, start_us, end_us):
    return kernel(correlation, start_us, end_us, "ncclAllReduce", "communication", stream=9)


def one_step(kernels, calls, end_us=1000):
    return times(
        divided(
            steps=[step(0, end_us)],
            cpu_ops=[op(0, 0, end_us)],
            kernels=kernels,
            runtime_calls=calls,
        )
    )


def communication(parts):
    return sum(time for name, time in parts.items() if name.startswith("exposed_communication"))


def test_communication_behind_which_nothing_is_launched_is_time_of_the_cpu():
    kernels = [kernel(1, 10, 100), sent(2, 100, 500), kernel(3, 500, 1000)]
    parts = one_step(kernels, [call(1, 0, 5), call(2, 5, 10), call(3, 495, 500)])
    assert parts == {
        "gpu_computing": 590,
        "gpu_idle.not_started": 10,
        "gpu_idle.python": 395,
        "exposed_communication.waiting_or_transfer": 5,
    }


@pytest.mark.parametrize(
    "calls",
    [
        [call(3, 60, 65)],
        [call(-1, 110, 490, "cudaStreamSynchronize"), call(3, 491, 496)],
        [call(3, 110, 500)],
    ],
    ids=["launched in time", "launched after the CPU waited", "launched by a full queue"],
)
def test_communication_that_holds_up_what_follows_is_none(calls):
    kernels = [kernel(1, 10, 100), sent(2, 100, 500), kernel(3, 500, 1000)]
    parts = one_step(kernels, [call(1, 0, 5), call(2, 5, 10), *calls])
    assert communication(parts) > 380


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_what_a_replay_without_communication_gains(seed):
    plan = drawn(seed)
    kernels, calls, whole_us = replayed(plan)
    gained = whole_us - replayed(without("send", plan))[2]
    exposed = sum(one["end_ns"] - one["start_ns"] for one in kernels if "nccl" in one["name"])
    left = communication(one_step(kernels, calls, whole_us))
    assert left == pytest.approx(gained if 2 * gained <= exposed / 1e3 else exposed / 1e3)


@pytest.mark.parametrize("seed", range(40))
def test_computing_covers_what_a_replay_without_it_does_not_gain(seed):
    plan = without("send", drawn(seed))
    kernels, calls, whole_us = replayed(plan)
    given = {"steps": [step(0, whole_us)], "cpu_ops": [op(0, 0, whole_us)]}
    found = tree(divided(**given, kernels=kernels, runtime_calls=calls))["gpu_computing"]
    computing_us = found["ms_per_step"] * 1e3
    gained = whole_us - replayed(without("kernel", plan))[2]
    share = json.loads(found["evidence"])["only_hides_launching_share"]
    assert computing_us * (1 - share) == pytest.approx(gained, abs=computing_us / 1e3)


def drawn(seed):
    """Return a plan of kernels, communication and waits for the GPU: what, its time, a pause."""
    chance = random.Random(seed)  # noqa: S311
    kinds = ["kernel", "send", "wait"]
    plan = [(chance.choice(kinds), chance.randint(1, 60), chance.randint(2, 40)) for _ in range(60)]
    return [*plan, ("kernel", 5, 5)]


def without(kind, plan):
    return [(what, 0 if what == kind else work, pause) for what, work, pause in plan]


def replayed(plan):
    """Return kernels and calls of a plan, and when the GPU is done, with one thing at a time."""
    cpu = gpu = 0
    kernels, calls = [], []
    for number, (what, work, launch) in enumerate(plan, start=1):
        cpu += launch
        if what == "wait":
            calls.append(call(-1, cpu, max(cpu, gpu), "cudaStreamSynchronize"))
            cpu = max(cpu, gpu)
            continue
        calls.append(call(number, cpu, cpu + 1))
        start = max(gpu, cpu)
        gpu = start + work
        kernels.append(sent(number, start, gpu) if what == "send" else kernel(number, start, gpu))
        cpu += 1
    return kernels, calls, gpu
