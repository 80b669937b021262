"""Traces that a user brings along."""

import gzip
import json
import os
import pickle
import re
import shutil
from dataclasses import replace
from multiprocessing import forkserver

import pyarrow.parquet as pq
import pytest

from profkit.cli import main
from profkit.cli import run as runs
from profkit.convert.__main__ import convert
from profkit.core.capture_record import imported_files, untouched_files
from profkit.core.checksums import sha256
from profkit.core.errors import ConfigError, InputError
from profkit.planning import imported_runs
from profkit.planning.imported import RUNS, imported
from profkit.planning.imported_runs import add_run, find, import_kinds

TOOL, KIND = import_kinds()["trace"]


@pytest.fixture(autouse=True)
def no_fork_server(monkeypatch):
    """Forget a fork server of this process: a fork of it, in which jobs run, cannot wait for it."""
    monkeypatch.setattr(forkserver._forkserver, "_forkserver_pid", None)


def trace(rank=None):
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank}}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    return json.dumps({"schemaVersion": 1, **info, "traceEvents": [event]})


def ranks(paths):
    return {file.path.name: (file.rank, file.guessed) for file in find(paths, KIND)}


def test_the_rank_comes_from_the_content_then_the_name_then_what_is_free(tmp_path):
    (tmp_path / "rank7.json").write_text(trace(rank=0))
    (tmp_path / "worker2.json").write_text(trace())
    (tmp_path / "other.json").write_text(trace())
    with gzip.open(tmp_path / "packed.json.gz", "wt") as file:
        file.write(trace(rank=3))
    assert ranks([tmp_path]) == {
        "rank7.json": (0, False),
        "worker2.json": (2, False),
        "other.json": (1, True),
        "packed.json.gz": (3, False),
    }


def test_the_hosts_that_traces_state_become_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        stated = json.loads(trace(rank=rank)) | {"host_name": f"n{rank}"}
        (tmp_path / f"{rank}.json").write_text(json.dumps(stated))
    run = add_run(find([tmp_path], KIND), TOOL, KIND, name="two", command="")
    capture = RUNS / run / "capture" / TOOL / "rep0"
    convert(TOOL, [capture], tmp_path / "tables", tmp_path / "files")
    hosts = pq.read_table(tmp_path / "tables/hosts.parquet").to_pylist()
    assert [(row["rank"], row["host"], row["node"], row["dp"]) for row in hosts] == [
        (0, "n0", -1, -1),
        (1, "n1", -1, -1),
    ]


@pytest.mark.parametrize(
    ("name", "header", "host"),
    [
        ("n1_777.1764457406366893987.pt.trace.json", {}, "n1"),
        ("rank0.json", {"traceName": "./log/a/n1_777.176445740636.pt.trace.json"}, "n1"),
        ("worker0_step_12.1694128201545.pt.trace.json", {}, ""),
        ("n1_778.1764457406366893987.pt.trace.json", {}, ""),
        ("n1_777.1764457406366893987.pt.trace.json", {"host_name": "n2"}, "n2"),
    ],
    ids=["its name", "its first name", "no process", "another process", "stated"],
)
def test_the_host_of_a_trace_is_in_the_name_that_has_its_process(tmp_path, name, header, host):
    row = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 777, "tid": 1, "ts": 1, "dur": 2}
    (tmp_path / name).write_text(json.dumps({"traceEvents": [row]} | header))
    assert KIND.recorded(tmp_path / name).host == host


