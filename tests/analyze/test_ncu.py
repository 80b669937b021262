"""The analyses of Nsight Compute's counters, on its own reports and on small tables."""

import json
import math
import re

import pandas as pd
import pyarrow as pa
import pytest

from profkit.analyze import analyses, warp_states
from profkit.convert import converter
from profkit.convert.base import Raw
from profkit.convert.ncu import report_or_page
from profkit.convert.ncu.tables import tables
from profkit.core.hardware import Hardware
from profkit.tables import schema
from profkit.tables.kernel_names import function, signature

FOUND = analyses()
OF_COUNTERS = (
    *("ncu_summary", "speed_of_light", "memory_workload", "compute_workload"),
    *("warp_states", "occupancy", "roofline"),
)
PAGES = ("MemoryWorkloadAnalysis", "Occupancy", "SchedulerStats", "SpeedOfLight")


@pytest.fixture(scope="module")
def results(real_data):
    """Return a function that gives the results of all analyses of a file, or of several."""
    known = {}

    def of(*names):
        if names not in known:
            parts = [
                tables(report_or_page.read(real_data / "ncu" / name), rank=rank, repeat=0)
                for rank, name in enumerate(names)
            ]
            frames = {
                name: pa.concat_tables([part[name] for part in parts])
                .unify_dictionaries()
                .to_pandas()
                for name in parts[0]
            }
            known[names] = {
                name: FOUND[name].run(
                    **{table: frames[table] for table in FOUND[name].tables},
                    config=FOUND[name].config(),
                )
                for name in OF_COUNTERS
            }
        return known[names]

    return of


def rows(result, name="kernels"):
    table = result.tables[name]
    frame = pd.DataFrame(list(table.rows), columns=list(table.columns))
    if "kernel" not in frame:
        return frame
    parts = frame["kernel"].str.extract(r"(?P<function>.*?)(?: \(grid (?P<grid>[^,]*).*)?$")
    return frame.assign(**parts)


def test_launches_of_one_kernel_and_shape_are_one_row(results):
    summary = results("rtx2060_2024.3.ncu-rep")["ncu_summary"]
    kernels = rows(summary)
    assert list(kernels["launches"]) == [7, 1]
    assert list(kernels["grid"]) == ["2x5000x1", "2x2669x1"]
    assert kernels["duration_ns"][1] == 10752960.0


def test_occupancy_is_what_ncu_prints_and_names_the_least_limit(results):
    kernels = rows(results("rtx2080ti_2022.3.ncu-rep")["occupancy"])
    assert dict(zip(kernels["function"], kernels["achieved_percent"].round(2), strict=True)) == {
        "kernel_A": 99.89,
        "kernel_C": 93.79,
    }
    # 16 of all but registers, which would allow 64.
    assert set(kernels["limit"]) == {"shared memory and warps and blocks"}
    ten = rows(results("a10g_2023.1.ncu-rep")["occupancy"]).set_index("function")
    assert ten["limit"]["one_blocktiling"] == "registers"


def test_the_limit_of_a_kernel_is_that_of_ncus_own_rule(results):
    kernels = rows(results("rtx2080ti_2022.3.ncu-rep")["speed_of_light"]).set_index("function")
    # The rule: more than 80 % of compute is used; and: below 60 % of both, latency.
    assert dict(kernels["limit"]) == {"kernel_A": "compute", "kernel_C": "latency"}
    assert kernels["compute_percent"]["kernel_A"] == pytest.approx(80.30, abs=0.005)
    rules = rows(results("rtx2080ti_2022.3.ncu-rep")["speed_of_light"], "rules")
    messages = rules.set_index("function")["message"]
    assert "greater than 80.0% of the available compute" in messages["kernel_A"]
    assert "latency issues" in messages["kernel_C"]


