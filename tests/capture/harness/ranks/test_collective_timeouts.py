"""Looking at some ranks only, and what it does to the others."""


def test_ranks_wait_for_one_that_a_tool_holds_up_beyond_the_timeout_of_their_groups(
    capture, programs, tmp_path
):
    settings = {"ranks": [0]}
    made = capture("dawdling", tmp_path, settings, **programs("grouped"), steps=4)
    record = made.record
    assert record["status"] == "ok", record
    assert record["profiled"] == ["rank0_dp0_tp0_pp0"]
    assert [path.name for path in made.folder.glob("*.dawdled.txt")] == [
        "rank0_dp0_tp0_pp0.dawdled.txt"
    ]
    # The rank beside it keeps time as well.
    assert len(made.steps(0)) == len(made.steps(1)) == 4