def test_imported_files_lack_no_steps_of_a_harness(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "a.csv"
    page.write_text(
        '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","ns"\n'
        '"0","1","gemm","2000"\n'
    )
    tool, kind = import_kinds()["ncu"]
    run = add_run(find([page], kind), tool, kind, name="one", command="")
    convert(tool, [RUNS / run / "capture" / tool / "rep0"], tmp_path / "tables", tmp_path / "files")
    assert json.loads((tmp_path / "tables/convert.json").read_bytes())["notes"] == []


def test_files_of_unlike_names_without_a_rank_may_be_of_several_runs(tmp_path):
    _, kind = import_kinds()["snapshot"]

    def said(*names):
        files = [tmp_path / name for name in names]
        for file in files:
            file.write_bytes(b"\x80\x04N.")
        return [file.unlike for file in find(files, kind)]

    assert said("dump9.pickle", "dump10.pickle") == ["", ""]
    assert said("rank0_before.pickle", "rank1_after.pickle") == ["", ""]
    first, *others = said("before.pickle", "after.pickle", "later.pickle")
    assert first.startswith("taken for a rank of one run together with 2 other files")
    assert others == ["", ""]


def test_ranks_are_guessed_in_the_order_of_the_numbers_in_names(tmp_path):
    for name in ("report.10.json", "report.9.json", "report.json"):
        (tmp_path / name).write_text(trace())
    guessed = {name: rank for name, (rank, _) in ranks([tmp_path]).items()}
    assert guessed == {"report.9.json": 0, "report.10.json": 1, "report.json": 2}


@pytest.mark.parametrize("given", ["a folder", "files"])
def test_a_report_beside_what_it_was_exported_to_comes_in_once(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    names = ["report1.nsys-rep", "report1.sqlite", "report2.nsys-rep"]
    files = [tmp_path / "reports" / name for name in names]
    files[0].parent.mkdir()
    for at, file in enumerate(files):
        file.write_text(file.name)
        os.utime(file, (at, at))
    tool, kind = import_kinds()["nsys"]
    found = find([tmp_path / "reports"] if given == "a folder" else files, kind)
    assert [(file.path.name, file.rank) for file in found] == [
        ("report1.sqlite", 0),
        ("report2.nsys-rep", 1),
    ]
    run = add_run(found, tool, kind, name="x", command="c")
    record = json.loads(next((tmp_path / "results/runs" / run).rglob("capture.json")).read_text())
    warning = (
        "report1.nsys-rep: left out, as report1.sqlite is newer and differs in its ending only"
    )
    assert warning in record["warnings"]


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["{trace}"], "trace"),
        (["snapshot", "{trace}"], "trace"),
        (["trace", "{snapshot}"], "snapshot"),
        (["nsys", "{ncu}"], "ncu"),
        (["ncu", "{nsys}"], "nsys"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_for_it(tmp_path, capsys, words, word):
    files = {kind: tmp_path / f"a file.{kind}" for kind in import_kinds()}
    files["trace"].write_text(trace())
    files["snapshot"].write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    files["nsys"].write_bytes(b"SQLite format 3\0" + bytes(84))
    files["ncu"].write_bytes(b"NVR\0" + bytes(96))
    assert main(["import", *(text.format(**files) for text in words)]) == 1
    assert f"hint: profkit import {word} '{files[word]}'\n" in capsys.readouterr().err


def test_a_file_of_no_kind_is_refused_by_the_kind_that_was_named(tmp_path, capsys):
    (tmp_path / "train.py").write_text("import torch")
    assert main(["import", "trace", str(tmp_path / "train.py")]) == 1
    assert "neither JSON nor gzip" in capsys.readouterr().err


def test_no_file_of_another_name_or_kind_takes_the_place_of_a_trace(tmp_path):
    (tmp_path / "a.pt.trace.json").write_text(trace(rank=0))
    (tmp_path / "a.json").write_text(trace(rank=1))
    (tmp_path / "b.json").write_text(trace(rank=2))
    (tmp_path / "b.json.gz").write_bytes(b"no trace")
    os.utime(tmp_path / "b.json", (1, 1))
    assert ranks([tmp_path]) == {
        "a.pt.trace.json": (0, False),
        "a.json": (1, False),
        "b.json": (2, False),
    }


def test_the_same_files_are_the_same_run_under_labelled_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(trace(rank=1))
    found = find([tmp_path / "mine.json"], KIND)
    first = add_run(found, TOOL, KIND, name="my run!", command="c")
    assert add_run(found, TOOL, KIND, name="my run!", command="c") == first
    assert first.startswith("my-run-")
    (file,) = (tmp_path / "results/runs" / first).glob("capture/torch_profiler/rep0/rank1_*")
    assert file.name.startswith("rank1_dp1_tp0_pp0.mine.")
    assert file.name.endswith(".pt.trace.json")
    assert imported(first)[0] == "torch_profiler"


def test_what_was_imported_before_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(trace(rank=1))
    found = find([tmp_path / "mine.json"], KIND)
    record = RUNS / add_run(found, TOOL, KIND, name="mine", command="c")
    record /= f"capture/{TOOL}/rep0/capture.json"
    made = record.stat().st_mtime_ns
    add_run(found, TOOL, KIND, name="mine", command="another")
    assert record.stat().st_mtime_ns == made
    beside = [replace(found[0], left_out=("b.json: left out",))]
    add_run(beside, TOOL, KIND, name="mine", command="c")
    assert "b.json: left out" in record.read_text()
    [placed] = record.parent.glob("rank*")
    placed.write_text("spoilt")
    add_run(beside, TOOL, KIND, name="mine", command="c")
    assert placed.read_text() == trace(rank=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "an empty file"), (b"\x80\x04K\x01.", "a Python pickle"), (b"hello", "neither JSON")],
)
def test_what_is_no_trace_is_named(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        find([path], KIND)


def test_mistakes_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        find([tmp_path / "absent"], KIND)
    with pytest.raises(InputError, match="holds no trace"):
        find([tmp_path], KIND)
    with pytest.raises(ConfigError, match="no run named 'nothing'"):
        imported("nothing")
    assert main(["import", "trac", "x"]) == 1
    assert "did you mean 'trace'" in capsys.readouterr().err


def test_eight_ranks_come_in_with_one_command(real_data, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    # Some of the analyses; test_real_traces.py has them all.
    few = "analysis=[collectives,kernels,stragglers]"
    assert main(["import", "trace", str(real_data / "kineto/dlrm_8rank_v100"), few]) == 0
    assert "8 files of 8 ranks" in capfd.readouterr().err
    page = (tmp_path / "results/report.html").read_text()
    assert "dlrm_8rank_v100" in page
    analysed = {path.stem for path in tmp_path.glob("results/runs/*/analyze/*.json")}
    assert analysed == {"collectives", "kernels", "stragglers"}


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        (["a.json"], []),
        (["a.json", "warmup_steps=1", "~analyses.hta"], ["warmup_steps=1", "~analyses.hta"]),
        (["+analysis=x", "a.json", "--name", "n"], ["+analysis=x"]),
        (["lr=0.1.json", "a.json"], []),
    ],
    ids=["none", "after", "before", "a file whose name looks like one"],
)
def test_overrides_beside_the_paths_go_to_the_run(words, passed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "lr=0.1.json"):
        (tmp_path / name).write_text(trace())
    given = []
    monkeypatch.setattr(runs, "main", lambda overrides: given.extend(overrides) or 0)
    assert main(["import", "trace", *words]) == 0
    assert given[0].startswith("imports=[")
    assert given[1:] == passed


