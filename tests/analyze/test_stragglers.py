import pandas as pd
import pyarrow as pa
import pytest

from profkit import testing
from profkit.analyze import stragglers
from profkit.tables import schema
from profkit.testing import ORIGIN_NS, rows


def at(start, end, **rest):
    return {"repeat": 0, "step": 5, "start_ns": ORIGIN_NS + start, "end_ns": ORIGIN_NS + end} | rest


def call(rank, start, end, called, **rest):
    known = {"rank": rank, "kind": "device", "operation": "allreduce", "group": "0"}
    return at(start, end, call_ns=ORIGIN_NS + called, size_bytes=8, **(known | rest))


def op(rank, name, start, end, **rest):
    return at(start, end, rank=rank, name=name, kind="operator", tid=10 + rank, **rest)


def kernel(rank, name, start, end, **rest):
    return at(start, end, rank=rank, name=name, kind="compute", stream=7, **rest)


def run(calls, ops=(), work=(), **settings):
    given = {"collectives": calls, "cpu_ops": ops, "kernels": work}
    return testing.run(stragglers.analyze, **given, **settings)


def cause(result, *names):
    return tuple(rows(result, "causes")[0][name] for name in names)


# Rank 2 calls at 400 what ranks 0 and 1 call at 100; all end at 500.
LATE_CALL = [call(0, 110, 500, 100), call(1, 120, 500, 100), call(2, 410, 500, 400)]


def test_the_operator_in_which_the_last_rank_fell_behind_is_found():
    ops = [
        *(op(0, "aten::a", 10, 20), op(0, "aten::b", 20, 30), op(0, "aten::c", 30, 40)),
        *(op(1, "aten::a", 11, 20), op(1, "aten::b", 21, 30), op(1, "aten::c", 31, 40)),
        *(op(2, "aten::a", 10, 20), op(2, "outer", 25, 360), op(2, "aten::b", 30, 320)),
        op(2, "aten::c", 330, 340),
    ]
    result = run(LATE_CALL, ops)
    assert rows(result, "causes") == [
        {"repeat": 0, "step": 5, "operation": "allreduce", "size_bytes": 8, "rank": 2}
        | {"late_ns": 300, "caused_wait_ns": 590, "compared_with_rank": 0, "place": "host"}
        | {"since": "in the step", "fell_behind_in": "aten::b", "fell_behind_after": "aten::b"}
    ]


def test_the_last_of_a_few_ranks_is_no_straggler_of_all():
    result = run([row | {"group_size": 128} for row in LATE_CALL])
    (abstention,) = result.abstentions
    assert abstention.what == "the straggler of 128 ranks"
    assert not run([row | {"group_size": 3} for row in LATE_CALL]).abstentions


def test_a_gap_without_operators_is_after_the_last_one():
    ops = [op(rank, "aten::a", 10, 20) for rank in range(3)]
    ops += [op(0, "aten::b", 30, 40), op(1, "aten::b", 30, 40), op(2, "aten::b", 330, 340)]
    found = cause(run(LATE_CALL, ops), "since", "fell_behind_in", "fell_behind_after")
    assert found == ("in the step", "", "aten::a")


def test_the_mark_of_a_step_is_no_place_to_fall_behind_in():
    ops = [op(rank, name, 10, 20) for rank in range(3) for name in ("aten::a", "aten::b")]
    ops += [op(0, "aten::c", 30, 40), op(1, "aten::c", 30, 40), op(2, "aten::c", 330, 340)]
    ops += [op(rank, "ProfilerStep#5", 5, 400) for rank in range(3)]
    assert cause(run(LATE_CALL, ops), "since", "fell_behind_in") == ("in the step", "")


def test_a_rank_may_be_behind_before_the_step_begins():
    ops = [op(0, "aten::a", 10, 20), op(1, "aten::a", 10, 20), op(2, "aten::a", 310, 320)]
    result = run(LATE_CALL, ops)
    assert cause(result, "since", "fell_behind_in", "fell_behind_after") == (
        "before the step",
        "",
        "",
    )


