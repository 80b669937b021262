import pandas as pd
import pytest

from profkit import testing
from profkit.analyze import kernel_verdict, verdict
from profkit.core.result import Result, table
from profkit.core.verdict import KernelVerdict, Limiter, MemoryVerdict

WHERE = {"rank": 0, "repeat": 0}
DURATION = "gpu__time_duration.sum"


def limits_of(*kernels):
    """Return what throughputs say of kernels, as a result of the analysis before."""
    rows = [{"launches": 1, "duration_ns": 9.0} | kernel for kernel in kernels]
    return Result(tables={"kernels": table(pd.DataFrame(rows), title="")})


def run(durations, *advice, says=None, metrics=None, functions=None, **others):
    """Judge launches of these durations with rules: kernel, rule, title, percent, scope.

    `says` is the message of all rules or of each, and `others` are columns of kernels and what is
    known of their throughputs.
    """
    limits = others.pop("speed_of_light", None)
    messages = says if isinstance(says, list) else [says] * len(advice)
    names = functions or [f"f{number}" for number in range(len(durations))]
    columns = ("kernel", "rule", "title", "speedup_percent", "speedup_scope")
    named = [{**WHERE, **dict(zip(columns, row, strict=True))} for row in advice]
    return testing.run(
        kernel_verdict.analyze,
        measured_kernels=[
            {**WHERE, "kernel": number, "function": name, "pid": 1, "launch": number} | others
            for number, name in enumerate(names)
        ],
        kernel_metrics=[
            {**WHERE, "kernel": number, "metric": metric, "value": value}
            for number, duration in enumerate(durations)
            for metric, value in {DURATION: duration, **(metrics or {})}.items()
        ],
        kernel_advice=[
            row | {"message": message or f"say {row['rule']}"}
            for row, message in zip(named, messages, strict=True)
        ],
        speed_of_light=limits,
    )


def test_the_rule_that_saves_most_time_is_named_with_its_launches():
    found = run(
        [100.0, 1000.0, 3000.0],
        (0, "Occupancy", "", 90.0, "global"),
        (1, "Coalescing", "Uncoalesced", 40.0, "global"),
        (2, "Coalescing", "Uncoalesced", 20.0, "global"),
    ).kernels
    assert (found.rule, found.launches, found.kernel) == ("Coalescing", 2, "f2")
    assert found.gain_percent == pytest.approx(25.0)
    assert found.headline == "f2 and 1 other: Uncoalesced, up to 25 % less time."
    assert found.advice == "say Coalescing"


def test_estimates_of_a_part_of_a_launch_do_not_count_for_the_launch():
    found = run(
        [100.0, 900.0],
        (0, "SOLBottleneck", "Small Grid", float("nan"), ""),
        (1, "SOLBottleneck", "Latency Issue", float("nan"), ""),
        (1, "Imbalance", "", 50.0, "local"),
    ).kernels
    assert (found.rule, found.gain_percent) == ("SOLBottleneck", 0.0)
    assert found.headline == "f1: Latency Issue, 90 % of the measured time."
    assert found.evidence == {"time_ns": 900.0}


@pytest.mark.parametrize(
    ("message", "helps"),
    [
        ("This grid is too small to fill it. Look at Launch Statistics for more.", "Give it more"),
        ("Below 60% of peak that is latency issues. Look at Warp State.", "Its warps wait"),
        ("The kernel is utilizing greater than 80.0%. Look at it.", "Look at it."),
    ],
)
def test_a_rule_without_an_estimate_says_what_helps_and_not_where_to_look(message, helps):
    bottleneck = (0, "SOLBottleneck", "", float("nan"), "")
    advice = run([100.0], bottleneck, says=message).kernels.advice
    assert advice.startswith(message.partition(" Look")[0])
    assert helps in advice
    assert ("Look at" in advice) == helps.startswith("Look")


def test_rules_about_a_hundredth_of_the_time_are_not_worth_a_word():
    found = run([1.0, 999.0], (0, "Occupancy", "", 90.0, "global"))
    assert found.kernels is None
    why = "no rule of the report estimates more than 2% for whole launches: collect more with"
    assert found.abstentions[0].reason.startswith(why)
    assert run([1.0]).abstentions[0].reason.startswith("the report has no rule about them")


def test_random_numbers_do_not_count_and_are_named_where_nothing_else_was_measured():
    random = "distribution_elementwise_grid_stride_kernel"
    rules = [(at, "Tail", "Tail Effect", 50.0, "global") for at in range(2)]
    both = run([900.0, 100.0], *rules, functions=[random, "silu"]).kernels
    assert (both.kernel, both.evidence["time_ns"]) == ("silu", 100.0)
    alone = run([900.0], rules[0], functions=[random]).kernels
    assert alone.headline == "Only kernels that fill tensors with random numbers were measured."
    assert (alone.kernel, alone.launches, alone.rule) == (random, 1, "")
    assert "--launch-skip" in alone.advice


