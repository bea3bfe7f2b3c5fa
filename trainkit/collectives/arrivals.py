"""A small process that watches, while MPI starts, whether the other ranks still can come.

MPI starts in a process once all have called for it. A launcher like MPICH's takes a process that
ends before as one that needs no MPI, so the others would wait for it for ever, in a call that lets
no Python code run. Each rank therefore starts this file as a program of its own, which needs
nothing of the package and ends when MPI has started:

    python arrivals.py RANK SIZE VARIABLE LOCAL_SIZE LINE

Ranks differ from other processes by VARIABLE in the environment in which they began, and by the
launcher above them. Those of other machines are not seen; each machine looks at its own.
"""

from __future__ import annotations

import array
import contextlib
import os
import pathlib
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None  # type: ignore[assignment]

START_SECONDS = 2.0
"""How long after this process the last rank of the machine may start."""

PATIENCE = 20.0
"""Seconds after which the first rank that waits says so."""

_PAUSE_SECONDS = 0.1
_PAUSES_FOR_A_LOOK = 30.0
_SECONDS_TO_READ = 1.0
_SECONDS_TO_SPEAK = 2.0


class Process(NamedTuple):
    """What the system tells of a process.

    Attributes:
        parent: the number of the process that started it.
        rank: its rank; `None` for a process that no launcher gave one.
        watches: whether it runs this file.
    """

    parent: int
    rank: int | None
    watches: bool


@contextmanager
def watched(rank: int, size: int, variable: str, local_size: int) -> Iterator[None]:
    """Context in which MPI starts: the job ends if a rank of this machine ends before.

    Args:
        rank: of this process.
        size: how many ranks the job has.
        variable: of the environment, which holds the rank of a process.
        local_size: how many ranks are on this machine, 0 if that is not known.
    """
    if not os.path.exists("/proc/self/environ"):
        yield
        return
    line = os.environ.get("PMI_FD", "") if "HYDI_CONTROL_FD" in os.environ else ""
    inherited = [int(line)] if line.isdigit() else []
    numbers = [str(rank), str(size), variable, str(local_size), str([*inherited, -1][0])]
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(pathlib.Path(__file__)), *numbers],
        stdin=subprocess.PIPE,  # its end is that of the watch, or of this process
        stdout=subprocess.DEVNULL,
        pass_fds=inherited,
        start_new_session=True,  # Ctrl-C is for the ranks
    ) as watch:
        try:
            yield
        finally:
            watch.kill()


def processes(variable: str) -> dict[int, Process]:
    """All processes whose environment may be read, by their numbers.

    Args:
        variable: the one that holds its rank.
    """
    start = variable.encode() + b"="
    table = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # not ours, or gone meanwhile
            number = int(name)
            parent = int(_read(number, "stat").rpartition(b")")[2].split()[1])
            settings = _read(number, "environ").split(b"\0")
            ranks = [int(text[len(start) :]) for text in settings if text.startswith(start)]
            rank = ranks[0] if ranks else None
            watches = bool(ranks) and os.fsencode(__file__) in _read(number, "cmdline").split(b"\0")
            table[number] = Process(parent, rank, watches)
    return table


def _read(number: int, entry: str) -> bytes:
    with open(f"/proc/{number}/{entry}", "rb") as file:
        return file.read()


def launcher_of(number: int, table: dict[int, Process]) -> int:
    """The nearest process above a rank that has none, such as the launcher; 0 if it is not seen."""
    while number in table and table[number].rank is not None:
        number = table[number].parent
    return number


def ranks_below(launcher: int, table: dict[int, Process]) -> dict[int, bool]:
    """The ranks that live below a launcher, and whether each waits for MPI."""
    ranks: dict[int, bool] = {}
    for number, process in table.items():
        if process.rank is not None and launcher_of(number, table) == launcher:
            waits = ranks.get(process.rank, False)
            ranks[process.rank] = waits or process.watches
    return ranks


def missing_ranks(started: set[int], alive: set[int], size: int, local_size: int) -> list[str]:
    """The ranks of this machine that have ended, in words.

    Args:
        started: those that have been alive at some time.
        alive: those that are.
        size: how many ranks the job has.
        local_size: how many of them this machine should have; 0 if that is not to be counted.
    """
    if local_size == size:
        return [f"rank {rank}" for rank in range(size) if rank not in alive]
    words = [f"rank {rank}" for rank in sorted(started - alive)]
    unseen = local_size - len(started)
    return [*words, f"{unseen} of the {local_size} ranks of this machine"] if unseen > 0 else words


