import json

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from profkit import testing
from profkit.analyze import flops, steps
from profkit.analyze.costs import costs
from profkit.core import resources
from profkit.core.hardware import Hardware, read_hardware
from profkit.core.result import Metric, Result
from profkit.testing import ORIGIN_NS, frame, rows

PART = Hardware(
    name="Part",
    memory_bandwidth_bytes_per_s=2e9,
    peak_flops={"fp32": 1e10, "tf32": 4e10, "bf16": 8e10},
)
MM = {"input_shapes": "[[10, 20], [20, 30]]", "input_types": '["float", "float"]'}
MM_FLOPS, MM_BYTES = 12_000, 4 * (200 + 600 + 300)


def where(start, end, **rest):
    where = {"rank": 0, "repeat": 0, "step": 0}
    return where | {"start_ns": ORIGIN_NS + start, "end_ns": ORIGIN_NS + end} | rest


def op(index, start, end, name, **rest):
    row = where(start, end, op=index, name=name, kind="operator", parent=-1, tid=1)
    return row | {"sequence": -1, "forward_tid": -1} | rest


def kernel(start, end, **rest):
    return where(start, end, kind="compute", name="k", device=0) | rest


def run(ops, kernels=(), steps=(), hardware=PART, **settings):
    given = {"cpu_ops": ops, "kernels": kernels, "steps": steps, "hardware": hardware}
    return testing.run(flops.analyze, **given, **{"skip_first": 0} | settings)


def values(result):
    return {name: metric.value for name, metric in result.metrics.items()}


def test_mfu_is_the_time_of_the_model_at_the_peak_over_that_of_the_step():
    result = run(
        [op(0, 0, 10, "aten::mm", **MM), op(1, 20, 30, "aten::relu", input_shapes="[[10, 30]]",
                                            input_types='["float"]')],
        [kernel(100, 4100, op=0), kernel(4100, 4300, op=1)],
        [where(0, 5000)],
    )  # fmt: skip
    # 12,000 FLOPs at 1e10 per second take 1.2 µs of 5 µs.
    assert values(result) == pytest.approx(
        {
            "mfu_share": 0.24,
            "hfu_share": 0.24,
            "model_flops": MM_FLOPS,
            "product_flops_per_s": MM_FLOPS / 4e-6,
            "product_time_share": 4000 / 4200,
        }
    )
    first, second = rows(result, "by_shape")
    assert (first["bound"], first["peak"], first["bytes"]) == ("memory", "fp32", MM_BYTES)
    assert first["roofline_share"] == pytest.approx(MM_BYTES / 2e9 / 4e-6)
    assert (second["name"], second["flops"], second["bytes"]) == ("aten::relu", 300, 2400)
    assert not result.abstentions


def test_the_slowest_rank_is_the_clock_of_the_others():
    ops = [op(0, 0, 10, "aten::mm", rank=rank, **MM) for rank in (0, 1)]
    kernels = [kernel(10, 1000, op=0), kernel(10, 2400, op=0, rank=1)]
    result = run(ops, kernels, [where(0, 1000), where(0, 2400, rank=1)])
    assert [row["mfu_share"] for row in rows(result, "by_rank")] == pytest.approx([0.5, 0.5])
    assert values(result)["mfu_share"] == pytest.approx(0.5)


def test_kernels_of_an_operator_share_its_work_and_inner_operators_are_its_own():
    ops = [op(0, 0, 90, "aten::linear", input_shapes="[[10, 20], [30, 20], []]",
              input_types='["float", "float", ""]'),
           op(1, 10, 80, "aten::addmm", parent=0, input_shapes="[[30], [10, 20], [20, 30]]",
              input_types='["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]'),
           op(2, 20, 30, "aten::copy_", parent=1, input_shapes="[[10, 30], [30]]",
              input_types='["float", "float"]')]  # fmt: skip
    kernels = [kernel(100, 400, op=1, name="gemm"), kernel(400, 500, op=2, name="reduce")]
    result = run(ops, kernels, [where(0, 500)])
    assert [(row["name"], row["type"], row["calls"]) for row in rows(result, "by_shape")] == [
        ("aten::addmm", "c10::BFloat16", 1)
    ]
    assert [(row["name"], row["flops"]) for row in rows(result, "by_kernel")] == [
        ("gemm", MM_FLOPS * 0.75), ("reduce", MM_FLOPS * 0.25),
    ]  # fmt: skip
    assert values(result)["mfu_share"] == pytest.approx(MM_FLOPS / 8e10 / 500e-9)


