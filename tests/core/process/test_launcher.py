"""What the environment says of the launcher of a process."""

import pytest

from trainkit.core.process import launcher
from trainkit.core.process.launcher import Launch, launched, ranks_here, share_gpus


def test_a_process_of_its_own_has_no_launcher():
    assert launched({}) is None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"},
            Launch("mpiexec", 2, 4, 2, 1),
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
                "SLURM_LOCALID": "0",
                "SLURM_STEP_NUM_TASKS": "6",
                "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
            },
            Launch("srun", 5, 6, 2, 0),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Launch("mpiexec", 1, 2, 2, 1)),
    ],
)
def test_each_launcher_is_known(variables, expected):
    assert launched(variables) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}, ("PMI_RANK", 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ("PMI_RANK", 0)),
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1"},
            ("SLURM_PROCID", 0),
        ),
        ({}, ("", 0)),
    ],
)
def test_ranks_of_a_machine_are_counted_only_where_the_launcher_says_so(variables, expected):
    assert ranks_here(variables) == expected


def test_a_launcher_of_one_process_is_none():
    assert launched({"PMI_RANK": "0", "PMI_SIZE": "1"}) is None


HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4", "MPI_LOCALRANKID": "3"}


@pytest.mark.parametrize(
    ("gpus", "given", "expected"),
    [
        (4, {}, "3"),
        (2, {}, "1"),
        (1, {}, None),
        (None, {}, None),
        (4, {"CUDA_VISIBLE_DEVICES": "0,1"}, "0,1"),
        (4, {"MPI_LOCALNRANKS": "1"}, None),
    ],
)
def test_each_process_sees_a_gpu_of_its_own(tmp_path, monkeypatch, gpus, given, expected):
    monkeypatch.setattr(launcher, "GPUS", str(tmp_path / "gpus"))
    for number in range(gpus or 0):
        (tmp_path / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    environment = {**HYDRA, **given}
    share_gpus(environment)
    assert environment.get("CUDA_VISIBLE_DEVICES") == expected


def test_a_process_of_its_own_sees_all_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "GPUS", str(tmp_path))
    for number in range(2):
        (tmp_path / str(number)).mkdir()
    environment = {}
    share_gpus(environment)
    assert environment == {}
