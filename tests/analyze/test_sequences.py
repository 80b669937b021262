"""Frequent kernel sequences, and what fusing elementwise kernels could save."""

import pytest

from profkit.analyze.sequences import Config, analyze
from profkit.tables.schema import frame
from profkit.testing import rows

ADD, MUL = "vectorized_elementwise_kernel<add>", "vectorized_elementwise_kernel<mul>"


def kernels(*rows, **columns):
    """Build kernels one after another from names and durations, 5 ns apart."""
    built, at = [], 0
    for name, took in rows:
        known = {"rank": 0, "repeat": 0, "device": 0, "stream": 7, "step": 0, "kind": "compute"}
        built.append(known | {"name": name, "start_ns": at, "end_ns": at + took} | columns)
        at += took + 5
    return frame("kernels", built)


LAYER = (("gemm", 100), (ADD, 10), (MUL, 30), (ADD, 20))
NETWORK = kernels(("embed", 50), *LAYER, *LAYER, *LAYER, module="Net_0;Block_0", phase="forward")


def test_the_layers_of_a_network_are_one_sequence():
    result = analyze.run(NETWORK, frame("cpu_ops"), Config())
    assert rows(result, "frequent") == [
        {
            "sequence": f"gemm → {ADD} → {MUL} → {ADD}",
            "kernels": 4,
            "count": 3,
            "time_ns": 480,
            "time_share": pytest.approx(480 / 530),
            "phase": "forward",
            "module": "Net_0;Block_0",
        }
    ]


def test_fusing_leaves_the_time_of_the_longest():
    result = analyze.run(NETWORK, frame("cpu_ops"), Config())
    (run,) = rows(result, "fusion")
    assert (run["sequence"], run["kernels"], run["count"]) == (f"{ADD} → {MUL} → {ADD}", 3, 3)
    assert (run["time_ns"], run["saving_ns"], run["gaps_ns"]) == (180, 90, 30)
    assert result.metrics["fusion_saving_share"].value == pytest.approx(90 / 530)


def test_long_elementwise_kernels_are_no_candidates():
    result = analyze.run(NETWORK, frame("cpu_ops"), Config(short_ns=15))
    assert "fusion" not in result.tables


def test_streams_are_looked_at_by_themselves():
    given = NETWORK.assign(stream=[index % 2 for index in range(len(NETWORK))])
    result = analyze.run(given, frame("cpu_ops"), Config())
    assert "fusion" not in result.tables or all(
        row["sequence"] != f"{ADD} → {MUL} → {ADD}" for row in rows(result, "fusion")
    )


def test_equal_neighbours_are_counted():
    result = analyze.run(kernels((ADD, 10), (ADD, 10), ("gemm", 5)), frame("cpu_ops"), Config())
    assert rows(result, "fusion")[0]["sequence"] == f"2 x {ADD}"
    assert [abstention.what for abstention in result.abstentions] == ["frequent sequences"]


def test_the_outermost_operator_that_fits_counts():
    ops = frame(
        "cpu_ops",
        [
            {"rank": 0, "repeat": 0, "op": op, "parent": op - 1, "name": name, "kind": "operator"}
            | {"start_ns": op, "end_ns": 10 - op}
            for op, name in enumerate(("step", "aten::linear", "aten::addmm"))
        ],
    )
    work = kernels(("gemm", 30), ("bias", 10), op=2)
    (row,) = rows(analyze.run(work, ops, Config()), "by_operator")
    assert tuple(row.values()) == ("aten::linear", "gemm → bias", 2, 1, 40, 8)


def test_the_24_layers_of_qwen_are_found(real_data, converted):
    path = real_data / "kineto/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    tables = converted(path)
    result = analyze.run(tables["kernels"], tables["cpu_ops"], Config())
    (layer,) = rows(result, "frequent")
    assert (layer["kernels"], layer["count"]) == (49, 24)
    assert layer["time_share"] == pytest.approx(0.9928, abs=1e-4)
    assert "Qwen2DecoderLayer" in layer["module"]


def test_sequences_of_operators_are_those_of_hta(real_data, converted):
    # HTA 0.6.1, get_frequent_cuda_kernel_sequences of aten::linear and aten::conv2d: count, kernel
    # and operator time in us. HTA counts "Stream Wait Event", which is no work, as a kernel: so
    # its one pattern with fft2d is two there, and 10 us longer.
    folder = real_data / "kineto/hta/critical_path/alexnet"
    tables = converted(folder / "benchmark_result_2869224_1695835535_trace.json.gz")
    result = analyze.run(tables["kernels"], tables["cpu_ops"], Config())
    got = {
        (row["operator"], row["count"], row["time_ns"] // 1000, row["cpu_ns"] // 1000)
        for row in rows(result, "by_operator")
    }
    assert got == {
        ("aten::linear", 4, 2456, 11621),
        ("aten::linear", 2, 208, 10652),
        ("aten::conv2d", 6, 2403, 5034),
        ("aten::conv2d", 1, 1230, 10841225),
        ("aten::conv2d", 2, 750 + 735 - 10, 14972 + 1049310),
        ("aten::conv2d", 1, 1225, 8825),
    }
