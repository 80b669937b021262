"""What is said at the end of captures that failed or were not tried."""

import json

from profkit.dag.failures import failures
from profkit.dag.inputs import Dag
from profkit.planning.cache import load


def test_what_was_skipped_is_counted_by_its_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dag = Dag(load(["tool=[nsys,py_spy]", "repeats=2"]))
    (run,) = dag.plan.runs
    ends = [("error", "exit status 1"), ("skipped", "not tried, as baseline rep0 failed")]
    ends += [("skipped", "interrupted before it began")] * 2
    for path, (status, reason) in zip(dag.captures_of(run), ends, strict=False):
        record = {"status": status, "reason": reason, "attempt": 1, "repeat": 0, "settings": {}}
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record | {"tool": path.parts[-3], "workload": {}}))
    failed = dag.captures_of(run)[0].parent
    assert list(failures(dag))[:3] == [
        f"capture failed: {failed}: error: exit status 1",
        f"skipped: 1 capture of {run.name}: not tried, as baseline rep0 failed",
        f"skipped: 2 captures of {run.name}: interrupted before it began",
    ]
