"""Commands of the kinds that people type, followed into the processes that they start."""


def test_a_program_that_is_followed_computes_the_same(followed, plainly):
    made = followed("python train.py --steps 3 --accumulate 2")
    assert made.result.returncode == 0, made.result.stderr
    assert (made.labels, made.steps) == (["rank0_dp0_tp0_pp0"], [3])
    assert made.printed == plainly("python train.py --steps 3 --accumulate 2")
    assert made.notes == []


def test_the_ranks_of_torchrun_are_found(followed):
    made = followed("torchrun --nproc-per-node 2 train.py --ddp --steps 2")
    assert made.labels == ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]
    assert made.steps == [2, 2]
    facts = {"world_size": 2, "launched_by": "torchrun", "numbered_by": "environment"}
    assert made.found.facts == facts
    kinds = ("sources.json", "steps.json")
    assert made.names == [f"{label}.{kind}" for label in made.labels for kind in kinds]
