import json
import warnings

import pandas as pd
import pytest

from profkit import schema
from profkit.analyze import hta
from profkit.analyze._hta_trace import TABLES, trace
from tests.analyze.beside_hta import joined, pair

ORIGIN = 1_790_000_000_000_000_001
TRACES = {
    "cuda_event_sync": "critical_path/cuda_event_sync/event_sync_trace.json.gz",
    "multi_stream": "critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "simple_add": "critical_path/end_to_end/simple_add/input/trace.json.gz",
    "alexnet": "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "device_annotations": "with_gpu_user_annotation/step_based_trace_2543932.json.gz",
    "nccl": "nccl_parser_config/nccl_data.json.gz",
    "amd": "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
}


@pytest.fixture(scope="module")
def both(real_data, converted, tmp_path_factory):
    """Return a function: HTA's analyses over our tables, and over the JSON that it reads."""
    made = {}

    def read(name):
        if name not in made:
            path = real_data / "kineto" / "hta" / TRACES[name]
            made[name] = pair({0: path}, converted, tmp_path_factory.mktemp(name))
        return made[name]

    return read


FUNCTIONS = {
    "temporal breakdown": lambda each: each.get_temporal_breakdown(visualize=False),
    "overlap": lambda each: each.get_comm_comp_overlap(visualize=False),
    "types of kernels": lambda each: each.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernels": lambda each: each.get_gpu_kernel_breakdown(visualize=False)[1],
    "device annotations": lambda each: each.get_gpu_user_annotation_breakdown(visualize=False),
    "host annotations": lambda each: each.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False
    ),
    "kernels in annotations": lambda each: each.get_gpu_kernels_with_user_annotations(0),
    "launches": lambda each: each.get_cuda_kernel_launch_stats(visualize=False)[0],
    "operators": lambda each: each.get_aten_op_kernels_and_delay()[0],
    "queue": lambda each: each.get_queue_length_time_series()[0],
    "queue in short": lambda each: each.get_queue_length_summary(),
    "full queue": lambda each: each.get_time_spent_blocked_on_full_queue(
        each.get_queue_length_time_series(), max_queue_length=2
    ),
    "bandwidth": lambda each: each.get_memory_bw_time_series()[0],
    "bandwidth in short": lambda each: each.get_memory_bw_summary(),
    "idle time": lambda each: each.get_idle_time_breakdown(ranks=[0], visualize=False)[0],
    "steps": lambda each: pd.DataFrame({"step": each.get_profiler_steps()}),
}


# What HTA reads off the trace and these tables do not hold, numbers of events, and bandwidths:
# HTA takes those that a trace states, we divide bytes by the time, which older traces round to µs.
# A Triton operator of the host, finally, may name a stream, and HTA takes it for device work then:
# "triton_example" is not among the traces.
LEFT_OUT = {"index", "index_correlation", "external_id", "memory_bw_gbps"}


def flat(rows):
    """Return what a function of HTA gave, as columns that can be compared."""
    plain = rows if isinstance(rows.index, pd.RangeIndex) else rows.reset_index()
    # Of what starts in the same µs, HTA takes one or the other first.
    if "correlation" in plain and "ts" in plain:
        plain = plain.sort_values(["ts", "correlation"], ignore_index=True)
    # Work on stream 0 has no step in HTA, and an unknown one here.
    known = plain.fillna({"iteration": -1}) if "iteration" in plain else plain
    return known.sort_index(axis=1)


def kept(column, rows):
    """Tell which columns are compared: a name's number is not where the name is, too."""
    name = column if isinstance(column, str) else column[0]
    return name not in LEFT_OUT and f"s_{name}" not in rows


def outcome(function, analyses):
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(analyses)
    except KeyError as error:
        return repr(error)


@pytest.mark.parametrize("trace_name", TRACES)
def test_every_function_of_hta_gives_on_our_tables_what_it_gives_on_the_json(both, trace_name):
    ours, theirs = both(trace_name)
    compared = 0
    for name, function in FUNCTIONS.items():
        mine, own = outcome(function, ours), outcome(function, theirs)
        if not isinstance(own, pd.DataFrame):
            # On some traces HTA has nothing to say, or fails: so it does here.
            assert type(mine) is type(own), name
            assert own is None or mine == own, name
            continue
        mine, own = flat(mine), flat(own)
        columns = [each for each in own.columns if each in mine.columns and kept(each, own)]
        pd.testing.assert_frame_equal(
            mine[columns], own[columns], check_dtype=False, check_index_type=False, obj=name
        )
        compared += 1
    assert compared >= 10


