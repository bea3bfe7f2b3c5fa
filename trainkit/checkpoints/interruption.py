"""Signals where they do no harm: after a batch (`Interruption`), not in HDF5 (`SignalsHeld`)."""

from __future__ import annotations

import functools
import signal
import threading
from typing import Any

from trainkit.collectives.world import started_group

_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP")
STOPPING = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""The signals after which training saves and stops."""


class Interruption:
    """A context in which Ctrl-C and signals to stop only set `asked`, for a loop to look at.

    These are SIGINT, SIGTERM, and what schedulers send before they stop a job, where the system has
    them: SIGUSR1, SIGUSR2 and SIGHUP. The second signal acts as usual. Handlers that the program
    has set itself stay, as does a SIGHUP that `nohup` ignores, and so does everything outside of
    the main thread, where Python does not allow to set any. Within another `Interruption`, both are
    asked: a signal ends a `fit` inside of a loop, and then the loop.

    Attributes:
        asked: whether to stop after this batch.
        number: of the signal that came, or None.

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
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for outer in _ACTIVE:
                if outer.asked:
                    self.asked, self.number = True, outer.number
            _ACTIVE.append(self)
            handled = _handled_signals()
            for number in STOPPING:
                before = signal.getsignal(number)
                is_default = before is signal.SIG_DFL and number not in handled
                if is_default or before is signal.default_int_handler:
                    self._before[number] = before
                    signal.signal(number, _ask)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _ACTIVE:
            _ACTIVE.remove(self)
        self._restore()
        if self.asked and not _ACTIVE:
            _tell_others(False)

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}


class SignalsHeld:
    """A context in which the program's signal handlers wait.

    HDF5 calls back into Python to read and to write. A handler that raises in there, as that of
    Ctrl-C does, leaves its structures half done: it crashes, or loses the exception. What came runs
    at `look`, which belongs between two calls of HDF5, or at the end. Threads other than the main
    one never run handlers.
    """

    def __init__(self) -> None:
        self._came: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalsHeld:
        if threading.current_thread() is threading.main_thread():
            try:
                for number in _signal_numbers():
                    before = signal.getsignal(number)
                    if callable(before):
                        self._before[number] = before
                        signal.signal(number, self._note)
            except BaseException:  # of a handler that has run before it was replaced
                self._put_back()
                raise
        return self

    def __exit__(self, *error: object) -> None:
        self._put_back()
        came, self._came = self._came, []
        for number in dict.fromkeys(came):
            signal.raise_signal(number)

    def look(self) -> None:
        """Run the handlers of the signals that came; whatever they raise, others go on waiting."""
        while self._came:
            number = self._came.pop(0)
            self._before[number](number, None)

    def _note(self, number: int, frame: Any) -> None:
        self._came.append(number)

    def _put_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:  # else a handler has changed it in `look`
                signal.signal(number, before)


_ACTIVE: list[Interruption] = []


@functools.cache
def _signal_numbers() -> tuple[int, ...]:
    """All signals; Python makes an enumeration's member of each at every question."""
    return tuple(sorted(map(int, signal.valid_signals())))


def _handled_signals() -> set[int]:
    """Signals that have a handler in C, as `faulthandler.register` sets one; Python sees none."""
    try:
        with open("/proc/self/status") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
        mask = int(masks[0], 16)
    except (OSError, IndexError):  # another system than Linux
        return set()
    return {number for number in STOPPING if mask >> (number - 1) & 1}


def _tell_others(stopping: bool) -> None:
    """Let other processes of the job know whether this one is to stop."""
    group = started_group()
    if group is not None:
        group.hear_signal(stopping)


def _ask(number: int, frame: Any) -> None:
    """Note the first signal; have the second one act as it would without any `Interruption`."""
    again = any(active.asked for active in _ACTIVE)
    for active in list(_ACTIVE):
        if not active.asked:
            active.asked, active.number = True, number
    _tell_others(True)
    if again:
        for active in list(_ACTIVE):
            active._restore()
        signal.raise_signal(number)
