"""Reports of Nsight Systems, real and made up, as tables."""

import csv
import gzip
import json
import sqlite3
from collections import Counter
from contextlib import closing

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit import schema
from profkit.analyze import nsys_stats, python_hotspots
from profkit.convert.base import Raw
from profkit.convert.nsight_systems import export, statistics
from profkit.convert.nsight_systems.names import function
from profkit.convert.nsight_systems.report import Report
from profkit.convert.nsight_systems.store import opened
from profkit.convert.nsight_systems.tables import tables
from profkit.convert.nsys import convert
from profkit.errors import InputError

# Kernels and the sum of their times, in ns, as the README of the data has them.
EXPECTED = {
    "ddp53_profile": (4652, 290492491),
    "mfu_2gpu_before": (4010, 535200650),
    "mfu_2gpu_after": (3587, 488835406),
}
PID, OTHER = 70, 71
BASE_NS = 1_790_000_000_000_000_000


def thread(pid, tid=None):
    """Return the number that nsys has for a thread, or for a process if `tid` is 0."""
    return (1 << 48) | (pid << 24) | (pid if tid is None else tid)


def raw(path, rank=0, repeat=0):
    return Raw(path=path, label=f"rank{rank}_dp{rank}_tp0_pp0", rank=rank, repeat=repeat)


def frames(path, folder):
    made = convert.run(raw(path), folder)
    return {name: each.to_pandas() for name, each in made.tables.items()}, list(made.notes)


@pytest.fixture(scope="session")
def real(real_data, tmp_path_factory):
    """Return a function from the name of a real report to its tables, notes and SQLite file."""
    folder = tmp_path_factory.mktemp("real")
    made = {}

    def found(name):
        if name not in made:
            path = folder / f"rank0.{name}.nsys-rep"
            path.write_bytes(gzip.decompress((real_data / f"nsys/{name}.sqlite.gz").read_bytes()))
            made[name] = (*frames(path, folder), path)
        return made[name]

    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_real_kernels_are_counted_and_timed(real, name):
    found, _, _ = real(name)
    kernels = found["kernels"]
    own = kernels[kernels["kind"].isin(["compute", "communication"])]
    assert (len(own), int((own["end_ns"] - own["start_ns"]).sum())) == EXPECTED[name]
    assert set(kernels["rank"]) == {0, 1}
    # Each was launched by a call of its own process, which began before it.
    calls = found["runtime_calls"].drop_duplicates(["rank", "correlation"])
    both = kernels.merge(calls, on=["rank", "correlation"], suffixes=("", "_call"))
    assert len(both) >= 0.99 * len(kernels)
    assert (both["start_ns_call"] <= both["start_ns"]).all()


def test_nccl_tells_ranks_sizes_and_groups(real):
    found, notes, _ = real("ddp53_profile")
    assert notes == []
    collectives = found["collectives"]
    assert set(collectives["group_size"]) == {2}
    assert (collectives["size_bytes"] > 0).all()
    sizes = collectives.groupby(["rank", "operation"], observed=True)["size_bytes"].sum()
    # Both ranks give the same.
    assert sizes[0].equals(sizes[1])
    kernels = found["kernels"]
    assert (kernels["collective"] >= 0).sum() == len(collectives) == 460


def test_operators_of_pytorch_are_told_from_other_ranges(real):
    ops = real("mfu_2gpu_after")[0]["cpu_ops"]
    named = ops[ops["kind"] == "operator"]["name"]
    assert "aten::addmm" in set(named)
    assert not named.str.contains("op_id").any()
    assert {"ncclSend", "ncclGroupStart"} <= set(ops[ops["kind"] == "annotation"]["name"])


def test_devices_are_those_that_cuda_numbers(real):
    devices = real("ddp53_profile")[0]["devices"]
    assert devices["capability"].tolist() == ["8.6"] * 4
    assert devices["processors"].tolist() == [82] * 4
    assert sorted(devices["device"]) == [0, 0, 1, 1]


def rows(path):
    """Return the rows of a CSV of ``nsys stats``, with what it says before left out."""
    lines = path.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Time (%)"))
    return list(csv.DictReader(lines[start:]))