def test_the_share_of_peak_arithmetic_is_what_ncus_rule_says(results):
    result = results("a10g_2023.1.ncu-rep")["roofline"]
    messages = rows(result, "rules").set_index("function")["message"]
    kernels = rows(result).set_index("function")
    assert len(kernels) == 4
    for name, row in kernels.iterrows():
        percent = int(re.search(r"(\d+)% of this device's fp32 peak", messages[name])[1])
        assert round(100 * row["achieved_flops_per_s"] / row["peak_flops_per_s"]) == percent
        assert (row["work"], row["bound"]) == ("fp32", "compute")
    # 24 GB of GDDR6 at 6.25 GHz on 384 bits: 600 GB/s.
    assert kernels["dram_peak_bytes_per_s"].round(-10).unique() == [6e11]
    assert {row["what"] for _, row in rows(result, "points").iterrows()} == {
        *("DRAM (fp32)", "L2 (fp32)", "L1 (fp32)"),
        *("roof of DRAM (fp32)", "roof of L2 (fp32)", "roof of L1 (fp32)"),
    }


def test_a_matrix_product_whose_products_were_not_counted_has_no_place(results):
    # Kernels on int8, by tensor cores: a few operations on floats are all that was counted.
    (missing,) = results("a100_2024.1.ncu-rep")["roofline"].abstentions
    assert missing.what == "roofline"


def test_stalls_are_shares_of_the_time_between_two_instructions(results):
    result = results("a100_2024.1.ncu-rep")["warp_states"]
    reasons = rows(result, "reasons")
    sums = reasons.groupby("kernel")["waiting_share"].sum()
    assert len(sums) == 2
    # The metrics were measured in several passes.
    assert sums.tolist() == pytest.approx([1.0, 1.0], abs=0.01)
    waits = reasons[~reasons["reason"].isin(["selected", "not_selected"])].iloc[0]
    assert waits["reason"] == "long_scoreboard"
    assert 0.3 < waits["waiting_share"] < 0.4
    assert waits["what_helps"].startswith("It waits for global or local memory")


@pytest.mark.parametrize(
    ("metrics", "share"),
    [
        ({"cycles_per_instruction": 10.0}, 0.3),
        ({"cycles_per_instruction": math.nan}, None),
    ],
)
def test_of_one_reason_the_share_is_of_the_cycles_and_not_of_itself(metrics, share):
    kernel = {"function": "k", "grid": "", "block": "", "long_scoreboard": 3.0}
    frame = pd.DataFrame([kernel | metrics])
    names = {"long_scoreboard": ["smsp__average_warp_latency_issue_stalled_long_scoreboard.ratio"]}
    found = warp_states._shares(frame, names)["waiting_share"].tolist()
    assert found == ([] if share is None else pytest.approx([share]))


def test_pipes_are_found_by_name_whatever_the_device_has(results):
    result = results("a100_2024.1.ncu-rep")["compute_workload"]
    kernels = rows(result).set_index("grid")
    assert kernels["busiest_pipe"]["24x4x1"] in {"shared", "tensor", "tensor_op_imma"}
    assert {"alu", "fma", "lsu", "tensor"} <= set(rows(result, "pipes")["pipe"])
    assert rows(result)["instructions_per_cycle"].between(0.3, 1.0).all()


def test_memory_is_told_by_level_with_sectors_and_conflicts(results):
    row = rows(results("a100_2024.1.ncu-rep")["memory_workload"]).iloc[0]
    assert row["shared_conflict_share"] is not None
    assert 1 <= row["load_sectors_per_request"] <= 32
    assert 0 <= row["l2_hit_percent"] <= 100


def test_pages_of_one_report_are_one_launch(results):
    pages = [f"rtx5090_kernel_0001/ncu.section_{page}.csv" for page in PAGES]
    found = results(*pages)
    summary = rows(found["ncu_summary"])
    assert list(summary["launches"]) == [1]
    assert summary["grid"][0] == "224x1x1"
    assert rows(found["occupancy"])["achieved_percent"][0] == 11.32
    assert rows(found["memory_workload"])["l2_hit_percent"][0] > 0
    best = rows(found["ncu_summary"], "rules")
    assert best["estimated_speedup_percent"][0] == pytest.approx(80.34)


