"""`TimeBudget`: extra work that takes only a share of the time, however much it is."""

from __future__ import annotations

import time
from collections.abc import Callable

_SHORTEST = 1e-9
"""Seconds."""


class TimeBudget:
    """Says when extra work may be done again, so that it takes at most a share of all time.

    Before the first time its cost is guessed from that of a step; afterwards the dearest of the
    last times counts, so that what grows becomes rarer by itself.

    Args:
        share: of all time since `begin`, above 0 and at most 1.
        clock: gives seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"a share of time must be above 0 and at most 1, got {share}")
        self.share, self._clock = share, clock
        self.spent = 0.0
        self._expected: float | None = None
        self.begin()

    def begin(self) -> None:
        """Count from now."""
        self._began_at = self._clock()
        self.spent = 0.0

    def may_spend(self, guess: float) -> bool:
        """Whether the work may be done now.

        Args:
            guess: what it may cost, in seconds, as long as that is not known.
        """
        return self.seconds_until(guess) == 0.0

    def seconds_until(self, guess: float) -> float:
        """In how many seconds the work may be done, if none is done before; 0 for now.

        Args:
            guess: see `may_spend`.
        """
        expected = guess if self._expected is None else self._expected
        passed = self._clock() - self._began_at
        if self.spent + expected <= self.share * (passed + expected):
            return 0.0
        return max((self.spent + expected) / self.share - expected - passed, _SHORTEST)

    def note(self, seconds: float) -> None:
        """Say what the work has cost."""
        self.spent += seconds
        self._expected = max(seconds, 0.5 * ((self._expected or 0.0) + seconds))