def test_fp32_products_of_tf32_kernels_are_measured_by_that_peak():
    ops = [op(0, 0, 10, "aten::mm", **MM)]
    name = "ampere_sgemm_tf32f32_tf32f32_128x64"
    result = run(ops, [kernel(100, 400, op=0, name=name)], [where(0, 400)])
    assert rows(result, "by_shape")[0]["peak"] == "tf32"
    assert values(result)["mfu_share"] == pytest.approx(MM_FLOPS / 4e10 / 400e-9)


def test_copies_from_the_host_and_communication_are_no_work_of_memory():
    ops = [op(0, 0, 10, "aten::copy_", input_shapes="[[1000], [1000]]",
              input_types='["float", "float"]', step=0)]  # fmt: skip
    kernels = [kernel(100, 400, op=0, kind="copy", copy_kind="HtoD")]
    assert not run(ops, kernels, [where(0, 400)]).tables
    kernels[0]["copy_kind"] = "DtoD"
    assert rows(run(ops, kernels, [where(0, 400)]), "by_shape")[0]["time_ns"] == 300


def test_phases_are_told_by_autograd_and_the_optimizer_is_not_the_model():
    ops = [
        op(0, 0, 9, "aten::mm", sequence=1, **MM),
        op(1, 10, 99, "autograd::engine::evaluate_function: MmBackward0", sequence=1),
        op(2, 11, 98, "MmBackward0", parent=1, sequence=1, forward_tid=1),
        op(3, 20, 30, "aten::mm", parent=2, **MM),
        op(4, 40, 50, "aten::mm", parent=2, sequence=2, **MM),
        op(5, 100, 200, "Optimizer.step#Muon.step", kind="annotation"),
        op(6, 110, 120, "aten::mm", parent=5, **MM),
    ]
    result = run(ops, steps=[where(0, 1000)])
    by_phase = {row["phase"]: row["model_flops"] for row in rows(result, "by_operator")}
    assert by_phase == {
        "forward": MM_FLOPS, "backward": MM_FLOPS, "recomputation": 0, "optimizer": 0,
    }  # fmt: skip
    (rank,) = rows(result, "by_rank")
    assert (rank["model_flops"], rank["hardware_flops"]) == (2 * MM_FLOPS, 3 * MM_FLOPS)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_costs_what_the_flop_counter_sees_more(tmp_path, converted, reentrant):
    from torch.utils.flop_counter import FlopCounterMode

    # PyTorch abandons the last operator that it would run again, recorded but not done: a ReLU.
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    layers = torch.nn.Sequential(linear(16, 32), relu(), linear(32, 8), relu())
    batch = torch.randn(4, 16, requires_grad=True)

    def step(again):
        out = checkpoint(layers, batch, use_reentrant=reentrant) if again else layers(batch)
        out.sum().backward()

    counts = []
    for again in (False, True):
        with FlopCounterMode(display=False) as counter:
            step(again)
        counts.append(counter.get_total_flops())
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step(True)
    path = tmp_path / "rank0_dp0_tp0_pp0.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    tables = {name: table for name, table in converted(path).items() if name in NEEDED}
    result = flops.analyze.run(**tables, hardware=PART, config=flops.Config())
    (rank,) = rows(result, "by_rank")
    assert [rank["model_flops"], rank["hardware_flops"]] == counts


NEEDED = ("cpu_ops", "kernels", "steps")


