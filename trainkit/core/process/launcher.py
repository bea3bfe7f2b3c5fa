"""Whether a launcher started this process together with others, read from the environment.

Sources: the variables that MPICH's Hydra, Open MPI's `mpiexec` and Slurm's `srun` set.
"""

from __future__ import annotations

import json
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


class _Names(NamedTuple):
    """A launcher, and the variables of rank and size that it sets, in all and on this machine."""

    by: str
    rank: str
    size: str
    local_rank: str
    local_size: str


_LAUNCHERS = (
    _Names("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Names(
        "mpiexec",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Names(
        "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"
    ),
)


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What the launcher of this process said; `None` if it was started alone."""
    names = _names_of(environment)
    if names is None or int(environment[names.size]) < 2:
        return None
    count, number = int(environment[names.size]), int(environment[names.rank])
    local_size = _first_number(environment.get(names.local_size, ""))
    inside = environment.get(names.local_rank, "")
    own = int(inside) if inside.isdigit() else number
    return Launch(names.by, number, count, local_size or count, own)


def ranks_here(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """How the ranks of this machine differ from other processes.

    Args:
        environment: variables by name, of a process that a launcher started.

    Returns:
        The variable that holds the rank of a process, and how many of them are on this machine; 0
        where the launcher does not say so of each machine, as Slurm and PMI alone do not.
    """
    names = _names_of(environment)
    if names is None:
        return "", 0
    count = environment.get(names.local_size, "") if names.by == "mpiexec" else ""
    return names.rank, int(count) if count.isdigit() else 0


def _names_of(environment: Mapping[str, str]) -> _Names | None:
    """The variables of the launcher that started a process, if one did."""
    for names in _LAUNCHERS:
        if names.rank in environment and environment.get(names.size, "").isdigit():
            return names
    return None


_OTHER_LAUNCHERS = (
    # what sets the variables; those of rank and size
    ("torchrun (or another launcher of PyTorch's)", "RANK", "WORLD_SIZE"),
    ("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE"),
    ("MVAPICH's launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
)


def others_started(environment: Mapping[str, str] = os.environ) -> str:
    """Who started this process with others in a way that is not served, in words; or nothing.

    Each of these processes would train alone, on all of the data, and write the same files.
    """
    for by, rank, size in _OTHER_LAUNCHERS:
        count = environment.get(size, "")
        if rank in environment and count.isdigit() and int(count) > 1:
            number = environment[rank]
            return f"{by} started {count} processes ({rank}={number}, {size}={count})"
    return _of_tf_config(environment.get("TF_CONFIG", ""))


def _of_tf_config(text: str) -> str:
    """What TF_CONFIG says of several workers; an evaluator is alone, as in TensorFlow."""
    try:
        config = json.loads(text or "{}")
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        count = sum(len(cluster.get(kind) or ()) for kind in ("chief", "master", "worker"))
        kind, index = task.get("type"), task.get("index")
    except (ValueError, AttributeError, TypeError):
        return f"TF_CONFIG can't be read as JSON with a cluster and a task: {text[:80]!r}"
    if count < 2 or kind == "evaluator":
        return ""
    return f"TF_CONFIG names {count} workers (this one is {kind} {index})"


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
