"""A secret in the environment of a run is in no file that profkit writes."""

import gzip
import json
import zipfile

import pyarrow.parquet
import pytest

from tests.conftest import CANARIES


def inside(path):
    """Return the content of a file, unpacked where it is packed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".parquet":
        return content + repr(pyarrow.parquet.read_table(path).to_pylist()).encode()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    return content


def test_the_canaries_of_a_whole_run_are_in_no_file_of_its_results(tree):
    files = [path for path in (tree.folder / "results").rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"manifest.json", "config.yaml", "capture.json", "capture.log", "report.html"} <= names
    found = [
        (str(path.relative_to(tree.folder)), name)
        for path in files
        for name, value in CANARIES.items()
        if value.encode() in inside(path)
    ]
    assert found == []


@pytest.mark.parametrize("how", ["tell", "tell and raise"])
def test_a_program_that_prints_its_environment_leaves_no_secret_of_it(
    capture, misbehaving, tmp_path, monkeypatch, how
):
    monkeypatch.setenv("MY_CANARY_SECRET", "canary-5f0b0c3e")
    made = capture("baseline", tmp_path, {}, **misbehaving(how))
    files = [path for path in made.folder.iterdir() if path.is_file()]
    assert [path.name for path in files if b"canary-5f0b0c3e" in inside(path)] == []
    assert "MY_CANARY_SECRET" in (made.folder / "capture.log").read_text()
    assert "what looks like a secret was masked in capture.log" in made.record["warnings"]
    if "raise" in how:
        assert made.record["reason"].endswith("ValueError: bad token [masked]")
    assert "[masked]" in json.dumps(made.record) or made.record["status"] == "ok"