def test_the_time_of_operators_is_the_hosts_where_no_device_was_recorded():
    result = run([op(0, 0, 1000, "aten::mm", **MM)], steps=[where(0, 4800)])
    assert rows(result, "by_shape")[0]["time_ns"] == 1000
    assert values(result)["mfu_share"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("hardware", "kernels", "extra", "reason"),
    [
        (Hardware(), [], {}, "the peaks of the hardware are not known"),
        (Hardware(name="P", memory_bandwidth_bytes_per_s=1.0, peak_flops={"bf16": 1.0}), [], {},
         "P states no peak for float"),
        (PART, [kernel(100, 300, op=0), kernel(300, 400, op=-1, name="cutlass_gemm")], {},
         "33.3% of the GPU time is in kernels that multiply matrices"),
        (PART, [], {"name": "aten::convolution"}, "1 call of aten::convolution was recorded"),
    ],
)  # fmt: skip
def test_without_all_that_it_takes_there_is_no_mfu(hardware, kernels, extra, reason):
    ops = [op(0, 0, 10, **{"name": "aten::mm"} | MM | extra)]
    result = run(ops, kernels, [where(0, 400)], hardware)
    assert any(abstention.reason.startswith(reason) for abstention in result.abstentions)
    assert "mfu_share" not in result.metrics


@pytest.mark.parametrize(
    ("unknown_ns", "least"), [(50, MM_FLOPS), (150, None)], ids=["little", "most"]
)
def test_of_few_known_flops_nothing_is_said_of_a_step(unknown_ns, least):
    """What is known is the least that a step has, as long as it is most of it."""
    convolution = op(1, 200, 200 + unknown_ns, "aten::convolution")
    known = op(0, 0, 100, "aten::mm", **MM)
    result = run([known, convolution], [], [where(0, 400)])
    (row,) = result.tables["by_rank"].records()
    assert [row[name] for name in ("model_flops", "mfu_share")] == [least, None]
    assert values(result).get("model_flops") == least


def test_without_shapes_it_abstains():
    result = run([op(0, 0, 10, "aten::mm")])
    assert result.abstentions[0].reason == "no shape was recorded: set record_shapes"


# Read from the report that TraceLens made of the same trace (its repository, tests/traces/h100:
# GEMM, CONV_fwd, SDPA_fwd, BinaryElementwise and Normalization): calls, GFLOP and MiB of one, µs
# of all. It adds one FLOP per output for a bias, which PyTorch's counter and we leave out; does
# not count the bytes of the bias of a convolution; and takes 3 numbers per channel more for a
# layer norm. Hence 0.1 % (FLOPs) and 0.3 % (bytes).
_LINEAR = "[[{1}],[788,{0}],[{0},{1}],[],[]]"
TRACELENS = {
    ("aten::addmm", _LINEAR.format(768, 768)): (48, 0.930167808, 3.43505859375, 399.137),
    ("aten::addmm", _LINEAR.format(768, 3072)): (12, 3.720671232, 10.27734375, 166.59),
    ("aten::addmm", _LINEAR.format(3072, 768)): (12, 3.71885568, 10.27294921875, 162.43),
    ("aten::convolution", "[[4,3,224,224],[768,3,16,16],[768],[],[],[],[],[],[]]"):
        (1, 0.924844032, 3.421875, 129.6),
    ("aten::_scaled_dot_product_flash_attention",
     "[[4,12,197,64],[4,12,197,64],[4,12,197,64],[],[],[],[]]"):
        (12, 0.476884992, 4.6171875, 122.848),
    ("aten::add", "[[4,197,768],[4,197,768],[]]"): (24, 0.000605184, 3.462890625, 53.536),
    ("aten::native_layer_norm", "[[4,197,768],[],[768],[768],[]]"): (25, None, 2.3173828125, 111.2),
}  # fmt: skip


