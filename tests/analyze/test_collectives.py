import pandas as pd
import pytest

from profkit import testing
from profkit.analyze import collectives
from profkit.tables import schema
from profkit.tables.rank_clocks import matched_collectives
from profkit.testing import ORIGIN_NS, rows


def call(rank, start, end, operation="allreduce", **rest):
    known = {"repeat": 0, "kind": "device", "step": 5, "group": "0", "group_size": 2}
    known |= {"group_description": "default_pg", "dtype": "float32", "size_bytes": 1000}
    times = {
        "start_ns": ORIGIN_NS + start,
        "end_ns": ORIGIN_NS + end,
        "call_ns": ORIGIN_NS + start - 3,
    }
    return {"rank": rank, "operation": operation, "collective": start} | known | times | rest


def frame(*rows):
    return schema.frame("collectives", rows)


def run(*calls, **settings):
    return testing.run(collectives.analyze, collectives=calls, **settings)


def picked(matched, *columns):
    return [tuple(row) for row in matched.rows[[*columns]].itertuples(index=False)]


# The clock of rank 1 is 1000 ns ahead; it comes 30 ns late to the first, 10 early to the second.
TWO_RANKS = (
    call(0, 100, 150),
    call(1, 1130, 1150),
    call(0, 210, 250),
    call(1, 1200, 1250),
)


def test_clocks_are_put_side_by_side_by_the_ends():
    matched = matched_collectives(frame(*TWO_RANKS))
    assert matched.clocks.to_dict("list") == {
        "repeat": [0, 0], "rank": [0, 1], "offset_ns": [0, 1000], "residual_ns": [0.0, 0.0],
    }  # fmt: skip
    assert picked(matched, "rank", "meeting", "wait_ns", "transfer_ns", "last") == [
        (0, 0, 30, 20, False),
        (0, 1, 0, 40, True),
        (1, 0, 0, 20, True),
        (1, 1, 10, 40, False),
    ]
    assert matched.rows["arrival_ns"].tolist() == [ORIGIN_NS + ns for ns in (100, 210, 130, 200)]


def test_exchanges_that_end_at_different_times_say_nothing_of_clocks():
    """Of a rank that ends later all but the time of the fastest is waiting, if others do so too.

    What it does when all others are done is no waiting for them.
    """
    late = [(0, 1, 0, 0, 5_000, 0, 4_000), (1, 0, 0, 6_000, 0, 7_000, 0)]
    late.append(tuple(map(max, *late)))
    for size, waited in ((3, 44_000), (2, 0)):
        given = [
            call(rank, 10_000 * n, 10_000 * n + 20 + ns, "alltoall", group_size=size)
            for rank in range(size)
            for n, ns in enumerate(late[rank])
        ]
        matched = matched_collectives(frame(*given))
        assert matched.clocks["offset_ns"].abs().max() <= 1
        assert matched.clocks["residual_ns"].max() <= 1
        assert matched.rows["transfer_ns"].between(20, 21).all() == (waited > 0)
        assert matched.rows["wait_ns"].sum() == pytest.approx(waited, abs=100)


def test_all_reduces_that_end_at_different_times_are_a_matter_of_clocks():
    late = (0, 5_000, -5_000, 6_000, -4_000, 7_000)
    given = [
        call(rank, 10_000 * n, 10_000 * n + 8_000 + rank * ns)
        for n, ns in enumerate(late)
        for rank in (0, 1)
    ]
    assert matched_collectives(frame(*given)).clocks["residual_ns"].max() > 1_000


def test_clocks_are_connected_along_a_pipeline():
    ahead = [100_000 * (rank % 3) for rank in range(40)]
    given = [
        call(rank, at + ahead[rank], at + 50 + ahead[rank], group=f"{low}")
        for at in (1000, 2000, 3000)
        for low in range(39)
        for rank in (low, low + 1)
    ]
    assert matched_collectives(frame(*given)).clocks["offset_ns"].tolist() == ahead


def test_clocks_that_never_meet_stay_as_they_are():
    given = [
        call(rank, at + 500 * rank, at + 50 + 500 * rank, group=group)
        for at in (10_000, 20_000)
        for group, ranks in (("a", (0, 1)), ("b", (2, 3)))
        for rank in ranks
    ]
    assert matched_collectives(frame(*given)).clocks["offset_ns"].tolist() == [0, 500, 0, 500]


def test_numbered_calls_meet_whatever_else_was_recorded_and_in_whatever_step():
    of_0 = [call(0, 100 * n, 100 * n + 50, sequence=n, step=-1) for n in (7, 8, 9)]
    of_1 = [call(1, 100 * n + 20, 100 * n + 50, sequence=n) for n in (8, 9, 10)]
    matched = matched_collectives(frame(*of_0, *of_1, call(1, 5, 6)))
    assert matched.unmatched == 3
    assert picked(matched, "rank", "sequence", "meeting", "wait_ns", "last") == [
        (0, 8, 0, 20, False),
        (0, 9, 1, 20, False),
        (1, 8, 0, 0, True),
        (1, 9, 1, 0, True),
    ]


