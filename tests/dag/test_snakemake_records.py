"""Whether Snakemake has a record of a file is looked up where Snakemake keeps it."""

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
