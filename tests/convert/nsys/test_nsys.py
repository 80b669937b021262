"""Reports of Nsight Systems as tables."""

import json
import sqlite3
from contextlib import closing

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit.analyze import python_hotspots
from profkit.convert.nsys import convert
from profkit.convert.nsys.report import Report
from profkit.convert.nsys.store import opened
from profkit.convert.nsys.tables import tables
from tests.convert.nsys.reports import (
    BASE_NS,
    FORWARD,
    KERNEL,
    LAUNCH,
    OTHER,
    PID,
    STEPS,
    frames,
    raw,
    thread,
)


def test_a_kernel_belongs_to_the_step_and_range_of_its_launch(report, tmp_path):
    found, notes = frames(
        report(nvtx=[*STEPS, FORWARD], calls=[LAUNCH], kernels=[KERNEL]), tmp_path
    )
    kernel = found["kernels"].iloc[0].to_dict()
    ops = found["cpu_ops"]
    assert ops.iloc[kernel["op"]]["name"] == "forward"
    expected = {
        "step": 0, "phase": "forward", "kind": "compute", "grid": "[2,1,1]", "correlation": 5,
        "shared_memory_bytes": 48, "start_ns": BASE_NS + 90, "stream": 7, "graph_node": -1,
    }  # fmt: skip
    assert {name: kernel[name] for name in expected} == expected
    call = found["runtime_calls"].iloc[0]
    assert (call["name"], call["step"], call["op"]) == ("cudaLaunchKernel", 0, kernel["op"])
    assert found["steps"]["step"].tolist() == [0, 1]
    assert found["steps"]["end_ns"].tolist() == [BASE_NS + 100, BASE_NS + 200]
    assert notes == []


@pytest.mark.parametrize(("has_steps", "numbers"), [(False, [0, 1, 2, 3]), (True, [0, 1])])
def test_tokens_are_the_steps_of_a_program_that_marks_none(report, tmp_path, has_steps, numbers):
    tokens = [(50 * n, 50 * n + 50, f"token_{n}_processing") for n in range(4)]
    found, _ = frames(report(nvtx=[*tokens, *STEPS[: 2 * has_steps]]), tmp_path)
    assert found["steps"]["step"].tolist() == numbers


def test_steps_whose_numbers_repeat_are_numbered_by_time(report, tmp_path):
    nvtx = [(0, 10, "step 0"), (10, 20, "step 1"), (20, 30, "step 0")]
    found, notes = frames(report(nvtx=nvtx), tmp_path)
    assert found["steps"]["step"].tolist() == [0, 1, 2]
    assert any("repeat their numbers" in note for note in notes)


@pytest.mark.parametrize(
    ("measured", "starts"),
    [([(30, 40, "iter 0"), (40, 50, "iter 1")], [30, 40]), ([], [0, 10, 20])],
)
def test_steps_of_a_warm_up_count_only_without_others(report, tmp_path, measured, starts):
    warm_up = [(10 * n, 10 * n + 10, f"Warm-up Step {n}") for n in range(3)]
    found, _ = frames(report(nvtx=[*warm_up, *measured]), tmp_path)
    assert found["steps"]["start_ns"].tolist() == [BASE_NS + start for start in starts]


def test_a_step_that_was_begun_again_is_one_without_what_was_before(report, tmp_path):
    nvtx = [(0, 10, "step#0"), (10, 40, "step#1"), (40, 50, "step#1")]
    found, notes = frames(report(nvtx=nvtx), tmp_path)
    assert found["steps"]["step"].tolist() == [0, 1]
    assert found["steps"]["start_ns"].tolist() == [BASE_NS, BASE_NS + 40]
    assert not any("repeat their numbers" in note for note in notes)


def test_without_ranges_the_steps_are_those_of_the_harness(report, tmp_path):
    path = report(os=[(5, 20, "read"), (250, 300, "read")])
    timed = [[BASE_NS + at, BASE_NS + at + 100, 1, 1] for at in (-200, 0, 100, 400)]
    steps = {"rank": 0, "steps": timed}
    (tmp_path / "rank0_dp0_tp0_pp0.steps.json").write_text(json.dumps(steps))
    found, notes = frames(path, tmp_path)
    assert found["steps"]["step"].tolist() == [1, 2]
    assert found["os_calls"]["step"].tolist() == [1, -1]
    assert any("those that the harness timed" in note for note in notes)


