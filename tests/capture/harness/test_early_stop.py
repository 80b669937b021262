"""What would fail as the first capture did is not tried in the same invocation."""

import json
from dataclasses import replace

import pytest

from profkit.capture.__main__ import main
from profkit.capture.harness import early_stop
from profkit.capture.harness.spec import Spec
from profkit.dag.attempts import Attempts
from profkit.process import parent_watch

NOW = "this invocation"


def reason(spec):
    return early_stop.reason(spec, spec.load_tool())


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """Return the function to a capture's request, in a run that others were made of."""
    monkeypatch.setenv(parent_watch.INVOCATION, NOW)

    def of(tool, repeat, **others):
        for name, record in others.items():
            folder = tmp_path / "r/capture" / name / "rep0"
            folder.mkdir(parents=True, exist_ok=True)
            needed = {"attempt": 1, "status": "error", "reason": "", "settings": {}, "workload": {}}
            (folder / "capture.json").write_text(json.dumps(needed | record))
        return Spec(token=NOW, tool=tool, out=f"{tmp_path}/r/capture/{tool}/rep{repeat}")

    return of


@pytest.mark.parametrize("tool", ["baseline", "nsys"])
def test_the_first_failure_without_a_tool_stops_the_others(spec, tool):
    failed = {"invocation": NOW, "would_repeat": True}
    assert reason(spec(tool, 1, baseline=failed)) == "not tried, as baseline rep0 failed"


def test_the_first_failure_of_a_tool_stops_its_repeats_alone(spec):
    failed = {"invocation": NOW, "would_repeat": True}
    assert reason(spec("nsys", 1, nsys=failed)) == "not tried, as nsys rep0 failed"
    assert reason(spec("py_spy", 0, nsys=failed)) == ""


@pytest.mark.parametrize(
    ("tool", "tried"), [("pyinstrument", False), ("memory_layers", False), ("py_spy", True)]
)
def test_tools_of_one_thread_are_not_tried_where_several_call_the_model(spec, tool, tried):
    found = reason(spec(tool, 0, baseline={"status": "ok", "has_several_threads": True}))
    expected = f"not tried: several threads call the model, and {tool} records one"
    assert found == ("" if tried else expected)
    assert reason(spec(tool, 0, baseline={"status": "ok"})) == ""


@pytest.mark.parametrize(
    ("tool", "tried"), [("memory_snapshot", True), ("memory_layers", True), ("nsys", False)]
)
def test_what_explains_why_the_memory_did_not_suffice_is_tried_once(spec, tool, tried):
    failed = {"invocation": NOW, "would_repeat": True, "status": "oom"}
    assert (reason(spec(tool, 0, baseline=failed)) == "") is tried
    assert reason(spec(tool, 1, **{tool: failed})) == (
        f"not tried, as {'baseline' if not tried else tool} rep0 failed"
    )


@pytest.mark.parametrize(
    "record",
    [
        {"invocation": NOW, "would_repeat": False},
        {"invocation": "an earlier one", "would_repeat": True},
        {"invocation": "", "would_repeat": True},
        {},
    ],
)
def test_what_may_go_well_or_is_of_another_time_is_tried(spec, record, monkeypatch):
    assert reason(spec("nsys", 0, baseline=record)) == ""
    monkeypatch.setenv(parent_watch.INVOCATION, "")
    assert reason(spec("nsys", 0, baseline=record)) == ""


def test_a_first_capture_is_always_tried(spec):
    assert reason(spec("baseline", 0, baseline={"invocation": NOW, "would_repeat": True})) == ""


def test_what_was_not_tried_has_a_record_and_is_tried_next_time(spec, capsys, monkeypatch):
    folder = spec("baseline", 1, baseline={"invocation": NOW, "would_repeat": True}).folder
    workload = '{"workload": {"name": "train"}, "steps": 2}'
    main(["baseline", "--out", str(folder), "--repeat", "1", "--workload", workload])
    record = json.loads((folder / "capture.json").read_text())
    assert (record["status"], record["files"]) == ("skipped", [])
    assert capsys.readouterr().err == "baseline: skipped: not tried, as baseline rep0 failed\n"
    monkeypatch.setenv(parent_watch.INVOCATION, "the next one")
    assert Attempts().number(folder / "capture.json", "baseline") == 2


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "pass it with --reads results/runs/r/analyze/representative_ranks.json"),
        ("{}", "representative_ranks.json cannot be read: "),
        ('{"result": {}, "status": "failed", "reason": "no table"}', "no table"),
        ('{"result": {}}', "it chose none"),
    ],
)
def test_nothing_is_recorded_of_ranks_that_were_not_chosen(tmp_path, result, reason):
    path = tmp_path / "representative_ranks.json"
    reads = []
    if result is not None:
        path.write_text(result)
        reads = ["--reads", str(path)]
    out = tmp_path / "r/capture/torch_profiler/rep0"
    settings = ["--settings", '{"ranks": "representative"}']
    workload = ["--workload", '{"workload": {"name": "train"}, "steps": 9}']
    main(["torch_profiler", "--out", str(out), *settings, *workload, *reads])
    record = json.loads((out / "capture.json").read_text())
    needs = "not tried: ranks=representative needs the result of representative_ranks: "
    assert (record["status"], record["reason"][: len(needs)]) == ("skipped", needs)
    assert reason in record["reason"]
    assert record["settings"]["ranks"] == "representative"


@pytest.mark.parametrize(
    ("record", "is_over"),
    [
        ({"invocation": NOW, "attempt": 2}, True),
        ({"invocation": NOW, "attempt": 1}, False),
        ({"invocation": "an earlier one", "attempt": 2}, False),
    ],
)
def test_other_hosts_wait_for_no_attempt_that_the_first_has_given_up(spec, record, is_over):
    of_attempt = replace(spec("nsys", 0, nsys=record), attempt=2)
    assert early_stop.is_over(of_attempt) == is_over
    assert not early_stop.is_over(replace(of_attempt, out=f"{of_attempt.out}/none"))