def stats(found):
    """Return our statistics of the tables `found`, as data frames summed over ranks."""
    by_tool = {name: {"nsys": found[name]} for name in ("kernels", "runtime_calls", "cpu_ops")}
    result = nsys_stats.analyze.run(
        **by_tool,
        python_calls={"nsys": found["python_calls"]},
        os_calls=found["os_calls"],
        config=nsys_stats.Config(max_rows=10**6),
    )
    made = {
        name: pd.DataFrame(each.rows, columns=each.columns) for name, each in result.tables.items()
    }
    return made, result


def summed(table):
    totals = Counter()
    for row in table.to_dict("records"):
        totals[row["name"], "ns"] += row["total_ns"]
        totals[row["name"], "count"] += row["instances"]
    return totals


@pytest.mark.parametrize("name", EXPECTED)
def test_the_statistics_of_the_installed_nsys_agree_with_ours(real, name):
    found, _, path = real(name)
    made, _ = stats(found)
    prefix = path.with_name("rank0_dp0_tp0_pp0.rep0")
    # The folder holds the CSV of the last that was converted: make those of this one again.
    with export.exported(path) as exported:
        assert statistics.write_csv(exported.store, exported.source, prefix) == []
    pairs = {"gpukernsum": "cuda_gpu_kern_sum", "cudaapisum": "cuda_api_sum"}
    names = statistics.available(export.nsys())
    for old, new in pairs.items():
        column = "Num Calls" if "api" in old else "Instances"
        given = rows(prefix.with_name(f"{prefix.name}_{old if old in names else new}.csv"))
        theirs = Counter()
        for row in given:
            # Some names have several numbers, and so several rows there.
            theirs[function(row["Name"]), "ns"] += int(row["Total Time (ns)"])
            theirs[function(row["Name"]), "count"] += int(row[column])
        assert summed(made[new]) == theirs
    copies = rows(prefix.with_name(f"{prefix.name}_gpumemtimesum.csv"))
    assert made["cuda_gpu_mem_time_sum"]["total_ns"].sum() == sum(
        int(row["Total Time (ns)"]) for row in copies
    )


def test_statistics_of_one_report_are_those_of_nsys_to_the_digit(report, tmp_path):
    path = report(nvtx=[(10, 40, "a"), (50, 70, "a"), (10, 90, "b")], os=[(5, 20, "read")])
    found, notes = frames(path, tmp_path)
    made, result = stats(found)
    assert made["nvtx_sum"].to_dict("records")[1] == {
        "rank": 0, "repeat": 0, "name": "a", "share": 50 / 130, "total_ns": 50, "instances": 2,
        "mean_ns": 25.0, "median_ns": 25.0, "min_ns": 20, "max_ns": 30,
        "deviation_ns": pytest.approx(50**0.5),
    }  # fmt: skip
    reasons = {each.what: each.reason for each in result.abstentions}
    assert reasons["cuda_gpu_kern_sum"] == "no kernel of a device was recorded"
    assert "The report holds no kernel, copy or set: CUDA was not recorded." in notes


COLUMNS = {
    "StringIds": "id INTEGER, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER,"
    " textId INTEGER, domainId INTEGER",
    "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER,"
    " gridY INTEGER, gridZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,"
    " graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER, globalPid INTEGER, deviceId INTEGER,"
    " address INTEGER, bytes INTEGER, memoryOperationType INTEGER",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, metricId INTEGER, metricName TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    # As the exporter of 2022.4 names them, without what is not read.
    "COMPOSITE_EVENTS": "id INTEGER, start INTEGER, globalTid INTEGER, threadState INTEGER",
    "SAMPLING_CALLCHAINS": "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER,"
    " stackDepth INTEGER",
    "ThreadNames": "nameId INTEGER, globalTid INTEGER",
}