class Watch:
    """What a rank that waits for MPI sees of the others on its machine.

    Args:
        rank: the one that waits.
        size: how many ranks the job has.
        variable: of the environment, which holds the rank of a process.
        local_size: how many ranks are on this machine, 0 if that is not known.
        launcher: the number of the process that started them.
    """

    def __init__(self, rank: int, size: int, variable: str, local_size: int, launcher: int) -> None:
        self.rank, self.size, self.local_size = rank, size, local_size
        self._variable, self._launcher = variable, launcher
        self._started: set[int] = set()
        self._missing: list[str] = []

    def look(self, counts: bool) -> bool:
        """Whether a rank has ended, seen twice: one that becomes another program has no name.

        Args:
            counts: whether all ranks of the machine must have been started.
        """
        self._alive = ranks_below(self._launcher, processes(self._variable))
        self._started |= set(self._alive)
        expected = self.local_size if counts else 0
        before = self._missing
        self._missing = missing_ranks(self._started, set(self._alive), self.size, expected)
        return bool(self._missing) and self._missing == before

    def speaks(self) -> bool:
        """Whether this is the first of the ranks that wait."""
        return self.rank == min((n for n, waits in self._alive.items() if waits), default=self.rank)

    def ending(self) -> str:
        """Why the job ends."""
        return (
            f"trainkit: {', '.join(self._missing)} of {self.size} ended before the strategy was "
            "made, for which the others wait, so all end. What went wrong there is said above, or "
            "in its own log."
        )

    def waiting(self) -> str:
        """For whom this rank waits."""
        late = sorted(number for number, waits in self._alive.items() if not waits)
        names = ", ".join(f"rank {number}" for number in late) or "ranks of other machines"
        return (
            f"trainkit: rank {self.rank} has waited {PATIENCE:.0f} s for all {self.size} to make "
            f"their strategy; still to come: {names}."
        )


def main(rank: int, size: int, variable: str, local_size: int, line: int) -> None:
    """Watch until the parent has started MPI or a rank has ended; end the job then.

    Args:
        rank: of the parent.
        size: how many ranks the job has.
        variable: of the environment, which holds the rank of a process.
        local_size: how many ranks are on this machine, 0 if that is not known.
        line: the file by which the parent speaks to MPICH's launcher; -1 for another launcher.
    """
    parent, began, said = os.getppid(), time.monotonic(), False
    launcher = launcher_of(parent, processes(variable))
    if launcher == 0:  # in a container of its own a rank sees no other
        return
    watch, pause = Watch(rank, size, variable, local_size, launcher), _PAUSE_SECONDS
    while not select.select([0], [], [], pause)[0] and os.getppid() == parent:
        looks = time.monotonic()
        seconds = looks - began
        if watch.look(counts=seconds > START_SECONDS):
            end(parent, line, watch.ending() if watch.speaks() else "")
        if seconds > PATIENCE and not said and watch.speaks():
            said = True
            write(watch.waiting())
        # A machine of many processes takes long to look at, and those that wait for work: 3 %.
        pause = max(_PAUSE_SECONDS, _PAUSES_FOR_A_LOOK * (time.monotonic() - looks))


def write(text: str) -> None:
    """Write a line to the errors of the job, in one piece."""
    os.write(2, f"\n{text}\n".encode())


def end(parent: int, line: int, text: str) -> None:
    """End the job with status 1, as MPI_Abort does, or this rank where that can't be said.

    The parent waits for an answer of the launcher and says nothing itself meanwhile. Source of the
    command: PMI-1's wire protocol, in which MPICH's processes speak to their launcher.

    Args:
        parent: the process number of the rank.
        line: the file by which it speaks to MPICH's launcher, or -1.
        text: why all end; nothing where another rank says it.
    """
    if text:
        write(text)
        wait_until_read(2)
    else:
        time.sleep(_SECONDS_TO_SPEAK)
    if line >= 0:
        with contextlib.suppress(OSError):
            os.write(line, b"cmd=abort exitcode=1\n")
            time.sleep(_SECONDS_TO_SPEAK)
    with contextlib.suppress(OSError):
        os.kill(parent, signal.SIGKILL)


def wait_until_read(descriptor: int) -> None:
    """Wait until the launcher has read what this process has written, a second at most.

    The launcher exits as soon as this process has, so what is left in the pipe would be lost.

    Args:
        descriptor: a file's, which may be a pipe to the launcher.
    """
    if fcntl is None:
        return
    unread = array.array("i", [0])
    until = time.monotonic() + _SECONDS_TO_READ
    with contextlib.suppress(OSError):  # closed
        while stat.S_ISFIFO(os.fstat(descriptor).st_mode) and time.monotonic() < until:
            fcntl.ioctl(descriptor, termios.FIONREAD, unread)
            if not unread[0]:
                return
            time.sleep(1e-3)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
