"""Whether Snakemake has a record of a file is looked up where Snakemake keeps it."""

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
