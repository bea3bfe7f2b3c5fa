"""Whether a launcher started this process together with others, read from the environment.

Sources: the variables that MPICH's Hydra, Open MPI's `mpiexec` and Slurm's `srun` set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple


class Launch(NamedTuple):
    """What the launcher said.

    Attributes:
        by: name of the launcher, for messages.
        rank: number of this process, from 0.
        size: how many processes there are.
        local_size: how many of them are on this machine.
        local_rank: number of this one among these.
    """

    by: str
    rank: int
    size: int
    local_size: int
    local_rank: int = 0


_LAUNCHERS = (
    # name, then the variables of rank and size, in all and on this machine
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    (
        "mpiexec",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        "srun",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
    ),
)


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What the launcher of this process said; `None` if it was started alone.

    Args:
        environment: variables by name.
    """
    for by, rank, size, local_rank, local in _LAUNCHERS:
        if rank in environment and environment.get(size, "").isdigit():
            count = int(environment[size])
            if count < 2:
                return None
            here = _first_number(environment.get(local, ""))
            number = int(environment[rank])
            inside = environment.get(local_rank, "")
            own = int(inside) if inside.isdigit() else number
            return Launch(by, number, count, here or count, own)
    return None


GPUS = "/proc/driver/nvidia/gpus"
"""Where NVIDIA's driver lists the GPUs of a machine."""


def share_gpus(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let each process of a machine see a GPU of its own, unless somebody has said which it sees.

    It has to be called before CUDA starts.

    Args:
        environment: variables by name; `CUDA_VISIBLE_DEVICES` may be set.
    """
    launch = launched(environment)
    if launch is None or launch.local_size < 2 or "CUDA_VISIBLE_DEVICES" in environment:
        return
    try:
        count = len(os.listdir(GPUS))
    except OSError:
        return
    if count > 1:
        environment["CUDA_VISIBLE_DEVICES"] = str(launch.local_rank % count)


def _first_number(text: str) -> int:
    """The number that `text` begins with, as in Slurm's `2(x3)`; 0 if there is none."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0