def test_samples_alone_lie_in_the_steps_of_the_harness(report, tmp_path):
    steps = {"rank": 0, "steps": [[BASE_NS + at, BASE_NS + at + 100, 1, 1] for at in (0, 100)]}
    (tmp_path / "rank0_dp0_tp0_pp0.steps.json").write_text(json.dumps(steps))
    found, _ = frames(report(GPU_METRICS=[(50, 512, 1, 40), (150, 512, 1, 7)]), tmp_path)
    assert found["steps"]["step"].tolist() == [0, 1]
    assert found["samples"]["step"].tolist() == [0, 1]


def test_a_recording_that_holds_none_of_the_steps_says_so(report, tmp_path):
    steps = {"rank": 0, "steps": [[BASE_NS + 400, BASE_NS + 500, 1, 1]]}
    (tmp_path / "rank0_dp0_tp0_pp0.steps.json").write_text(json.dumps(steps))
    found, notes = frames(report(os=[(5, 20, "read")]), tmp_path)
    assert found["steps"].empty
    assert any(note.startswith("No step of rank 0, of 1, lies in what") for note in notes)


def test_marks_tell_which_process_is_which_rank(report, tmp_path):
    nvtx = [(1, None, "rank#3", PID, 34), (2, None, "rank#1", OTHER, 34)]
    nvtx += [(10, 20, "step#0", PID, 59), (11, 30, "step#0", OTHER, 59)]
    kernels = [(12, 15, "a", 1, PID, 0), (12, 17, "b", 1, OTHER, 1)]
    calls = [(11, 12, "f", 1, PID), (11, 12, "g", 1, OTHER)]
    found, notes = frames(report(nvtx=nvtx, kernels=kernels, calls=calls), tmp_path)
    steps, work = found["steps"], found["kernels"]
    assert dict(zip(steps["rank"], steps["end_ns"] - BASE_NS, strict=True)) == {3: 20, 1: 30}
    assert dict(zip(work["rank"], work["name"], strict=True)) == {3: "a", 1: "b"}
    assert set(work["step"]) == {0}
    assert notes == []


