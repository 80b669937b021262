"""A secret in the environment of a run is in no file that profkit writes."""

import json

import pytest

from tests.canary import inside


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
