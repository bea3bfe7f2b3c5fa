"""`Interruption`: Ctrl-C and SIGTERM end a training loop after the batch, not within it."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Interruption:
    """A context in which Ctrl-C and SIGTERM only set `asked`, for a loop to look at.

    The second signal acts as usual. Handlers that the program has set itself stay, and so does
    everything outside of the main thread, where Python does not allow to set any.

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
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before in (signal.default_int_handler, signal.SIG_DFL):
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def __exit__(self, *error: object) -> None:
        self._restore()
