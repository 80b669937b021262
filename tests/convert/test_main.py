"""The command: captures in, tables and ``convert.json`` out."""

import json
import subprocess
import sys
from contextlib import nullcontext
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from profkit.convert import __main__ as command
from profkit.convert import produced
from profkit.convert.__main__ import main
from profkit.convert.base import Raw
from profkit.convert.torch_profiler import trace
from profkit.core.errors import ConfigError, InputError
from profkit.core.job_record import read_job, verified
from profkit.tables import schema
from profkit.testing import ResultTree

LABELS = ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]
TRACE = json.dumps(
    [
        {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "dur": dur,
            "args": {},
        }
        for cat, name, ts, dur in [
            ("user_annotation", "ProfilerStep#4", 0, 10),
            ("cpu_op", "aten::mm", 2, 5),
        ]
    ]
)
LATER = TRACE.replace("#4", "#5")


@pytest.fixture
def tree(tmp_path):
    """Return a function that makes a capture, and one that converts all of them."""
    made = ResultTree(tmp_path)
    run = made.folder

    def capture(tool, repeat, files, status="ok"):
        made.capture(tool, files, repeat=repeat, status=status, ranks=LABELS)

    def convert(tool, cores=1, **run_settings):
        captures = sorted((run / f"capture/{tool}").glob("rep*"))
        tables, files = run / f"tables/{tool}", run / f"convert/{tool}"
        arguments = [tool, "--captures", *captures, "--tables", tables, "--files", files]
        arguments += ["--cores", cores, "--run-settings", json.dumps(run_settings)]
        main([str(word) for word in arguments])
        notes = json.loads((tables / "convert.json").read_text())["notes"]
        return {path.stem: pq.read_table(path) for path in tables.glob("*.parquet")}, notes

    return capture, convert, run


def harness_steps(rank):
    return json.dumps({"rank": rank, "steps": [[10, 20, 4, 99], [20, 35, 4, 100]]})


def traces(**named):
    return {f"{LABELS[int(key[1])]}.{key[3:]}.pt.trace.json": text for key, text in named.items()}


def test_a_trace_is_read_as_many_mb_at_a_time_as_are_asked_for(tree, monkeypatch):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE))
    asked, read = [], trace.read

    def watched(path, *, block_bytes, **rest):
        asked.append(block_bytes)
        return read(path, block_bytes=block_bytes, **rest)

    monkeypatch.setattr(trace, "read", watched)
    convert("torch_profiler", trace_block_mb=3)
    assert asked == [3 << 20]


@pytest.mark.parametrize("size", [0, -1, "x"])
def test_a_size_of_blocks_that_is_none_is_refused(tree, size):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE))
    with pytest.raises(ConfigError, match="trace_block_mb"):
        convert("torch_profiler", trace_block_mb=size)


@pytest.mark.parametrize("cores", [1, 2])
def test_files_of_one_rank_are_joined_with_operators_of_their_own(tree, cores):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r0_2=LATER, r1_1=TRACE))
    capture("torch_profiler", 1, traces(r0_1=TRACE, r1_1=TRACE))
    tables, notes = convert("torch_profiler", cores)
    assert notes == []
    assert set(tables) == set(produced("torch_profiler"))
    columns = ("rank", "repeat", "op", "parent", "name")
    rows = tables["cpu_ops"].select(columns).to_pydict().values()
    step, mm = "ProfilerStep#4", "aten::mm"
    assert list(zip(*rows, strict=True)) == [
        (0, 0, 0, -1, step),
        (0, 0, 1, 0, mm),
        (0, 0, 2, -1, "ProfilerStep#5"),
        (0, 0, 3, 2, mm),
        (1, 0, 0, -1, step),
        (1, 0, 1, 0, mm),
        (0, 1, 0, -1, step),
        (0, 1, 1, 0, mm),
        (1, 1, 0, -1, step),
        (1, 1, 1, 0, mm),
    ]
    assert tables["annotations"].column("op").to_pylist() == [0, 2, 0, 0, 0]
    for name, table in tables.items():
        assert table.schema.equals(schema.TABLES[name]), name


def test_where_ranks_ran_is_a_table_of_every_tool(tree):
    capture, convert, run = tree
    capture("baseline", 0, {f"{LABELS[rank]}.steps.json": harness_steps(rank) for rank in (0, 1)})
    path = run / "capture/baseline/rep0/capture.json"
    place = {"label": "rank1_dp0_tp1_pp2", "hostname": "n1", "node": 1, "local_rank": 0, "ep": 3}
    about = {"places": [place], "ranks_named_by": ["Megatron"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | about))
    tables, _ = convert("baseline")
    assert tables["hosts"].to_pylist() == [
        {"rank": 1, "repeat": 0, "host": "n1", "node": 1, "local_rank": 0}
        | {"dp": 0, "tp": 1, "pp": 2, "ep": 3}
    ]