@pytest.fixture
def report(tmp_path):
    """Return a function that writes a report as SQLite, with the rows that it is given."""

    def written(
        *, nvtx=(), os=(), kernels=(), calls=(), name="rank0_dp0_tp0_pp0.x.nsys-rep", **more
    ):
        texts = {}

        def text(value):
            return texts.setdefault(value, len(texts) + 1)

        content = {
            "TARGET_INFO_SESSION_START_TIME": [(BASE_NS,)],
            "NVTX_EVENTS": [
                (start, end, kind, said, thread(pid), None, domain)
                for start, end, said, pid, kind, domain in (
                    (*each, *(PID, 59, 0)[len(each) - 3 :]) for each in nvtx
                )
            ],
            "OSRT_API": [(start, end, thread(PID), text(what)) for start, end, what in os],
            "CUPTI_ACTIVITY_KIND_KERNEL": [
                (start, end, device, 7, number, thread(pid, 0), text(what), 2, 1, 1, 16, 32, None)
                for start, end, what, number, pid, device in kernels
            ],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [
                (start, end, thread(pid), number, text(what))
                for start, end, what, number, pid in calls
            ],
            **more,
        }
        content["StringIds"] = [(number, value) for value, number in texts.items()]
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, each in content.items():
                if not each and table.startswith(("CUPTI", "OSRT")):
                    continue
                connection.execute(f"CREATE TABLE {table} ({COLUMNS[table]})")
                marks = ",".join("?" * (COLUMNS[table].count(",") + 1))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", each)  # noqa: S608
        return path

    return written


STEPS = [(0, 100, "step#0"), (100, 200, "step#1")]
FORWARD = (10, 60, "forward")
LAUNCH = (20, 25, "cudaLaunchKernel_v7000", 5, PID)
KERNEL = (90, 130, "gemm", 5, PID, 0)


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


def test_steps_whose_numbers_repeat_are_numbered_by_time(report, tmp_path):
    nvtx = [(0, 10, "step 0"), (10, 20, "step 1"), (20, 30, "step 0")]
    found, notes = frames(report(nvtx=nvtx), tmp_path)
    assert found["steps"]["step"].tolist() == [0, 1, 2]
    assert any("repeat their numbers" in each for each in notes)


def test_without_ranges_the_steps_are_those_of_the_harness(report, tmp_path):
    path = report(os=[(5, 20, "read"), (250, 300, "read")])
    timed = [[BASE_NS + at, BASE_NS + at + 100, 1, 1] for at in (-200, 0, 100, 400)]
    steps = {"rank": 0, "steps": timed}
    (tmp_path / "rank0_dp0_tp0_pp0.steps.json").write_text(json.dumps(steps))
    found, notes = frames(path, tmp_path)
    assert found["steps"]["step"].tolist() == [1, 2]
    assert found["os_calls"]["step"].tolist() == [1, -1]
    assert any("those that the harness timed" in each for each in notes)


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


