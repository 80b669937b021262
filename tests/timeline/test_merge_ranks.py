"""The timeline of all ranks: the events keep to the format, and other readers take them."""

import gzip
import json
import re
import tarfile
from collections import Counter

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit import cli
from profkit.cli.timeline import main
from profkit.convert.torch_profiler import trace as kineto
from profkit.core import progress_events
from profkit.core.errors import InputError
from profkit.tables import schema
from profkit.tables.schema import frame
from profkit.timeline.longest_rows import RowsOfRun
from profkit.timeline.merge_ranks import TABLES, few_steps, timeline

NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "pid", "ts", "args"},
    **{ph: {"name", "cat", "id", "pid", "tid", "ts"} for ph in "sfbe"},
}


def broken(events):
    """Return what the document of the trace event format says against `events`."""
    found = []
    for event in events:
        if missing := NEEDED[event["ph"]] - set(event):
            found.append(f"{event} lacks {missing}")
        if event.get("dur", 0) < 0 or not isinstance(event["pid"], int):
            found.append(f"{event} has an impossible value")
    for begin, end in ("sf", "be"):
        begins, ends = (
            {(event["cat"], event["id"]): event for event in events if event["ph"] == ph}
            for ph in (begin, end)
        )
        found += [f"{key} has one end only" for key in set(begins) ^ set(ends)]
    slices = {(event["pid"], event["tid"], event["ts"]) for event in events if event["ph"] in "Xb"}
    arrows = (arrow for arrow in events if arrow["ph"] in "sf")
    found += [
        f"{arrow} points at nothing"
        for arrow in arrows
        if (arrow["pid"], arrow["tid"], arrow["ts"]) not in slices
    ]
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    found += [f"process {pid} has no name" for pid in {event["pid"] for event in events} - named]
    return found + list(_not_nested(events))


def _not_nested(events):
    """Yield slices that end after the slice around them: viewers drop those."""
    open_until = {}
    slices = [event for event in events if event["ph"] == "X"]
    for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
        stack = open_until.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1] <= event["ts"] + 1e-4:
            stack.pop()
        end = event["ts"] + event["dur"]
        if stack and end > stack[-1] + 1e-4:
            yield f"{event} outlives the slice around it"
        stack.append(end)


def joined(paths):
    """Return the tables of several ranks as those of one run."""
    ranks = [kineto.read(path, rank=rank).tables for rank, path in enumerate(paths)]
    return {
        name: pd.concat(
            [tables_of_rank[name].to_pandas() for tables_of_rank in ranks], ignore_index=True
        )
        for name in (*TABLES, "python_calls")
    }


@pytest.fixture(scope="module")
def dlrm(real_data):
    """Return the tables of two of eight ranks on V100."""
    paths = sorted((real_data / "kineto/dlrm_8rank_v100").glob("worker[01]_*"))
    return joined(paths)


def written(tables, folder):
    """Write tables as files, from which a timeline is drawn."""
    files = {name: folder / f"{name}.parquet" for name in tables}
    for name, rows in tables.items():
        table = pa.Table.from_pandas(rows, schema.TABLES[name], preserve_index=False)
        pq.write_table(table, files[name])
    return RowsOfRun(files=files)


