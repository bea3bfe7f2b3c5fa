"""How a rank ends: with all others, by an error that ends the job, or killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

from trainkit.collectives.agreement import END_OF_SCRIPT, Agreement, RanksDifferError
from trainkit.collectives.arrivals import wait_until_read
from trainkit.collectives.observer import ASKED, ENDED, FAILED, GOING

SECONDS_TO_SPEAK = 5.0
"""How long a rank that ends with all others leaves it to one of them to say why, and to end all."""

_SECONDS_TO_START = 5.0


class Endings:
    """Sees to it that no rank waits for one that has ended.

    Args:
        comm: a communicator of mpi4py, used for nothing else.
        agreement: compares what ranks are about to do.
        world: the communicator of all processes that the launcher started.
    """

    def __init__(self, comm: Any, agreement: Agreement, world: Any) -> None:
        self._comm, self._agreement, self._world = comm, agreement, world
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        host = socket.gethostname()
        processes = comm.allgather((host, os.getpid()))
        local_processes = {
            rank: process for rank, (at, process) in enumerate(processes) if at == host
        }
        path = ""
        if self.rank == min(local_processes):
            # A folder of one's own, or others could make the pipes beside the file first.
            path = os.path.join(tempfile.mkdtemp(prefix="trainkit-ranks-"), "marks")
            pathlib.Path(path).write_bytes(bytes(self.size))
        path = comm.allgather(path)[min(local_processes)]
        self._marks = os.open(path, os.O_RDWR)
        comm.Barrier()  # all have opened the file, which the observer removes
        if self.rank == min(local_processes) and hasattr(select, "epoll"):
            _observe(path, self.size, local_processes)
        comm.Barrier()
        self._line = _line_to_observer(f"{path}.{self.rank}")
        with contextlib.suppress(OSError):  # the last rank of the machine finds it empty
            os.rmdir(os.path.dirname(path))
        agreement.endings = self
        self._hook, sys.excepthook = sys.excepthook, self._on_error
        atexit.register(self._at_exit)

    def end_all(self) -> None:
        """End the job with status 1.

        Only `MPI_Abort` of the world reaches MPICH's launcher as a command, with the status that it
        then has. That of another communicator, as an exit, is a lost process to it: it kills the
        others, and gives 9, their death, for the status of the job where it sees them die in time.
        """
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in (1, 2):
            wait_until_read(number)
        self._world.Abort(1)
        os._exit(1)

    def _leave_it_to_another(self) -> None:
        """Wait to be ended with all others by the rank that says why; end all where it does not.

        A rank that only exits would be taken for one that was lost, see `end_all`.
        """
        self._mark(FAILED)
        time.sleep(SECONDS_TO_SPEAK)
        self.end_all()

    def _mark(self, state: bytes) -> None:
        os.pwrite(self._marks, state, self.rank)

    def _marks_of_others(self) -> bytes:
        marks = os.pread(self._marks, self.size, 0)
        return marks[: self.rank] + marks[self.rank + 1 :]

    def hear_signal(self, asked: bool) -> None:
        """Tell the ranks of this machine that this one is to stop, or that it has.

        Where another one has failed, the signal comes from the launcher, which ends all.
        """
        if FAILED in self._marks_of_others():
            self._mark(FAILED)
            self.end_all()
        self._mark(ASKED if asked else GOING)

    def look(self) -> bool:
        """Look at the marks of this machine's ranks, where this one waits for another.

        Where one has failed, this one waits for the end that comes to all.

        Returns:
            Whether a signal has asked a rank to stop, this one included.
        """
        if FAILED in self._marks_of_others():
            self._leave_it_to_another()
        return ASKED in os.pread(self._marks, self.size, 0)

    def give_up(self, label: str) -> None:
        """End the job because a rank does not come, though all are to stop.

        Args:
            label: where the others wait, in words.
        """
        self._mark(FAILED)
        print(
            f"trainkit: rank {self.rank} of {self.size} was to stop after a signal and has waited "
            f"at {label} for a rank that does not come, so all end.",
            file=sys.stderr,
        )
        self.end_all()

    def _on_error(self, kind: Any, error: Any, trace: Any) -> None:
        """What happens to an error that nobody catches."""
        in_all = isinstance(error, RanksDifferError)
        if in_all and error.speaker != self.rank:  # one rank says it
            self._leave_it_to_another()
        self._hook(kind, error, trace)
        if not in_all:
            last = traceback.format_exception_only(kind, error)[-1].strip()
            print(
                f"trainkit: rank {self.rank} of {self.size} stopped ({last}), so all end.",
                file=sys.stderr,
            )
        self._mark(FAILED)
        self.end_all()

    def _at_exit(self) -> None:
        """Wait for all ranks to come to the end of the script."""
        try:
            self._agreement.check(END_OF_SCRIPT)
        except RanksDifferError:  # those that are not at their end say so
            self._leave_it_to_another()
        self._mark(ENDED)
        self._comm.Barrier()  # no rank is gone before all marks are set


def _line_to_observer(path: str) -> int | None:
    """The end of a pipe that tells the observer, when it closes, that this process is gone."""
    try:
        line = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.unlink(path)
    except OSError:  # there is no observer
        return None
    return line


def _observe(path: str, size: int, ranks: dict[int, int]) -> None:
    """Start the observer of this machine, in a session of its own, and wait until it is there."""
    program = pathlib.Path(__file__).with_name("observer.py")
    arguments = [f"{rank}:{process}" for rank, process in ranks.items()]
    subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), path, str(size), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + _SECONDS_TO_START
    while os.path.exists(path) and time.monotonic() < until:
        time.sleep(1e-3)
