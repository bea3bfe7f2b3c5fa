"""`LogMetrics`: the callback that hands the numbers of `fit` to loggers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.loggers.logger import METHODS, is_logger


class LogMetrics(Callback):
    """Hands the logs of `fit` to loggers; `fit(loggers=[...])` adds one.

    At the beginning it logs the optimizer's settings, the batch size and so on as hyperparameters;
    at the end of each epoch its logs, with the number of steps that are done, `epoch` and
    `learning_rate`; at the end of training, and after an error, it finishes the loggers.

    Args:
        loggers: a `Logger`, or a list of them.
        every: also log what is known after each so many batches, as `batch_loss` and so on; 0 for
            never.

    Raises:
        TypeError: one of them is no logger.
        ValueError: `every` is below 0.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> logger = tk.loggers.CSVFolderLogger("logs/c")
        >>> x = tk.ones((8, 1))
        >>> history = model.fit(x, x, 2, epochs=2, verbose=0, loggers=[logger])
        >>> import pathlib
        >>> pathlib.Path("logs/c/metrics.csv").read_text().splitlines()[1][:7]
        '4,loss,'
    """

    only_rank_0 = True
    reads_batch_logs = False
    _untracked = Callback._untracked | {"loggers", "settings"}

    def __init__(self, loggers: Any, every: int = 0) -> None:
        super().__init__()
        listed = list(loggers) if isinstance(loggers, list | tuple) else [loggers]
        for logger in listed:
            if not is_logger(logger):
                raise TypeError(
                    f"a logger has the methods {', '.join(METHODS)}, as tk.loggers.Logger; got "
                    f"{logger!r}" + ("; call the class to make one" * isinstance(logger, type))
                )
        if type(every) is not int or every < 0:
            raise ValueError(f"LogMetrics: every must be a whole number from 0, got {every!r}")
        self.every = every
        self.steps = self._before = 0
        self.loggers, self._is_open = listed, False
        self.settings: dict[str, Any] = {}

    def describe(self, **settings: Any) -> None:
        """Take what only `fit` knows, for the hyperparameters."""
        self.settings = settings

    # ------------------------------------------------------------------ of training

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.steps = self._before = 0
        self._is_open = True
        optimizer = self.model.optimizer
        config = {} if optimizer is None else optimizer.get_config()
        settings = {
            **self.settings,
            "optimizer": {**config, "class": type(optimizer).__name__},
            "model": {"name": self.model.name, "class": type(self.model).__name__},
        }
        for logger in self.__dict__["loggers"]:
            logger.log_hyperparams(settings)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        # an execution of several steps at the end of an epoch has fewer
        before, self.steps = self.steps, self._before + self.model.training_run.portion.done
        if self.every and before // self.every != self.steps // self.every:
            values = {f"batch_{name}": value for name, value in numbers(logs).items()}
            self._log(values)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._before = self.steps
        values = {name: x for name, x in (logs or {}).items() if np.ndim(x) == 0}
        rate = getattr(self.model.optimizer, "learning_rate", None)
        if rate is not None and not callable(rate):
            values.setdefault("learning_rate", float(rate))
        self._log({**values, "epoch": epoch + 1})

    def _log(self, values: dict[str, Any]) -> None:
        for logger in self.__dict__["loggers"]:
            logger.log_metrics(values, self.steps)

    def on_train_end(self, logs: Logs | None = None) -> None:
        run = self.model.training_run
        is_early = run is not None and run.epoch < self.params.get("epochs", 0)
        ending = "interrupted" if is_early and run.interrupted else "stopped" if is_early else ""
        self._finish(ending or "finished")

    def _finish(self, ending: str) -> None:
        if self.__dict__["_is_open"]:
            self._is_open = False
            for logger in self.__dict__["loggers"]:
                logger.finish(ending)

    @contextlib.contextmanager
    def finished_at_the_end(self) -> Iterator[None]:
        """A context of training, after an error in which the loggers are finished, too."""
        try:
            yield
        except BaseException as error:
            self._finish("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise

    # ------------------------------------------------------------------ going on

    def state_arrays(self) -> dict[str, Any]:
        return {"steps": np.int64(self.steps), "before": np.int64(self._before)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"steps", "before"}:
            raise ValueError(f"LogMetrics stores 'steps', 'before', the file has {sorted(arrays)}")
        self.steps, self._before = int(arrays["steps"]), int(arrays["before"])


def callback_of(loggers: Any) -> LogMetrics | None:
    """The callback for the argument `loggers` of `fit`; `None` without any."""
    is_none = loggers is None or (isinstance(loggers, list | tuple) and not loggers)
    return None if is_none else LogMetrics(loggers)