def test_what_was_not_collected_is_an_abstention_that_names_the_section(results):
    found = results("rtx2080ti_2022.3.ncu-rep")
    (stalls, *_) = found["warp_states"].abstentions
    assert "WarpStateStats" in stalls.reason
    assert "SpeedOfLight_RooflineChart" in found["roofline"].abstentions[0].reason
    assert found["roofline"].tables == {}


# ruff: noqa: ISC004 - names are long
# Kernels of torch, as kineto names them and as ncu does.
NAMES = [
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>,"
        " std::array<char *, (unsigned long)3>>(int, T2, T3)",
        "vectorized_elementwise_kernel",
    ),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, true, false>"
        "(float*, float const*, int, int, int, bool const*, int, bool)",
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)7, (bool)1, (bool)0>"
        "(float *, const float *, int, int, int, const bool *, int, bool)",
        "softmax_warp_forward",
    ),
    ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ("triton_poi_fused_add_0", "triton_poi_fused_add_0", "triton_poi_fused_add_0"),
]


@pytest.mark.parametrize(("kineto", "ncu", "base"), NAMES, ids=[case[2] for case in NAMES])
def test_a_kernel_is_recognised_in_the_spelling_of_both_tools(kineto, ncu, base):
    assert signature(kineto) == signature(ncu)
    assert (function(kineto), function(ncu)) == (base, base)


def test_other_template_arguments_are_another_kernel():
    assert signature("void f<4, float>(int)") != signature("void f<8, float>(int)")


def test_function_names_are_those_that_ncu_states(real_data):
    for path in sorted((real_data / "ncu").glob("*.ncu-rep")):
        for launch in report_or_page.read(path):
            assert function(launch.name) == launch.function


def launch(name, grid, start, end=None, **columns):
    known = {"rank": 0, "repeat": 0, "kind": "compute", "step": 5, "block": "[32,1,1]", "op": -1}
    end = start + 10 if end is None else end
    shape = {"name": name, "grid": f"[{grid},1,1]", "start_ns": start, "end_ns": end}
    return {**known, **shape, "shared_memory_bytes": 0, **columns}


def targets(launches):
    analysis = FOUND["ncu_targets"]
    steps = [{"rank": 0, "repeat": 0, "step": 5, "start_ns": 0, "end_ns": 10_000}]
    return analysis.run(
        kernels=schema.frame("kernels", launches),
        cpu_ops=schema.frame("cpu_ops"),
        steps=schema.frame("steps", steps),
        hardware=Hardware(),
        config=analysis.config(),
    )


def test_targets_are_ranked_by_what_they_could_save_and_never_communicate():
    found = targets(
        [
            launch("void small<1>(int)", 1, 0),
            launch("ncclDevKernel_AllReduce", 1, 10, 5000, kind="communication"),
            launch("void big<2>(int)", 1, 20, 220),
            launch("Memcpy", 1, 300, 4000, kind="copy"),
        ]
    )
    assert list(rows(found, "targets")["function"]) == ["big", "small"]
    assert found.metrics["step"].value == 5


def test_the_counts_are_those_with_which_ncu_meets_each_kernel_once():
    # Of shape 1 in order: a a b a; of shape 2: a.
    found = targets(
        [
            launch("a", 1, 0, 100),
            launch("a", 1, 100, 200),
            launch("b", 1, 200, 250),
            launch("a", 2, 300, 310),
            launch("a", 1, 400, 500),
        ]
    )
    table = rows(found, "targets")
    assert list(zip(table["function"], table["grid"], strict=True)) == [
        ("a", "[1,1,1]"),
        ("b", "[1,1,1]"),
        ("a", "[2,1,1]"),
    ]
    # a: the first. With b: three of shape 1, and one of shape 2 that passes too.
    assert list(table["count_by_shape"]) == [1, 3, 3]
    assert list(table["measured_by_shape"]) == [2, 4, 4]
    # In order b is the third of those that pass, and shape 2 the fourth.
    assert list(table["count_in_order"]) == [1, 3, 4]