@pytest.mark.parametrize(
    ("calls", "waits"),
    [
        (((0, 50), (30, 50)), [30, 0]),
        (((0, 10), (30, 50)), [0, 0]),
        (((0, 100), (5, 100), (40, 100)), [40, 35, 0]),
        (((0, 20), (5, 20), (80, 110)), [5, 0, 0]),
        (((0, 800), (900, 940)), [760, 0]),
    ],
    ids=["late sender", "late receiver", "two wait", "one comes after all", "sender is held up"],
)
def test_a_rank_waits_in_a_broadcast_for_those_that_came_before_it_was_done(calls, waits):
    size = len(calls)
    given = [
        call(rank, at, at + 40, group_size=size) for rank in range(size) for at in (2_000, 3_000)
    ]
    sent = [*enumerate(calls), *((rank, (5_000, 5_040)) for rank in range(size))]
    given += [call(rank, *times, "broadcast", group_size=size) for rank, times in sent]
    matched = matched_collectives(frame(*given))
    assert matched.clocks["offset_ns"].eq(0).all()
    rows = matched.rows[matched.rows["operation"] == "broadcast"]
    assert rows.groupby("rank")["wait_ns"].sum().tolist() == waits


def test_broadcasts_tell_of_clocks_where_nothing_else_does():
    given = [call(rank, at + 700 * rank, at + 50 + 700 * rank, "broadcast")
             for at in (1_000, 2_000) for rank in (0, 1)]  # fmt: skip
    assert matched_collectives(frame(*given)).clocks["offset_ns"].tolist() == [0, 700]


def test_waiting_is_told_from_transfer():
    result = run(*TWO_RANKS, call(0, 300, 310, "send"))
    assert rows(result, "by_rank") == [
        {"rank": 0, "calls": 2, "times_last": 1, "transfer_ns": 60, "wait_ns": 30}
        | {"mean_launch_delay_ns": 3.0, "wait_share": 30 / 90},
        {"rank": 1, "calls": 2, "times_last": 1, "transfer_ns": 60, "wait_ns": 10}
        | {"mean_launch_delay_ns": 3.0, "wait_share": 10 / 70},
    ]
    assert rows(result, "by_call") == [
        {"repeat": 0, "step": 5, "operation": "allreduce", "group_description": "default_pg"}
        | {"size_bytes": 1000, "ranks": 2, "last_rank": last, "arrival_skew_ns": skew}
        | {"wait_ns": skew, "transfer_ns": transfer, "launch_delay_ns": 3}
        for last, skew, transfer in ((1, 30, 20), (0, 10, 40))
    ]
    assert result.abstentions == ()


def test_bandwidth_divides_by_the_time_of_the_last_rank():
    result = run(*TWO_RANKS, call(0, 300, 310, "send"))
    shared = {"group": "default_pg", "size_bytes": 1000, "dtype": "float32", "ranks": 2}
    assert rows(result, "by_size") == [
        {"operation": "allreduce", "with_waiting": "no", "calls": 2, "time_ns": 60}
        | shared
        | {"time_share": pytest.approx(6 / 7)}
        | {"median_time_ns": 30.0, "algorithm_bandwidth_bytes_per_s": pytest.approx(2000 / 60e-9)}
        | {"bus_bandwidth_bytes_per_s": pytest.approx(2000 / 60e-9)},
        {"operation": "send", "with_waiting": "yes", "calls": 1, "time_ns": 10}
        | shared
        | {"time_share": pytest.approx(1 / 7)}
        | {"median_time_ns": 10.0, "algorithm_bandwidth_bytes_per_s": pytest.approx(1e11)}
        | {"bus_bandwidth_bytes_per_s": pytest.approx(1e11)},
    ]


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("allreduce", 1.75),
        ("reduce_scatter", 0.875),
        ("allgather", 0.875),
        ("alltoall", 0.875),
        ("broadcast", 1.0),
        ("reduce", 1.0),
    ],
)
def test_bus_bandwidth_has_the_factors_of_nccl(operation, factor):
    (row,) = rows(run(call(0, 0, 100, operation, group_size=8)), "by_size")
    assert row["algorithm_bandwidth_bytes_per_s"] == pytest.approx(1e10)
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(factor * 1e10)