def test_memory_that_pytorch_cannot_mark_is_no_advice():
    compressed = (0, "MemoryL2Compression", "Low Compression Rate", 34.0, "global")
    stalled = (0, "CPIStall", "Long Scoreboard Stalls", 33.0, "global")
    assert run([9.0], compressed, stalled).kernels.rule == "CPIStall"


def test_advice_begins_with_what_it_says_of_the_launch():
    of_launch = "This launch has 1 full wave. A grid without a partial wave takes 1.5 ms less."
    for defined in ("A wave is defined as 3.5 blocks. Its size depends on the GPU. ", ""):
        tail = (0, "LaunchConfiguration", "Tail Effect", 50.0, "global")
        assert run([9.0], tail, says=defined + of_launch).kernels.advice == of_launch


def test_without_rules_the_throughputs_of_the_longest_kernel_speak():
    rows = pd.DataFrame(
        [{"kernel": "gemm (grid 2x1x1)", "launches": 3, "duration_ns": 9.0, "limit": "latency",
          "compute_percent": 12.0, "memory_percent": 31.4}]
    )  # fmt: skip
    limits = Result(tables={"kernels": table(rows, title="")})
    found = run([9.0], speed_of_light=limits).kernels
    assert found.headline == "gemm: limited by latency (compute 12 %, memory 31 %)."
    assert "grid fills the GPU" in found.advice
    ruled = run([1.0, 999.0], (0, "Occupancy", "", 90.0, "global"), speed_of_light=limits)
    assert ruled.kernels is None, "no advice beside the report's own rules"


@pytest.mark.parametrize(
    ("capability", "helps"),
    [
        *(("9.0", "bf16, TF32"), ("7.5", "by half precision (float16)"), ("12.0", "bf16, TF32")),
        *(("6.1", "Use half precision"), ("5.2", "Compute less"), ("", "where the GPU has them")),
    ],
)
def test_a_kernel_that_computes_is_told_what_its_gpu_can_do(capability, helps):
    computing = {"kernel": "f0", "limit": "compute", "compute_percent": 80, "memory_percent": 9}
    limits = limits_of(computing | {"fp64_percent": 10.0, "waves": 40.0})
    found = run([9.0], speed_of_light=limits, capability=capability).kernels
    assert found.headline == "f0: limited by compute (compute 80 %, memory 9 %)."
    assert helps in found.advice


def test_a_kernel_near_a_peak_is_told_which_one():
    limits = limits_of(
        {"kernel": "f0 (grid 8x1x1)", "limit": "compute", "compute_percent": 80.3,
         "memory_percent": 9.0, "fp64_percent": 75.6},
        {"kernel": "f1", "limit": "latency", "compute_percent": 9.0, "memory_percent": 9.0,
         "duration_ns": 99.0},
    )  # fmt: skip
    near = (0, "SOLBottleneck", "High Throughput", float("nan"), "")
    says = "The kernel is utilizing greater than 80.0% of the available performance."
    found = run([900.0, 10.0], near, speed_of_light=limits, says=says).kernels
    said = "f0: limited by double precision (fp64 76 %, compute 80 %, memory 9 %)."
    assert (found.headline, found.rule) == (said, "SOLBottleneck")
    assert "float" in found.advice
    unknown = run([900.0, 10.0], near, says=says).kernels
    assert unknown.headline == "f0: High Throughput, 99 % of the measured time."


def test_most_of_the_time_decides_what_limits_kernels_without_rules():
    small = {"limit": "latency", "compute_percent": 33.0, "memory_percent": 44.0, "waves": 0.8}
    limits = limits_of(
        {"kernel": "f0", "limit": "memory", "compute_percent": 3.0, "memory_percent": 91.0,
         "duration_ns": 400.0},
        {"kernel": "f1", "duration_ns": 300.0} | small,
        {"kernel": "f2", "duration_ns": 100.0, "launches": 2} | small,
        {"kernel": "distribution_x", "duration_ns": 5000.0} | small,
    )  # fmt: skip
    found = run([9.0], speed_of_light=limits).kernels
    said = "f1 and 1 other: limited by a small grid (compute 33 %, memory 44 %)."
    assert (found.headline, found.launches) == (said, 3)
    assert found.advice.startswith("Give it more blocks")


@pytest.mark.parametrize(("used", "rule"), [(40.0, "WorkloadImbalance"), (0.7, "SOLBottleneck")])
def test_an_imbalance_of_a_unit_that_is_hardly_used_costs_nothing(used, rule):
    imbalance = (0, "WorkloadImbalance", "L2 Slices Workload Imbalance", 8.0, "global")
    bottleneck = (0, "SOLBottleneck", "Latency Issue", float("nan"), "")
    says = "One or more L2 Slices have a much higher number of active cycles than the average."
    metrics = {"lts__throughput.avg.pct_of_peak_sustained_elapsed": used}
    assert run([9.0], imbalance, bottleneck, says=says, metrics=metrics).kernels.rule == rule


