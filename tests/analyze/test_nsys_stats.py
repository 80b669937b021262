from profkit import testing
from profkit.analyze import nsys_stats
from profkit.testing import rows

TABLES = ("kernels", "runtime_calls", "cpu_ops", "python_calls")


def span(start, end, **rest):
    return {"rank": 0, "repeat": 0, "start_ns": start, "end_ns": end} | rest


def run(os_calls=(), tool="nsys", **given):
    by_tool = {name: {tool: given.get(name, ())} for name in TABLES}
    return testing.run(nsys_stats.analyze, os_calls=os_calls, **by_tool)


def test_times_are_summed_by_report_and_name():
    calls = [span(0, 10, name="read"), span(10, 40, name="read"), span(0, 60, name="poll")]
    calls = [{"library": "os"} | call for call in [*calls, span(0, 5, name="read") | {"rank": 1}]]
    result = run(os_calls=calls)
    found = rows(result, "osrt_sum")
    assert [(row["rank"], row["name"], row["share"]) for row in found] == [
        (0, "poll", 0.6), (0, "read", 0.4), (1, "read", 1.0),
    ]  # fmt: skip
    assert {key: found[1][key] for key in ("total_ns", "instances", "mean_ns", "median_ns")} == {
        "total_ns": 40, "instances": 2, "mean_ns": 20.0, "median_ns": 20.0,
    }  # fmt: skip
    assert (found[1]["min_ns"], found[1]["max_ns"]) == (10, 30)
    assert found[1]["deviation_ns"] == 200**0.5
    assert found[0]["deviation_ns"] == 0.0


def test_calls_of_libraries_stand_apart_from_those_of_the_system():
    calls = [
        span(0, 10, name="read", library="os"),
        span(2, 9, name="cublasSgemm_v2", library="cublas"),
        span(9, 12, name="MPI_Allreduce", library="mpi"),
    ]
    result = run(os_calls=calls)
    assert [row["name"] for row in rows(result, "osrt_sum")] == ["read"]
    assert [
        (row["name"], row["total_ns"], row["share"]) for row in rows(result, "library_sum")
    ] == [("cublasSgemm_v2", 7, 0.7), ("MPI_Allreduce", 3, 0.3)]


def test_copies_are_summed_by_time_and_by_size():
    copy = {"kind": "copy", "copy_kind": "HtoD", "name": "Memcpy HtoD (Pinned -> Device)"}
    work = [
        span(0, 10, size_bytes=100, **copy),
        span(10, 40, size_bytes=300, **copy),
        span(40, 45, size_bytes=8, kind="set", name="Memset (Device)"),
        span(50, 90, kind="compute", name="gemm"),
    ]
    result = run(kernels=work)
    by_time, by_size = (rows(result, f"cuda_gpu_mem_{kind}_sum") for kind in ("time", "size"))
    assert [(row["name"], row["total_ns"]) for row in by_time] == [("HtoD", 40), ("set", 5)]
    assert [(row["name"], row["total_bytes"]) for row in by_size] == [("HtoD", 400), ("set", 8)]
    assert [(row["name"], row["total_ns"]) for row in rows(result, "cuda_gpu_kern_sum")] == [
        ("gemm", 40)
    ]
    assert result.metrics["cuda_gpu_kern_sum_ns"].value == 40


def test_what_other_tools_recorded_is_not_that_of_nsys():
    result = run(kernels=[span(0, 1, kind="compute", name="k")], tool="torch_profiler")
    assert result.tables == {}
    assert "no kernel of a GPU was recorded" in {
        abstention.reason for abstention in result.abstentions
    }
