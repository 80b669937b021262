"""Ranks that fail, each in its own way, in one sweep: all the rest goes on."""

import signal

FAULTS = {
    "raise": ("error", "ValueError: the loss is not a number"),
    "early": ("error", "no step was seen on rank0_dp0_tp0_pp0"),
    "hang": ("timeout", "not finished after 40 s; the log says where each rank was"),
}
SWEEP = f"workload.how=nothing,{','.join(FAULTS)}"
# Enough for the others on a machine that has other things to do.
LIMIT = "timeout_s=40"
# Those that have something to keep.
WITH_STEPS = sorted(set(FAULTS) - {"early"})


def test_ranks_that_fail_are_shown_and_tried_again_and_cost_nobody_else_anything(farm):
    status, said = farm.finish(SWEEP, LIMIT)
    assert status == 1, said
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()

    records = farm.records()
    found = {how: record["status"] for how, record in records.items()}
    assert found == {"nothing": "ok"} | {how: status for how, (status, _) in FAULTS.items()}
    for how, (_, reason) in FAULTS.items():
        assert reason in records[how]["reason"]
        assert f"{records[how]['status']}: {records[how]['reason']}" in said
    assert records["hang"]["exit_code"] == -signal.SIGKILL
    assert any(" in hang" in line for line in records["hang"]["log_tail"])
    for how in WITH_STEPS:
        names = [file["path"] for file in records[how]["files"]]
        assert "rank0_dp0_tp0_pp0.steps.json" in names
        assert "in the fourth step" in records[how]["log_tail"]

    assert [problem["stage"] for problem in farm.problems()] == ["capture"] * len(FAULTS)
    report = farm.report()
    assert [reason for _, reason in FAULTS.values() if reason not in report] == []
    assert report.count("in the fourth step") >= len(WITH_STEPS)

    good = farm.captured("nothing")
    farm.recover()
    assert farm.captures(SWEEP, LIMIT) == set(FAULTS)
    status, said = farm.finish(SWEEP, LIMIT)
    assert status == 0, said
    records = farm.records()
    assert {record["status"] for record in records.values()} == {"ok"}
    assert {how: record["attempt"] for how, record in records.items()} == {
        "nothing": 1
    } | dict.fromkeys(FAULTS, 2)
    assert farm.captured("nothing") == good
    assert farm.problems() == []
