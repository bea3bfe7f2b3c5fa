"""How often something dear is done in a loop: every step, or every second, fourth, eighth one."""

from __future__ import annotations

from typing import Any

_LARGEST = 1 << 20
_LONG_STEP = 5e-3
_SHARE_OF_SHORT, _SHARE_OF_LONG = 0.001, 0.0004
"""Of the time of steps; so two of a kind leave room for a line within 1 % and 0.2 %."""
_WEIGHT = 0.25


class Cadence:
    """Chooses a power of two of steps by what the work costs, so that two runs have common steps.

    Args:
        every: `"auto"`, or a number of steps.

    Raises:
        ValueError: it is neither.
    """

    def __init__(self, every: Any = "auto") -> None:
        fixed = type(every) is int
        if every != "auto" and not (fixed and every > 0):
            raise ValueError(f"every so many steps: 'auto' or a number above 0, got {every!r}")
        self.every = every if fixed else 1
        self._is_fixed = fixed
        self._note_count = 0
        self._mean_cost = self._mean_seconds = 0.0

    def due(self, step: int) -> bool:
        """Whether it is done after this step, counted from 1."""
        return step % self.every == 0

    def note(self, cost: float, step_seconds: float) -> None:
        """Say what it has cost, and how long steps take without it, in seconds."""
        self._note_count += 1
        if self._is_fixed or self._note_count <= 1:  # the first one fills caches
            return
        weight = 1.0 if self._note_count == 2 else _WEIGHT
        self._mean_cost += weight * (cost - self._mean_cost)
        self._mean_seconds += weight * (step_seconds - self._mean_seconds)
        share = _SHARE_OF_SHORT if self._mean_seconds < _LONG_STEP else _SHARE_OF_LONG
        ideal = self._mean_cost / (share * max(self._mean_seconds, 1e-9))
        every = 1
        while every < min(ideal, _LARGEST):
            every *= 2
        if every < self.every:  # once a while it is tried oftener, by one step at a time
            every = self.every // 2 if ideal < self.every / 4 else self.every
        self.every = every