def test_calls_of_libraries_stand_with_those_of_the_system_in_order(report, tmp_path):
    texts = {901: "cublasSgemm_v2", 902: "cudnnConvolutionForward", 903: "MPI_Allreduce"}
    own, sizes = thread(PID), (0, 0, 4, 4, 0)
    path = report(
        nvtx=STEPS,
        os=[(30, 40, "read")],
        calls=[LAUNCH],
        kernels=[KERNEL],
        CUBLAS_EVENTS=[(15, 28, 29, own, 901)],
        CUDNN_EVENTS=[(110, 120, 28, own, 902)],
        # What is without an end was still waiting when the recording ended.
        MPI_COLLECTIVES_EVENTS=[(5, 9, own, 903, *sizes), (140, None, own, 903, *sizes)],
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", texts.items())
    found, notes = frames(path, tmp_path)
    calls = found["os_calls"].assign(
        start_ns=found["os_calls"]["start_ns"] - BASE_NS,
        end_ns=found["os_calls"]["end_ns"] - BASE_NS,
    )
    columns = ["library", "name", "start_ns", "end_ns", "step", "pid", "tid"]
    assert calls[columns].to_dict("split")["data"] == [
        ["mpi", "MPI_Allreduce", 5, 9, 0, PID, PID],
        ["cublas", "cublasSgemm_v2", 15, 28, 0, PID, PID],
        ["os", "read", 30, 40, 0, PID, PID],
        ["cudnn", "cudnnConvolutionForward", 110, 120, 1, PID, PID],
        ["mpi", "MPI_Allreduce", 140, 200, 1, PID, PID],
    ]
    # They lie around the launch, and are not what launches.
    assert found["runtime_calls"]["name"].tolist() == ["cudaLaunchKernel"]
    assert notes == []


def test_python_samples_are_counted_and_said_not_to_be_exported(report, tmp_path):
    # As nsys 2023.4 exports them: a domain of the process, and a mark without a text for each.
    nvtx = [(0, None, "Python Backtrace", PID, 75, 1)]
    nvtx += [(at, None, None, PID, 34, 1) for at in (105, 106, 107)]
    nvtx.append((108, None, "mine", PID, 34, 0))
    found, notes = frames(report(nvtx=nvtx, kernels=[KERNEL]), tmp_path)
    noted = "3 Python stacks were sampled, which nsys shows in its window and does not export"
    assert [note.partition(":")[0] for note in notes] == [noted]
    assert found["sampled_stacks"].empty


def test_mpi_says_which_process_is_which_rank(report, tmp_path):
    path = report(
        kernels=[(12, 15, "a", 1, PID, 0), (12, 17, "b", 1, OTHER, 0)],
        MPI_RANKS=[(thread(PID), 5), (thread(OTHER), 4)],
    )
    found, notes = frames(path, tmp_path)
    work = found["kernels"]
    assert dict(zip(work["rank"], work["name"], strict=True)) == {5: "a", 4: "b"}
    assert not any("numbered by device" in note for note in notes)


def test_cpu_samples_are_stacks_of_threads_from_the_root(report, tmp_path):
    texts = {"run": 900, "gemm": 901, "/usr/lib/libtorch.so": 902, "python3": 903}
    # Every 10 ns; thread 80 waited in between, and sample 4 has no stack.
    seen = [(1, 10, PID), (2, 20, PID), (3, 30, PID), (4, 15, 80), (5, 1000, 80), (6, 1010, 80)]
    called = [(texts["run"], texts["python3"]), (texts["gemm"], texts["/usr/lib/libtorch.so"])]
    chains = [
        (sample, *frame, 0, depth)
        for sample in (1, 2, 5, 6)
        for depth, frame in enumerate(reversed(called))
    ]
    chains.append((3, *called[0], 0, 0))
    path = report(
        nvtx=STEPS,
        COMPOSITE_EVENTS=[(sample, at, thread(PID, tid), 1) for sample, at, tid in seen],
        SAMPLING_CALLCHAINS=chains,
        ThreadNames=[(texts["python3"], thread(PID))],
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(key, text) for text, key in texts.items()]
        )
    found, notes = frames(path, tmp_path)
    stacks = found["sampled_stacks"]
    assert stacks[["thread", "stack", "samples", "duration_ns"]].to_dict("split")["data"] == [
        ["python3", "run (python3);gemm (libtorch.so)", 2, 20],
        ["python3", "run (python3)", 1, 10],
        ["80", "[no stack]", 1, 10],
        ["80", "run (python3);gemm (libtorch.so)", 2, 20],
    ]
    assert not any("sample" in note for note in notes)
    config = python_hotspots.Config()
    result = python_hotspots.analyze.run(sampled_stacks={"nsys": stacks}, config=config)
    hottest = result.metrics["nsys_hottest_self_share"].value
    assert round(hottest, 2) == 0.67


def test_frames_without_a_symbol_are_one_frame_of_their_library(report, tmp_path):
    texts = {"0x7f0b06633bb3": 900, "0x7f0b06633bc8": 901, "/usr/lib/libcuda.so.1.1": 902}
    path = report(
        nvtx=STEPS,
        COMPOSITE_EVENTS=[(n, 10 * n, thread(PID), 1) for n in (1, 2)],
        SAMPLING_CALLCHAINS=[(1, 900, 902, 0, 0), (2, 901, 902, 0, 0)],
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(key, text) for text, key in texts.items()]
        )
    stacks = frames(path, tmp_path)[0]["sampled_stacks"]
    assert stacks["stack"].tolist() == ["[unknown] (libcuda.so.1.1)"]


def test_one_cpu_sample_of_a_thread_tells_no_time(report, tmp_path):
    path = report(nvtx=STEPS, COMPOSITE_EVENTS=[(1, 10, thread(PID), 1)], SAMPLING_CALLCHAINS=[])
    found, notes = frames(path, tmp_path)
    assert len(found["sampled_stacks"]) == 0
    assert any("Too few CPU samples to tell how far apart they are: 1." in note for note in notes)


def test_whole_graphs_count_as_work_and_are_noted(report, tmp_path):
    graphs = [(10, 30, 0, 7, 5, thread(PID, 0), 4)]
    path = report(nvtx=[*STEPS], calls=[LAUNCH], CUPTI_ACTIVITY_KIND_GRAPH_TRACE=graphs)
    found, notes = frames(path, tmp_path)
    kernel = found["kernels"].iloc[0]
    assert (kernel["name"], kernel["graph"], kernel["step"]) == ("CUDA graph 4", 4, 0)
    assert any("cuda_graph_trace=node" in note for note in notes)


