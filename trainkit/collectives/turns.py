"""Replicas of one process that take turns: a thread for each, of which one runs at a time.

Layers, optimizers and metrics are Python objects that all replicas share, so two of them must not
be in the middle of a step at once. A replica runs until it waits for the others, then the next one
goes on. Work on GPUs goes on meanwhile: a turn only launches it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from trainkit.collectives.agreement import RanksDifferError
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import AbortedError, FailedPreconditionError
from trainkit.core.process import forks

_ENDED = "the end of its step"


class Switches(Protocol):
    """What hears of turns, always in the thread whose turn it is."""

    def begin_turn(self, rank: int) -> None:
        """The turn of `rank` begins."""

    def end_turn(self, rank: int) -> None:
        """The turn of `rank` ends."""


class _Silent:
    def begin_turn(self, rank: int) -> None: ...

    def end_turn(self, rank: int) -> None: ...


class Turns:
    """Threads that take turns. The first of them is the one that calls `run`.

    The others are kept for the next call, as libraries keep handles for each thread.

    Attributes:
        begun: of each thread the sums that it has begun since all have met for some.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.begun: list[list[Any]] = [[] for _ in range(size)]
        self._calls = forks.make_lock()
        self._start()
        self._begin(_Silent())

    def _start(self) -> None:
        size = self.size
        self._threads = [ThreadPoolExecutor(1, f"replica {rank}") for rank in range(1, size)]
        self._changed = threading.Condition()
        self._generation = forks.generation()

    def _begin(self, switches: Switches) -> None:
        self._switches = switches
        self._running = 0
        self._given: list[Any] = [None] * self.size
        self._words = [""] * self.size
        self._here: set[int] = set()  # those that wait for the others
        self._ended: set[int] = set()
        self._outcome: Any = None
        self._broken = False

    # ------------------------------------------------------------------ all of them

    def run(self, work: Callable[[int], Any], switches: Switches | None = None) -> list[Any]:
        """What `work` gives for the number of each replica.

        Raises:
            BaseException: the first error of a replica, once all have ended.
        """
        with self._calls:
            if self._generation != forks.generation():  # forked off: its threads are the parent's
                self._start()
            self._begin(_Silent() if switches is None else switches)
            results: list[Any] = [None] * self.size
            errors: list[tuple[int, BaseException]] = []

            def one(rank: int) -> None:
                try:
                    self._wait_for_turn(rank)
                    self._switches.begin_turn(rank)
                    self._check()
                    results[rank] = work(rank)
                except BaseException as error:
                    errors.append((rank, error))
                    self._broken = True
                finally:
                    self._end(rank)

            others = [
                thread.submit(contextvars.copy_context().run, one, rank)
                for rank, thread in enumerate(self._threads, 1)
            ]
            one(0)
            for other in others:
                other.result()
        if errors:
            raise _cause(errors)
        return results

    def _check(self) -> None:
        if self._broken:
            raise AbortedError("another replica of this process ended")

    # ------------------------------------------------------------------ one of them

    def meet(
        self, rank: int, value: Any, label: str, join: Callable[[list[Any]], Any] | None = None
    ) -> Any:
        """Wait for all others, which bring values too.

        Args:
            rank: who this is.
            value: of this one.
            label: what all are about to do, in words.
            join: function of the values of all, called by the last one that comes.

        Returns:
            The list of all values, or what `join` gave.

        Raises:
            RanksDifferError: they are about to do different things; in all threads.
            AbortedError: another thread has failed.
            FailedPreconditionError: a function is traced here, which the others would wait for.
        """
        self._check()
        if trace_state.THREAD.making is not None:
            raise FailedPreconditionError(
                f"{label}: the replicas of one process can't meet while a function is traced, as "
                "one of them traces at a time; leave tk.init_scope out, or meet before the call"
            )
        self._given[rank], self._words[rank] = value, label
        self._here.add(rank)
        if len(self._here) + len(self._ended) == self.size:
            self._outcome = self._joined(join)
            self._given = [None] * self.size
            self._here.clear()
        self._switches.end_turn(rank)
        try:
            self._running = self._next(rank)
            self._wait_for_turn(rank)
        finally:
            self._switches.begin_turn(rank)
        self._check()
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _joined(self, join: Callable[[list[Any]], Any] | None) -> Any:
        if len(set(self._words)) > 1:
            return RanksDifferError(list(self._words))
        values = list(self._given)
        try:
            return values if join is None else join(values)
        except Exception as error:
            return error

    def _next(self, last: int) -> int:
        """Who runs after `last`; the first goes ahead of the others from meeting to meeting."""
        some = [rank for rank in range(self.size) if rank not in self._ended]
        if self._broken:
            return some[0] if some else -1
        free = [rank for rank in some if rank not in self._here]
        later = [rank for rank in free if rank > last and self._here]
        return (later or free or [-1])[0]

    def _wait_for_turn(self, rank: int) -> None:
        """Go on once it is this one's turn, also where a signal comes meanwhile: that ends all."""
        error: BaseException | None = None
        while True:
            try:
                with self._changed:
                    self._changed.notify_all()
                    while self._running != rank:
                        self._changed.wait()
                break
            except BaseException as signal:  # the others end first, in their turns
                self._broken, error = True, error or signal
        if error is not None:
            raise error

    def _end(self, rank: int) -> None:
        try:
            self._switches.end_turn(rank)
        finally:
            self._ended.add(rank)
            self._words[rank] = _ENDED
            if self._here and len(self._here) + len(self._ended) == self.size:
                self._outcome = RanksDifferError(list(self._words))
                self._here.clear()
            with self._changed:
                self._running = self._next(rank)
                self._changed.notify_all()


def _cause(errors: list[tuple[int, BaseException]]) -> BaseException:
    """The error of the first replica that did not only follow another one."""
    own = [error for _, error in sorted(errors, key=lambda pair: pair[0])]
    return next((error for error in own if not isinstance(error, AbortedError)), own[0])
