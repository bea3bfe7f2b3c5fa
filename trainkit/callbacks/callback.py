"""`Callback`, the base of all callbacks."""

from __future__ import annotations

from typing import Any

from trainkit.core.tensor import Tensor
from trainkit.core.trackable import Trackable
from trainkit.core.values.config_text import attributes_text

Logs = dict[str, Any]


class Callback(Trackable):
    """Base of all callbacks: methods that training calls at set points.

    A subclass overrides what it wants to hear of. `logs` are dicts of floats by name: at the end of
    a batch the metrics so far, at the end of an epoch those of the epoch, with `"val_"` before
    those of the validation. What a method of an epoch adds to `logs`, later callbacks and `History`
    see too.

    Stored with a run, so that a callback goes on where it was: the variables and trackable objects
    that it holds as attributes, what `state_arrays` gives, and, in a class that does not override
    that, the attributes that training has changed, as far as they are numbers, texts, arrays,
    generators of NumPy, or lists, tuples and dicts of these. `self.wait += 1` simply goes on. What
    a callback does at the beginning of an epoch is in what is stored in its middle, so it is called
    again then, and its changes are undone.

    Attributes:
        model: the model that is trained, from the beginning of training on.
        params: a dict with `"epochs"`, `"steps"`, `"verbose"` and `"validation"`.
        reads_batch_logs: `False` says that the methods of batches convert the logs themselves where
            they need them; they then get tensors, and no step waits for their values.
        stores_runs: `True` for what stores a whole run: it is called behind all others when a batch
            has ended.
        only_rank_0: `True` says that with a strategy of several processes the methods are called in
            the first alone, as for what writes files. They must not train, evaluate or predict
            then, which all processes do together. Other callbacks are called in all, with the same
            logs; `model.distribute_strategy.rank == 0` tells them where to write.

    Example:
        >>> class Count(tk.callbacks.Callback):
        ...     batches = 0
        ...     def on_train_batch_end(self, batch, logs=None):
        ...         self.batches += 1
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> count = Count()
        >>> x = tk.ones((8, 1))
        >>> history = model.fit(x, x, 2, 3, verbose=0, callbacks=[count])
        >>> count.batches
        12
    """

    _untracked = frozenset({"_model", "params"})
    reads_batch_logs = True
    stores_runs = False
    only_rank_0 = False

    def __init__(self) -> None:
        self._model: Any = None
        self.params: dict[str, Any] = {}

    def __repr__(self) -> str:
        return attributes_text(self)

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.__dict__.get("_model")

    @model.setter
    def model(self, model: Any) -> None:
        self._model = model

    def set_model(self, model: Any) -> None:
        """Hear which model is trained."""
        self._model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Hear how it is trained."""
        self.params = params

    def in_other_ranks(self) -> Callback | None:
        """What is called in the other processes in place of one that is `only_rank_0`, if anything.

        It is `only_rank_0` itself.
        """
        return None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Called after the last epoch, also when training was stopped early."""

    def on_train_interrupted(self, logs: Logs | None = None) -> None:
        """Called before `on_train_end` when Ctrl-C or SIGTERM ended training before it was done."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Called before an epoch; `epoch` counts from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Called after an epoch and its validation."""

    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a training batch, like `on_train_batch_begin`."""

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a training batch, like `on_train_batch_end`."""

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a training batch; `batch` counts from 0 in each epoch."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a training batch, with the metrics of the epoch so far."""
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Called before an evaluation or validation."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Called after an evaluation or validation."""

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of an evaluation."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Called before a prediction."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """Called after a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of a prediction; `logs["outputs"]` are its results."""


def numbers(logs: Logs | None) -> dict[str, float]:
    """Logs with each value as a float, a tensor of several as an array.

    What stands in a dict inside, as the results of all compiled metrics do, stands beside the rest.
    """
    values: dict[str, float] = {}
    for name, value in (logs or {}).items():
        if isinstance(value, dict):
            values.update(numbers(value))
        else:
            values[name] = _number(value)
    return values


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return value.numpy() if isinstance(value, Tensor) else value