def test_rules_without_a_title_are_told_apart_by_what_they_say():
    rules = [(at, "Occupancy", "", 50.0, "global") for at in range(3)]
    says = ["9 warps, by registers", "7 warps, by registers", "by shared memory"]
    found = run([100.0] * 3, *rules, says=says).kernels
    assert (found.launches, found.advice) == (2, "9 warps, by registers")


def test_the_kernel_of_a_library_is_not_for_rewriting():
    rule = (0, "TheoreticalOccupancy", "", 80.0, "global")
    found = run([9.0], rule, says="So it is.", name="void gemvx::kernel<int>(int)").kernels
    assert found.advice.startswith("So it is. The kernel is one of cuBLAS: change what it is given")


@pytest.mark.parametrize(
    ("dram", "says", "advice"),
    [
        (19.7, "limited by L1 and L2 (compute 3 %, memory 91 %, DRAM 20 %).", "neighbouring"),
        (90.0, "limited by memory (compute 3 %, memory 91 %).", "Move fewer bytes"),
        (None, "limited by memory (compute 3 %, memory 91 %).", "Move fewer bytes"),
    ],
)
def test_a_kernel_that_keeps_the_caches_busy_and_dram_idle_reads_apart(dram, says, advice):
    rows = pd.DataFrame(
        [{"kernel": "transpose", "launches": 1, "duration_ns": 9.0, "limit": "memory",
          "compute_percent": 2.8, "memory_percent": 91.3, "dram_percent": dram}]
    )  # fmt: skip
    limits = Result(tables={"kernels": table(rows, title="")})
    found = run([9.0], speed_of_light=limits).kernels
    assert found.headline == f"transpose: {says}"
    assert advice in found.advice


@pytest.mark.parametrize(
    ("compute", "memory", "dram", "gain", "is_first"),
    [
        (3.0, 85.0, 10.0, 15.0, True),
        (85.0, 85.0, 10.0, 15.0, True),  # requests to L1 count as computing on some GPUs
        (84.0, 85.0, 10.0, 15.0, False),
        (3.0, 85.0, 60.0, 15.0, False),
        (3.0, 50.0, 10.0, 15.0, False),
        (3.0, 85.0, 10.0, 45.0, False),
    ],
)
def test_caches_that_limit_a_kernel_are_said_before_a_rule_that_gains_little(
    compute, memory, dram, gain, is_first
):
    limit = "balanced" if compute > memory / 2 else "memory"
    rows = pd.DataFrame(
        [{"kernel": "k0 (grid 2x1x1)", "launches": 1, "duration_ns": 9.0, "limit": limit,
          "compute_percent": compute, "memory_percent": memory, "dram_percent": dram}]
    )  # fmt: skip
    limits = Result(tables={"kernels": table(rows, title="")})
    rule = (0, "MemoryCacheAccessPattern", "", gain, "global")
    found = run([9.0], rule, speed_of_light=limits, functions=["k0"]).kernels
    assert found.headline.startswith("k0: Memory Cache Access Pattern, up to")
    said = f"L1 and L2 limit it, at {memory:.0f} % of their peak beside {dram:.0f} % of DRAM: let"
    assert found.advice.startswith(said) == is_first


def test_the_verdict_holds_what_is_known_of_memory_and_kernels_without_any_time():
    memory = Result(memory=MemoryVerdict(headline="Out of memory.", is_limit=True))
    kernels = Result(kernels=KernelVerdict(headline="f: rule."))
    config = verdict.Config()
    found = verdict.analyze.run(
        causes=None,
        steps=None,
        unprofiled=None,
        recordings={},
        stragglers=None,
        flops=None,
        behaviour={},
        memory_verdict=memory,
        kernel_verdict=kernels,
        config=config,
    ).verdict
    assert (found.limiter, found.headline) == (Limiter.MEMORY, "Out of memory.")
    assert (found.memory, found.kernels) == (memory.memory, kernels.kernels)
    alone = verdict.analyze.run(
        causes=None,
        steps=None,
        unprofiled=None,
        recordings={},
        stragglers=None,
        flops=None,
        behaviour={},
        memory_verdict=None,
        kernel_verdict=kernels,
        config=config,
    ).verdict
    assert alone.limiter is Limiter.UNKNOWN


@pytest.mark.parametrize("dram", ["gpu__dram_throughput", "dram__throughput"])
def test_a_gain_beyond_what_dram_leaves_says_how_much_that_is(dram):
    near = {f"{dram}.avg.pct_of_peak_sustained_elapsed": 89.0}
    said = run([1000.0], (0, "Coalescing", "", 59.0, "global"), metrics=near).kernels
    assert said.headline == "f0: Coalescing, up to 59 % less time, 11 % at the same DRAM traffic."
    assert said.evidence["dram_percent"] == pytest.approx(89.0)
    within = run([1000.0], (0, "Occupancy", "", 10.0, "global"), metrics=near).kernels
    assert within.headline == "f0: Occupancy, up to 10 % less time."
