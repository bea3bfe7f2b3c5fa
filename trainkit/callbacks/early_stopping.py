"""`EarlyStopping`: ends training when a metric no longer improves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs
from trainkit.callbacks.monitoring import MetricMonitor
from trainkit.core.process.console import say

_WEIGHT = "best_weight."


class EarlyStopping(MetricMonitor):
    """Stops training after `patience` epochs without an improvement.

    Args:
        monitor: name of the metric.
        min_delta: a smaller change is no improvement.
        patience: how many epochs without one are borne.
        verbose: 1 says when it stops.
        mode: `"min"`, `"max"`, or `"auto"` by the name or class of the metric.
        baseline: only values better than this end the wait.
        restore_best_weights: go back to the weights of the best epoch at the end.
        start_from_epoch: the first epoch that counts.

    Attributes:
        monitor_op: what tells that one value is better than another, `ops.greater` or `ops.less`.
        stopped_epoch: the epoch after which it stopped, 0 if it did not.
        best, best_epoch: the best value and its epoch.

    A metric that does not exist is a warning, which lists those that do; an error with mode "auto".

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile("sgd", "mse")
        >>> stop = tk.callbacks.EarlyStopping(monitor="loss", patience=2, restore_best_weights=True)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=50, verbose=0, callbacks=[stop])
        >>> len(history.history["loss"])
        3
    """

    _owner = "EarlyStopping"
    _untracked = Callback._untracked | {"best_weights"}

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode)
        self.min_delta, self.patience, self.baseline = abs(min_delta), patience, baseline
        self.verbose, self.restore_best_weights = verbose, restore_best_weights
        self.start_from_epoch = start_from_epoch
        self._reset()

    def _reset(self) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best: float | None = None
        self.best_weights: list[Any] | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._reset()

    def _better(self, value: float, than: float | None) -> bool:
        more = self._more_is_better()  # first, as nothing else may ask in the first epoch
        if than is None:
            return not math.isnan(value)
        if more:
            return value - self.min_delta > than
        return value + self.min_delta < than

    def get_monitor_value(self, logs: Logs | None) -> float | None:
        """What an epoch is compared by; a class that compares by something else overrides it.

        Args:
            logs: the metrics of the epoch.

        Returns:
            The metric `monitor`, `None` where there is none, and the epoch does not count.
        """
        if not self._is_due(logs):
            return None
        return self._monitored_value(logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.get_monitor_value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self._keep_weights(epoch)
        self.wait += 1
        if self._better(value, self.best):
            self.best = value
            self._keep_weights(epoch)
            if self.baseline is None or self._better(value, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def _keep_weights(self, epoch: int) -> None:
        self.best_epoch = epoch
        if self.restore_best_weights:
            self.best_weights = self.model.get_weights()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch and self.verbose:
            say(f"epoch {self.stopped_epoch + 1}: {self.monitor} no longer improves")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose:
                say(f"going back to the weights of epoch {self.best_epoch + 1}")
            self.model.set_weights(self.best_weights)

    def state_arrays(self) -> dict[str, Any]:
        best = math.nan if self.best is None else self.best
        counts = (self.wait, self.stopped_epoch, self.best_epoch)
        weights = {f"{_WEIGHT}{i}": w for i, w in enumerate(self.best_weights or [])}
        return {"best": np.float64(best), "counts": np.asarray(counts, np.int64), **weights}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if not {"best", "counts"} <= set(arrays):
            raise ValueError(
                f"EarlyStopping stores 'best' and 'counts', the file has {sorted(arrays)}"
            )
        best = float(arrays["best"])
        self.best = None if math.isnan(best) else best
        self.wait, self.stopped_epoch, self.best_epoch = (int(n) for n in arrays["counts"])
        count = len(arrays) - 2
        weights = [arrays[f"{_WEIGHT}{i}"] for i in range(count)]
        self.best_weights = weights or None
