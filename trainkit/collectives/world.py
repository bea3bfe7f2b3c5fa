"""The group of all processes that a launcher started."""

from __future__ import annotations

import os
from functools import lru_cache

from trainkit.collectives.arrivals import watched
from trainkit.collectives.process_group import ProcessGroup
from trainkit.core.cpu.cpu_count import quota
from trainkit.core.errors import UnavailableError
from trainkit.core.process.launcher import launched, others_started, ranks_here
from trainkit.core.process.requirements import install_command


@lru_cache(maxsize=1)
def world() -> ProcessGroup:
    """All processes that the launcher started; a group of one where none did.

    Raises:
        UnavailableError: a launcher started several processes and mpi4py is not installed, or its
            MPI is another one than the launcher's; or something else started them, as torchrun.
    """
    launch = launched()
    if launch is None:
        others = others_started()
        if others:
            raise UnavailableError(
                f"{others}, and they can't work together: each would train alone and write the "
                "same files. Start the script with mpiexec -n N or srun, which tell processes of "
                "each other, without these variables"
            )
        return ProcessGroup()
    if launch.local_size > (quota() or os.cpu_count() or 1):
        # MPICH waits in a loop, and others get their turn a hundredth of a second later. With this
        # it lets them run: sums of four processes on two cores are ten times as fast.
        os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
    try:
        with watched(launch.rank, launch.size, *ranks_here()):
            from trainkit.collectives.mpi_group import MPIGroup
    except ImportError as error:
        raise UnavailableError(
            f"{launch.by} started {launch.size} processes, and mpi4py is needed for them to work "
            f"together ({error}): {install_command('distributed')}"
        ) from error
    group = MPIGroup()
    if group.size != launch.size:
        raise UnavailableError(
            f"{launch.by} started {launch.size} processes, and the MPI of mpi4py sees "
            f"{group.size}: they belong to different MPIs. Start the script with the mpiexec of "
            "the MPI that mpi4py was built for (with pip's mpich: the mpiexec beside this Python; "
            "with Slurm: srun --mpi=pmi2 or --mpi=pmix)"
        )
    return group


def started_group() -> ProcessGroup | None:
    """The group of several processes that a strategy has brought together; `None` without one."""
    if not world.cache_info().currsize:
        return None
    group = world()
    return group if group.size > 1 else None