def view(**given):
    analysis = FOUND["kernel_view"]
    metrics = given.pop("kernel_metrics", schema.frame("kernel_metrics"))
    frames = {name: {"x": schema.frame(name, rows)} for name, rows in given.items()}
    return analysis.run(
        kernel_metrics={"ncu": metrics}, hardware=Hardware(), config=analysis.config(), **frames
    )


TRACED = [
    launch("void f<3ul>(int)", 1, 0, 100, op=0, module="net;layer"),
    launch("void f<3ul>(int)", 1, 200, 300, op=0, module="net;layer"),
    launch("g", 1, 400, 450, op=1),
]
OPS = [
    {"rank": 0, "repeat": 0, "op": 0, "parent": -1, "name": "aten::f", "kind": "operator"},
    {"rank": 0, "repeat": 0, "op": 1, "parent": -1, "name": "aten::g", "kind": "operator"},
]
MEASURED = {"rank": 0, "repeat": 0, "block": "[32,1,1]", "grid": "[1,1,1]"}
ADVICE = {"rank": 0, "repeat": 0, "kernel": 0, "kind": "optimisation", "rule": "R"}


def metric(kernel, name, value):
    return {"rank": 0, "repeat": 0, "kernel": kernel, "metric": name, "value": value}


def test_a_kernel_is_one_row_of_all_that_its_tools_say():
    name = "void f<(unsigned long)3>(int)"
    found = view(
        kernels=TRACED,
        cpu_ops=OPS,
        measured_kernels=[{**MEASURED, "kernel": 0, "name": name, "function": "f"}],
        kernel_metrics=schema.frame(
            "kernel_metrics",
            [
                metric(0, "gpu__time_duration.sum", 120.0),
                metric(0, "sm__warps_active.avg.pct_of_peak_sustained_active", 40.0),
            ],
        ),
        kernel_advice=[{**ADVICE, "message": "Use less.", "speedup_percent": 12.0}],
    )
    table = rows(found).set_index("function")
    first = table.loc["f"]
    assert (first["calls"], first["total_ns"], first["measured_ns"]) == (2, 200, 120.0)
    assert (first["operator"], first["module"]) == ("aten::f", "net;layer")
    assert (first["advice"], first["estimated_speedup_percent"]) == ("Use less.", 12.0)
    assert first["time_share"] == pytest.approx(0.8)
    assert first["occupancy_percent"] == 40.0
    assert table["measured_ns"].notna().to_dict() == {"f": True, "g": False}
    assert found.metrics["measured_share"].value == pytest.approx(0.8)


def in_order(measured_ranges, traced):
    """Return operator, step and how it is known of launches of one kernel and shape."""
    measured = [
        {**MEASURED, "kernel": number, "name": "f", "function": "f", "ranges": ranges}
        for number, ranges in enumerate(measured_ranges)
    ]
    kernels = [
        launch("f", 1, 10 * number, op=op, step=step, phase=phase)
        for number, (op, step, phase) in enumerate(traced)
    ]
    found = view(kernels=kernels, cpu_ops=OPS, measured_kernels=measured)
    table = found.tables["launches"]
    frame = pd.DataFrame(list(table.rows), columns=list(table.columns))
    return list(zip(frame["operator"], frame["step"], frame["found"], strict=True))


BOTH = [(0, 3, "forward"), (1, 3, "forward"), (0, 3, "backward"), (0, 4, "forward")]
ORDER, OPEN = "by order in the step", "open between 2 operators and modules"


