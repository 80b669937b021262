"""Who says where a rank stands, and what is made of it where nobody does."""

from types import SimpleNamespace

import pytest

from profkit.capture.base import Rank
from profkit.capture.harness.ranks.coordinates import (
    KnownCoordinates,
    LocatedRank,
    _megatron,
    _of_mesh,
    doubt,
    locate_rank,
)
from profkit.core.parallel_layout import Parallel

HERE = Rank(rank=5, world_size=8, local_rank=1)


def mesh(names, sizes, coordinate):
    """What a DeviceMesh says of itself."""
    return SimpleNamespace(
        mesh_dim_names=names,
        get_coordinate=lambda: coordinate,
        size=lambda dimension: sizes[dimension],
    )


def test_without_anybody_to_ask_the_configuration_decides_and_is_named():
    told = locate_rank(HERE, [], {}, Parallel(tp=2, pp=2))
    assert (told.rank.label, told.source) == ("rank5_dp0_tp1_pp1", "configuration")


def test_groups_of_experts_are_known_where_the_program_or_the_environment_names_them():
    assert locate_rank(HERE, [], {}, Parallel()).rank.ep == -1
    assert locate_rank(HERE, [], {"PROFKIT_EP_RANK": "2"}, Parallel()).rank.ep == 2
    found = [_of_mesh(mesh(("dp", "ep"), (2, 4), (1, 3)))]
    located = locate_rank(HERE, found, {}, Parallel())
    assert (located.rank.ep, located.rank.label) == (3, "rank5_dp1_tp0_pp0")


def test_the_environment_goes_before_the_configuration_and_the_program_before_both():
    environment = {"PROFKIT_DP_RANK": "3", "PROFKIT_TP_RANK": "0", "PROFKIT_PP_RANK": "x"}
    told = locate_rank(HERE, [], environment, Parallel())
    assert (told.rank.label, told.source) == ("rank5_dp3_tp0_pp0", "environment")
    grid = KnownCoordinates(
        source="DeepSpeed", coordinates={"dp": 1, "pp": 1}, sizes={"dp": 2, "pp": 2}
    )
    told = locate_rank(HERE, [grid], environment, Parallel())
    assert (told.rank.label, told.source) == ("rank5_dp1_tp0_pp1", "DeepSpeed")


def test_what_one_source_leaves_open_follows_from_the_sizes_that_are_known():
    """A mesh of tensor shards alone leaves the data-parallel coordinate to arithmetic."""
    shards = KnownCoordinates(source="device mesh", coordinates={"tp": 1}, sizes={"tp": 2})
    assert locate_rank(HERE, [shards], {}, Parallel()).rank.label == "rank5_dp2_tp1_pp0"


def test_replicas_of_shards_are_one_data_parallel_axis():
    found = _of_mesh(mesh(("dp_shard", "dp_replicate", "tp"), (4, 2, 2), [3, 1, 0]))
    assert found.coordinates == {"dp": 7, "tp": 0}
    assert found.sizes == {"dp": 8, "tp": 2}


@pytest.mark.parametrize(
    ("names", "coordinate"), [(("dp", "tp"), None), (None, [0, 1]), (("x", "y"), [0, 1])]
)
def test_a_mesh_without_names_or_without_this_rank_says_nothing(names, coordinate):
    assert _of_mesh(mesh(names, (2, 2), coordinate)).coordinates == {}


def test_megatron_before_its_set_up_says_nothing():
    state = SimpleNamespace(model_parallel_is_initialized=lambda: False)
    assert _megatron({"megatron.core.parallel_state": state}) is None


def test_an_old_megatron_has_other_words():
    state = SimpleNamespace(
        model_parallel_is_initialized=lambda: True,
        get_data_parallel_rank=lambda: 1,
        get_data_parallel_world_size=lambda: 2,
        get_model_parallel_rank=lambda: 3,
        get_model_parallel_world_size=lambda: 4,
    )
    found = _megatron({"megatron.mpu": state})
    assert found == KnownCoordinates(
        source="Megatron", coordinates={"dp": 1, "tp": 3}, sizes={"dp": 2, "tp": 4}
    )


def test_groups_that_nobody_names_make_names_by_configuration_doubtful():
    said = doubt(LocatedRank(rank=HERE, source="configuration"), [8, 4, 2, 4, 1], Parallel())
    assert said == (
        "ranks are named as data-parallel replicas, but the program has groups of 2, 4 of 8 "
        "ranks that nothing names; if they are tensor or pipeline groups, set parallel.tp and "
        "parallel.pp"
    )


@pytest.mark.parametrize(
    ("source", "sizes", "parallel"),
    [
        ("configuration", [8, 1], Parallel()),
        ("device mesh", [8, 4], Parallel()),
        ("configuration", [8, 4], Parallel(tp=4)),
    ],
)
def test_what_was_said_or_cannot_be_otherwise_is_not_doubted(source, sizes, parallel):
    assert doubt(LocatedRank(rank=HERE, source=source), sizes, parallel) == ""