def test_copies_have_their_kinds_of_memory_without_a_table_of_them(report, tmp_path):
    process = thread(PID, 0)
    kinds = [(1, 0, 2), (2, 2, 1), (8, 2, 2), (8, 2, 9)]
    copies = [(10, 20, 0, 7, at, process, 64, *kind) for at, kind in enumerate(kinds)]
    found, _ = frames(report(nvtx=STEPS, CUPTI_ACTIVITY_KIND_MEMCPY=copies), tmp_path)
    assert found["kernels"]["name"].tolist() == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD (Device -> Device)",
        "Memcpy DtoD (Device -> Unknown)",
    ]


def test_pages_of_managed_memory_that_move_are_told_from_copies(report, tmp_path):
    process = thread(PID, 0)
    kinds = [(11, 0, 2), (12, 2, 0), (13, 2, 2), (1, 0, 2)]
    copies = [(10, 20, 0, 7, at, process, 64, *kind) for at, kind in enumerate(kinds)]
    found, notes = frames(report(nvtx=STEPS, CUPTI_ACTIVITY_KIND_MEMCPY=copies), tmp_path)
    assert found["kernels"]["copy_kind"].tolist() == ["UVM HtoD", "UVM DtoH", "UVM DtoD", "HtoD"]
    assert found["kernels"]["name"].iloc[0] == "Memcpy UVM HtoD (Pageable -> Device)"
    assert not any("contradict" in note for note in notes)


@pytest.mark.parametrize(
    ("kind", "cause", "direction"),
    [
        *((11, 1, "UVM prefetch HtoD"), (12, 1, "UVM prefetch DtoH"), (12, 2, "UVM DtoH")),
        *((11, 3, "UVM HtoD"), (11, 0, "UVM HtoD"), (1, 1, "HtoD")),
    ],
)
def test_pages_that_the_program_asks_for_are_prefetched(report, tmp_path, kind, cause, direction):
    copies = [(10, 20, 0, 7, 1, thread(PID, 0), 64, kind, 0, 2)]
    path = report(nvtx=STEPS, CUPTI_ACTIVITY_KIND_MEMCPY=copies)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD migrationCause INT DEFAULT {cause}"
        )
    found, _ = frames(path, tmp_path)
    assert found["kernels"]["copy_kind"].tolist() == [direction]
    assert found["kernels"]["name"].iloc[0] == f"Memcpy {direction} (Pageable -> Device)"


def test_pages_of_managed_memory_that_move_need_no_launch(report, tmp_path):
    pages = [(10 + n, 11 + n, 0, 7, n, thread(PID, 0), 64, 11, 0, 2) for n in range(60)]
    _, notes = frames(report(nvtx=STEPS, CUPTI_ACTIVITY_KIND_MEMCPY=pages), tmp_path)
    assert not any("no call that launched" in note for note in notes)


def test_memory_and_counters_of_the_gpu_are_read(report, tmp_path):
    process = thread(PID, 0)
    memory = [
        (10, process, 0, 4096, 100, 0),
        (20, process, 0, 8192, 50, 0),
        (110, process, 0, 4096, 100, 1),
    ]
    path = report(
        nvtx=STEPS,
        CUDA_GPU_MEMORY_USAGE_EVENTS=memory,
        GPU_METRICS=[(50, 512, 1, 40), (150, 512, 2, 7), (150, 513, 1, 9)],
        TARGET_INFO_GPU_METRICS=[(512, 1, "SMs Active [Throughput %]"), (513, 1, "x")],
    )
    found, _ = frames(path, tmp_path)
    events = found["memory_events"]
    assert events["size_bytes"].tolist() == [100, 50, -100]
    assert events["reserved_bytes"].tolist() == [100, 150, 50]
    assert events["action"].tolist() == ["alloc", "alloc", "free"]
    assert set(events["device"]) == {"cuda:0"}
    samples = found["samples"].to_dict("records")
    assert [(s["device"], s["metric"], s["value"], s["unit"], s["step"]) for s in samples] == [
        ("gpu0", "SMs Active [Throughput %]", 40.0, "percent", 0),
        ("gpu0", "metric 2", 7.0, "count", 1),
        ("gpu1", "x", 9.0, "count", 1),
    ]


