"""Whether a launcher started this process together with others, read from the environment.

Sources: the variables that MPICH's Hydra, Open MPI's `mpiexec` and Slurm's `srun` set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Launch(NamedTuple):
    """What the launcher said.

    Attributes:
        by: name of the launcher, for messages.
        rank: number of this process, from 0.
        size: how many processes there are.
        local_size: how many of them are on this machine.
    """

    by: str
    rank: int
    size: int
    local_size: int


_LAUNCHERS = (
    # name, then the variables of rank, size and the processes of this machine
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
)


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What the launcher of this process said; `None` if it was started alone.

    Args:
        environment: variables by name.
    """
    for by, rank, size, local in _LAUNCHERS:
        if rank in environment and environment.get(size, "").isdigit():
            count = int(environment[size])
            if count < 2:
                return None
            here = _first_number(environment.get(local, ""))
            return Launch(by, int(environment[rank]), count, here or count)
    return None


def _first_number(text: str) -> int:
    """The number that `text` begins with, as in Slurm's `2(x3)`; 0 if there is none."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits else 0