def test_flops_bytes_and_times_are_those_of_tracelens(real_data, converted):
    path = real_data / "kineto/tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz"
    tables = converted(path)
    h100 = next(
        part
        for part in read_hardware(resources.CONF / "hardware")
        if tables["devices"]["name"].iloc[0] in part.reported_as
    )
    result = flops.analyze.run(
        **{name: tables[name] for name in NEEDED}, hardware=h100, config=flops.Config()
    )
    ours = {(row["name"], row["input_shapes"]): row for row in rows(result, "by_shape")}
    for key, (calls, gflop, mib, time_us) in TRACELENS.items():
        assert ours[key]["calls"] == calls
        if gflop:
            assert ours[key]["flops"] / calls / 1e9 == pytest.approx(gflop, rel=1e-3), key
        assert ours[key]["bytes"] / calls / 2**20 == pytest.approx(mib, rel=3e-3), key
        assert ours[key]["time_ns"] / 1e3 == pytest.approx(time_us, rel=1e-4), key
    # 12 layers of attention and MLP, the patches and the classifier.
    assert values(result)["model_flops"] == pytest.approx(140.509e9, rel=1e-5)
    assert values(result)["mfu_share"] == pytest.approx(140.509e9 / 989.4e12 / 7.894e-3, rel=1e-3)


def test_the_backward_of_a_convolution_costs_what_tracelens_says():
    # Of the same kind: tests/traces/mi300, resnet_act_checkpoint_recompute, CONV_bwd.
    shapes = [[10, 64, 56, 56], [10, 64, 56, 56], [64, 64, 3, 3], *([[]] * 8)]
    types = ["c10::BFloat16"] * 3 + ["Scalar"] * 8
    inputs = ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1",
              "[True, True, False]"]  # fmt: skip
    recorded = {"input_shapes": shapes, "input_types": types, "inputs": inputs}
    row = {name: json.dumps(value) for name, value in recorded.items()}
    call = frame("cpu_ops", [{"name": "aten::convolution_backward", **row}])
    found = costs(call).iloc[0]
    assert found["flops"] == 4.62422016e9
    assert found["bytes"] == 15.453125 * 2**20


def test_the_roofs_of_the_chart_rise_to_the_ridge_and_are_level_from_there():
    ops = [op(0, 0, 10, "aten::mm", **MM)]
    result = run(ops, [kernel(100, 400, op=0)], [where(0, 400)])
    roof = [row for row in rows(result, "roofline") if row["series"] == "roof fp32"]
    intensity = MM_FLOPS / MM_BYTES
    np.testing.assert_allclose(
        [(row["flops_per_byte"], row["achieved_flops_per_s"]) for row in roof],
        [(intensity, intensity * 2e9), (5, 1e10)],
    )
    assert result.charts[0].lines == ("roof fp32",)


def test_rates_are_those_of_the_unprofiled_run_where_there_is_one():
    ops = [op(0, 0, 10, "aten::mm", rank=rank, **MM) for rank in (0, 1)]
    kernels = [kernel(10, 4000, op=0, rank=rank) for rank in (0, 1)]
    traced = [where(0, 5000, rank=rank) for rank in (0, 1)]
    # The slowest rank is the clock of each step: 9000 in the warm-up, then 2000, 3000 and 8000.
    times = {0: (9000, 1000), 1: (2000, 1500), 2: (1000, 3000), 3: (8000, 100)}
    plain = [where(0, ns, step=step, rank=rank)
             for step, both in times.items() for rank, ns in enumerate(both)]  # fmt: skip
    slowed, true = run(ops, kernels, traced), run(ops, kernels, traced, unprofiled=plain,
                                                  skip_first=1)  # fmt: skip
    assert values(slowed)["mfu_share"] == pytest.approx(1200 / 5000)
    assert values(true)["mfu_share"] == values(true)["hfu_share"] == pytest.approx(1200 / 3000)
    assert [row["achieved_flops_per_s"] for row in rows(true, "by_rank")] == pytest.approx(
        [MM_FLOPS / 3e-6] * 2
    )
    divided = Result(metrics={"step_ms": Metric(value=0.006, unit="ms", title="")})
    assert values(run(ops, kernels, traced, causes=divided))["mfu_share"] == pytest.approx(
        1200 / 6000
    )
    shown = testing.run(steps.analyze, steps={"baseline": plain}, skip_first=1)
    assert values(shown)["step_time_ns"] == 3000
    # An unprofiled run that failed has no steps; one with warm-up steps alone has these.
    assert values(run(ops, kernels, traced, unprofiled=())) == values(slowed)
    assert values(run(ops, kernels, traced, unprofiled=plain[:2], skip_first=3))[
        "mfu_share"
    ] == pytest.approx(1200 / 9000)
