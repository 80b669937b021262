"""Hand-written traces of each vintage, as tables."""

import json

import pytest

from profkit.convert.torch_profiler import trace as kineto
from profkit.core.errors import InputError
from profkit.tables import schema


@pytest.fixture
def read(tmp_path):
    def convert(events, **keys):
        path = tmp_path / "trace.json"
        text = json.dumps({"schemaVersion": 1, "traceEvents": events, **keys} if keys else events)
        path.write_text(text)
        return kineto.read(path, rank=0)

    return convert


def rows(trace, table, *columns):
    picked = trace.tables[table].to_pydict()
    return list(zip(*(picked[column] for column in columns), strict=True))


def event(cat, name, ts, dur, *, tid=1, pid=1, **args):  # noqa: PLR0913
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


LAUNCH = [
    event("user_annotation", "ProfilerStep#3", 100.5, 900.25, **{"External id": 1}),
    event("user_annotation", "forward", 110, 500, **{"External id": 2}),
    event("cpu_op", "aten::mm", 200, 100, **{"External id": 3, "Input Dims": [[2, 3], [3, 2]]}),
    event("cuda_runtime", "cudaLaunchKernel", 210, 20, correlation=9, **{"External id": 3}),
    event(
        *("kernel", "gemm", 2000, 50),
        pid=0,
        tid=7,
        correlation=9,
        device=0,
        stream=7,
        grid=[1, 2, 3],
    ),
]


def test_a_kernel_is_linked_to_its_operator_and_the_step_of_its_launch(read):
    trace = read(LAUNCH, baseTimeNanoseconds=10**18)
    base = 10**18
    assert rows(trace, "steps", "rank", "step", "start_ns", "end_ns", "samples") == [
        (0, 3, base + 100_500, base + 1_000_750, -1)
    ]
    assert rows(trace, "cpu_ops", "op", "parent", "name", "kind", "self_ns", "step") == [
        (0, -1, "ProfilerStep#3", "annotation", 400_250, 3),
        (1, 0, "forward", "annotation", 400_000, 3),
        (2, 1, "aten::mm", "operator", 80_000, 3),
    ]
    assert rows(trace, "cpu_ops", "external", "input_shapes") == [
        (1, ""),
        (2, ""),
        (3, "[[2,3],[3,2]]"),
    ]
    assert rows(trace, "kernels", "name", "kind", "op", "step", "start_ns", "grid") == [
        ("gemm", "compute", 2, 3, base + 2_000_000, "[1,2,3]")
    ]
    assert rows(trace, "runtime_calls", "name", "correlation", "op", "step") == [
        ("cudaLaunchKernel", 9, 2, 3)
    ]
    assert rows(trace, "annotations", "kind", "name", "op", "step") == [
        ("host", "ProfilerStep#3", 0, 3),
        ("host", "forward", 1, 3),
    ]


def test_every_table_has_its_schema(read):
    trace = read(LAUNCH)
    for name, table in trace.tables.items():
        assert table.schema.equals(schema.TABLES[name])


def test_without_a_launch_the_device_side_step_counts(read):
    trace = read(
        [
            event("gpu_user_annotation", "ProfilerStep#8", 50, 100, pid=0, tid=7),
            event("kernel", "inside", 60, 5, pid=0, tid=7, correlation=77, stream=7),
            event("kernel", "outside", 160, 5, pid=0, tid=7, correlation=78, stream=7),
        ]
    )
    assert rows(trace, "kernels", "name", "op", "step") == [("inside", -1, 8), ("outside", -1, -1)]
    assert rows(trace, "annotations", "kind", "tid", "step") == [("device", 7, 8)]


