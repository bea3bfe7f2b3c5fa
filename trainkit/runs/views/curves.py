"""The numbers of a run over its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trainkit.runs.views.run_facts import epoch_logs

if TYPE_CHECKING:
    from trainkit.runs.journaled_run import JournaledRun

_MOST_NAMES = 100
_VALIDATION = "val_"


class Curve(NamedTuple):
    """Values over steps; NaN and infinity where the run had them.

    Attributes:
        steps: their numbers, rising.
        values: float64, as many.
    """

    steps: np.ndarray
    values: np.ndarray


class CurvePair(NamedTuple):
    """What one chart shows.

    Attributes:
        name: of the metric.
        training: step by step, or epoch by epoch where the journal has no more; `None` without.
        validation: after epochs, `None` without.
    """

    name: str
    training: Curve | None
    validation: Curve | None


def curves_of(run: JournaledRun) -> list[CurvePair]:
    """The curves of a run: the loss first, then metrics in the order in which they came."""
    training: dict[str, tuple[list[int], list[float]]] = {}
    for step in run.steps:
        values = step.metrics if step.loss is None else {"loss": step.loss, **step.metrics}
        for name, value in values.items():
            _append(training, name, step.step, value)
    epochs: dict[str, tuple[list[int], list[float]]] = {}
    for number, _, logs in epoch_logs(run):
        for name, value in logs.items():
            _append(epochs, name, number, value)
    names = dict.fromkeys(["loss", *training])
    names.update(dict.fromkeys(name.removeprefix(_VALIDATION) for name in epochs))
    pairs = [
        CurvePair(
            name,
            _curve(training.get(name) or epochs.get(name)),
            _curve(epochs.get(_VALIDATION + name)),
        )
        for name in list(names)[:_MOST_NAMES]
    ]
    return [pair for pair in pairs if pair.training is not None or pair.validation is not None]


def _append(
    curves: dict[str, tuple[list[int], list[float]]], name: str, step: int, value: float
) -> None:
    steps, values = curves.setdefault(name, ([], []))
    steps.append(step)
    values.append(value)


def _curve(points: tuple[list[int], list[float]] | None) -> Curve | None:
    if points is None:
        return None
    return Curve(np.asarray(points[0], np.float64), np.asarray(points[1], np.float64))


def first_bad_step(curve: Curve) -> int | None:
    """The first step with NaN or infinity."""
    bad = np.flatnonzero(~np.isfinite(curve.values))
    return int(curve.steps[bad[0]]) if len(bad) else None


def binned(curve: Curve, first: float, last: float, count: int) -> np.ndarray:
    """Smallest, mean and largest finite values in bins of steps.

    Args:
        curve: it.
        first: step at the left edge of the first bin.
        last: step at the right edge of the last one.
        count: of bins.

    Returns:
        float64 of shape (3, count), NaN in bins without values.
    """
    finite = np.isfinite(curve.values) & (curve.steps >= first) & (curve.steps <= last)
    steps, values = curve.steps[finite], curve.values[finite]
    bins = np.zeros(len(steps), np.int64)
    if last > first:
        bins = np.minimum((steps - first) / (last - first) * count, count - 1).astype(np.int64)
    sums, counts = np.bincount(bins, values, count), np.bincount(bins, minlength=count)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, bins, values)
    np.maximum.at(high, bins, values)
    with np.errstate(invalid="ignore"):
        result = np.stack([low, sums / np.where(counts, counts, 1), high])
    result[:, counts == 0] = np.nan
    return result


class Scale(NamedTuple):
    """The vertical axis of a chart.

    Attributes:
        low: value at the bottom.
        high: value at the top.
        logarithmic: whether powers of ten are equally far apart.
    """

    low: float
    high: float
    logarithmic: bool

    def share(self, values: np.ndarray) -> np.ndarray:
        """How far up values stand, from 0 to 1."""
        low, high = self.low, self.high
        if self.logarithmic:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log10(values)
            low, high = np.log10(low), np.log10(high)
        # halves, since the difference of the largest numbers is no number any more
        return np.asarray((values / 2 - low / 2) / (high / 2 - low / 2))

    def value(self, share: float) -> float:
        """The value at a height from 0 to 1."""
        if self.logarithmic:
            low, high = np.log10(self.low), np.log10(self.high)
            return float(10 ** (low + share * (high - low)))
        return float(self.low * (1 - share) + self.high * share)


def scale_of(curves: list[Curve | None]) -> Scale | None:
    """An axis for some curves, `None` where they have no finite values."""
    parts = [curve.values[np.isfinite(curve.values)] for curve in curves if curve is not None]
    values = np.concatenate(parts) if parts else np.zeros(0)
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > 100:
        return Scale(low, high, True)
    if low == high:
        margin = abs(low) * 0.5 or 0.5
        return Scale(low - margin, high + margin, False)
    return Scale(low, high, False)