def test_sends_and_receives_are_not_matched():
    result = run(call(0, 0, 100, "send"), call(1, 200, 280, "recv"))
    (reason,) = (one.reason for one in result.abstentions if one.what.startswith("arrival"))
    assert reason == "sends and receives are not matched with one another"


def test_one_rank_alone_knows_no_skew():
    result = run(call(0, 0, 100), call(0, 200, 280))
    assert [(abstention.what, abstention.reason) for abstention in result.abstentions] == [
        (
            "arrival skew and waiting",
            "calls of one rank only were recorded: capture every rank",
        )
    ]
    assert set(result.tables) == {"by_size"}
    assert "wait_share" not in result.metrics
    assert result.metrics["allreduce_bus_bandwidth"].title.endswith("included")


def test_calls_that_ranks_made_unequally_often_are_not_matched():
    result = run(*TWO_RANKS, call(0, 400, 410, step=6), call(0, 500, 510, step=7))
    assert [abstention.what for abstention in result.abstentions] == ["waiting in 2 of 6 calls"]
    assert {row["with_waiting"]: row["calls"] for row in rows(result, "by_size")} == {
        "no": 2,
        "yes": 2,
    }


def test_without_a_group_all_ranks_must_agree():
    unknown = {"group": "", "group_description": "", "group_size": -1}
    given = [row | unknown for row in TWO_RANKS]
    assert len(matched_collectives(frame(*given)).rows) == 4
    third = call(2, 100, 150, "allgather") | unknown
    assert len(matched_collectives(frame(*given, third)).rows) == 0


def test_ranks_that_were_not_recorded_may_have_come_last():
    result = run(*(row | {"group_size": 4} for row in TWO_RANKS))
    assert [abstention.what for abstention in result.abstentions] == [
        "all waiting in 2 of 2 collectives"
    ]
    titles = [result.metrics[name].title for name in ("allreduce_bus_bandwidth", "wait_share")]
    assert all("at least" in title for title in titles), "what is left may be waiting"


def test_ranks_that_are_not_known_to_be_all_give_a_bandwidth_of_at_least():
    unknown, known = run(*(row | {"group_size": -1} for row in TWO_RANKS)), run(*TWO_RANKS)
    name = "allreduce_bus_bandwidth"
    assert unknown.metrics[name].title.endswith("unknown")
    assert "at least" not in known.metrics[name].title


def test_unknown_sizes_are_no_bandwidth():
    result = run(*(row | {"size_bytes": -1} for row in TWO_RANKS))
    assert [abstention.what for abstention in result.abstentions] == ["bandwidth of 2 of 2 calls"]
    (row,) = rows(result, "by_size")
    assert (row["size_bytes"], row["bus_bandwidth_bytes_per_s"]) == (None, None)


def ranks(converted, paths):
    read = [converted(path, rank)["collectives"] for rank, path in enumerate(paths)]
    text = read[0].select_dtypes("category").columns
    joined = pd.concat([part.astype(dict.fromkeys(text, object)) for part in read])
    return joined.astype(dict.fromkeys(text, "category")).reset_index(drop=True)


def test_eight_real_ranks_mostly_wait_for_the_last(converted, real_data):
    paths = sorted((real_data / "kineto/dlrm_8rank_v100").glob("*.json.gz"))
    given = ranks(converted, paths)
    result = collectives.analyze.run(given, config=collectives.Config())
    # Eight processes of one machine have one clock: what the ends say must agree with that.
    clocks = rows(result, "clocks")
    assert max(abs(row["offset_ns"]) for row in clocks) < 3_000
    assert max(row["residual_ns"] for row in clocks) < 2_000
    assert result.metrics["wait_share"].value == pytest.approx(0.965, abs=0.005)
    by_rank = rows(result, "by_rank")
    assert [row["times_last"] for row in by_rank] == [0, 0, 0, 0, 1, 2, 0, 5]
    total = (given["end_ns"] - given["start_ns"]).sum()
    assert sum(row["wait_ns"] + row["transfer_ns"] for row in by_rank) == total
    largest = next(row for row in rows(result, "by_size") if row["size_bytes"] == 1576964)
    assert largest["time_ns"] == 86_000
    assert largest["bus_bandwidth_bytes_per_s"] == pytest.approx(1.75 * 1576964 / 86e-6)


def test_two_real_ranks_have_no_sizes_and_little_waiting(converted, real_data):
    paths = sorted((real_data / "kineto/llama_2rank_rtx4090").glob("*.json.gz"))
    result = collectives.analyze.run(ranks(converted, paths), config=collectives.Config())
    assert [abstention.what for abstention in result.abstentions] == ["bandwidth of 19 of 19 calls"]
    assert result.metrics["wait_share"].value == pytest.approx(0.0436, abs=0.001)
    assert [row["offset_ns"] for row in rows(result, "clocks")] == [0, 247503]