def test_eight_ranks_have_the_idle_time_and_overlap_that_hta_found(real_data, converted):
    folder = real_data / "kineto" / "dlrm_8rank_v100"
    paths = dict(enumerate(sorted(folder.glob("worker*.json.gz"))))
    every = [converted(path, rank) for rank, path in paths.items()]
    result = hta.analyze.run(**joined(every), config=hta.Config())
    found = {
        name: dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
        for name, table in result.tables.items()
    }
    assert found["temporal_breakdown"]["idle_time_percent"] == (
        49.34, 34.28, 62.08, 43.2, 53.57, 55.64, 61.8, 75.75,
    )  # fmt: skip
    assert found["overlap"]["comp_comm_overlap_percent"] == (
        4.5, 2.47, 7.88, 3.31, 0.56, 0.64, 7.56, 9.51,
    )  # fmt: skip
    expected = json.loads((real_data / "expected/hta/param_dlrm_8rank_V100.json").read_text())
    theirs = pd.DataFrame(expected["idle_time_breakdown"])
    ours = pd.DataFrame(found["idle_time"]).set_axis(theirs.columns, axis=1)
    # Of kernels that start in the same µs, HTA takes one or the other first: it sorts unstably, and
    # what waits for the host in one order waits for the kernel before in the other.
    where = ["rank", "stream"]
    sums = [each.groupby(where)["idle_time"].sum().to_dict() for each in (ours, theirs)]
    assert sums[0] == sums[1]
    assert (ours["idle_time"] - theirs["idle_time"]).abs().max() <= 100
    assert result.findings[0].evidence == {"rank": 7}
    assert set(found) >= {"launches", "queue_length", "bandwidth", "stragglers", "kernel_types"}


def row(start, end, **rest):
    return {"rank": 0, "repeat": 0, "start_ns": ORIGIN + start, "end_ns": ORIGIN + end} | rest


def small(**tables):
    return {name: schema.frame(name, tables.get(name, ())) for name in TABLES}


def test_the_trace_is_the_first_repeat_in_us_with_its_links():
    tables = small(
        cpu_ops=[row(0, 9000, op=0, parent=-1, name="aten::mm", kind="operator", pid=7, tid=8,
                     step=3)],
        runtime_calls=[row(1000, 3500, tid=8, name="cudaLaunchKernel", correlation=4, op=0, step=3),
                       row(1000, 2000, repeat=1, tid=8, name="cudaFree", correlation=5)],
        kernels=[row(4001, 6002, name="gemm", kind="compute", stream=7, device=0, correlation=4,
                     step=3)],
    )  # fmt: skip
    made = trace(tables)
    rows = made.traces[0].sort_values("ts")
    names = [made.symbol_table.get_sym_table()[each] for each in rows["name"]]
    cats = [made.symbol_table.get_sym_table()[each] for each in rows["cat"]]
    assert names == ["aten::mm", "cudaLaunchKernel", "gemm"]
    assert cats == ["cpu_op", "cuda_runtime", "kernel"]
    columns = ["ts", "dur", "pid", "tid", "iteration", "index_correlation"]
    assert rows[columns].to_numpy().tolist() == [
        [0, 9, 7, 8, 3, -1], [1, 2.5, 7, 8, 3, 3], [4.001, 2.001, 0, 7, 3, 2],
    ]  # fmt: skip


def test_what_hta_cannot_do_is_an_abstention_and_the_rest_is_there():
    tables = small(kernels=[row(0, 10, name="gemm", kind="compute", stream=7, device=0)])
    result = hta.analyze.run(**tables, config=hta.Config(operators=True))
    assert any("get_aten_op_kernels_and_delay" in each.what for each in result.abstentions)
    assert result.tables["temporal_breakdown"].rows[0][0] == 0


def test_kernel_sequences_of_one_operator_are_counted_without_leaving_a_file():
    ops = [row(i * 100_000, i * 100_000 + 50_000, op=i, parent=-1, name="aten::mm",
               kind="operator", pid=1, tid=1) for i in range(3)]  # fmt: skip
    calls, kernels = [], []
    for i in range(3):
        for k in range(3):
            at, link = i * 100_000 + k * 10_000 + 1000, 10 * i + k + 1
            calls.append(row(at, at + 2000, tid=1, name="cudaLaunchKernel", correlation=link, op=i))
            kernels.append(row(at + 3000, at + 6000, name=f"k{k}", kind="compute", stream=7,
                               device=0, correlation=link))  # fmt: skip
    tables = small(cpu_ops=ops, runtime_calls=calls, kernels=kernels)
    result = hta.analyze.run(**tables, config=hta.Config(sequences_of="aten::mm"))
    assert result.tables["sequences"].rows, result.abstentions
