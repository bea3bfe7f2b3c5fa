"""`Progbar`: how far a loop is, with numbers beside it; and the texts that all bars are made of."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.callbacks.status_line import StatusLine

_RARER_IN_FILES = 200
_MILLI, _MICRO = 1e-3, 1e-6


def number_text(value: Any) -> str:
    """A metric as bars show it."""
    if not isinstance(value, float | int):
        return str(value)
    small = value != 0 and abs(value) < 1e-3
    return f"{value:.4e}" if small else f"{value:.4f}"


def logs_pieces(logs: dict[str, Any]) -> list[str]:
    """All metrics, each as `"name: number"`: those of training, then those of validation."""

    def place(name: str) -> tuple[bool, bool, str]:
        return name.startswith("val_"), name.removeprefix("val_") != "loss", name

    names = sorted(logs, key=place)
    return [f"{name}: {number_text(logs[name])}" for name in names]


def logs_text(logs: dict[str, Any]) -> str:
    """`logs_pieces` on one line."""
    return " - ".join(logs_pieces(logs))


def duration_text(seconds: float) -> str:
    """A duration: `"0.4s"`, `"12s"`, `"1:05"` or `"1:02:03"`.

    >>> duration_text(65.2)
    '1:05'
    """
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, remainder = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remainder:02d}" if hours else f"{minutes}:{remainder:02d}"


def rate_text(seconds: float, unit: str) -> str:
    """What one unit takes: `"12ms/step"`.

    >>> rate_text(0.0123, "step")
    '12ms/step'
    """
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.1f}s/{unit}" if seconds else f"0s/{unit}"
    if seconds >= _MILLI:
        return f"{seconds / _MILLI:.0f}ms/{unit}"
    return f"{seconds / _MICRO:.0f}us/{unit}"


class Pace:
    """How long units of work take; the first, which is slower than the rest, is left out."""

    def __init__(self) -> None:
        self.began_at = time.perf_counter()
        self._first: tuple[int, float] | None = None

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self.began_at

    def of(self, count: int) -> float:
        """Seconds for one unit, when `count` of them are done."""
        now = time.perf_counter()
        if count <= 0:
            return 0.0
        if self._first is None:
            self._first = (count, now)
        first, then = self._first
        if count > first:
            return (now - then) / (count - first)
        return (now - self.began_at) / count

    def pieces(self, count: int, total: int | None, unit: str, over: bool) -> list[str]:
        """The time per unit, with what is left of the time, or what was taken when it is over."""
        one = self.of(count)
        if over:
            return [f"{duration_text(self.seconds)} {rate_text(one, unit)}"]
        if not total:
            return [f"{duration_text(self.seconds)} {rate_text(one, unit)}"]
        return [f"{rate_text(one, unit)} {duration_text(one * max(total - count, 0))} left"]


def count_text(count: int, total: int | None, unit: str) -> str:
    """How many of how many: `" 7/10"`, or `"7 steps"` where nobody knows."""
    if total is None:
        return f"{count} {unit}{'s' * (count != 1)}"
    return f"{count:{len(str(total))}d}/{total}"


class Progbar:
    """Shows how far a loop is, and numbers beside it.

    On a terminal and in a notebook the line is drawn in place, at most each `interval` seconds;
    into a file a plain line is written 200 times as rarely, and at the end.

    Args:
        target: how many steps there are, `None` if nobody knows.
        width: characters of the bar.
        verbose: 0 for silence, 1 for the bar, 2 for one line at the end.
        interval: fewest seconds between two drawings.
        stateful_metrics: names of values that are shown as they are; all others are averaged.
        stateless_metrics: the other way round: names of those that are averaged.
        unit_name: what a step is called.

    Raises:
        ValueError: both lists are given, or `verbose` is another number.

    >>> bar = tk.keras.utils.Progbar(3, verbose=0)
    >>> bar.update(1, values=[("loss", 0.5)])
    """

    def __init__(
        self,
        target: int | None,
        width: int = 20,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Iterable[str] | None = None,
        stateless_metrics: Iterable[str] | None = None,
        unit_name: str = "step",
    ) -> None:
        if stateful_metrics is not None and stateless_metrics is not None:
            raise ValueError(
                "Only one of `stateful_metrics` and `stateless_metrics` can be given: each says "
                "what all other values are"
            )
        if verbose not in (0, 1, 2):
            raise ValueError(f"Progbar: verbose must be 0, 1 or 2, got {verbose!r}")
        self.target, self.width, self.verbose = target, width, verbose
        self.interval, self.unit_name = interval, unit_name
        self.stateful_metrics = (
            None if stateless_metrics is not None else set(stateful_metrics or ())
        )
        self.stateless_metrics = None if stateless_metrics is None else set(stateless_metrics)
        self._current = 0
        self._values: dict[str, tuple[Any, int]] = {}
        self._line = StatusLine(width)
        self._pace = Pace()
        self._drawn_at = float("-inf")

    def update(
        self,
        current: int,
        values: Iterable[tuple[str, Any]] | None = None,
        finalize: bool | None = None,
    ) -> None:
        """Say that so many steps are done.

        Args:
            current: how many.
            values: pairs of a name and the value of the last step.
            finalize: whether this is the last time; by default, whether `target` is reached.
        """
        over = self.target is not None and current >= self.target if finalize is None else finalize
        for name, value in values or ():
            self._take(name, value, max(current - self._current, 1), over)
        self._current = current
        self._draw(over)

    def add(self, n: int, values: Iterable[tuple[str, Any]] | None = None) -> None:
        """Say that `n` more steps are done; see `update`."""
        self.update(self._current + n, values)

    def _take(self, name: str, value: Any, steps: int, over: bool) -> None:
        averaged = (
            name in self.stateless_metrics
            if self.stateless_metrics is not None
            else name not in (self.stateful_metrics or ())
        )
        number = float(np.mean(value))
        if over or not averaged:
            self._values[name] = (number, 1)
            return
        total, count = self._values.get(name, (0.0, 0))
        self._values[name] = (total + number * steps, count + steps)

    def _draw(self, over: bool) -> None:
        if self.verbose == 0 or (self.verbose == 2 and not over):
            return
        now = time.perf_counter()
        wait = self.interval * (_RARER_IN_FILES if self._line.kind == "file" else 1)
        if not over and now - self._drawn_at < wait:
            return
        self._drawn_at = now
        count = count_text(self._current, self.target, self.unit_name)
        share = self._current / self.target if self.target and self.verbose == 1 else None
        means = {name: total / max(steps, 1) for name, (total, steps) in self._values.items()}
        pieces = self._pace.pieces(self._current, self.target, self.unit_name, over)
        pieces += [f"{name}: {number_text(value)}" for name, value in means.items()]
        (self._line.end if over else self._line.draw)(count, share, pieces)
