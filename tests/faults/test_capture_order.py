"""Captures are taken in turn: what drifts over time meets all runs alike."""

import json


def test_every_run_has_its_first_repeat_before_any_has_its_second(farm):
    words = ("workload.how=nothing,other", "analysis=[steps,comparison]", "repeats=2")
    status, said = farm.finish(*words)
    assert status == 0, said
    paths = farm.folder.glob("results/runs/*/capture/baseline/rep*/capture.json")
    records = sorted((json.loads(path.read_text()) for path in paths), key=lambda x: x["started"])
    assert [record["repeat"] for record in records] == [0, 0, 1, 1]
    # One after the other: a capture has the machine to itself.
    ends = [record["ended"] for record in records]
    assert all(end <= record["started"] for end, record in zip(ends, records[1:], strict=False))

    document = json.loads((farm.folder / "results/selection/analyze/comparison.json").read_text())
    (pair,) = (
        row for row in document["result"]["tables"]["pairs"]["rows"] if "step time" in row[0]
    )
    assert pair[document["result"]["tables"]["pairs"]["columns"].index("repeats")] == 2
    assert not any(
        "at another time" in abstention["reason"]
        for abstention in document["result"]["abstentions"]
    )
    assert "Differences between runs" in farm.report()
