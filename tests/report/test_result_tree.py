import json
from pathlib import Path

import pytest

from profkit.report import result_tree


def capture(folder: Path, repeat: int) -> None:
    target = folder / "capture" / "baseline" / f"rep{repeat}"
    target.mkdir(parents=True)
    document = {"tool": "baseline", "repeat": repeat, "status": "ok", "reason": "", "attempt": 1}
    document |= {"settings": {}, "workload": {}, "unread": 1}
    (target / "capture.json").write_text(json.dumps(document))


def selected(folder: Path) -> result_tree.Selected:
    return result_tree.Selected(
        run="a", folder=str(folder), tools={"baseline": {}}, analyses=("steps",)
    )


def test_captures_come_in_the_order_of_their_repeats(tmp_path):
    for repeat in (10, 2, 0):
        capture(tmp_path, repeat)
    run = result_tree.read_run(selected(tmp_path))
    assert [capture.repeat for capture in run.captures] == [0, 2, 10]
    assert run.captures[0].folder == "capture/baseline/rep0"


def test_captures_that_the_manifest_does_not_name_are_left_out(tmp_path):
    capture(tmp_path, 0)
    capture(tmp_path, 1)
    manifest = {"captures": [{"tool": "baseline", "repeat": 0}]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    run = result_tree.read_run(selected(tmp_path))
    assert [capture.repeat for capture in run.captures] == [0]
    assert result_tree.inputs(run) == [
        tmp_path / "manifest.json",
        tmp_path / "capture" / "baseline" / "rep0" / "capture.json",
    ]


def test_an_empty_folder_is_a_run_without_anything(tmp_path):
    assert result_tree.read_run(selected(tmp_path)) == result_tree.Run(selected=selected(tmp_path))


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "\x00\xff"])
def test_a_damaged_capture_is_one_that_failed(tmp_path, content):
    capture(tmp_path, 3)
    (tmp_path / "capture" / "baseline" / "rep3" / "capture.json").write_text(content)
    (captured,) = result_tree.read_run(selected(tmp_path)).captures
    found = (captured.tool, captured.repeat, captured.status, captured.reason)
    assert found == ("baseline", 3, "error", "capture.json is damaged")
