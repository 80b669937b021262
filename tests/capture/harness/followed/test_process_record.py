import pytest

from profkit.capture.harness.followed.process_record import ProcessRecord


@pytest.fixture
def numbered(monkeypatch):
    """Return a function from variables to the record of a process that was started with them."""

    def record(**variables):
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        made = ProcessRecord.of_this_process()
        made.locate()
        return made.rank, made.world_size, made.local_rank, made.numbered_by, made.launcher

    return record


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1, 0, "", "python")),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"},
            (5, 8, 1, "environment", "torchrun"),
        ),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "CROSS_RANK": "0"},
            (1, 2, 1, "environment", "deepspeed"),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "3",
            },
            (3, 4, 3, "Open MPI", "mpirun"),
        ),
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0"},
            (2, 4, 0, "Slurm", "srun"),
        ),
    ],
)
def test_launchers_number_processes_by_variables(numbered, variables, expected):
    assert numbered(**variables) == expected
