"""How many processor cores this process may use: those it is bound to, and what its group is given.

A container is often shown all cores of its machine while the scheduler gives it the time of a few.
Pools of one thread per core then spend their time waiting to be run again.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache

from trainkit.core.process.launcher import launched

CGROUPS = "/sys/fs/cgroup"
_FIRST_VERSION = ("cpu", "cpu,cpuacct")
"""Where version 1 has its groups; a process's line names these controllers in either order."""


def bound_cores() -> int:
    """How many cores the process is bound to; all that there are where it is not."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def quota() -> float | None:
    """Cores' worth of time that control groups (of version 1 or 2) give; `None` without a limit."""
    limits = [limit for folder in _folders() for limit in _limits(folder)]
    return min(limits, default=None)


def usable_cores() -> int:
    """How many threads can run at a time: bound cores, or the time given if that is less.

    Processes that a launcher started together on this machine, and bound to no cores of their own,
    have equal shares.
    """
    allowance = quota()
    bound = bound_cores()
    cores = bound if allowance is None else max(1, min(bound, math.ceil(allowance)))
    return max(1, cores // neighbours())


def neighbours() -> int:
    """How many processes share the cores that this one is bound to: those of its launcher, or 1."""
    launch = launched()
    if launch is None or launch.local_size < 2 or not hasattr(os, "sched_getaffinity"):
        return 1
    try:
        around = os.sched_getaffinity(os.getppid())
    except OSError:  # it is over, or belongs to somebody else
        return launch.local_size
    return launch.local_size if os.sched_getaffinity(0) == around else 1


def _folders() -> list[str]:
    """The folders of this process's groups and of the groups around them."""
    folders = [CGROUPS, *(f"{CGROUPS}/{name}" for name in _FIRST_VERSION)]
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part]
        for base in (f"{CGROUPS}/{name}" for name in _FIRST_VERSION) if controllers else (CGROUPS,):
            folders += [f"{base}/{'/'.join(parts[:n])}" for n in range(1, len(parts) + 1)]
    return folders


def _limits(folder: str) -> list[float]:
    """The limits that one group's files state, in cores."""
    pairs = [
        _text(f"{folder}/cpu.max").split(),
        [_text(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")],
    ]
    try:
        numbers = [(int(p[0]), int(p[1])) for p in pairs if len(p) == 2 and p[0] not in ("max", "")]
    except ValueError:
        return []
    return [allowance / period for allowance, period in numbers if allowance > 0 and period > 0]


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
