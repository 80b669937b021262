"""The difference of two runs as a sum of causes, on a few parts of each."""

from statistics import geometric_mean

import pytest

from profkit.analyze.shared.waterfall import OVERHEAD, waterfall
from profkit.core.result import Result, Table

COLUMNS = (
    "rank",
    "repeat",
    "cause",
    "module",
    "operator",
    "kernel",
    "calls_per_step",
    "ms_per_step",
)
NO_STEP = Table(title="", columns=("step",), rows=((-1,),))
WAITING = "exposed_communication.waiting"


def part(cause, ms, operator="", kernel="", **where):
    given = {"rank": 0, "repeat": 0, "module": "", "calls": 1} | where
    keys = (given["rank"], given["repeat"], cause, given["module"], operator, kernel)
    return (*keys, given["calls"], ms)


def causes(*parts, launching_ns=0):
    """Return a result of the analysis ``causes`` with these parts."""
    ranks = tuple((rank, launching_ns) for rank in sorted({part[0] for part in parts}))
    launching = Table(title="", columns=("rank", "launching_least_ns"), rows=ranks)
    consist = Table(title="", columns=COLUMNS, rows=parts)
    return Result(tables={"parts": consist, "ranks": launching})


def made(before, after, **given):
    found = waterfall(causes(*before), causes(*after), **given)
    assert sum(bar.difference_ms for bar in found.bars) == pytest.approx(found.difference_ms)
    for bar in found.bars:
        if bar.parts:
            total = sum(part.difference_ms for part in bar.parts)
            assert total == pytest.approx(bar.difference_ms)
    return found


def shown(found):
    """Return title, difference and change of each bar."""
    return [(bar.title, round(bar.difference_ms, 6), bar.change) for bar in found.bars]


def test_ranges_of_steps_are_one_whatever_their_numbers():
    before = [part("unknown", 4.0, f"ProfilerStep#{number}") for number in (7, 8)]
    found = made(before, [part("unknown", 6.0, "ProfilerStep#1009")])
    assert [(round(bar.difference_ms, 6), bar.change) for bar in found.bars] == [(-2.0, "")]


BEFORE = (
    part("gpu_computing", 6.0, "aten::mm", "gemm", module="Net_0;Linear_0"),
    part("gpu_computing", 3.0, "aten::add", "add"),
    part("gpu_computing", 0.5),
    part("gpu_idle.loading_data", 2.0, "data.py(3): read"),
)


def test_bars_name_the_operator_line_and_kernel_behind_them_and_sum_to_the_difference():
    after = (
        part("gpu_computing", 6.0, "aten::mm", "gemm", module="Net_0;Linear_0"),
        part("gpu_computing", 4.0, "aten::mm", "gemm", module="Net_0;Linear_1"),
        part("gpu_computing", 1.0, "aten::mul", "mul"),
        part("gpu_computing", 0.5),
        part("gpu_idle.loading_data", 7.0, "data.py(8): read"),
        part("gpu_idle.blocked.cudaMalloc", 0.01),
    )
    found = made(BEFORE, after)
    assert (found.before_ms, found.after_ms) == pytest.approx((11.5, 18.51))
    assert found.basis == "traced"
    assert shown(found) == [
        ("Loading data: data.py(8): read", 5.0, ""),  # only its line has moved
        ("GPU computing: aten::mm", 4.0, ""),
        ("GPU computing: aten::add", -3.0, "removed"),
        ("GPU computing: aten::mul", 1.0, "new"),
        ("other (2)", 0.01, ""),
    ]
    matmul = found.bars[1]
    assert (matmul.id, matmul.module) == ("gpu_computing.aten::mm", "Net_0 > Linear_1")
    assert [kernel.title for kernel in matmul.parts] == ["gemm"]
    assert [bar.title for bar in found.largest(9)][-1] == "GPU computing: aten::mul"