def test_steps_whose_number_comes_again_are_counted_on_and_the_trace_says_so(read):
    trace = read(
        [
            event("user_annotation", "ProfilerStep#4", 0, 100),
            event("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
            event("user_annotation", "ProfilerStep#4", 100, 100),
            event("cuda_runtime", "cudaLaunchKernel", 110, 5, correlation=2),
            event("kernel", "first", 20, 5, pid=0, correlation=1),
            event("kernel", "second", 120, 5, pid=0, correlation=2),
            event("gpu_user_annotation", "ProfilerStep#4", 0, 200, pid=0, tid=7),
            event("kernel", "unknown", 130, 5, pid=0, correlation=3),
        ]
    )
    assert rows(trace, "steps", "step", "start_ns", "end_ns") == [
        (4, 0, 100_000),
        (5, 100_000, 200_000),
    ]
    assert rows(trace, "kernels", "name", "step") == [("first", 4), ("second", 5), ("unknown", -1)]
    assert trace.notes == (
        "1 step has the number of an earlier one: all were numbered on by time.",
    )


@pytest.mark.parametrize(
    ("category", "name", "noted"),
    [
        ("user_annotation", "Optimizer.step#SGD.step", []),
        ("cpu_op", "aten::mm", ["1 row ends after the row around it"]),
    ],
)
def test_an_optimizer_whose_hook_ends_the_step_is_no_repair(category, name, noted, read):
    trace = read(
        [
            event("user_annotation", "ProfilerStep#4", 0, 100),
            event("cpu_op", "aten::relu", 10, 20),
            event(category, name, 80, 40),
        ]
    )
    assert [note.partition(":")[0] for note in trace.notes] == noted


def test_ranges_of_one_step_on_two_threads_stay_one_step(read):
    trace = read(
        [
            event("user_annotation", "ProfilerStep#4", 0, 100),
            event("user_annotation", "ProfilerStep#4", 10, 80, tid=2),
        ]
    )
    assert rows(trace, "steps", "step") == [(4,), (4,)]
    assert trace.notes == ()


def test_a_kernel_below_a_collective_operator_is_communication(read):
    trace = read(
        [
            event("cpu_op", "c10d::allreduce_", 0, 100),
            event("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
            event("cpu_op", "aten::copy_", 50, 20),
            event("cuda_runtime", "cudaLaunchKernel", 55, 5, correlation=2),
            event("kernel", "one_shot", 200, 5, pid=0, correlation=1),
            event("kernel", "copy", 300, 5, pid=0, correlation=2),
        ]
    )
    assert rows(trace, "kernels", "name", "kind") == [
        ("one_shot", "communication"),
        ("copy", "compute"),
    ]


def test_pytorch_1_8_with_its_category_names_and_text_ids(read):
    trace = read(
        [
            event("Operator", "ProfilerStep#1", 1623142623460000, 500, pid=5, tid="5"),
            event("Operator", "aten::add", 1623142623460111, 25, pid=5, tid="5"),
            event("Runtime", "cudaMemcpyAsync", 1623142623460115, 2, pid=5, tid="5", correlation=3),
            event(
                *("Memcpy", "Memcpy HtoD (Pageable -> Device)", 1623142623529248, 1940),
                pid=0,
                tid="stream 7",
                correlation=3,
                stream=7,
                bytes=64,
            ),
            event("Memset", "Memset (Device)", 1623142623579729, 1, pid=0, tid="stream 7"),
            {
                "ph": "i",
                "s": "t",
                "name": "[memory]",
                "pid": 5,
                "tid": 5,
                "ts": 1623142623460121,
                "args": {"Device Type": 1, "Device Id": 0, "Bytes": -4},
            },
        ]
    )
    assert rows(trace, "cpu_ops", "tid", "name", "kind", "step", "self_ns") == [
        (5, "ProfilerStep#1", "annotation", 1, 475_000),
        (5, "aten::add", "operator", 1, 23_000),
    ]
    assert rows(trace, "kernels", "kind", "copy_kind", "stream", "op", "step", "size_bytes") == [
        ("copy", "HtoD", 7, 1, 1, 64),
        ("set", "", 7, -1, -1, -1),
    ]
    assert rows(trace, "memory_events", "device", "size_bytes", "op", "step") == [
        ("cuda:0", -4, 1, 1)
    ]


def test_before_kineto_processes_had_names_and_events_no_category(read):
    common = {"ph": "X", "ts": 1.5, "dur": 2, "tid": 0, "args": {}}
    trace = read(
        [
            {"name": "mm", "pid": "CPU functions", **common},
            {"name": "sgemm", "pid": "CUDA functions", **common},
        ]
    )
    assert rows(trace, "cpu_ops", "name", "start_ns") == [("mm", 1500)]
    assert rows(trace, "kernels", "name", "kind") == [("sgemm", "compute")]


def test_absolute_times_with_fractions_keep_their_nanoseconds(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(
        '[{"ph":"X","cat":"kernel","name":"k","ts":1712196711000000.123,"dur":1.007},'
        '{"ph":"X","cat":"kernel","name":"k","ts":"1712196711000000.456","dur":"2"}]'
    )
    assert rows(kineto.read(path), "kernels", "start_ns", "end_ns") == [
        (1712196711000000123, 1712196711000001130),
        (1712196711000000456, 1712196711000002456),
    ]


def test_hip_numbers_may_be_text(read):
    trace = read(
        [
            event("cuda_runtime", "hipMemcpyWithStream", 1, 9, correlation="117", stream="0x0"),
            event(
                *("gpu_memcpy", "CopyHostToDevice", 5, 1),
                pid=2,
                tid=0,
                device="2",
                correlation="117",
                kind="HtoD",
            ),
        ]
    )
    assert rows(trace, "kernels", "device", "stream", "copy_kind", "correlation") == [
        (2, 0, "HtoD", 117)
    ]


def test_xpus_have_queues_and_waits_of_their_own(read):
    trace = read(
        [
            event("xpu_runtime", "urEnqueueUSMMemcpy", 1, 2, correlation=5),
            event("xpu_sync", "zeEventHostSynchronize", 4, 9, pid=-1, correlation=6),
            event(
                *("gpu_memcpy", "Memcpy M2D (MEMORY(Unknown) -> DEVICE)", 5, 1),
                pid=0,
                tid=3,
                device=0,
                correlation=5,
                **{"sycl queue": 3, "memory bandwidth (GB/s)": "N/A"},
            ),
        ]
    )
    assert rows(trace, "kernels", "device", "stream", "copy_kind") == [(0, 3, "HtoD")]
    assert rows(trace, "runtime_calls", "name", "start_ns", "end_ns") == [
        ("urEnqueueUSMMemcpy", 1_000, 3_000),
        ("zeEventHostSynchronize", 4_000, 13_000),
    ]
    assert trace.notes == ()


def test_ids_that_several_processes_use_are_said(read):
    ids = {1: (7, 8, 0), 2: (8, 9, 0)}
    calls = [
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, pid=pid, correlation=number)
        for pid, own in ids.items()
        for number in own
    ]
    assert read(calls).notes == (
        "1 id of launches is of several processes: split the trace, as work mixes.",
    )


@pytest.mark.parametrize(
    ("every", "calls", "said"), [(60, 120, True), (20, 120, False), (60, 40, False)]
)
def test_a_file_that_holds_few_of_the_calls_says_so(read, every, calls, said):
    events = [
        event("cuda_runtime", "cudaLaunchKernel", number, 1, correlation=7 + number * every)
        for number in range(calls)
    ]
    note = "120 runtime calls are in the file, under 2 % of their ids: most are missing."
    assert (note in read(events).notes) == said


def test_begin_and_end_events_are_joined(read):
    side = {"cat": "cpu_op", "pid": 1, "tid": 1}
    trace = read(
        [
            {"ph": "B", "name": "outer", "ts": 1, **side},
            {"ph": "B", "name": "inner", "ts": 2, **side},
            {"ph": "E", "ts": 4, "pid": 1, "tid": 1},
            {"ph": "E", "ts": 9.5, "pid": 1, "tid": 1},
            {"ph": "E", "ts": 11, "pid": 1, "tid": 1},
        ]
    )
    assert rows(trace, "cpu_ops", "name", "start_ns", "end_ns", "parent") == [
        ("outer", 1000, 9500, -1),
        ("inner", 2000, 4000, 0),
    ]
    assert trace.notes == ("1 begin or end event has no partner and was left out.",)


def test_missing_durations_and_times_are_counted(read):
    trace = read(
        [
            {"ph": "X", "cat": "cpu_op", "name": "no dur", "pid": 1, "tid": 1, "ts": 5},
            {"ph": "X", "cat": "cpu_op", "name": "no ts", "pid": 1, "tid": 1, "dur": 5},
        ]
    )
    assert rows(trace, "cpu_ops", "name", "start_ns", "end_ns") == [("no dur", 5000, 5000)]
    assert trace.notes == (
        "1 event without a usable time was left out.",
        "1 event without a usable duration counts as 0 ns long.",
    )


def test_graph_launches_give_every_kernel_their_operator(read):
    trace = read(
        [
            event("cpu_op", "replay", 0, 100),
            event("cuda_runtime", "cudaGraphLaunch", 10, 5, correlation=4),
            event("kernel", "a", 200, 5, pid=0, correlation=4),
            event("kernel", "b", 210, 5, pid=0, correlation=4),
        ]
    )
    assert rows(trace, "kernels", "name", "op") == [("a", 0), ("b", 0)]


def test_an_external_id_that_is_the_correlation_links_to_no_operator(read):
    trace = read(
        [
            event("cpu_op", "unrelated", 0, 100, **{"External id": 50}),
            event("kernel", "old", 200, 5, pid=0, correlation=50, **{"External id": 50}),
            event("kernel", "new", 300, 5, pid=0, correlation=51, **{"External id": 50}),
        ]
    )
    assert rows(trace, "kernels", "name", "op") == [("old", -1), ("new", 0)]


def test_big_integers_keep_what_fits(read):
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
    args = {"Device Type": 0, "Device Id": -1, "Bytes": 2**50 - 1, "Addr": 2**64 - 16}
    trace = read([{**memory, "ts": 1, "args": args}])
    assert rows(trace, "memory_events", "size_bytes", "address", "device") == [
        (2**50 - 1, -16, "cpu")
    ]


def test_a_trace_without_known_events_is_empty_with_a_note(read):
    trace = read([event("Trace", "PyTorch Profiler (0)", 1, 2)], deviceProperties=[])
    assert {len(table) for table in trace.tables.values()} == {0}
    assert trace.notes == ("The trace holds no operator, call, kernel or allocation.",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"metadata":{"source":"DevTools"},"traceEvents":[]}', "Chrome DevTools"),
        ('[{"cat":"disabled-by-default-devtools.timeline","ph":"X","ts":1}]', "Chrome DevTools"),
        ('{"metadata":{"highres-ticks":true},"traceEvents":[]}', "TensorFlow or JAX"),
        ('{"traceEvents":[{"cat":"toplevel","ph":"X","ts":1}]}', r"\(its categories: toplevel\)"),
        ("[]", "without any event"),
        ('{"traceEvents":[{"ph":"M","na', "cut off before the first"),
    ],
)
def test_traces_of_other_programs_are_named(tmp_path, text, says):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        kineto.read(path)


