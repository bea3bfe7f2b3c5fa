"""`Interruption`: Ctrl-C and SIGTERM end a training loop after the batch, not within it."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Interruption:
    """A context in which Ctrl-C and SIGTERM only set `asked`, for a loop to look at.

    The second signal acts as usual. Handlers that the program has set itself stay, and so does
    everything outside of the main thread, where Python does not allow to set any. Within another
    `Interruption`, both are asked: a signal ends a `fit` inside of a loop, and then the loop.

    Attributes:
        asked: whether to stop after this batch.

    >>> with Interruption() as interruption:
    ...     for step in range(3):
    ...         signal.raise_signal(signal.SIGTERM)
    ...         if interruption.asked:
    ...             break  # after saving
    >>> step
    0
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self.asked = any(outer.asked for outer in _ACTIVE)
            _ACTIVE.append(self)
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before in (signal.default_int_handler, signal.SIG_DFL):
                    self._before[number] = before
                    signal.signal(number, _ask)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _ACTIVE:
            _ACTIVE.remove(self)
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}


_ACTIVE: list[Interruption] = []


def _ask(number: int, frame: Any) -> None:
    """Note the first signal; have the second one act as it would without any `Interruption`."""
    again = any(active.asked for active in _ACTIVE)
    for active in list(_ACTIVE):
        active.asked = True
    if again:
        for active in list(_ACTIVE):
            active._restore()
        signal.raise_signal(number)