@pytest.fixture(scope="module")
def recorded(dlrm, tmp_path_factory):
    tables = {name: dlrm[name] for name in TABLES}
    return written(tables, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def drawn(recorded):
    labels = {0: "rank 0 (dp0)", 1: "rank 1 (dp1)"}
    steps = few_steps(recorded, 3, 3)
    return timeline(recorded, steps=steps, labels=labels, max_events=100_000)


def test_events_keep_to_the_format(drawn):
    assert broken(drawn.events) == []


def test_ranks_and_devices_have_readable_names(drawn):
    names = [event["args"]["name"] for event in drawn.events if event["name"] == "process_name"]
    assert names == [
        *("rank 0 (dp0)", "rank 0 (dp0), device 0"),
        *("rank 1 (dp1)", "rank 1 (dp1), device 1"),
    ]


def test_every_row_of_the_steps_is_drawn(drawn, dlrm):
    drawn_as = Counter(event["cat"] for event in drawn.events if event["ph"] == "X")
    kernels = dlrm["kernels"][dlrm["kernels"]["step"] == 10]
    work = kernels["kind"].isin(["compute", "communication"]).sum()
    assert drawn.steps == (10,)
    assert drawn_as["kernel"] == work > 0
    arrows = Counter(event["cat"] for event in drawn.events if event["ph"] == "s")
    assert arrows["ac2g"] == len(kernels)


def ahead(tables, rank, ns):
    """Return `tables` as if the clock of one rank were `ns` ahead."""
    moved = {}
    for name, rows in tables.items():
        times = [
            column for column in ("start_ns", "end_ns", "time_ns", "call_ns") if column in rows
        ]
        more = (rows["rank"] == rank) * ns
        moved[name] = rows.assign(**{column: rows[column] + more for column in times})
    return moved


def test_a_clock_that_is_ahead_is_moved_until_ends_of_collectives_agree(dlrm, tmp_path):
    # The clocks of these ranks agree as they are, so one is put 5 ms ahead.
    rows = written(ahead(dlrm, 1, 5_000_000), tmp_path)
    found = timeline(rows, steps=[10], labels={}, max_events=100_000)
    ends = {}
    for event in found.events:
        if event["ph"] == "X" and event["args"].get("collective") == "alltoall":
            ends.setdefault(event["pid"], []).append(event["ts"] + event["dur"])
    first, second = ends.values()
    apart = [abs(one - other) for one, other in zip(first, second, strict=True)]
    assert sorted(apart)[len(apart) // 2] < 100  # us, of 5000
    moved = re.search(r"moved by up to (\d+\.\d) us; ends of collectives", found.notes[0])
    assert float(moved[1]) == pytest.approx(5000, abs=10)


def test_the_parser_of_hta_reads_it(drawn, tmp_path):
    from hta.common.trace import parse_trace_file

    path = tmp_path / "timeline.json.gz"
    path.write_bytes(gzip.compress(b"".join(drawn.document())))
    _, read, names = parse_trace_file(str(path))
    table = names.get_sym_table()
    categories = Counter(table[category] for category in read["cat"])
    expected = Counter(event["cat"] for event in drawn.events if event["ph"] == "X")
    assert {name: categories[name] for name in ("kernel", "cpu_op", "cuda_runtime")} == {
        name: expected[name] for name in ("kernel", "cpu_op", "cuda_runtime")
    }


def test_profkit_reads_its_own_timeline(drawn, tmp_path):
    path = tmp_path / "timeline.json.gz"
    path.write_bytes(gzip.compress(b"".join(drawn.document())))
    trace = kineto.read(path)
    spans = Counter(event["cat"] for event in drawn.events if event["ph"] == "X")
    assert len(trace.tables["runtime_calls"]) == spans["cuda_runtime"]
    assert trace.notes == ()
    first = min(trace.tables["cpu_ops"]["start_ns"].to_pylist())
    assert first == drawn.base_ns


def test_read_again_kernels_have_the_times_they_had(drawn, dlrm, tmp_path):
    path = tmp_path / "timeline.json"
    path.write_bytes(b"".join(drawn.document()))
    again = kineto.read(path).tables["kernels"].to_pandas()
    before = dlrm["kernels"][dlrm["kernels"]["step"] == 10].copy()
    for rows in (again, before):
        rows["ns"] = rows["end_ns"] - rows["start_ns"]
    keys = ["device", "stream", "name"]
    totals = [
        rows.astype({"name": str}).groupby(keys)["ns"].agg(["sum", "count"])
        for rows in (again, before)
    ]
    pd.testing.assert_frame_equal(*totals)
    assert len(again) == len(before) > 0


def test_no_two_ranks_share_the_id_of_a_launch(drawn, dlrm, tmp_path):
    path = tmp_path / "timeline.json"
    path.write_bytes(b"".join(drawn.document()))
    tables = kineto.read(path).tables
    calls, work = (tables[name].to_pandas() for name in ("runtime_calls", "kernels"))
    assert calls[calls["correlation"] > 0]["correlation"].is_unique
    launched = work.merge(calls, on="correlation", suffixes=("", "_call"))
    assert (launched["start_ns"] >= launched["start_ns_call"]).all()
    drawn_before = dlrm["kernels"]["step"] == 10
    assert len(launched) == (drawn_before & (dlrm["kernels"]["correlation"] > 0)).sum() > 0


def test_ranges_that_do_not_nest_are_drawn_beside_the_thread(tmp_path):
    where = {"rank": 0, "repeat": 0, "step": 0, "tid": 1, "kind": "annotation"}
    rows = [
        where | {"op": 0, "parent": -1, "name": "step", "start_ns": 0, "end_ns": 100},
        where | {"op": 1, "parent": 0, "name": "gloo:all_reduce", "start_ns": 10, "end_ns": 900},
    ]
    tables = {name: frame(name) for name in TABLES} | {"cpu_ops": frame("cpu_ops", rows)}
    drawn = timeline(written(tables, tmp_path), steps=[0], labels={}, max_events=10)
    events = drawn.events
    assert broken(events) == []
    assert [
        (event["ph"], event["name"], event["ts"]) for event in events if event["ph"] in "Xbe"
    ] == [
        ("X", "step", 0.0),
        ("b", "gloo:all_reduce", 0.01),
        ("e", "gloo:all_reduce", 0.9),
    ]


def test_what_is_too_much_for_a_browser_is_left_out_and_counted(recorded):
    found = timeline(recorded, steps=[10], labels={}, max_events=1000)
    drawn = sum(event["ph"] in "XC" for event in found.events)
    assert drawn <= 1000
    assert any("the shortest, were left out" in note for note in found.notes)
    whole = timeline(recorded, steps=[10], labels={}, max_events=100_000)
    ends = [
        max(event["ts"] + event["dur"] for event in one.events if event["ph"] == "X")
        for one in (found, whole)
    ]
    assert ends[0] == pytest.approx(ends[1], rel=0.05)


@pytest.fixture
def run(dlrm, tmp_path, monkeypatch):
    """Lay the tables into a result tree."""
    folder = tmp_path / "results/runs/mine"
    (folder / "tables/torch_profiler").mkdir(parents=True)
    written(dlrm, folder / "tables/torch_profiler")
    (folder / "capture/torch_profiler/rep0").mkdir(parents=True)
    record = {"ranks": ["rank0_dp0_tp0_pp0", "rank1_dp0_tp1_pp0"]}
    (folder / "capture/torch_profiler/rep0/capture.json").write_text(json.dumps(record))
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_command_writes_the_chosen_steps(run, capsys):
    main(["mine", "--steps", "9-10", "--python"])
    trace = json.loads(gzip.decompress((run / "timeline.json.gz").read_bytes()))
    assert trace["otherData"]["steps"] == [9, 10]
    assert broken(trace["traceEvents"]) == []
    names = {event["args"].get("name") for event in trace["traceEvents"] if event["ph"] == "M"}
    assert "rank 1 (dp0 tp1 pp0)" in names
    assert "open it at" in capsys.readouterr().err


def test_an_archive_has_each_rank_on_its_own_clock_and_says_how_they_differ(run, dlrm):
    written(ahead(dlrm, 1, 5_000_000), run / "tables/torch_profiler")
    main(["mine", "--steps", "10", "--out", "mine.tar"])
    with tarfile.open("mine.tar") as tar:
        files = {name: json.load(tar.extractfile(name)) for name in tar.getnames()}
    manifest = files.pop("perfetto_manifest.json")["perfetto_manifest"]
    assert manifest["version"] == 1
    first, second = manifest["files"]
    assert first == {"path": "rank0.json", "machine": {"name": "rank 0"}}
    assert second["clocks"]["sync_to"] == {"file": "rank0.json"}
    assert second["clocks"]["offset_ns"] == pytest.approx(-5_000_000, abs=100_000)
    assert manifest["attributes"]["profkit.run"] == "mine"
    for rank, path in enumerate(["rank0.json", "rank1.json"]):
        events = files[path]["traceEvents"]
        assert broken(events) == []
        # No event may lie before the beginning once it is moved: Perfetto drops those.
        moved = manifest["files"][rank].get("clocks", {}).get("offset_ns", 0) / 1000
        assert min(event["ts"] + moved for event in events if event["ph"] == "X") >= 0
    names = {event["args"].get("name") for event in events if event["ph"] == "M"}
    assert "rank 1 (dp0 tp1 pp0)" in names


def test_ranks_of_imported_files_are_named_by_number_alone(run):
    path = run / "capture/torch_profiler/rep0/capture.json"
    record = json.loads(path.read_text()) | {"workload": {"imported": "trace"}}
    path.write_text(json.dumps(record))
    main(["mine"])
    trace = json.loads(gzip.decompress((run / "timeline.json.gz").read_bytes()))
    names = {event["args"].get("name") for event in trace["traceEvents"] if event["ph"] == "M"}
    assert {"rank 0", "rank 1"} <= names


@pytest.mark.usefixtures("run")
def test_whoever_watches_hears_of_it(tmp_path, monkeypatch):
    heard = tmp_path / "events.jsonl"
    monkeypatch.setenv(progress_events.VARIABLE, str(heard))
    main(["mine"])
    emitted = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [event["event"] for event in emitted] == ["started", "finished"]
    assert all((event["stage"], event["run"]) == ("timeline", "mine") for event in emitted)


def test_a_run_is_found_by_how_its_name_begins_or_by_its_folder(run, capsys):
    assert cli.main(["timeline", "mi"]) == 0
    made = (run / "timeline.json.gz").read_bytes()
    (run / "timeline.json.gz").unlink()
    assert cli.main(["timeline", str(run)]) == 0
    assert (run / "timeline.json.gz").read_bytes() == made
    (run.parent / "mist").mkdir()
    assert cli.main(["timeline", "mi"]) == 1
    assert "2 runs have names that begin with 'mi'\n  hint: mine, mist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["other"], "no run or file is called 'other'"),
        (["mine", "--tool", "nsys"], r"no such table\n  hint: tools with tables: torch_profiler"),
        (["mine", "--steps", "77"], "nothing was recorded in steps 77"),
        (["mine", "--steps", "x"], "not a step or a range"),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_cannot_be_drawn_is_said(arguments, says):
    with pytest.raises(InputError, match=says):
        main(arguments)
