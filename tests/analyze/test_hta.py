import json

import pandas as pd
import pytest

from profkit import schema
from profkit.analyze import hta
from profkit.analyze._hta_trace import TABLES, trace
from tests.analyze.beside_hta import FUNCTIONS, differences, joined, outcome, pair

ORIGIN = 1_790_000_000_000_000_001
# Small ones that between them give every function something to say; benchmarks/hta_agreement.py
# takes all others.
TRACES = {
    "multi_stream": "critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "alexnet": "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "device_annotations": "with_gpu_user_annotation/step_based_trace_2543932.json.gz",
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


@pytest.mark.parametrize("trace_name", TRACES)
def test_every_function_of_hta_gives_on_our_tables_what_it_gives_on_the_json(both, trace_name):
    compared, _, different = differences(*both(trace_name))
    assert different == {}
    assert compared >= 10


def test_every_function_of_hta_has_something_to_say_on_one_of_the_traces(both):
    for name, function in FUNCTIONS.items():
        said = (outcome(function, both(each)[1]) for each in TRACES)
        assert any(isinstance(each, pd.DataFrame) and len(each) for each in said), name


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
