"""A small process that outlives the ranks of its machine and says which of them was killed.

MPI's launcher ends a job as soon as one of its processes is gone, sooner than the other ranks could
say anything, and names that process by its number alone. One rank of each machine starts this file
as a program of its own, which needs nothing of the package:

    python observer.py FILE SIZE RANK:PROCESS RANK:PROCESS ...

It makes a pipe FILE.RANK for each of these ranks, which the rank holds open as long as it lives. A
pipe is closed before the launcher sees that its process is gone, so the first one that closes is
that of the rank that died first; the others are ended by the launcher right after.

FILE has a byte for each rank of the job: `FAILED` once the rank has said why it ends, `ENDED` once
it has come to its end with all others, `ASKED` while a signal has asked it to stop.
"""

import contextlib
import os
import select
import signal
import sys
import time

GOING, ENDED, FAILED, ASKED = b"\0", b"\1", b"\2", b"\3"

GRACE_SECONDS = 3.0
"""How long the launcher has to end the other ranks before this process does it."""


def main(path: str, size: int, ranks: dict[int, int]) -> None:
    """Wait until a rank ends; say so if it was killed.

    Args:
        path: of the file of marks, which is removed once this process is ready.
        size: how many ranks the job has.
        ranks: process numbers of those of this machine.
    """
    marks = os.open(path, os.O_RDONLY)
    ends: dict[int, int] = {}
    queue, watched = select.epoll(), {}  # gives events in the order in which they came
    for rank, process in ranks.items():
        line = f"{path}.{rank}"
        os.mkfifo(line, 0o600)
        watched[os.open(line, os.O_RDONLY | os.O_NONBLOCK)] = rank
        with contextlib.suppress(OSError, AttributeError):  # gone already, or an old system
            ends[rank] = os.pidfd_open(process)
            watched[ends[rank]] = rank
    for handle in watched:
        queue.register(handle, select.EPOLLIN)
    with contextlib.suppress(OSError):
        os.unlink(path)
    left = set(ranks)
    while left:
        for handle, _ in queue.poll():
            queue.unregister(handle)
            rank = watched[handle]
            mark = os.pread(marks, 1, rank)
            if rank not in left or mark == ENDED:
                left.discard(rank)
                continue
            if FAILED not in os.pread(marks, size, 0):
                say(rank, ranks[rank], size, len(ranks))
            end([other for number, other in ends.items() if number != rank])
            return


def say(rank: int, process: int, size: int, here: int) -> None:
    """The message, in one piece."""
    first = "" if here == size else ", the first to end on its machine,"
    text = (
        f"\ntrainkit: rank {rank} of {size} (process {process} on {os.uname().nodename}){first} "
        f"{how(process)}, so all end. Start the job again: BackupAndRestore and CheckpointManager "
        "go on from the last checkpoint.\n"
    )
    os.write(2, text.encode())


def how(process: int) -> str:
    """How a process ended, as far as the system still tells."""
    status = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{process}/stat") as file:
            status = int(file.read().rpartition(")")[2].split()[-1])
    if status is None:
        return "ended without a word, as after a kill or when memory runs out"
    number = status & 0x7F
    if not number:
        return f"ended with exit code {status >> 8}"
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"was killed by {name}" + (
        ", as the system does when memory runs out" if name == "SIGKILL" else ""
    )


def end(handles: list[int]) -> None:
    """End the other ranks, if the launcher does not."""
    until = time.monotonic() + GRACE_SECONDS
    queue, left = select.poll(), set(handles)
    for handle in left:
        queue.register(handle, select.POLLIN)
    while left and time.monotonic() < until:
        for handle, _ in queue.poll(100):
            queue.unregister(handle)
            left.discard(handle)
    for handle in left:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        {int(rank): int(process) for rank, _, process in (a.partition(":") for a in sys.argv[3:])},
    )
