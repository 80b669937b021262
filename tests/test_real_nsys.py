"""Reports of Nsight Systems from import through every analysis to the report, and beside traces."""

import functools
import gzip
import json
import sqlite3
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from profkit.analyze import analyses
from profkit.analyze.shared.calltree import rows_of
from profkit.analyze.shared.launch_calls import launches
from profkit.convert.__main__ import main
from profkit.convert.base import Raw
from profkit.convert.nsys import convert
from profkit.convert.torch_profiler import trace as kineto
from profkit.core import fingerprint
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.planning.imported_runs import add_run, find, import_kinds
from tests.stages import report_of

TOOL, KIND = import_kinds()["nsys"]
# Made of kernels, calls and ranges, which both recorders have.
COMPARED = ("kernels", "idle", "launches", "transfers", "breakdown")
TRACE = "kineto/tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz"
PID = 77
COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return an empty result tree; what makes numbers suspect is an error in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fingerprint, "closure", functools.cache(fingerprint.closure))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield tmp_path


def imported(name, *paths):
    return add_run(find(paths, KIND), TOOL, KIND, name=name, command="profkit import")


def test_reports_good_and_damaged_go_through_all_analyses_to_the_report(real_data, tree):
    source = real_data / "nsys/mfu_2gpu_after.sqlite.gz"
    content = gzip.decompress(source.read_bytes())
    without = tree / "without.sqlite"
    without.write_bytes(content)
    with closing(sqlite3.connect(without)) as connection, connection:
        for name in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME"):
            connection.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{name}")
    cut = tree / "cut.sqlite"
    cut.write_bytes(content[: len(content) // 3])
    empty = tree / "empty.qdrep"
    empty.touch()
    run = imported("all", source, without, cut, empty)
    page = report_of(f"imports=[{run}]")
    record = json.loads((tree / f"results/runs/{run}/tables/nsys/convert.json").read_text())
    notes = {note["file"].split(".")[1]: [] for note in record["notes"]}
    for note in record["notes"]:
        notes[note["file"].split(".")[1]].append(note["text"])
        assert note["text"] in page
    assert "holds no kernel" in "".join(notes["without"])
    assert "damaged SQLite file" in "".join(notes["cut"])
    assert "an empty file" in "".join(notes["empty"])
    results = {path.stem for path in (tree / f"results/runs/{run}/analyze").iterdir()}
    assert {*COMPARED, "nsys_stats", "collectives", "critical_path", "operators"} <= results


@pytest.mark.parametrize(
    ("named", "ranks"),
    [("node{}", [0, 1, 2, 3]), ("rank0_window{}", [0, 1])],
    ids=["of different ranks", "of one rank"],
)
def test_ranks_of_two_reports_around_launchers_are_not_mixed_up(real_data, tree, named, ranks):
    paths = [tree / f"{named.format(number)}.sqlite.gz" for number in (0, 1)]
    for path, name in zip(paths, ("before", "after"), strict=True):
        path.symlink_to(real_data / f"nsys/mfu_2gpu_{name}.sqlite.gz")
    alone = [joined(imported(path.name, path)) for path in paths]
    both = joined(imported("both", *paths))
    assert [sorted(tables["kernels"]["rank"].unique()) for tables in alone] == [[0, 1], [0, 1]]
    assert sorted(both["kernels"]["rank"].unique()) == ranks
    later = {name: table.assign(rank=table["rank"] + ranks[-2]) for name, table in alone[1].items()}
    apart = pd.concat([placed(tables) for tables in (alone[0], later)], ignore_index=True)
    assert (apart["operator"] != "").any()
    assert (apart["called_ns"] >= 0).any()
    pd.testing.assert_frame_equal(in_order(placed(both)), in_order(apart))
    times = [operator_times(tables) for tables in (*alone, both)]
    assert times[2] == times[0] + times[1]
    csvs = [path.name.split(".")[1] for path in Path("results").rglob("*both*/**/*_gpukernsum.csv")]
    assert sorted(csvs) == [path.name.partition(".")[0] for path in paths]


def joined(run):
    """Return tables of an imported run."""
    folder = Path("results/runs") / run
    tables = folder / "tables/nsys"
    captures = folder / "capture/nsys/rep0"
    main([TOOL, *("--captures", str(captures), "--tables", str(tables), "--files", str(tables))])
    names = ("kernels", "cpu_ops", "runtime_calls", "memory_events")
    return {name: pd.read_parquet(tables / f"{name}.parquet") for name in names}


def placed(tables):
    """Return each kernel with the operator and the call that launched it."""
    work, ops = tables["kernels"], tables["cpu_ops"]
    names = np.append(ops["name"].astype(object), "")
    called = launches(work, tables["runtime_calls"])
    return work[["rank", "start_ns", "stream"]].assign(
        operator=names[rows_of(ops, work)], called_ns=called["start_ns"].to_numpy()
    )


def in_order(rows):
    return rows.sort_values(["rank", "start_ns", "stream"], ignore_index=True)


def operator_times(tables):
    """Return the time on devices of each operator, as the analysis says it."""
    analysis = analyses()["operators"]
    given = {name: tables[name] for name in analysis.tables}
    table = analysis.run(**given, config=analysis.config()).tables["by_name"]
    at = [table.columns.index(column) for column in ("name", "self_device_ns")]
    return Counter({row[at[0]]: row[at[1]] for row in table.rows if row[at[1]]})


def test_the_same_kernels_give_the_same_analyses_as_a_trace_of_pytorch(real_data, tmp_path):
    trace = kineto.read(real_data / TRACE, rank=0)
    report = tmp_path / "rank0_dp0_tp0_pp0.same.nsys-rep"
    with closing(sqlite3.connect(report)) as connection, connection:
        written(connection, {name: table.to_pandas() for name, table in trace.tables.items()})
    raw = Raw(path=report, label="rank0_dp0_tp0_pp0", rank=0, repeat=0)
    both = [trace.tables, convert.run(raw, tmp_path).tables]
    for name in COMPARED:
        ours, theirs = (numbers(name, tables) for tables in both)
        # Nsight Systems estimates no occupancy.
        assert set(ours) - set(theirs) <= {"occupancy_percent"}
        assert {metric: ours[metric] for metric in theirs} == theirs
        assert theirs


def numbers(name, tables):
    """Return the metrics of an analysis of `tables`, with nanoseconds of a shared clock."""
    analysis = analyses()[name]
    given = {table: tables[table].to_pandas() for table in analysis.tables}
    settings = analysis.config(
        **({"skip_first": 0} if hasattr(analysis.config(), "skip_first") else {})
    )
    given |= dict.fromkeys(analysis.results, Result())
    given |= {"hardware": Hardware(name="x")} if "hardware" in analysis.run_parameters else {}
    result = analysis.run(**given, config=settings)
    return {name: pytest.approx(metric.value, rel=1e-9) for name, metric in result.metrics.items()}


def written(connection, tables):
    """Write the rows of PyTorch's trace as Nsight Systems would have exported them."""
    texts = {}

    def text(value):
        return texts.setdefault(str(value), len(texts) + 1)

    def thread(tid):
        return (1 << 48) | (PID << 24) | (int(tid) & 0xFFFFFF)

    def put(table, columns, rows):
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns.split())})")
        marks = ",".join("?" * len(columns.split()))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", list(rows))  # noqa: S608

    device = "start end deviceId streamId correlationId globalPid"
    groups = dict(iter(tables["kernels"].astype({"kind": "object"}).groupby("kind")))
    common = ("start_ns", "end_ns", "device", "stream", "correlation")
    kernels = [kernel for kind in ("compute", "communication") if kind in groups
               for kernel in groups[kind].to_dict("records")]  # fmt: skip
    put(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        f"{device} demangledName",
        (
            [*(kernel[name] for name in common), thread(0), text(kernel["name"])]
            for kernel in kernels
        ),
    )
    for kind, table in (("copy", "MEMCPY"), ("set", "MEMSET")):
        rows = groups[kind].to_dict("records") if kind in groups else []
        put(
            f"CUPTI_ACTIVITY_KIND_{table}",
            f"{device} bytes copyKind srcKind dstKind",
            (
                [*(row[name] for name in common), thread(0), row["size_bytes"],
                 COPIES.get(row["copy_kind"], 0), *memory(row["name"])]
                for row in rows
            ),
        )  # fmt: skip
    put("ENUM_CUDA_MEM_KIND", "id label", [(0, "Pageable"), (1, "Pinned"), (2, "Device")])
    put(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "start end globalTid correlationId nameId",
        (
            [call["start_ns"], call["end_ns"], thread(call["tid"]), call["correlation"],
             text(f"{call['name']}_v7000")]
            for call in tables["runtime_calls"].to_dict("records")
        ),
    )  # fmt: skip
    put(
        "NVTX_EVENTS",
        "start end eventType globalTid text",
        (
            [op["start_ns"], op["end_ns"], 59, thread(op["tid"]),
             op["name"] + (", op_id = 1" if op["kind"] == "operator" else "")]
            for op in tables["cpu_ops"].to_dict("records")
        ),
    )  # fmt: skip
    put("StringIds", "id value", [(number, value) for value, number in texts.items()])
    put("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", [(0,)])


def memory(name):
    """Return the numbers of the kinds of memory in ``Memcpy HtoD (Pinned -> Device)``."""
    kinds = name.partition("(")[2].rstrip(")").split(" -> ")
    known = {"Pageable": 0, "Pinned": 1, "Device": 2}
    return [known.get(kind, 9) for kind in kinds][:2] if len(kinds) > 1 else [9, 9]