def test_clocks_that_differ_do_not_mislead():
    # The clock of rank 1 is 10 us ahead, and rank 1 is in time.
    calls = [call(0, 400, 500, 390), call(1, 10_110, 10_500, 10_100)]
    ops = [op(0, "aten::a", 10, 380), op(1, "aten::a", 10_010, 10_020)]
    ops += [op(0, "aten::b", 380, 385), op(1, "aten::b", 10_020, 10_030)]
    found = cause(run(calls, ops), "rank", "late_ns", "place", "fell_behind_in")
    assert found == (0, 290, "host", "aten::a")


def test_a_busy_device_is_late_although_the_host_called_in_time():
    calls = [call(0, 110, 500, 100), call(1, 410, 500, 100)]
    work = [kernel(0, "gemm", 50, 60), kernel(0, "relu", 60, 70)]
    work += [kernel(1, "gemm", 50, 390), kernel(1, "relu", 390, 400)]
    found = cause(run(calls, work=work), "rank", "place", "fell_behind_in")
    assert found == (1, "device", "gemm")


def test_what_only_one_rank_does_is_not_compared():
    extra = [op(2, "aten::extra", 20, 310)]
    ops = [op(rank, "aten::a", 10, 15) for rank in range(3)] + extra
    ops += [op(0, "aten::b", 20, 30), op(1, "aten::b", 20, 30), op(2, "aten::b", 320, 330)]
    assert cause(run(LATE_CALL, ops), "fell_behind_in") == ("aten::extra",)


def test_waiting_is_summed_by_rank_and_step():
    calls = [
        *(call(0, 100, 200, 90), call(1, 150, 200, 90)),
        *(call(0, 310, 400, 300, step=6), call(1, 300, 400, 300, step=6)),
        *(call(0, 600, 700, 590, step=7), call(1, 640, 700, 590, step=7)),
    ]
    result = run(calls)
    assert rows(result, "by_rank") == [
        {"rank": 1, "times_late": 2, "first_step": 5, "last_step": 7}
        | {"longest_late_ns": 50, "caused_wait_ns": 90}
        | {"wait_share": 0.9},
        {"rank": 0, "times_late": 1, "first_step": 6, "last_step": 6}
        | {"longest_late_ns": 10, "caused_wait_ns": 10}
        | {"wait_share": 0.1},
    ]
    assert [(row["step"], row["rank"]) for row in rows(result, "by_step")] == [
        (5, 1), (7, 1), (6, 0),
    ]  # fmt: skip
    assert result.metrics["largest_share"].value == 0.9
    assert result.metrics["wait_share"].value == 0.2


def test_lateness_within_the_doubt_of_the_clocks_is_nobodys():
    calls = [call(0, 100, 200, 90), call(1, 105, 240, 90)]
    calls += [call(0, 300, 400, 290, step=6), call(1, 300, 360, 290, step=6)]
    result = run(calls)
    assert not result.tables
    assert [abstention.what for abstention in result.abstentions] == [
        "the last rank of 2 of 2 collectives"
    ]


def test_sends_and_receives_are_not_matched():
    result = run([call(rank, 100, 200, 90, operation="send") for rank in (0, 1)])
    (reason,) = (abstention.reason for abstention in result.abstentions)
    assert reason == "sends and receives are not matched with one another"


def test_one_rank_has_no_stragglers():
    result = run([call(0, 100, 200, 90)])
    assert [abstention.reason for abstention in result.abstentions] == [
        "no call could be matched with one on another rank: capture every rank"
    ]


def real(converted, paths):
    read = [converted(path, rank) for rank, path in enumerate(paths)]
    return [
        pd.concat(
            [tables[name].astype(dict.fromkeys(schema_text(name), object)) for tables in read],
            ignore_index=True,
        ).astype(dict.fromkeys(schema_text(name), "category"))
        for name in ("collectives", "cpu_ops", "kernels")
    ] + [testing.frame("hosts", [])]


def schema_text(name):
    return [field.name for field in schema.TABLES[name] if pa.types.is_dictionary(field.type)]


def test_rank_7_of_eight_real_ones_began_its_step_late(converted, real_data):
    paths = sorted((real_data / "kineto/dlrm_8rank_v100").glob("*.json.gz"))
    result = stragglers.analyze.run(*real(converted, paths), config=stragglers.Config())
    assert result.metrics["largest_share"].value == pytest.approx(0.759, abs=0.005)
    # ProfilerStep#10 begins 7.5 ms after that of rank 1 and 4.5 ms after that of rank 5.
    worst = rows(result, "causes")[0]
    assert (worst["operation"], worst["step"]) == ("alltoall", 10)
    assert (worst["rank"], worst["compared_with_rank"], worst["place"]) == (7, 5, "host")
    assert worst["since"] == "before the step"
    assert worst["late_ns"] == pytest.approx(4_669_000, abs=3_000)


