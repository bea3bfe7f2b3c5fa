"""What the environment says of the launcher of a process."""

import pytest

from trainkit.core.process.launcher import Launch, launched


def test_a_process_of_its_own_has_no_launcher():
    assert launched({}) is None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
            Launch("mpiexec", 2, 4, 2),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "3",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
            },
            Launch("mpiexec", 0, 3, 3),
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_STEP_NUM_TASKS": "6",
                "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
            },
            Launch("srun", 5, 6, 2),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Launch("mpiexec", 1, 2, 2)),
    ],
)
def test_each_launcher_is_known(variables, expected):
    assert launched(variables) == expected


def test_a_launcher_of_one_process_is_none():
    assert launched({"PMI_RANK": "0", "PMI_SIZE": "1"}) is None
