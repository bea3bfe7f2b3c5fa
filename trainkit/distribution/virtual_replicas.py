"""What `virtual_replicas` of a strategy sets up: replicas by turns, kernels of the same bits."""

from __future__ import annotations

import operator
from typing import Any

from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.virtual_replica import VirtualReplica
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads import pools


def virtual_replicas_of(group: ProcessGroup, number: Any) -> VirtualReplica:
    """The virtual replicas of this process.

    Args:
        group: the processes.
        number: how many there are in all of them together.

    Raises:
        ValueError: the processes can't have as many each, or gradients are to be rounded first.
        TypeError: `number` is no whole number.
        UnimplementedError: results of NumPy's BLAS depend on a number of threads that can't be set.
    """
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"virtual_replicas must be a whole number or None, got {number!r}")
    count = operator.index(number)
    if count < 1 or count % group.size:
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        fitting = f"start {', '.join(map(str, divisors))} of them" if divisors else "take 1 or more"
        raise ValueError(
            f"virtual_replicas={count} can't be shared out to {group.size} processes, which have "
            f"as many each: {fitting}"
        )
    rounded = group.communication.gradient_dtype
    if rounded is not None:
        raise ValueError(
            f"virtual_replicas={count} and gradient_dtype={rounded!r} do not go "
            "together: what is rounded to travel would depend on the number of processes"
        )
    _make_kernels_alike()
    return VirtualReplica(group, count)


def _make_kernels_alike() -> None:
    """Let no bit depend on the number of threads, or on how many calls a process has made.

    A process makes more calls of a kernel where it has more replicas, so a kernel that takes over
    after so many calls would do so in another step.
    """
    pools.determine()
    if kernel_family.mode() == "hot":
        kernel_family.set_mode("eager")
