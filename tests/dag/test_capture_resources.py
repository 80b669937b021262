"""What a capture asks of a cluster, from its plan."""

import pytest

from profkit.core.run_settings import RunSettings
from profkit.dag.capture_resources import of_capture
from profkit.planning.model import Run

ALONE = RunSettings(timeout_s=90)


def run(**behaviour):
    return Run(name="r", behaviour=behaviour, hardware={}, tools={}, analyses={}, overrides=())


def test_a_capture_on_one_host_has_it_to_itself():
    assert of_capture(run(world_size=4, device="auto"), ALONE, is_alone=True) == {
        "nodes": 1,
        "tasks": 1,
        "mpi": "",
        "cpus_per_task": 4,
        "gres": "",
        "mem_mb": 0,
        "runtime": 12,
        "slurm_extra": "--exclusive",
    }


@pytest.mark.parametrize("launcher", [{"nnodes": 2}, {"nnodes": 1, "hosts": ["a", "b"]}])
def test_hosts_share_the_ranks_and_each_has_a_gpu_for_each_of_its_own(launcher):
    asked = of_capture(run(world_size=8, device="cuda", launcher=launcher), ALONE, is_alone=True)
    assert (asked["nodes"], asked["tasks"], asked["mpi"]) == (2, 2, "srun")
    assert (asked["gres"], asked["cpus_per_task"]) == ("gpu:4", 4)


def test_a_capture_beside_others_asks_for_its_memory_in_mib():
    settings = RunSettings(memory_limit_mb=2000, exclusive=False)
    asked = of_capture(run(world_size=1), settings, is_alone=False)
    assert (asked["mem_mb"], asked["slurm_extra"]) == (1908, "")