def test_overrides_alone_import_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["import", "trace", "warmup_steps=1"]) == 1
    assert "no file is named" in capsys.readouterr().err


def test_a_file_is_known_by_its_hash_until_somebody_writes_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, copy = tmp_path / "rank0.json", tmp_path / "copy.json"
    source.write_text(trace())
    run = add_run(find([source], KIND), TOOL, KIND, name="mine", command="c")
    record = RUNS / run / "capture" / TOOL / "rep0/capture.json"
    [placed] = record.parent.glob("rank*")
    assert untouched_files(record) == {placed: sha256(source)} == imported_files(record)
    shutil.copy(placed, copy)
    copy.replace(placed)
    assert (untouched_files(record), imported_files(record)) == ({}, {placed: sha256(source)})
    placed.unlink()
    assert untouched_files(record) == {}


def test_what_is_written_over_a_file_is_not_of_the_run_that_it_was_imported_into(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "rank0.json"
    source.write_text(trace())
    before = source.stat().st_mtime_ns
    run = add_run(find([source], KIND), TOOL, KIND, name="mine", command="c")
    source.write_text("another")
    record = RUNS / run / "capture" / TOOL / "rep0/capture.json"
    [placed] = record.parent.glob("rank*")
    assert (placed.read_text(), placed.stat().st_mtime_ns) == (trace(), before)
    assert [*untouched_files(record)] == [placed]


def test_a_file_that_is_still_written_is_not_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "rank0.json"
    source.write_text(trace())
    found = find([source], KIND)

    def hashing(path):
        with path.open("a") as file:
            file.write(" ")
        return sha256(path)

    monkeypatch.setattr(imported_runs, "sha256", hashing)
    with pytest.raises(InputError, match="was written while it was imported"):
        add_run(found, TOOL, KIND, name="mine", command="c")
    assert not [path for path in tmp_path.rglob("rank*") if path != source]


@pytest.mark.slow  # runs the pipeline
def test_a_large_file_edited_in_place_is_read_again_and_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(imported_runs, "_COPIED_BYTES", 0)
    source = tmp_path / "rank0.json"
    source.write_text(trace())
    run = add_run(find([source], KIND), TOOL, KIND, name="mine", command="c")
    selected = [f"imports=[{run}]", "analysis=[operators]"]
    assert main(["run", *selected]) == 0
    table = f"results/runs/{run}/tables/torch_profiler/cpu_ops.parquet"
    capfd.readouterr()
    assert main(["why", table, *selected]) == 0
    assert "is fresh" in capfd.readouterr().out
    with source.open("r+") as file:
        file.write(trace().replace("aten::mm", "aten::bm"))
    assert main(["why", table, *selected]) == 0
    assert "rank0.pt.trace.json changed" in re.sub(r"\.\w{6}\.pt", ".pt", capfd.readouterr().out)
    assert main(["run", *selected]) == 0
    assert pq.read_table(table)["name"].to_pylist() == ["aten::bm"]
    assert "edited after it was imported" in (tmp_path / "results/report.html").read_text()
