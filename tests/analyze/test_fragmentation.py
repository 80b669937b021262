import pytest

from profkit import testing
from profkit.analyze import fragmentation
from profkit.analyze._allocator import Policy, replayed
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert
from profkit.testing import rows

MIB = 1 << 20
PLACE = {"rank": 0, "repeat": 0, "device": "cuda:0"}
TABLES = (
    *("memory_events", "allocations", "segments", "blocks"),
    *("out_of_memory", "allocator_settings"),
)


def run(tables, **settings):
    return testing.run(fragmentation.analyze, **tables, **settings)


def real(real_data, tmp_path, name):
    raw = Raw(path=real_data / "memory" / f"{name}.pickle", label="r", rank=0, repeat=0)
    tables = convert.run(raw, tmp_path).tables
    return fragmentation.analyze.run(
        **{name: tables[name].to_pandas() for name in TABLES}, config=fragmentation.Config()
    )


# The allocator's own totals: the replay follows its rules, so it must come to the same.
@pytest.mark.parametrize(
    "name",
    [
        "drisspg_mini_snapshot",
        "silmont_mem_snapshot",
        "niu_forward_100",
        "niu_forward_backward_100",
    ],
)
def test_the_replay_reserves_what_the_allocator_did(real_data, tmp_path, name):
    result = real(real_data, tmp_path, name)
    reserved = {row["policy"]: row["reserved_bytes"] for row in rows(result, "replay")}
    assert reserved["default"] == reserved["recorded"]
    assert reserved["expandable_segments:True"] <= reserved["default"] + 20 * MIB


# 229 blocks were there before its history, in an order that was not recorded.
def test_the_replay_is_near_where_the_beginning_is_not_known(real_data, tmp_path):
    replay = rows(real(real_data, tmp_path, "magma27_memory_snapshot"), "replay")
    reserved = {row["policy"]: row["reserved_bytes"] for row in replay}
    assert reserved["default"] == pytest.approx(reserved["recorded"], rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "policy", "reserved"),
    [
        ([1], Policy(name=""), 2 * MIB),
        ([MIB, MIB, MIB], Policy(name=""), 4 * MIB),
        ([MIB + 1], Policy(name=""), 20 * MIB),
        ([9 * MIB, 9 * MIB, 9 * MIB], Policy(name=""), 40 * MIB),
        ([11 * MIB], Policy(name=""), 12 * MIB),
        ([11 * MIB, 11 * MIB], Policy(name="", expandable=True), 40 * MIB),
        ([30 * MIB, -1, 11 * MIB, 19 * MIB], Policy(name=""), 30 * MIB),
        ([30 * MIB, -1, 11 * MIB], Policy(name="", max_split_bytes=20 * MIB), 42 * MIB),
        # Two neighbours that were freed make room for one of both sizes.
        ([30 * MIB, -1, 12 * MIB, 18 * MIB, -3, -4, 30 * MIB], Policy(name=""), 30 * MIB),
    ],
)
def test_segments_follow_the_rules_of_pytorch(sizes, policy, reserved):
    assert replayed(_changes(sizes), policy).peak_bytes == reserved


def _changes(sizes):
    """Number allocations by their place; a negative size frees the one at that place."""
    for position, size in enumerate(sizes, start=1):
        yield (position, size, 0) if size > 0 else (-size, -1, 0)


def test_unused_memory_is_told_at_the_peak_and_in_gaps_at_the_end():
    segment = {
        **PLACE,
        "address": 1000,
        "size_bytes": 100,
        "allocated_bytes": 40,
        "active_bytes": 40,
    }
    empty = {**PLACE, "address": 5000, "size_bytes": 60}
    part = {**PLACE, "segment": 1000}
    result = run(
        {
            "segments": [segment, empty | {"allocated_bytes": 0, "active_bytes": 0}],
            "blocks": [
                part | {"address": 1000, "size_bytes": 40, "state": "active_allocated"},
                part | {"address": 1040, "size_bytes": 60, "state": "inactive"},
                {**PLACE, "segment": 5000, "address": 5000, "size_bytes": 60, "state": "inactive"},
            ],
            "memory_events": [
                {**PLACE, "reserved_bytes": 160, "allocated_bytes": 90},
                {**PLACE, "reserved_bytes": 160, "allocated_bytes": 40},
            ],
        }
    )
    assert rows(result, "gaps") == [
        {
            **PLACE, "reserved_bytes": 160, "active_bytes": 40, "gaps_bytes": 120,
            "largest_gap_bytes": 60, "gaps": 2, "stuck_bytes": 60,
        }
    ]  # fmt: skip
    assert rows(result, "peaks")[0]["unused_bytes"] == 70
    assert result.metrics["unused_share"].value == 70 / 160
    assert [abstention.what for abstention in result.abstentions] == [
        "what other allocator settings would reserve of cuda:0 on rank 0"
    ]