def test_modules_are_paths_of_the_ranges_around_them(report, tmp_path):
    nvtx = [*STEPS, (5, 80, "nn.Module: Net"), (10, 60, "nn.Module: blocks.0")]
    found, _ = frames(report(nvtx=nvtx, calls=[LAUNCH], kernels=[KERNEL]), tmp_path)
    assert found["kernels"]["module"].tolist() == ["Net;blocks.0"]
    assert found["annotations"]["name"].tolist() == ["step#0", "step#1"]


OWN = (0, None, "profkit", PID, 75, 1)
FUNCTIONS = (0, None, "nvtx.py", PID, 75, 2)


def test_steps_in_our_own_domain_win_over_their_copies_in_the_default_one(report, tmp_path):
    own = [(start, end, name, PID, 59, 1) for start, end, name in STEPS]
    steering = (0, 300, "capture", PID, 60, 1)
    found, notes = frames(report(nvtx=[OWN, steering, *STEPS, *own, FORWARD]), tmp_path)
    assert found["steps"]["step"].tolist() == [0, 1]
    assert not any("repeat their numbers" in note for note in notes)
    assert "capture" not in set(found["annotations"]["name"])
    # A phase may be called so.
    phase = (20, 30, "capture", PID, 59, 1)
    path = report(nvtx=[OWN, steering, *own, phase], name="rank0_dp0_tp0_pp0.y.nsys-rep")
    assert frames(path, tmp_path)[0]["annotations"]["name"].tolist() == [
        "step#0", "capture", "step#1",
    ]  # fmt: skip


def test_ranges_of_functions_are_calls_of_python(report, tmp_path):
    calls = [(10, 50, "train.py:12(step)", PID, 59, 2), (20, 25, "len", PID, 59, 2)]
    found, _ = frames(report(nvtx=[*STEPS, FUNCTIONS, *calls]), tmp_path)
    python = found["python_calls"]
    assert python["name"].tolist() == ["train.py(12): step", "<built-in len>"]
    assert python["caller"].tolist() == [-1, 0]
    assert set(python["kind"]) == {"function"}
    assert found["annotations"]["name"].tolist() == ["step#0", "step#1"]


def test_parquet_files_give_the_same_tables(report, tmp_path):
    path = report(
        nvtx=[*STEPS, FORWARD, (70, None, "open")],
        os=[(5, 20, "read")],
        calls=[LAUNCH],
        kernels=[KERNEL],
    )
    folder = tmp_path / "report_pqtdir"
    folder.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        for name in names:
            cursor = connection.execute(f"SELECT * FROM {name}")  # noqa: S608
            columns = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            values = {column: [row[at] for row in rows] for at, column in enumerate(columns)}
            pq.write_table(pa.table(values), folder / f"{name}.parquet")
    made = []
    for source in (path, folder):
        with opened(source, source) as store:
            found = Report(store=store, path=source)
            made.append((tables(found, 0, 0, tmp_path), found.notes))
    assert made[0][1] == made[1][1]
    for name, table in made[0][0].items():
        pd.testing.assert_frame_equal(table.to_pandas(), made[1][0][name].to_pandas())


@pytest.mark.parametrize(
    ("kernel", "is_pytorch"),
    [
        ("void at::native::vectorized_elementwise_kernel<4>", True),
        ("triton_poi_fused_add_0", True),
        ("PATH=/opt/torch/lib:/opt/tritonserver\0SHELL=/bin/sh", False),
        ("vectorAdd(float const*, float const*, float*, int)", False),
        ("gemm_at_once", False),
    ],
)
def test_a_program_without_pytorch_is_said_to_be_one(report, tmp_path, kernel, is_pytorch):
    path = report(kernels=[(*KERNEL[:2], kernel, *KERNEL[3:])], calls=[LAUNCH])
    notes = convert.run(raw(path), tmp_path).notes
    assert any(note.startswith("PyTorch was not found") for note in notes) != is_pytorch


@pytest.mark.parametrize("name", ["cudaLaunchKernel_v7000", "cudaGetDevice_v3020"])
def test_a_program_whose_work_was_not_recorded_may_have_no_pytorch(report, tmp_path, name):
    notes = convert.run(raw(report(calls=[(*LAUNCH[:2], name, *LAUNCH[3:])])), tmp_path).notes
    is_said = any(note.startswith("PyTorch was not found") for note in notes)
    assert is_said == name.startswith("cudaLaunch")
