import json
import socket

import pytest


@pytest.fixture(scope="module")
def baseline(capture, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_TOKEN", "do-not-tell")
        return capture("baseline", tmp_path_factory.mktemp("baseline"), {}, "--repeat", "2")


def test_each_rank_leaves_its_steps_one_after_the_other(baseline):
    assert baseline.result.returncode == 0, baseline.result.stderr
    for rank in (0, 1):
        label = f"rank{rank}_dp{rank}_tp0_pp0"
        document = json.loads((baseline.folder / f"{label}.steps.json").read_text())
        steps = document.pop("steps")
        assert document == {
            "schema_version": 1,
            "device": "cpu",
            "label": label,
            "rank": rank,
            "world_size": 2,
            "hostname": socket.gethostname(),
            "node": 0,
            "local_rank": rank,
        }
        assert len(steps) == 8
        borders = [time_ns for start_ns, end_ns, _, _ in steps for time_ns in (start_ns, end_ns)]
        assert borders == sorted(borders)
        assert {samples for _, _, samples, _ in steps} == {2}
        peaks = [peak for _, _, _, peak in steps]
        assert peaks == sorted(peaks)
        assert peaks[0] > 100 << 20


def test_the_record_says_what_was_asked_what_came_and_on_what(baseline):
    record = baseline.record
    assert record["status"] == "ok"
    assert record["reason"] == ""
    assert (record["tool"], record["repeat"], record["attempt"]) == ("baseline", 2, 1)
    assert record["exit_code"] == 0
    assert record["ranks"] == ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]
    assert [file["path"] for file in record["files"]] == [
        "capture.log",
        "rank0_dp0_tp0_pp0.steps.json",
        "rank1_dp1_tp0_pp0.steps.json",
    ]
    assert record["workload"]["model"] == {"name": "gpt_tiny", "family": "gpt"}
    assert record["warnings"] == []
    assert 0 <= record["conditions"]["cpu"]["other_work_share"] <= 1
    assert "log_tail" not in record
    assert record["machine"]["cpu_count"] > 0
    assert {"profkit", "torch"} <= set(record["versions"])


def test_no_file_holds_what_is_in_the_environment(baseline):
    for path in baseline.folder.iterdir():
        assert "do-not-tell" not in path.read_text()
