"""`LearningRateScheduler` and `ReduceLROnPlateau`: learning rates by epoch and by progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs
from trainkit.callbacks.monitoring import MetricMonitor
from trainkit.core.process.console import say
from trainkit.core.values.python_signatures import signature_of


class LearningRateScheduler(Callback):
    """Sets the learning rate at the beginning of each epoch.

    Args:
        schedule: function of the epoch, from 0, and the rate now, that gives the new rate; or of
            the epoch alone.
        verbose: 1 says which rate is set.

    Raises:
        ValueError: in training, `schedule` gives no number.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile(tk.optimizers.SGD(1.0), "mse")
        >>> halve = tk.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=3, verbose=0, callbacks=[halve])
        >>> float(model.optimizer.learning_rate)
        0.125
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose
        self._takes_rate = _argument_count(schedule) != 1

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        run = getattr(self.model, "training_run", None)
        if run is not None and run.step:  # taken up in the epoch, whose rate is set already
            return
        for optimizer in rated(self.model.optimizer).values():
            self._set_rate(epoch, optimizer)

    def _set_rate(self, epoch: int, optimizer: Any) -> None:
        now = float(optimizer.learning_rate)
        rate = self.schedule(epoch, now) if self._takes_rate else self.schedule(epoch)
        try:
            rate = float(rate)
        except (TypeError, ValueError):
            raise ValueError(
                f"LearningRateScheduler: the schedule must give a number, it gave {rate!r}"
            ) from None
        optimizer.learning_rate = rate
        if self.verbose:
            say(f"epoch {epoch + 1}: the learning rate is {rate}")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs.update(rates_now(self.model.optimizer))


def rated(optimizer: Any) -> dict[str, Any]:
    """What logs call the learning rate, and the optimizer that has it.

    Several optimizers of one have theirs apart: `learning_rate_` and the name of each.
    """
    inner = getattr(getattr(optimizer, "inner_optimizer", optimizer), "optimizers", None)
    if inner is None:
        return {"learning_rate": optimizer}
    by_name: dict[str, Any] = {}
    for one in inner:
        name, count = f"learning_rate_{one.name}", 0
        while name in by_name:
            count += 1
            name = f"learning_rate_{one.name}_{count}"
        by_name[name] = one
    return by_name


def rates_now(optimizer: Any) -> dict[str, float]:
    """The learning rate or rates of `optimizer`, by what logs call them."""
    return {name: float(one.learning_rate) for name, one in rated(optimizer).items()}


def _argument_count(function: Callable[..., Any]) -> int | None:
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


class ReduceLROnPlateau(MetricMonitor):
    """Lowers the learning rate when a metric no longer improves.

    Args:
        monitor: name of the metric.
        factor: what the rate is multiplied by, below 1.
        patience: how many epochs without an improvement are borne.
        verbose: 1 says when the rate falls.
        mode: `"min"`, `"max"`, or `"auto"` by the name or class of the metric.
        min_delta: a smaller change is no improvement.
        cooldown: how many epochs after a change do not count.
        min_lr: the rate does not fall below.

    A metric that does not exist is a warning, which lists those that do; an error with mode "auto".

    Raises:
        ValueError: `factor` is 1 or more.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile(tk.optimizers.SGD(1.0), "mse")
        >>> reduce = tk.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=2)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=5, verbose=0, callbacks=[reduce])
        >>> float(model.optimizer.learning_rate)
        0.25
    """

    _owner = "ReduceLROnPlateau"

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, mode)
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.min_delta, self.cooldown, self.min_lr = min_delta, cooldown, min_lr
        self._reset()

    def _reset(self) -> None:
        self.wait = self.cooldown_counter = 0
        self.best: float | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._reset()

    def in_cooldown(self) -> bool:
        """Whether the epochs after a change that do not count are not over yet."""
        return self.cooldown_counter > 0

    def _better(self, value: float) -> bool:
        more = self._more_is_better()  # first, as nothing else may ask in the first epoch
        if self.best is None:
            return not math.isnan(value)
        if more:
            return value > self.best + self.min_delta
        return value < self.best - self.min_delta

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs.update(rates_now(self.model.optimizer))
        if not self._is_due(logs):
            return
        value = self._monitored_value(logs)
        if value is None:
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self._better(value):
            self.best, self.wait = value, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch: int) -> None:
        for optimizer in rated(self.model.optimizer).values():
            rate = float(optimizer.learning_rate)
            if rate <= np.float32(self.min_lr):
                continue
            lower = max(rate * self.factor, self.min_lr)
            optimizer.learning_rate = lower
            self.cooldown_counter, self.wait = self.cooldown, 0
            if self.verbose:
                say(f"epoch {epoch + 1}: the learning rate falls to {lower}")

    def state_arrays(self) -> dict[str, Any]:
        counts = np.asarray((self.wait, self.cooldown_counter), np.int64)
        best = math.nan if self.best is None else self.best
        return {"best": np.float64(best), "counts": counts}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"best", "counts"}:
            raise ValueError(
                f"ReduceLROnPlateau stores 'best' and 'counts', the file has {sorted(arrays)}"
            )
        best = float(arrays["best"])
        self.best = None if math.isnan(best) else best
        self.wait, self.cooldown_counter = (int(n) for n in arrays["counts"])