def test_a_tool_without_a_converter_gives_the_steps_of_the_harness(tree):
    capture, convert, run = tree
    capture("baseline", 0, {f"{LABELS[rank]}.steps.json": harness_steps(rank) for rank in (1, 0)})
    tables, notes = convert("baseline")
    assert notes == []
    assert (run / "convert/baseline").is_dir()
    assert list(tables) == ["hosts", "steps"]
    assert [tuple(row.values()) for row in tables["steps"].to_pylist()] == [
        (0, 0, 0, 10, 20, 4, 99),
        (0, 0, 1, 20, 35, 4, 100),
        (1, 0, 0, 10, 20, 4, 99),
        (1, 0, 1, 20, 35, 4, 100),
    ]


def test_a_failed_capture_gives_no_rows_but_every_table(tree):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE), status="oom")
    tables, notes = convert("torch_profiler")
    assert {name: len(table) for name, table in tables.items()} == dict.fromkeys(
        produced("torch_profiler"), 0
    )
    text = "The capture gives no rows: oom: made to be oom"
    assert notes == [{"file": "rep0/capture.json", "text": text}]


def test_what_cannot_be_read_is_noted_when_the_rest_can(tree):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r0_2="", r0_3=LATER[:-30]))
    tables, notes = convert("torch_profiler")
    assert tables["cpu_ops"].column("op").to_pylist() == [0, 1, 2]
    assert [(note["file"], note["text"].partition(",")[0]) for note in notes] == [
        (
            "rep0/capture.json",
            "No file of rank1_dp1_tp0_pp0 matches rank*.pt.trace.json*: this rank gives no rows.",
        ),
        (f"rep0/{LABELS[0]}.2.pt.trace.json", notes[1]["text"].partition(",")[0]),
        (f"rep0/{LABELS[0]}.3.pt.trace.json", notes[2]["text"].partition(",")[0]),
        (f"rep0/{LABELS[0]}.3.pt.trace.json", notes[3]["text"].partition(",")[0]),
    ]
    assert "the file is empty" in notes[1]["text"]
    assert notes[2]["text"].startswith("The trace is cut off at byte")


def test_nothing_readable_is_an_error_that_leaves_no_table(tree):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1="", r1_1="{}"))
    with pytest.raises(InputError, match="none of the 2 files of torch_profiler could be read"):
        convert("torch_profiler")
    assert list((run / "tables/torch_profiler").iterdir()) == []


def test_the_only_file_is_not_counted_where_it_cannot_be_read(tree):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1="{}"))
    with pytest.raises(InputError, match=r"^/.*\.json: JSON without `traceEvents`"):
        convert("torch_profiler")


def test_a_capture_without_a_record_is_an_error(tree):
    _, convert, run = tree
    (run / "capture/baseline/rep0").mkdir(parents=True)
    with pytest.raises(InputError, match=r"capture\.json: missing"):
        convert("baseline")


def test_damaged_steps_of_the_harness_are_noted(tree):
    capture, convert, _ = tree
    capture("baseline", 0, {f"{LABELS[0]}.steps.json": '{"rank": 0, "steps": [[1'})
    tables, notes = convert("baseline")
    assert len(tables["steps"]) == 0
    assert [note["file"] for note in notes] == [f"rep0/{LABELS[0]}.steps.json"]


def test_every_tool_has_steps():
    assert produced("baseline") == ("steps", "hosts")
    assert produced("py_spy") == ("steps", "sampled_stacks", "hosts")
    assert produced("torch_profiler")[:2] == ("steps", "cpu_ops")


def record_of(run, tool="torch_profiler"):
    return json.loads((run / f"tables/{tool}/convert.json").read_bytes())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.unlink(), "is gone"),
        (lambda path: path.write_text(TRACE[:-1]), "instead of"),
        (lambda path: path.write_text(TRACE.replace("aten::mm", "aten::mv")), "SHA-256"),
    ],
    ids=["deleted", "truncated", "edited"],
)
@pytest.mark.parametrize("cores", [1, 2])
def test_a_captured_file_that_has_changed_is_named_and_gives_no_rows(tree, change, text, cores):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r1_1=TRACE))
    change(run / f"capture/torch_profiler/rep0/{LABELS[0]}.1.pt.trace.json")
    tables, notes = convert("torch_profiler", cores)
    assert set(tables["cpu_ops"]["rank"].to_pylist()) == {1}
    record = record_of(run)
    assert record["status"] == "damaged"
    assert f"{LABELS[0]}.1.pt.trace.json" in record["reason"]
    assert text in record["reason"]
    assert "to capture again" in record["reason"]
    assert LABELS[0] in " ".join(note["file"] + note["text"] for note in notes)


def test_the_only_file_that_has_changed_since_it_was_captured_is_named(tree):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE))
    path = run / f"capture/torch_profiler/rep0/{LABELS[0]}.1.pt.trace.json"
    path.write_text(TRACE.replace("mm", "nn"))
    with pytest.raises(InputError, match=rf"^{path} is damaged or was edited"):
        convert("torch_profiler")


