"""Names of ranks: in their files, from what the program itself has set up."""

import pytest

from profkit.capture.base import Rank
from profkit.capture.harness.ranks import rank_files
from profkit.capture.harness.ranks.coordinates import LocatedRank


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("mesh", ("rank1_dp0_tp1_pp0", "device mesh")),
        ("megatron", ("rank1_dp0_tp0_pp1", "Megatron")),
        ("deepspeed", ("rank1_dp0_tp0_pp1", "DeepSpeed")),
    ],
)
def test_files_are_named_by_what_the_program_has_set_up(capture, programs, tmp_path, how, expected):
    second, named_by = expected
    made = capture("baseline", tmp_path, {}, **programs("grouped", how=how), steps=3)
    assert made.record["status"] == "ok", made.record
    assert made.record["ranks"] == ["rank0_dp0_tp0_pp0", second]
    assert made.record["ranks_named_by"] == [named_by]
    assert made.record["warnings"] == []
    assert {path.name for path in made.folder.glob("rank*")} == {
        "rank0_dp0_tp0_pp0.steps.json",
        f"{second}.steps.json",
    }


def test_a_rank_that_was_killed_keeps_the_name_it_began_with(tmp_path):
    killed, alive = Rank(rank=0, world_size=2), Rank(rank=1, world_size=2, dp=1)
    for rank in (killed, alive):
        (tmp_path / f"{rank.label}.steps.part").touch()
    said = LocatedRank(rank=Rank(rank=1, world_size=2, pp=1), source="environment")
    rank_files.write_coordinates(tmp_path, alive, said)
    assert rank_files.rename_files(tmp_path, [killed, alive]) == (
        [killed, said.rank],
        ["environment"],
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rank0_dp0_tp0_pp0.steps.part",
        "rank1_dp0_tp0_pp1.steps.part",
    ]
