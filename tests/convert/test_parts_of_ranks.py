"""Batches of ranks that jobs of their own convert become the tables that one job makes."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from profkit.capture.base import Rank
from profkit.convert.__main__ import main
from profkit.core.errors import InputError
from profkit.testing import ResultTree
from tests.convert.test_main import LATER, TRACE

RANKS = 5
LABELS = [Rank(rank=rank, world_size=RANKS, dp=rank).label for rank in range(RANKS)]
SPANS = (":2", "2:4", "4:")


@pytest.fixture
def tree(tmp_path):
    """Return a tree with two repeats of five ranks: two files of one, no file and a bad one."""
    made = ResultTree(tmp_path)
    files = {f"{label}.1.pt.trace.json": TRACE for label in LABELS[:4]}
    first = {**files, f"{LABELS[2]}.2.pt.trace.json": LATER, f"{LABELS[4]}.1.pt.trace.json": "{"}
    made.capture("torch_profiler", first, ranks=LABELS)
    made.capture("torch_profiler", files, repeat=1, ranks=LABELS)
    return made


def convert(tree, *options):
    captures = [str(tree.folder / f"capture/torch_profiler/rep{number}") for number in (0, 1)]
    main(["torch_profiler", "--captures", *captures, *map(str, options)])


def whole(tree, name, *options):
    """Convert into the folder `name`; return the bytes of its tables, and its record."""
    folder = tree.folder / name
    convert(tree, "--tables", folder / "tables", "--files", folder / "files", *options)
    record = json.loads((folder / "tables/convert.json").read_bytes())
    return {path.stem: pq.read_table(path) for path in folder.glob("tables/*.parquet")}, record


def batches(tree):
    """Convert each span of ranks into a folder of its own, and return these."""
    folders = [tree.folder / "parts/torch_profiler" / str(number) for number in range(len(SPANS))]
    for folder, ranks in zip(folders, SPANS, strict=True):
        convert(tree, "--batch", folder, "--ranks", ranks)
    return folders


def test_batches_joined_are_what_one_job_makes(tree):
    expected, made = whole(tree, "alone")
    joined, record = whole(tree, "joined", "--batches", *batches(tree))
    assert joined.keys() == expected.keys()
    for name, table in expected.items():
        assert joined[name].equals(table), name
    assert len(expected["cpu_ops"]) == 2 * 9
    kept = ("status", "reason", "notes", "tables")
    assert {key: record[key] for key in kept} == {key: made[key] for key in kept}
    assert made["status"] == "partial"


def test_small_tables_of_a_raw_file_are_one_file(tree):
    folders = [path for batch in batches(tree) for path in batch.glob("[0-9]*")]
    assert len(folders) == 9
    assert {len([*folder.iterdir()]) for folder in folders} == {1}


def test_what_people_open_comes_from_all_batches(tree):
    folders = batches(tree)
    for number, folder in enumerate(folders):
        (folder / "files/deep").mkdir()
        (folder / f"files/deep/{number}.svg").write_text(str(number))
    whole(tree, "joined", "--batches", *folders)
    assert [path.read_text() for path in sorted(tree.folder.glob("joined/files/deep/*"))] == [
        *("0", "1", "2")
    ]


def test_a_batch_that_is_made_again_leaves_nothing_of_before(tree):
    folder, *_ = batches(tree)
    (folder / "9").mkdir()
    convert(tree, "--batch", folder, "--ranks", ":1")
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "convert.json", "files"]


def test_a_batch_that_failed_is_quoted(tree):
    folders = batches(tree)
    record = {"status": "failed", "reason": "the job was ended by signal 9", "attempt": 1}
    record["provenance"] = {"settings": {}, "modules": {}, "packages": {}, "inputs": {}}
    (folders[1] / "convert.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="ended by signal 9"):
        whole(tree, "joined", "--batches", *folders)


def test_a_file_that_no_batch_has_is_named(tree):
    folders = batches(tree)
    label, suffix = LABELS[3], ".3.pt.trace.json"
    added = tree.folder / "capture/torch_profiler/rep0" / f"{label}{suffix}"
    shutil.copy(Path(added.parent, f"{label}.1.pt.trace.json"), added)
    with pytest.raises(InputError, match=r"rank3.*\.3\.pt\.trace\.json: no batch of ranks"):
        whole(tree, "joined", "--batches", *folders)


def test_a_job_has_to_be_told_what_to_leave(tree, capsys):
    with pytest.raises(SystemExit):
        convert(tree, "--ranks", ":2")
    assert "give --tables and --files, or --batch" in capsys.readouterr().err