def test_launches_of_one_kernel_by_several_operators_are_told_apart_by_their_order():
    found = in_order(["step#3;forward", "step#3;forward", "step#3;backward"], BOTH)
    assert found == [("aten::f", 3, ORDER), ("aten::g", 3, ORDER), ("aten::f", 3, ORDER)]


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        (["step#3;backward"], "the first was traced in another phase"),
        (["step#3;forward"] * 4, "more than were traced in the step"),
        (["forward"], "no step is known"),
        (["step#7;forward"], "the step was not traced"),
    ],
)
def test_an_order_that_does_not_fit_leaves_it_open(ranges, why):
    assert {row[2] for row in in_order(ranges, BOTH)} == {OPEN}, why


def test_a_kernel_of_one_operator_needs_no_order():
    found = in_order(["", "step#9"], [(1, 3, ""), (1, 4, "")])
    only = "only one launches it"
    assert found == [("aten::g", -1, only), ("aten::g", 9, only)]


def test_a_launch_that_was_not_traced_is_of_nobody():
    assert in_order(["step#3"], []) == [("", 3, "")]


def test_a_real_report_joins_a_trace_of_the_same_kernels(real_data, tmp_path):
    path = real_data / "ncu/rtx2080ti_2022.3.ncu-rep"
    counted = converter("ncu").run(Raw(path=path, label="r", rank=0, repeat=0), tmp_path).tables
    measured = counted["measured_kernels"].to_pandas()
    events = [
        {"ph": "X", "cat": "kernel", "name": str(row["name"]), "pid": 0, "tid": 7,
         "ts": 100.0 * at, "dur": 50.0,
         "args": {"grid": json.loads(row["grid"]), "block": json.loads(row["block"]),
                  "device": 0, "stream": 7, "correlation": at}}
        for at, row in enumerate(measured.to_dict("records"), start=1)
    ]  # fmt: skip
    trace = tmp_path / "rank0_dp0_tp0_pp0.pt.trace.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    converted = converter("torch_profiler").run(
        Raw(path=trace, label="r", rank=0, repeat=0), tmp_path
    )
    found = FOUND["kernel_view"].run(
        kernel_metrics={"ncu": counted["kernel_metrics"].to_pandas()},
        hardware=Hardware(),
        config=FOUND["kernel_view"].config(),
        kernels={"torch_profiler": pa.concat_tables(converted.tables["kernels"]).to_pandas()},
        measured_kernels={"ncu": measured},
    )
    assert found.metrics["measured_share"].value == 1
    assert len(rows(found)) == len(measured)


def test_kernels_that_several_could_be_are_left_apart():
    found = view(
        kernels=[*TRACED, launch("f<3>", 1, 500)],
        measured_kernels=[{**MEASURED, "kernel": 0, "name": "f<(int)3>", "function": "f"}],
        kernel_metrics=schema.frame("kernel_metrics", [metric(0, "gpu__time_duration.sum", 1.0)]),
    )
    assert [
        abstention.what for abstention in found.abstentions if "left apart" in abstention.reason
    ] == ["counters of 1 kernel"]
    assert len(rows(found)) == 4
    assert found.metrics["measured_share"].value == 0


def test_a_trace_alone_and_counters_alone_are_shown_with_what_is_missing():
    alone = view(kernels=TRACED, cpu_ops=OPS)
    assert list(rows(alone)["function"]) == ["f", "g"]
    assert alone.abstentions[-1].what == "counters and advice"
    # Without steps nothing is per step.
    assert "calls_per_step" not in rows(alone)
    measured = view(
        measured_kernels=[{**MEASURED, "kernel": 0, "name": "f<3>(int)", "function": "f"}],
        kernel_metrics=schema.frame("kernel_metrics", [metric(0, "gpu__time_duration.sum", 7.0)]),
    )
    assert rows(measured)["measured_ns"][0] == 7.0
    # Nothing says where in the program it was launched, or what bounds it.
    assert list(measured.tables) == ["kernels"]
    assert "measured_roof" not in rows(measured)
    assert measured.abstentions[0].what == "calls, operators and modules"
