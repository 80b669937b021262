"""Hardware counters in a trace: one row per kernel and metric, tied to the launch."""

import json

import pytest

from profkit.convert.torch_profiler import trace


def event(cat, name, ts, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 2} | (
        {"args": args} if args else {}
    )


def measured(tmp_path, events, **options):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    found = trace.read(path, **options).tables["kernel_metrics"]
    columns = ("kernel", "correlation", "op", "name", "metric", "value")
    return list(zip(*(found[column].to_pylist() for column in columns), strict=True))


LAUNCHED = [
    event("cpu_op", "aten::add", 1, **{"External id": 1}),
    event("cuda_runtime", "cudaLaunchKernel", 2, correlation=7),
]


@pytest.mark.parametrize("category", ["cuda_profiler_range", "xpu_scope_profiler"])
def test_the_nth_range_belongs_to_the_nth_launch(tmp_path, category):
    ranges = [event(category, "k", 9, flops=3, **{"dram bytes": 2.5})]
    assert measured(tmp_path, LAUNCHED + ranges) == [
        (0, 7, 0, "k", "flops", 3.0),
        (0, 7, 0, "k", "dram bytes", 2.5),
    ]


def test_without_as_many_launches_as_ranges_the_launch_is_unknown(tmp_path):
    ranges = [event("cuda_profiler_range", name, ts, flops=1) for name, ts in (("b", 9), ("a", 5))]
    assert measured(tmp_path, LAUNCHED + ranges) == [
        (0, -1, -1, "a", "flops", 1.0),
        (1, -1, -1, "b", "flops", 1.0),
    ]


def test_counters_survive_small_blocks_and_values_of_unexpected_types(tmp_path):
    ranges = [
        event("cuda_profiler_range", "k", 9, flops="text", size=[1]),
        event("cuda_profiler_range", "k", 12),
        event("cuda_profiler_range", 5, 15, flops=4),
    ]
    found = measured(tmp_path, LAUNCHED * 2 + ranges, block_bytes=100)
    assert [(kernel, name, metric) for kernel, _, _, name, metric, _ in found] == [
        (0, "k", "flops"),
        (0, "k", "size"),
        (1, "5", "flops"),
    ]
    assert [str(row[-1]) for row in found] == ["nan", "nan", "4.0"]


def test_the_counters_of_a_real_trace_are_those_that_hta_reads(real_data):
    """HTA's own test: 77 kernels, the sixth of which did this many float additions in a conv2d."""
    name = "hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz"
    tables = trace.read(real_data / "kineto" / name).tables
    found = tables["kernel_metrics"].to_pandas()
    ops = tables["cpu_ops"].to_pandas().set_index("op")
    assert found["kernel"].nunique() == 77
    additions = found["metric"] == "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
    [sixth] = found[additions & (found["kernel"] == 5)].itertuples()
    op, around = sixth.op, []
    while op >= 0:
        around.append(ops["name"][op])
        op = ops["parent"][op]
    assert (sixth.value, "aten::conv2d" in around) == (86114304, True)
