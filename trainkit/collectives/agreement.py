"""Do all ranks do the same next? Asked before each collective operation, in a few microseconds.

A collective operation that ranks enter with other sizes, or only some of them, hangs or mixes up
numbers. So each begins with sixteen bytes from every rank, made of what it is about to do. Where
they differ, the ranks tell each other in words and all raise the same error.
"""

from __future__ import annotations

import hashlib
import sys
import time
from typing import Any

import numpy as np

from trainkit.core.errors import FailedPreconditionError

END_OF_SCRIPT = "the end of the script"

_SPIN_SECONDS = 2e-4
_LONGEST_PAUSE = 2e-3
_LOOK_SECONDS = 0.02
PATIENCE = 20.0
"""Seconds that a rank waits for others before it says so."""

SIGNAL_PATIENCE = 60.0
"""Seconds that a rank waits for others once a signal has asked one of them to stop."""

_LATE = 71  # the tag of messages from ranks that wait


class RanksDifferError(FailedPreconditionError):
    """The ranks of a job are about to do different things; all of them raise it.

    Args:
        words: what each rank is about to do.
        text: the message, where it is about something else than what is done next.

    Attributes:
        speaker: the rank that says it: the first of those that are not at the end of the script.
    """

    def __init__(self, words: list[str], text: str = "") -> None:
        super().__init__(text or _difference(words))
        going = [rank for rank, step in enumerate(words) if step != END_OF_SCRIPT]
        self.speaker = min(going, default=0)


class Agreement:
    """Compares what the ranks of a communicator are about to do.

    Args:
        comm: a communicator of mpi4py, used for nothing else.
        mpi: the module `mpi4py.MPI`.

    Attributes:
        endings: ends the job where a rank does not come and all are to stop; set by `Endings`.
    """

    endings: Any = None

    def __init__(self, comm: Any, mpi: Any) -> None:
        self._comm, self._mpi = comm, mpi
        self._known: dict[str, int] = {}
        self._mine, self._both = np.empty(2, np.int64), np.empty(2, np.int64)
        self._number = 0

    def check(self, label: str) -> None:
        """Go on once all ranks are about to do `label`.

        Args:
            label: in words, with the sizes that have to agree.

        Raises:
            RanksDifferError: another rank does something else; in all ranks.
        """
        number = self._known.get(label)
        if number is None:
            digest = hashlib.blake2b(label.encode(), digest_size=8).digest()
            number = self._known[label] = int.from_bytes(digest, "little") >> 1
        self._number += 1
        self._mine[0], self._mine[1] = number, -number
        self._wait(self._comm.Iallreduce(self._mine, self._both, self._mpi.MAX), label)
        if self._both[0] != number or self._both[1] != -number:
            raise RanksDifferError(self._comm.allgather(label))

    def _wait(self, request: Any, step: str) -> None:
        """Wait with a short spin, then in short sleeps, which leave the core to the others."""
        if request.Test():
            return
        began = time.perf_counter()
        spins_until, pause = began + _SPIN_SECONDS, 2e-5
        said, looks_at, asked_since = False, began + _LOOK_SECONDS, 0.0
        while not request.Test():
            now = time.perf_counter()
            if now < spins_until:
                continue
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            if now > looks_at and self.endings is not None:
                looks_at = now + _LOOK_SECONDS
                if not self.endings.look():
                    asked_since = 0.0
                elif not asked_since:
                    asked_since = now
                elif now - asked_since > SIGNAL_PATIENCE:
                    self.endings.give_up(step)
            if not said and now - began > PATIENCE:
                said = True
                self._say_who_is_missing(step, now - began, request)

    def _say_who_is_missing(self, step: str, seconds: float, request: Any) -> None:
        """Tell the others that this rank waits; the first that waits says who did not."""
        rank, size = self._comm.Get_rank(), self._comm.Get_size()
        mark = np.array([self._number], np.int64)
        sent = [self._comm.Isend(mark, other, _LATE) for other in range(size) if other != rank]
        waiting, until = {rank}, time.perf_counter() + 2.0
        status = self._mpi.Status()
        while time.perf_counter() < until and not request.Test():
            while self._comm.Iprobe(tag=_LATE, status=status):
                theirs = np.empty(1, np.int64)
                self._comm.Recv(theirs, status.Get_source(), _LATE)
                if theirs[0] == self._number:
                    waiting.add(status.Get_source())
            time.sleep(_LONGEST_PAUSE)
        missing = sorted(set(range(size)) - waiting)
        if missing and min(waiting) == rank and not request.Test():
            print(
                f"trainkit: {ranks_in_words(sorted(waiting))} waited {seconds:.0f} s at {step}; "
                f"{ranks_in_words(missing)} did not come yet.",
                file=sys.stderr,
                flush=True,
            )
        del sent


def ranks_in_words(numbers: list[int]) -> str:
    """`rank 1`, or `ranks 0, 2`."""
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers))


def _difference(words: list[str]) -> str:
    """Who is about to do what, ranks that do the same together."""
    who: dict[str, list[int]] = {}
    for rank, step in enumerate(words):
        who.setdefault(step, []).append(rank)
    lines = "; ".join(f"{ranks_in_words(ranks)}: {step}" for step, ranks in who.items())
    return (
        f"the ranks do not go the same way. {lines}. All ranks run the same script with the same "
        "model and the same number of batches; only what is printed or written may depend on the "
        "rank"
    )
