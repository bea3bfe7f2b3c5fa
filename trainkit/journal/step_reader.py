"""`StepReader`: what the lines of steps say, made of the facts that a loop noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy import ndarray

from trainkit.core.tensor import Tensor
from trainkit.journal.lines import Step


class Digests(NamedTuple):
    """Those that were due after a step, else `None`."""

    batch: str | None
    random: str | None
    weights: str | None
    slots: str | None


_NO_DIGESTS = Digests(None, None, None, None)
_FACTS = 7

StepEvent = tuple[Any, ...]
"""What a loop notes of a step, as values that do not change any more: the time at its end, its
number and that of the epoch, the seconds that data was waited for since the epoch began, the rows
of its batch (0 where nobody counts them), its logs, the variable's value that is the learning rate
(`None` without one); and the `Digests`, if any were due."""


class StepReader:
    """Reads the facts of steps, each once and in their order.

    `usual_lines` of the compiled half reads and sets the same attributes in steps that have nothing
    unusual.

    Args:
        numbers: gives the numbers in logs that hold something else than scalar tensors of floats.
        averages: whether the loss in the logs is the mean of the epoch's rows so far, from which
            that of the step alone is found; `None` as long as that is not known.

    Attributes:
        step: the number of the last step that was read.
        end: when it ended, by `time.perf_counter`.
        epoch: its epoch, -1 before the first.
        rows: how many rows the epoch had up to there.
        waited: seconds that data was waited for in the epoch up to there.
        mean: the loss in its logs.
        mean_rows: the rows that this is the mean of.
        rate: the value that was the learning rate.
    """

    __slots__ = (
        "_number", "_numbers", "averages", "end", "epoch", "mean", "mean_rows", "rate", "rows",
        "step", "waited",
    )  # fmt: skip

    def __init__(
        self, numbers: Callable[[dict[str, Any]], dict[str, float]], averages: bool | None = None
    ) -> None:
        self._numbers, self.averages = numbers, averages
        self.step, self.end, self.epoch, self.rows, self.waited = 0, 0.0, -1, 0, 0.0
        self.mean, self.mean_rows = 0.0, 0
        self.rate: Any = None
        self._number: float | None = None

    def read(self, facts: StepEvent) -> Step:
        """What the line of a step says."""
        now, step, epoch, total, rows, logs, rate = facts[:_FACTS]
        self.count(epoch, rows)
        waited, self.waited = total - self.waited, total
        values = self._values(logs)
        loss = values.pop("loss", None)
        if self.averages and rows and loss is not None:
            loss = self._loss_alone(loss, rows)
        changed = None if rate is self.rate else self._changed_rate(rate)
        seconds = now - self.end
        self.step, self.end = step, now
        digests: Digests = facts[_FACTS] if len(facts) > _FACTS else _NO_DIGESTS
        return Step(step, epoch, loss, values, seconds, waited, *digests, changed, None)

    def count(self, epoch: int, rows: int) -> int:
        """Take note of rows that were seen; how many of the epoch now were."""
        if epoch != self.epoch:
            self.epoch, self.rows, self.waited = epoch, 0, 0.0
        self.rows += rows
        return self.rows

    def _values(self, logs: dict[str, Any]) -> dict[str, float]:
        values = {}
        for name, value in logs.items():
            array = value._array if type(value) is Tensor else None
            number = array.item() if type(array) is ndarray and not array.ndim else value
            if type(number) is not float:
                return self._numbers(logs)
            values[name] = number
        return values

    def _loss_alone(self, mean: float, rows: int) -> float:
        """The loss of the last of the epoch's rows, whose mean this is."""
        before, rows_before = (self.mean, self.mean_rows) if self.rows > rows else (0.0, 0)
        self.mean, self.mean_rows = mean, self.rows
        return (mean * self.rows - before * rows_before) / (self.rows - rows_before)

    def _changed_rate(self, rate: Any) -> float | None:
        """The learning rate, if it is another one than before; a schedule is in the config."""
        array = getattr(rate, "_array", None)
        if type(array) is not ndarray or array.ndim:
            return None
        number: float = array.item()
        self.rate = rate
        if number == self._number:
            return None
        self._number = number
        return number
