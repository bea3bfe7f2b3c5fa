"""`History`: the metrics of each epoch, which `fit` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs
from trainkit.core.process.plotting import matplotlib
from trainkit.core.values.config_text import value_text
from trainkit.core.values.html_text import curves, tag

_PREFIX = "history."
_FEW_POINTS = 30
_WIDTH_INCHES, _HEIGHT_INCHES = 4.5, 3.5


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else value_text(value)


class History(Callback):
    """Keeps what each epoch ended with.

    Attributes:
        history: a list of floats, one per epoch, by name of the metric.
        epoch: the numbers of these epochs.
        interrupted: whether Ctrl-C or SIGTERM came while `fit` ran. It ended early then, unless the
            signal came when the last epoch was over; `epoch` tells.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile("sgd", "mse")
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0)
        >>> history.history
        {'loss': [0.0, 0.0]}
    """

    _untracked = Callback._untracked | {"history", "epoch", "_epochs"}
    history: dict[str, list[Any]]
    epoch: list[int]
    interrupted: bool
    _epochs: dict[str, list[int]]

    def __init__(self) -> None:
        super().__init__()
        self.history, self.epoch, self._epochs = {}, [], {}
        self.interrupted = False

    def __repr__(self) -> str:
        if not self.epoch:
            return "<History of no epochs>"
        epochs = "1 epoch" if len(self.epoch) == 1 else f"{len(self.epoch)} epochs"
        stopped = ", interrupted" if self.interrupted else ""
        last = ", ".join(f"{n}={_shown(values[-1])}" for n, values in self.history.items())
        return f"<History of {epochs}{stopped}, the last: {last}>"

    def _repr_html_(self) -> str:
        """What notebooks show: a chart of each metric, that of the validation in it."""
        names = dict.fromkeys(name.removeprefix("val_") for name in self.history)
        charts = []
        for name in sorted(names, key=lambda name: (name != "loss", name)):
            columns = [column for column in (name, f"val_{name}") if column in self.history]
            lines = {column: self._numbers_of(column) for column in columns}
            charts.append(curves(name, {n: line for n, line in lines.items() if line is not None}))
        return tag("div", tag("div", repr(self)), *charts)

    def _numbers_of(self, column: str) -> tuple[list[float], list[float]] | None:
        """Epochs and values of a metric, `None` where these are no numbers."""
        values = self.history[column]
        if not all(isinstance(value, float | int) for value in values):
            return None
        return [float(epoch + 1) for epoch in self._epochs[column]], values

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epoch.clear()
        self.history.clear()
        self._epochs.clear()
        self.interrupted = False

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
            self._epochs.setdefault(name, []).append(epoch)

    def state_arrays(self) -> dict[str, Any]:
        values = {_PREFIX + name: np.asarray(column) for name, column in self.history.items()}
        return {"epoch": np.asarray(self.epoch, np.int64), **values}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if "epoch" not in arrays:
            raise ValueError(f"History stores 'epoch', the file has {sorted(arrays)}")
        columns = {k.removeprefix(_PREFIX): v.tolist() for k, v in arrays.items() if k != "epoch"}
        epochs = [int(n) for n in arrays["epoch"]]
        when = {name: _spread(epochs, len(values)) for name, values in columns.items()}
        self.epoch, self.history, self._epochs = epochs, columns, when

    def plot(self, metrics: Sequence[str] | None = None, figure: Any = None) -> Any:
        """Draw the metrics over the epochs with matplotlib, each with that of the validation.

        Args:
            metrics: names of those to draw, without `"val_"`; by default all, the loss first.
            figure: a matplotlib figure to draw into; by default a new one of pyplot, which
                `matplotlib.pyplot.show()` shows and `savefig` writes to a file.

        Returns:
            The figure.

        Raises:
            ImportError: matplotlib is not installed; the extra `plots` brings it.
            ValueError: no epoch has ended, or a metric is not in the history.
        """
        names = self._to_plot(metrics)
        if figure is None:
            figure = _new_figure(len(names))
        for index, name in enumerate(names, 1):
            axes = figure.add_subplot(1, len(names), index)
            for label, column in (("training", name), ("validation", f"val_{name}")):
                values = self.history.get(column)
                if values:
                    marker = "." if len(values) < _FEW_POINTS else ""
                    epochs = [epoch + 1 for epoch in self._epochs[column]]
                    axes.plot(epochs, values, marker=marker, label=label)
            axes.set_xlabel("epoch")
            axes.set_title(name)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.3)
            axes.legend()
        return figure

    def _to_plot(self, metrics: Sequence[str] | None) -> list[str]:
        if not self.history:
            raise ValueError("History.plot: no epoch has ended, so there is nothing to draw")
        names = [name for name in self.history if not name.startswith("val_")]
        metric_names = sorted(names, key=lambda name: (name != "loss", name))
        unknown = [name for name in metrics or () if name not in metric_names]
        if unknown:
            raise ValueError(
                f"History.plot: there is no {', '.join(map(repr, unknown))}; the history has "
                f"{', '.join(metric_names)}"
            )
        return metric_names if metrics is None else list(metrics)


def _spread(epochs: list[int], count: int) -> list[int]:
    """Epochs of `count` values that a file has, which does not say when each came: evenly."""
    stride = max(len(epochs) // max(count, 1), 1)
    return epochs[stride - 1 :: stride][:count]


def _new_figure(count: int) -> Any:
    pyplot = matplotlib("pyplot", "History.plot")
    return pyplot.figure(figsize=(_WIDTH_INCHES * count, _HEIGHT_INCHES), layout="constrained")