@pytest.mark.parametrize(
    ("process", "says"),
    [
        ("Ascend Hardware", "a trace of torch_npu for Ascend"),
        ("/device:TPU:0 (pid 1)", "a profile of TensorFlow or JAX"),
        ("/host:CPU", "a profile of TensorFlow or JAX"),
    ],
)
def test_the_names_of_its_processes_tell_who_wrote_a_trace(read, process, says):
    named = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}}
    with pytest.raises(InputError, match=says):
        read([named, {"ph": "X", "name": "MatMul", "pid": 1, "tid": 7, "ts": 1, "dur": 2}])


def test_events_of_unknown_categories_are_counted_and_named(read):
    trace = read(
        [
            event("cpu_op", "aten::add", 1, 2),
            event("{of}", "new", 1, 2),
            event("Trace", "PyTorch Profiler (0)", 0, 9),
        ]
    )
    assert trace.notes == ("1 event of unknown categories or kinds ('{of}') was left out.",)


def test_events_that_end_before_they_begin_count_as_instants(read):
    trace = read([event("cpu_op", "aten::add", 5, -3), event("kernel", "k", 7, -1)])
    assert rows(trace, "cpu_ops", "start_ns", "end_ns") == [(5000, 5000)]
    assert trace.notes == ("2 events end before they begin and count as 0 ns long.",)


@pytest.mark.parametrize(("ids", "op"), [((25, 26), 0), ((7, 7), -1)])
def test_launches_of_roctracer_have_their_id_as_the_external_one(read, ids, op):
    """That of an operator, which all that it launches have in common, ties nothing."""
    external = [{"External id": number} for number in ids]
    trace = read(
        [
            event("cpu_op", "aten::mm", 100, 60, **{"External id": 512}),
            event("cuda_runtime", "hipExtModuleLaunchKernel", 110, 5, **external[0]),
            event("cuda_runtime", "hipExtModuleLaunchKernel", 120, 5, **external[1]),
            event("kernel", "Cijk_Ailk", 130, 50, pid=2, tid=0, **external[0]),
            event("kernel", "Cijk_PostGSU2", 190, 5, pid=2, tid=0, **external[1]),
        ]
    )
    assert rows(trace, "kernels", "op") == [(op,), (op,)]
