"""Whether Snakemake has a record of a file is looked up where Snakemake keeps it."""

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.persistence.file import FilePersistence

from profkit.dag import snakemake_records


@pytest.mark.parametrize("length", [8, 188, 189, 190, 191, 400, 600])
def test_a_record_is_found_at_any_length_of_the_name(tmp_path, monkeypatch, length):
    monkeypatch.chdir(tmp_path)
    output = Path("r" * length)
    assert not snakemake_records.has(output)
    of_linux = SimpleNamespace(_fetch_max_len=lambda _: 255)
    folder = "results/.snakemake/metadata"
    record = Path(FilePersistence._record_path(of_linux, folder, str(output)))
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert snakemake_records.has(output)


def test_params_are_written_as_before_and_pandas_is_not_loaded_for_it(monkeypatch):
    class Records(FilePersistence):
        def __init__(self):
            """Open no folder."""

    params = [1, 0.5, "text", ["--results", "a"], None, True]
    before = [Records()._serialize_param(param) for param in params]
    snakemake_records.without_pandas(Records)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [Records()._serialize_param(param) for param in params] == before


def test_a_file_is_hashed_again_only_if_it_has_changed(tmp_path):
    hashed = []

    class File(str):
        __slots__ = ()
        is_storage = False

        async def checksum(self, threshold):
            hashed.append(threshold)
            return read(self)

    def read(name):
        return Path(name).read_text()

    def checksum(threshold=9):
        return asyncio.run(File(path).checksum(threshold))

    snakemake_records.hashed_once(File)
    path = tmp_path / "trace.json"
    path.write_text("old")
    assert [checksum(), checksum(), checksum(8)] == ["old"] * 3
    assert hashed == [9, 8]
    facts = path.stat()
    path.write_text("new")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert checksum() == "new"
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        checksum()