def test_rank_1_of_two_real_ones_was_late_from_its_first_kernel_launch(converted, real_data):
    paths = sorted((real_data / "kineto/llama_2rank_rtx4090").glob("*.json.gz"))
    result = stragglers.analyze.run(*real(converted, paths), config=stragglers.Config())
    # The first launch takes 368 ms there and 343 ms on rank 0, in aten::masked_fill_.
    assert cause(result, "rank", "place", "fell_behind_in") == (1, "host", "aten::masked_fill_")


def test_who_waits_for_whom_is_per_step_and_what_is_caused_by_few_is_one_column():
    calls = [call(0, 100, 200, 90), call(1, 110, 200, 90), call(2, 160, 200, 90)]
    calls += [call(rank, 400 - 20 * rank, 500, 90, step=6) for rank in range(3)]
    data = run(calls).drawings["rank_waits"].data
    assert (data["rows"]["names"], data["columns"]["names"]) == ([0, 1, 2], [0, 2])
    assert data["layers"][0]["values"] == [0, 30, 10, 25, 20, 0]
    assert run(calls, most_late=1).drawings["rank_waits"].data["columns"]["names"] == [2, "others"]


HOSTS = [{"rank": rank, "repeat": 0, "host": f"n{rank // 2}"} for rank in range(4)]


def met(start, end, arrivals, **rest):
    """Return a call that ranks come to at times counted from `start`."""
    where = {"group_ranks": str([*arrivals])} | rest
    return [call(rank, start + at, end, start + at, **where) for rank, at in arrivals.items()]


def of_host(calls, hosts=HOSTS):
    result = run(calls, hosts=hosts)
    (finding,) = result.findings
    return rows(result, "by_host")[0], finding.message


def test_a_host_is_late_as_a_whole():
    calls = met(1000, 2000, {0: 0, 1: 10, 2: 500, 3: 520}) + met(
        3000, 4000, dict.fromkeys(range(4), 0)
    )
    row, message = of_host(calls)
    assert (row["host"], row["ranks"], row["late_ranks"]) == ("n1", 2, 2)
    assert 480 <= row["late_ns"] <= 520
    assert (row["caused_by_rank"], row["wait_share"]) == (None, 1.0)
    assert message.startswith("100% of waiting is for host n1: all its 2 ranks are late, by")


def test_one_rank_of_a_host_is_late():
    row, message = of_host(met(1000, 2000, {0: 0, 1: 10, 2: 5, 3: 520}))
    assert (row["late_ranks"], row["caused_by_rank"]) == (1, 3)
    assert "only rank 3 of its 2 ranks is late" in message


def test_a_rank_that_holds_up_its_own_host_is_the_cause():
    # Ranks 2 and 3 meet first: rank 2 comes late to all others, because it waited for rank 3.
    within = {"group": "1", "group_size": 2}
    calls = met(1000, 1600, {2: 0, 3: 550}, **within) + met(1000, 1010, {0: 0, 1: 5}, **within)
    row, _ = of_host([*calls, *met(1100, 2000, {0: 0, 1: 10, 2: 510, 3: 520})])
    assert (row["host"], row["late_ranks"], row["caused_by_rank"]) == ("n1", 2, 3)


def test_the_clocks_of_hosts_are_put_side_by_side():
    ahead = {2: 10_000, 3: 10_000}
    calls = [
        row
        | {
            name: row[name] + ahead.get(row["rank"], 0)
            for name in ("start_ns", "end_ns", "call_ns")
        }
        for row in met(1000, 2000, {0: 0, 1: 520, 2: 5, 3: 10})
    ]
    found = {row["host"]: row for row in rows(run(calls, hosts=HOSTS), "by_host")}
    assert {host: row["offset_ns"] for host, row in found.items()} == {"n0": 0, "n1": 10_000}
    assert found["n0"]["caused_by_rank"] == 1


def test_nothing_is_said_of_one_host():
    result = run(met(1000, 2000, {0: 0, 1: 520}), hosts=HOSTS[:2])
    assert not result.findings
    assert "by_host" not in result.tables
