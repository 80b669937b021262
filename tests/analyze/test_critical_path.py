import gc
import warnings
from functools import partial

import pytest
from hta.analyzers.critical_path_analysis import CPGraph

from profkit import testing
from profkit.analyze import critical_path
from profkit.testing import ORIGIN_NS, rows
from tests.analyze.beside_hta import pair

ALEXNET_FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
FOLDER = "kineto/hta/critical_path"
# The trace, the annotation and which of its instances HTA's own tests take.
TRACES = {
    "simple_add": ("end_to_end/simple_add/input/trace.json.gz", ALEXNET_FORWARD, 1),
    "alexnet": ("alexnet/benchmark_result_2869224_1695835535_trace.json.gz", "", 0),
    "event_sync": ("cuda_event_sync/event_sync_trace.json.gz", "ProfilerStep", 0),
    "multi_stream": ("cuda_event_sync_multi_stream/event_sync_trace.json.gz", "", 0),
}


def edges(graph):
    """Return the edges of the path as events distinguish them: type, weight and name."""
    rows = graph.get_critical_path_breakdown()
    named = zip(rows["type"], rows["duration"], rows["s_name"].fillna(""), strict=True)
    return sorted((kind, float(weight), str(name)) for kind, weight, name in named)


def parts(graph):
    """Return name, kind and time_ns of the edges that take time, as HTA itself has them."""
    rows = graph.get_critical_path_breakdown()
    rows = rows[(rows["bound_by"] != "") & (rows["duration"] > 0)].fillna({"s_name": ""})
    named = zip(rows["s_name"], rows["bound_by"], rows["duration"], strict=True)
    kinds = critical_path._KINDS
    return sorted((str(name), kinds[kind], round(1000 * us)) for name, kind, us in named)


@pytest.mark.parametrize("name", TRACES)
def test_the_path_is_that_which_hta_finds_in_the_json(real_data, converted, tmp_path, name):
    path, annotation, instance = TRACES[name]
    every = pair({0: real_data / FOLDER / path}, converted, tmp_path)
    with warnings.catch_warnings(action="ignore"):
        ours, theirs = (
            analysis.critical_path_analysis(0, annotation, instance) for analysis in every
        )
    assert ours[1]
    assert theirs[1]
    assert edges(ours[0]) == edges(theirs[0])
    assert sorted(part[:3] for part in critical_path._parts(*ours)) == parts(theirs[0])
    assert len(ours[0].critical_path_nodes) == len(theirs[0].critical_path_nodes)
    if name == "simple_add":
        # So HTA's own test has it.
        assert len(ours[0].critical_path_nodes) == 315


def row(start, end, **rest):
    where = {"rank": 0, "repeat": 0, "step": 5}
    return where | {"start_ns": ORIGIN_NS + start, "end_ns": ORIGIN_NS + end} | rest


run = partial(testing.run, critical_path.analyze)


def small(rank=0):
    """Return an operator whose call launches a kernel that outlasts both, in one step."""
    host = {"rank": rank, "tid": 1}
    return {
        "cpu_ops": [row(0, 40_000, op=0, parent=-1, pid=1, name="aten::mm", kind="operator",
                        **host)],
        "runtime_calls": [row(10_000, 30_000, name="cudaLaunchKernel", correlation=1, op=0,
                              **host)],
        "kernels": [row(35_000, 95_000, name="gemm", kind="compute", stream=7, device=0, op=0,
                        correlation=1, rank=rank)],
        "steps": [row(0, 40_000, rank=rank)],
    }  # fmt: skip


def test_a_path_goes_from_the_operator_over_the_launch_to_its_kernel():
    result = run(**small())
    parts = {(row["name"], row["kind"]): row["time_ns"] for row in rows(result, "by_name")}
    # To the end of the launch would be 35 µs: from its start to the kernel is a delay, to HTA.
    assert parts == {
        ("aten::mm", "host"): 10_000, ("", "launch delay"): 25_000, ("gemm", "kernels"): 60_000,
    }  # fmt: skip
    assert {name: metric.value for name, metric in result.metrics.items()} == pytest.approx(
        {"host_share": 10 / 95, "kernels_share": 60 / 95, "communication_share": 0,
         "launch_delay_share": 25 / 95, "gaps_between_kernels_share": 0, "blocked_share": 0,
         "path_share": 1}
    )  # fmt: skip
    assert [abstention.what for abstention in result.abstentions] == [
        "waiting for the GPU on the critical path"
    ]


def test_a_call_that_holds_the_cpu_leads_the_path_through_the_gpu():
    given = small()
    host = {"rank": 0, "tid": 1, "op": -1}
    given["runtime_calls"] += [row(40_000, 140_000, name="cudaFree", correlation=2, **host)]
    given["steps"] = [row(0, 140_000, rank=0)]
    parts = {(part["name"], part["kind"]): part["time_ns"]
             for part in rows(run(**given), "by_name")}  # fmt: skip
    assert parts["gemm", "kernels"] == 55_000
    assert parts["cudaFree", "blocked"] == 45_000
    assert ("cudaFree", "host") not in parts


def test_every_rank_has_a_path_of_its_own():
    both = [small(rank) for rank in (0, 1)]
    result = run(**{name: both[0][name] + both[1][name] for name in both[0]})
    assert [(row["rank"], row["kind"]) for row in rows(result, "by_kind")] == [
        (rank, kind) for rank in (0, 1) for kind in ("kernels", "launch delay", "host")
    ]


def test_it_is_that_of_the_step_of_median_time():
    tables = {name: [] for name in small()}
    for step, factor in ((5, 3), (6, 1), (7, 2)):
        for name, originals in small().items():
            moved = {
                key: ORIGIN_NS + step * 10**6 + (value - ORIGIN_NS) * factor
                for key, value in originals[0].items()
                if key.endswith("_ns")
            }
            unique = {"correlation": step} if "correlation" in originals[0] else {}
            tables[name].append(originals[0] | moved | unique | {"step": step})
    tables["cpu_ops"] = [op | {"op": i} for i, op in enumerate(tables["cpu_ops"])]
    result = run(**tables)
    assert {row["step"] for row in rows(result, "by_kind")} == {7}


def test_a_step_of_too_many_events_has_none():
    result = run(**small(), max_events=2)
    assert not result.tables
    assert result.abstentions[0].what == "the critical path of rank 0, step 5"
    assert result.abstentions[0].reason == "3 events: set max_events to have it"


def test_where_hta_knows_no_launch_that_is_said():
    given = small()
    given["runtime_calls"][0]["name"] = "cudaGraphLaunch"
    result = run(**given)
    assert [abstention.reason for abstention in result.abstentions] == [
        "HTA failed: no call that it follows launches work; it follows no CUDA graphs"
    ]


def test_no_graph_of_hta_outlives_its_path():
    run(**small())
    gc.collect()
    assert not [graph for graph in gc.get_objects() if isinstance(graph, CPGraph)]
