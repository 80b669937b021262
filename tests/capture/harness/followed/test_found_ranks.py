"""Which processes were the ranks, by what they say of themselves."""

import pytest

from profkit.capture.base import Rank
from profkit.capture.harness.followed import found_ranks
from profkit.capture.harness.followed.process_record import ProcessRecord
from profkit.capture.harness.foreground import ENDED_EARLY
from profkit.capture.harness.ranks.clock import collect
from profkit.capture.harness.record.rank_errors import write_error
from profkit.core.parallel_layout import Parallel


@pytest.fixture
def settled(tmp_path):
    """Return a function from processes, each with what differs, to the ranks that they were."""

    def settle(*processes, named=1):
        for number, about in enumerate(processes):
            words = ["python", f"program{number}.py"]
            common = {"process": 100 + number, "numbering": "here", "parent": 1, "command": words}
            record = ProcessRecord(**{**common, "begun_ns": number, "ended_ns": 50, **about})
            record.write(tmp_path)
            (tmp_path / f"{record.as_rank().label}.tool.txt").write_text(words[1])
        return found_ranks.settle(tmp_path, Parallel(), named)

    return settle


TRAINS = {"steps": 5, "is_training": True}
EVALUATES = {"steps": 9}


def kept(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_processes_side_by_side_are_ranks_in_the_order_in_which_they_began(settled, tmp_path):
    (tmp_path / ENDED_EARLY).touch()
    found = settled(EVALUATES, TRAINS, TRAINS)
    assert found.facts["ended_early"]
    assert found.ranks == [
        Rank(rank=index, world_size=2, local_rank=index, dp=index) for index in range(2)
    ]
    assert kept(tmp_path) == {
        "rank0_dp0_tp0_pp0.tool.txt": "program1.py",
        "rank1_dp1_tp0_pp0.tool.txt": "program2.py",
    }


def test_of_programs_one_after_the_other_the_first_one_counts_and_the_others_are_named(settled):
    found = settled(TRAINS, {**TRAINS, "begun_ns": 60, "ended_ns": 70})
    assert [rank.world_size for rank in found.ranks] == [1]
    (note,) = found.notes
    assert "made 5 steps as well: python program1.py" in note
    assert found.facts["left_out"] == 1


def test_ranks_with_numbers_keep_them_and_one_without_a_step_is_named(settled):
    numbers = {"world_size": 3, "numbered_by": "environment"}
    found = settled({**TRAINS, **numbers, "rank": 2}, {**TRAINS, **numbers, "rank": 0}, TRAINS)
    assert [(rank.rank, rank.world_size) for rank in found.ranks] == [(0, 3), (2, 3)]
    assert found.notes[-1] == "No step was seen on 1 rank of 3: 1."


@pytest.mark.parametrize(
    ("named", "notes"),
    [
        (1, []),
        (2, []),
        (4, ["The command names 4 ranks, and 2 ran; the name of the run says w4 all the same."]),
    ],
)
def test_fewer_ranks_than_the_command_names_are_said(settled, named, notes):
    assert settled(TRAINS, TRAINS, named=named).notes == notes


def test_a_process_that_failed_before_its_first_step_is_a_rank(settled, tmp_path):
    begun = {"process": 7, "numbering": "here", "steps": 0}
    failed = ProcessRecord(parent=1, begun_ns=0, command=[], **begun).as_rank()
    write_error(tmp_path, failed, "RuntimeError: no memory", "")
    assert [rank.label for rank in settled(begun).ranks] == ["rank0_dp0_tp0_pp0"]
    assert "rank0_dp0_tp0_pp0.error.txt" in kept(tmp_path)


def test_processes_with_the_same_number_on_two_hosts_are_two_ranks(settled, tmp_path):
    def on_host(numbering, rank):
        about = {**TRAINS, "process": 4, "numbering": numbering, "rank": rank}
        record = ProcessRecord(parent=1, begun_ns=0, command=[], **about)
        steps = tmp_path / f"{record.as_rank().label}.steps.part"
        steps.write_text('{"node": 0}\n[1, 2, 3, 4]\n')
        return {**about, "world_size": 2, "numbered_by": "environment"}

    found = settled(on_host("first", 1), on_host("second", 0))
    assert [rank.label for rank in found.ranks] == ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]
    places = collect(tmp_path)
    assert [(place["label"], place["node"]) for place in places] == [
        ("rank0_dp0_tp0_pp0", 0),
        ("rank1_dp1_tp0_pp0", 1),
    ]


def test_a_script_that_hides_the_program_is_named(tmp_path):
    lack = found_ranks.settle(tmp_path, Parallel(), 1, "train.sh:3").lack
    assert lack.startswith("train.sh:3 replaces PYTHONPATH, by which profkit reaches the program")


def test_a_python_that_is_too_old_is_named(tmp_path):
    (tmp_path / "capture.too_old.log").write_text("/usr/bin/python is Python 3.8.1")
    lack = found_ranks.settle(tmp_path, Parallel()).lack
    assert lack.startswith("/usr/bin/python is Python 3.8.1, and profkit looks into programs of")
