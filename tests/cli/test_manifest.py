import json

from profkit.cli import manifest

ABOUT = {"run": "train-1", "command": "profkit run", "behaviour": {}, "hardware": {}, "tools": {}}


def _merged(tmp_path, *records):
    """Return the manifest of a run with captures that state `records`."""
    paths = []
    for number, record in enumerate(records):
        path = tmp_path / str(number) / "capture.json"
        path.parent.mkdir()
        required = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
        path.write_text(json.dumps({**required, **record}))
        paths.append(str(path))
    written = [tmp_path / name for name in ("manifest.json", "config.yaml")]
    arguments = ["--captures", *paths, "--out", str(written[0]), "--config", str(written[1])]
    manifest.main(["--about", json.dumps(ABOUT), *arguments])
    return json.loads(written[0].read_text())


def test_what_a_capture_does_not_state_is_no_difference(tmp_path):
    merged = _merged(
        tmp_path,
        {"versions": {"torch": "2.9", "profkit": "1"}, "packages": {"torch": "2.9", "numpy": "2"}},
        {"versions": {"torch": "2.8", "profkit": "1", "py-spy": "0.4"}, "packages": {"numpy": "2"}},
        {"versions": {"profkit": "1"}},
    )
    assert merged["versions"] == {"torch": ["2.9", "2.8"], "profkit": "1", "py-spy": "0.4"}
    assert merged["packages"] == {"torch": "2.9", "numpy": "2"}


def test_a_variable_that_was_not_set_in_one_capture_is_a_difference(tmp_path):
    merged = _merged(tmp_path, {"environment": {"OMP_NUM_THREADS": "2"}}, {"environment": {}})
    assert merged["environment"] == {"OMP_NUM_THREADS": ["2", None]}
