"""What a machine is like that others use too: busy cores, and a limit of time.

Both hold within a `with` block: `busy()` runs a process that computes on every core, `quota(0.5)`
puts this process, with all that it starts, into a control group that gives it half a core's time.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

GROUPS = pathlib.Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
_COMPUTES = "import sys\nprint(flush=True)\nwhile True: pass"


class Refused(Exception):
    """The system does not let this process make the condition."""


@contextlib.contextmanager
def busy(count: int | None = None) -> Iterator[list[int]]:
    """Processes that compute all the time, by default one for each core; their numbers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    command = [sys.executable, "-c", _COMPUTES]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE)
        for _ in range(cores or 1 if count is None else count)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextlib.contextmanager
def quota(cores: float) -> Iterator[pathlib.Path]:
    """A control group of this process, and of those that it starts, with so many cores' time.

    Raises:
        Refused: control groups can't be made here, as for most users; `systemd-run --user --scope
            -p CPUQuota=50%` then does the same from outside.
    """
    own = f"trainkit-bench-{os.getpid()}"
    new = (GROUPS / "cgroup.controllers").exists()
    above = GROUPS if new else GROUPS / "cpu"
    group, limit = above / own, int(cores * PERIOD_MICROSECONDS)
    before = above / "cgroup.procs"
    try:
        group.mkdir()
        if new:
            (group / "cpu.max").write_text(f"{limit} {PERIOD_MICROSECONDS}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(limit))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise Refused(
            f"no control group can be made below {above}: {error}; run this as root, or "
            f"within systemd-run --user --scope -p CPUQuota={cores:.0%}"
        ) from None
    try:
        yield group
    finally:
        before.write_text(str(os.getpid()))
        with contextlib.suppress(OSError):  # who is still in it ends soon
            group.rmdir()