def test_cpu_samples_are_stacks_of_threads_from_the_root(report, tmp_path):
    texts = {"run": 900, "gemm": 901, "/usr/lib/libtorch.so": 902, "python3": 903}
    # Every 10 ns; thread 80 waited in between, and sample 4 has no stack.
    seen = [(1, 10, PID), (2, 20, PID), (3, 30, PID), (4, 15, 80), (5, 1000, 80), (6, 1010, 80)]
    called = [(texts["run"], texts["python3"]), (texts["gemm"], texts["/usr/lib/libtorch.so"])]
    chains = [
        (each, *frame, 0, depth)
        for each in (1, 2, 5, 6)
        for depth, frame in enumerate(reversed(called))
    ]
    chains.append((3, *called[0], 0, 0))
    path = report(
        nvtx=STEPS,
        COMPOSITE_EVENTS=[(each, at, thread(PID, tid), 1) for each, at, tid in seen],
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
    assert not any("sample" in each for each in notes)
    config = python_hotspots.Config()
    result = python_hotspots.analyze.run(sampled_stacks={"nsys": stacks}, config=config)
    assert "67% of the time that nsys sampled" in result.findings[0].message


def test_one_cpu_sample_of_a_thread_tells_no_time(report, tmp_path):
    path = report(nvtx=STEPS, COMPOSITE_EVENTS=[(1, 10, thread(PID), 1)], SAMPLING_CALLCHAINS=[])
    found, notes = frames(path, tmp_path)
    assert len(found["sampled_stacks"]) == 0
    assert any("1 CPU samples are too few" in each for each in notes)


def test_whole_graphs_count_as_work_and_are_noted(report, tmp_path):
    graphs = [(10, 30, 0, 7, 5, thread(PID, 0), 4)]
    path = report(nvtx=[*STEPS], calls=[LAUNCH], CUPTI_ACTIVITY_KIND_GRAPH_TRACE=graphs)
    found, notes = frames(path, tmp_path)
    kernel = found["kernels"].iloc[0]
    assert (kernel["name"], kernel["graph"], kernel["step"]) == ("CUDA graph 4", 4, 0)
    assert any("cuda_graph_trace=node" in each for each in notes)


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
    assert not any("repeat their numbers" in each for each in notes)
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
            columns = [each[0] for each in cursor.description]
            rows = cursor.fetchall()
            values = {column: [row[at] for row in rows] for at, column in enumerate(columns)}
            pq.write_table(pa.table(values), folder / f"{name}.parquet")
    made = []
    for source in (path, folder):
        with opened(source, source) as store:
            found = Report(store=store, path=source)
            made.append((tables(found, 0, 0, tmp_path), found.notes))
    assert made[0][1] == made[1][1]
    for name, each in made[0][0].items():
        pd.testing.assert_frame_equal(each.to_pandas(), made[1][0][name].to_pandas())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"x" * 5000, r"cannot export it: .*Exportation error"),
        (gzip.compress(b"SQLite format 3\0" * 99)[:40], "damaged gzip data"),
        (b"SQLite format 3\0" + b"x" * 5000, "damaged SQLite file"),
    ],
    ids=["empty", "no report", "cut gzip", "damaged SQLite"],
)
def test_damaged_files_are_named(tmp_path, content, says):
    path = tmp_path / "rank0_dp0_tp0_pp0.x.nsys-rep"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        convert.run(raw(path), tmp_path)
    assert str(path) in str(error.value)


def test_a_truncated_real_file_is_named(real, tmp_path):
    content = real("mfu_2gpu_after")[2].read_bytes()
    path = tmp_path / "rank0.nsys-rep"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged SQLite file"):
        convert.run(raw(path), tmp_path)


def test_somebody_elses_sqlite_is_refused(tmp_path):
    path = tmp_path / "rank0.nsys-rep"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE cookies (id INTEGER)")
    with pytest.raises(InputError, match="not a report of Nsight Systems"):
        convert.run(raw(path), tmp_path)


def test_a_newer_layout_is_read_and_noted(report, tmp_path):
    path = report(
        nvtx=STEPS,
        META_DATA_EXPORT=[("EXPORT_SCHEMA_VERSION_MAJOR", "9")],
        calls=[LAUNCH],
        kernels=[KERNEL],
    )
    found, notes = frames(path, tmp_path)
    assert len(found["kernels"]) == 1
    assert notes[0].startswith("Exported with layout 9, newer than 3")


def test_a_table_without_times_is_of_an_unknown_version(report, tmp_path):
    path = report(nvtx=STEPS, os=[(1, 2, "read")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE OSRT_API RENAME COLUMN end TO finish")
    with pytest.raises(InputError, match="table OSRT_API has no column end"):
        convert.run(raw(path), tmp_path)


def test_an_empty_report_gives_empty_tables(report, tmp_path):
    found, notes = frames(report(), tmp_path)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(found, 0)
    assert set(found) == set(convert.produces) <= set(schema.TABLES)
    assert notes == ["The report holds no kernel, copy or set: CUDA was not recorded."]


def test_without_nsys_sqlite_is_read_and_reports_are_refused(report, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = report(nvtx=STEPS)
    _, notes = frames(path, tmp_path)
    assert "nsys is not installed: its own reports as CSV are left out." in notes
    other = tmp_path / "rank1.nsys-rep"
    other.write_bytes(b"not SQLite at all")
    with pytest.raises(InputError, match="which can export it, is not installed"):
        convert.run(raw(other), tmp_path)