def test_steps_that_have_changed_since_they_were_captured_give_no_rows(tree):
    capture, convert, run = tree
    capture("baseline", 0, {f"{LABELS[rank]}.steps.json": harness_steps(rank) for rank in (0, 1)})
    path = run / f"capture/baseline/rep0/{LABELS[0]}.steps.json"
    path.write_text(path.read_text().replace("35", "95"))
    tables, notes = convert("baseline")
    assert set(tables["steps"]["rank"].to_pylist()) == {1}
    assert [note["file"] for note in notes] == [f"rep0/{LABELS[0]}.steps.json"]
    assert record_of(run, "baseline")["status"] == "damaged"


def test_a_log_that_was_edited_is_no_damage(tree):
    capture, convert, run = tree
    files = {"capture.log": "x", f"{LABELS[0]}.steps.json": harness_steps(0)}
    capture("baseline", 0, files)
    (run / "capture/baseline/rep0/capture.log").unlink()
    convert("baseline")
    assert record_of(run, "baseline")["status"] == "ok"


@pytest.mark.parametrize("bad", ["", "{}", '{"traceEvents": 5}', "[[1, 2]]", "\x00"])
def test_one_bad_file_is_named_and_the_others_are_converted(tree, bad):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r1_1=bad))
    tables, _ = convert("torch_profiler")
    assert set(tables["cpu_ops"]["rank"].to_pylist()) == {0}
    record = record_of(run)
    assert record["status"] == "partial"
    assert record["reason"].startswith("1 of 2 files could not be read: rep0/")


def test_a_file_that_breaks_its_converter_is_named_and_the_others_are_converted(
    tree, monkeypatch, capsys
):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r1_1=LATER))
    read = trace.read

    def breaking(path, **rest):
        return read(path, **rest) if LABELS[0] in path.name else TRACE.index("absent")

    monkeypatch.setattr(trace, "read", breaking)
    tables, _ = convert("torch_profiler")
    assert set(tables["cpu_ops"]["rank"].to_pylist()) == {0}
    assert ".pt.trace.json: ValueError('substring not found')" in record_of(run)["reason"]
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_what_the_machine_lacks_is_not_the_fault_of_a_file(tree, monkeypatch, error):
    capture, convert, _ = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE, r1_1=LATER))

    monkeypatch.setattr(trace, "read", Mock(side_effect=error))
    with pytest.raises(type(error)):
        convert("torch_profiler")


def test_the_record_names_the_kinds_of_gpus_that_the_files_describe(tree):
    capture, convert, run = tree
    kinds = [{"id": 0, "name": "B200"}, {"id": 1, "name": "A100"}, {"id": 2, "name": "B200"}]
    events = json.loads(TRACE)
    described = [{"deviceProperties": own, "traceEvents": events} for own in (kinds[:1], kinds)]
    texts = zip(LABELS, map(json.dumps, described), strict=True)
    files = {f"{label}.a.pt.trace.json": text for label, text in texts}
    capture("torch_profiler", 0, files)
    convert("torch_profiler")
    record = json.loads((run / "tables/torch_profiler/convert.json").read_bytes())
    assert record["gpus"] == ["B200", "A100"]


def test_every_table_has_its_checksum_in_the_record(tree):
    capture, convert, run = tree
    capture("torch_profiler", 0, traces(r0_1=TRACE))
    tables, _ = convert("torch_profiler")
    record = run / "tables/torch_profiler/convert.json"
    made = read_job(record)
    assert set(made.tables) == set(tables) == set(produced("torch_profiler"))
    assert (made.attempt, made.status) == (1, "ok")
    for path in record.parent.glob("*.parquet"):
        assert verified(path) == made.tables[path.stem].sha256


@pytest.mark.parametrize(
    ("sizes", "cores", "count"),
    [
        ((70 << 20,), 2, 1),
        ((70 << 20,), 1, 0),
        ((40 << 20,), 2, 0),
        ((1, 1, 1), 2, 2),
        ((1, 1, 1), 8, 3),
        ((1, 1, 1), 1, 0),
        ((), 2, 0),
    ],
)
def test_several_files_and_a_large_one_have_helpers(sizes, cores, count, tmp_path, monkeypatch):
    def started(number, module):
        asked.append((number, module))
        return nullcontext("helpers")

    asked: list[tuple[int, str]] = []
    raws = []
    for rank, size in enumerate(sizes):
        path = tmp_path / f"rank{rank}.sqlite"
        with path.open("wb") as file:
            file.truncate(size)
        raws.append(Raw(path=path, label=f"rank{rank}", rank=rank, repeat=0))
    monkeypatch.setattr(command.helpers, "started", started)
    with command._helping("nsys", raws, cores) as pool:
        assert pool == ("helpers" if count else None)
    assert asked == ([(count, "profkit.convert.nsys")] if count else [])


def test_converters_load_no_pandas():
    code = (
        "import sys, profkit.convert.__main__; from profkit.convert import converters;"
        "converters(); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
