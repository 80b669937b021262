import pytest

from profkit import testing
from profkit.analyze import representative_ranks
from profkit.testing import ORIGIN_NS, rows

MS = 1_000_000


def steps(ranks, *, count=5, repeats=1):
    """Return steps of 100 ms, the same on all `ranks`."""
    return [
        {"rank": rank, "repeat": repeat, "step": step, **at(step, 0, 100)}
        for rank in range(ranks)
        for repeat in range(repeats)
        for step in range(count)
    ]


def at(step, start_ms, end_ms):
    begin = ORIGIN_NS + step * 100 * MS
    return {"start_ns": begin + start_ms * MS, "end_ns": begin + end_ms * MS}


def collectives(own_ms, *, count=5):
    """Return an all-reduce in each step, to which each rank comes after its own time."""
    return [
        {"rank": rank, "repeat": 0, "step": step, **at(step, time, 100), "kind": "host"}
        | {"operation": "allreduce", "group": "0", "sequence": step, "group_size": len(own_ms)}
        for rank, time in enumerate(own_ms)
        for step in range(count)
    ]


def hosts(ranks, by_host, **axes):
    return [
        {"rank": rank, "repeat": 0, "host": f"host{rank // by_host}", "node": rank // by_host}
        | {name: find(rank) for name, find in axes.items()}
        for rank in range(ranks)
    ]


def chosen(own_ms, where, **settings):
    found = testing.run(
        representative_ranks.analyze,
        steps=steps(len(own_ms)),
        collectives=collectives(own_ms),
        hosts=where,
        **settings,
    )
    return {row["rank"]: row["reason"] for row in rows(found, "ranks")}, found


def test_the_slowest_and_the_median_rank_are_told_apart_by_what_they_do_not_wait():
    found, result = chosen([50, 52, 90, 51, 53], hosts(5, 8))
    assert found == {1: "median", 2: "slowest: 38 ms per step more than the median rank"}
    assert result.findings[0].message == "Ranks 1, 2 stand for all 5 ranks."
    assert [row["own_time_ns"] for row in rows(result, "ranks")] == [62 * MS, 100 * MS]


@pytest.mark.parametrize("late", range(9))
def test_the_late_rank_is_found_wherever_it_is(late):
    times = [50 + rank % 3 for rank in range(9)]
    times[late] = 80
    found, _ = chosen(times, hosts(9, 16))
    assert found[late].startswith("slowest: ")
    assert len(found) == 2


def test_of_several_hosts_that_of_the_slowest_rank_is_taken_whole():
    found, _ = chosen([50, 51, 52, 53, 54, 90, 49, 48], hosts(8, 4))
    assert {*found} == {4, 5, 6, 7} | {rank for rank, why in found.items() if "median" in why}
    assert found[6] == "host host1, all of its 4 ranks"
    assert found[5] == (
        "slowest: 39 ms per step more than the median rank; host host1, all of its 4 ranks"
    )


def test_a_large_host_is_taken_up_to_a_number_of_ranks():
    found, _ = chosen([*range(20, 36), 90, *range(20, 35)], hosts(32, 16), most_ranks_of_host=4)
    of_host = {rank for rank, why in found.items() if "host1" in why}
    assert len(of_host) == 4
    assert 16 in of_host
    assert found[31] == "host host1, 4 of its 16 ranks"


def test_each_pipeline_stage_and_expert_group_has_a_rank():
    where = hosts(8, 8, pp=lambda rank: rank // 2, ep=lambda rank: rank % 2)
    found, _ = chosen([50, 51, 52, 53, 54, 55, 56, 90], where)
    assert {rank // 2 for rank in found} == {0, 1, 2, 3}
    assert {rank % 2 for rank in found} == {0, 1}
    assert found[7].startswith("slowest")
    assert "pipeline stage 0" in found[0]
    assert not any("pipeline stage 3" in why for why in found.values())


def test_without_collectives_the_longest_steps_are_those_of_the_slowest_rank():
    own = [row | {"end_ns": row["end_ns"] + 7 * MS * (row["rank"] == 1)} for row in steps(3)]
    found = testing.run(representative_ranks.analyze, steps=own)
    assert [row["rank"] for row in rows(found, "ranks")] == [1, 2]
    assert rows(found, "ranks")[0]["reason"] == "slowest: 7 ms per step more than the median rank"


def test_a_single_rank_is_the_median_one():
    found = testing.run(representative_ranks.analyze, steps=steps(1))
    assert [(row["rank"], row["reason"]) for row in rows(found, "ranks")] == [(0, "median")]