def test_one_capture_each_has_no_intervals_and_pairs_have():
    one, other = [part("cpu_operators", 4.0)], [part("cpu_operators", 5.0)]
    found = made(one, other)
    assert (found.pairs, found.bars[0].interval) == (1, None)
    times = {0: (4.0, 5.1), 1: (4.2, 5.2), 2: (4.1, 5.0), 3: (9.0, None)}
    runs = [
        [
            part(cause, ms, repeat=repeat)
            for repeat, both in times.items()
            for cause, ms in (("cpu_operators", both[side]), ("python", 1 + repeat % 2))
            if both[side] is not None
        ]
        for side in (0, 1)
    ]
    found = made(*runs)
    (bar, quiet) = found.bars
    assert found.pairs == 3  # the fourth repeat is of one run alone
    assert bar.difference_ms == pytest.approx(1.0, rel=0.01)
    # The ends are those that runs are judged by, and the bars sum to their difference.
    steps = [
        geometric_mean([both[side] + 1 + n % 2 for n, both in list(times.items())[:3]])
        for side in (0, 1)
    ]
    assert [found.before_ms, found.after_ms] == pytest.approx(steps)
    assert sum(one.difference_ms for one in found.bars) == pytest.approx(steps[1] - steps[0])
    assert bar.interval.low < 1.0 < bar.interval.high < 1.3
    assert not bar.is_noise
    assert quiet.is_noise


def test_the_rank_that_others_wait_for_in_the_slower_run_says_why():
    def ranks(late_ms):
        return [
            part("cpu_operators", 10.0, rank=0),
            part(WAITING, late_ms + 0.1, rank=0),
            part("cpu_operators", 10.0, rank=1),
            part("python", late_ms, rank=1),
            part(WAITING, 0.1, rank=1),
        ]

    found = made(ranks(0.0), ranks(5.0))
    assert (found.rank_before, found.rank_after) == (1, 1)
    assert shown(found)[0] == ("Python", 5.0, "new")
    assert shown(made(ranks(5.0), ranks(0.0)))[0] == ("Python", -5.0, "removed")


def test_causes_of_traced_steps_lead_to_the_difference_without_a_profiler():
    found = made(
        [part("cpu_operators", 10.0), part("python", 2.0)],
        [part("cpu_operators", 14.0), part("python", 2.0)],
        unprofiled_ms=({0: 9.0}, {0: 12.5}),
    )
    assert (found.before_ms, found.after_ms) == pytest.approx((9.0, 12.5))
    assert found.basis == "unprofiled"
    overhead = next(bar for bar in found.bars if bar.id == OVERHEAD)
    assert (overhead.before_ms, overhead.after_ms) == pytest.approx((-3.0, -3.5))


def test_excerpts_without_steps_are_compared_for_the_same_work():
    def excerpt(work, idle_ms):
        parts = (
            part("gpu_computing", 6.0 * work, "aten::mm", "gemm", calls=10 * work),
            part("gpu_computing", 1.0, "gemm", "gemm"),  # launched before the excerpt began
            part("gpu_idle.python", idle_ms * work),
        )
        return Result(tables=causes(*parts).tables | {"by_step": NO_STEP})

    found = waterfall(excerpt(2, 1.0), excerpt(4, 3.0))
    assert found.work == pytest.approx(2.0)
    assert shown(found) == [("Python and dispatch", 4.0, ""), ("GPU computing: aten::mm", -0.5, "")]


def test_a_run_whose_time_was_not_divided_has_no_waterfall():
    assert waterfall(Result(), causes(*BEFORE)) is None


def test_equal_runs_have_no_difference():
    found = made(BEFORE, BEFORE)
    assert (found.difference_ms, found.largest(3)) == (0.0, ())


@pytest.mark.parametrize(
    ("idle_ms", "launching_ms", "differ"),
    [(4.0, 9.0, True), (4.0, 5.0, False), (0.5, 9.0, False), (4.0, 0.0, False)],
    ids=["slower", "as fast", "slower, but hidden", "not recorded"],
)
def test_slower_launches_are_told_where_the_gpu_waits_for_them(idle_ms, launching_ms, differ):
    sides = [
        causes(part("gpu_computing", 6.0), part("gpu_idle.python", ms), launching_ns=ns * 1e6)
        for ms, ns in ((1.0, 5.0), (idle_ms, launching_ms))
    ]
    found = waterfall(*sides)
    assert found.launching_ms == (5.0, launching_ms)
    assert found.launches_differ is differ
