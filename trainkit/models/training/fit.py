"""`Looped`: the loops of a model over many batches, and the same for one batch."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.callbacks import run_journal
from trainkit.callbacks.callback import numbers
from trainkit.callbacks.callback_list import CallbackList
from trainkit.callbacks.history import History
from trainkit.callbacks.loggers import log_metrics
from trainkit.callbacks.progress import LoopBar, ProgressBar
from trainkit.checkpoints.interruption import Interruption
from trainkit.core import nest
from trainkit.core.names import with_known_arguments
from trainkit.core.process import console
from trainkit.models.training import (
    batch_sources,
    data_adapters,
    fit_arguments,
    limits,
    replica_feeds,
    training_loop,
)
from trainkit.models.training.trainer import Trained


@contextlib.contextmanager
def said_by_others() -> Iterator[None]:
    """A context without messages and warnings, which another process gives."""
    with console.muted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Looped(Trained):
    """What can be compiled, with `fit`, `evaluate` and `predict` over data; the base of `Model`."""

    def reset_states(self) -> None:
        """Put what stateful layers keep between calls back to zeros, in models inside too."""
        for layer in self._flatten_layers(include_self=False):
            if hasattr(layer, "reset_states") and not isinstance(layer, Looped):
                layer.reset_states()

    @with_known_arguments
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        run: Any = None,
        loggers: Any = None,
    ) -> History:
        """Train the model.

        Ctrl-C, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP end it after the batch, or after the
        validation under way: `ModelCheckpoint` and `BackupAndRestore` save, a line says so, and the
        history so far is returned, with `interrupted` set; `BackupAndRestore(exit_status=75)` ends
        the process instead. A second signal acts as usual.

        Args:
            x: arrays, nested for several inputs; or a `Dataset`, generator or sequence of batches.
            y: targets, for arrays.
            batch_size: samples in a batch of arrays, 32 by default; of all replicas together, where
                a strategy has several.
            epochs: number of the epoch to end with.
            verbose: 0 for silence, 1 for a bar, 2 for two lines per epoch, `"auto"` for 1.
            callbacks: list of `Callback`s.
            validation_split: share of the arrays, at their end, that is kept out of training.
            validation_data: (x, y), (x, y, sample_weight), or a data set.
            shuffle: whether arrays are shuffled before each epoch; `"batch"` shuffles whole
                batches.
            class_weight: weights by class number.
            sample_weight: a weight for each sample, for arrays.
            initial_epoch: the epoch to begin with, from 0.
            steps_per_epoch: batches in an epoch; 0 stands for all, as in Keras.
            validation_steps: batches in a validation; likewise.
            validation_batch_size: samples in a batch of it, `batch_size` by default.
            validation_freq: validate each so many epochs, or after the epochs in a list, from 1.
            run: a folder, or a `RunJournal`: writes down what happens step by step, with
                checkpoints, for `tk.runs.open`; a run that was killed goes on.
            loggers: a list of `tk.loggers`, which get the settings, the numbers of each epoch, and
                the end.

        Returns:
            A `History`.

        Raises:
            ValueError: the model is not compiled, or arguments do not go together.
        """
        self._require_compiled("fit")
        epochs = limits.epochs(epochs)
        initial_epoch = limits.whole(initial_epoch, "initial_epoch")
        limits.check_counts(
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
        )
        with Interruption() as interruption, self._speaking():
            if validation_split:
                if validation_data is not None:
                    raise ValueError("fit: give either validation_split or validation_data")
                x, y, sample_weight, validation_data = fit_arguments.split(
                    x, y, sample_weight, validation_split
                )
            feed = self._divided(
                batch_sources.feed(
                    x,
                    y,
                    sample_weight,
                    batch_size=batch_size,
                    shuffle=shuffle,
                    steps=steps_per_epoch,
                    class_weight=class_weight,
                )
            )
            validation_feed = self._divided(
                fit_arguments.validation_feed(
                    validation_data, validation_batch_size or batch_size, validation_steps
                )
            )
            due = fit_arguments.due_epochs(validation_freq)
            history = History()
            params = {
                "epochs": epochs,
                "steps": feed.steps,
                "verbose": fit_arguments.verbosity(verbose),
                "validation": validation_feed is not None,
                "validation_steps": None if validation_feed is None else validation_feed.steps,
            }
            journal = None if run is None else run_journal.journal_of(run)
            if journal is not None:
                journal.describe(
                    epochs=epochs,
                    batch_size=batch_size,
                    shuffle=shuffle,
                    initial_epoch=initial_epoch,
                    steps_per_epoch=steps_per_epoch,
                    has_class_weight=class_weight is not None,
                    validation=validation_feed,
                )
            logging = log_metrics.callback_of(loggers)
            if logging is not None:
                logging.describe(epochs=epochs, batch_size=batch_size, steps=feed.steps)
            called = self._callback_list(
                callbacks, history, ProgressBar, params, [logging, journal]
            )

            def validate(epoch: int) -> dict[str, float]:
                if validation_feed is None or not due(epoch):
                    return {}
                values = training_loop.run_evaluate(
                    self, validation_feed, called, "the validation data"
                )
                return {f"val_{name}": value for name, value in values.items()}

            self.__dict__["history"] = history
            with contextlib.ExitStack() as ends:
                if journal is not None:
                    ends.enter_context(journal.open_until_the_end())
                if logging is not None:
                    ends.enter_context(logging.finished_at_the_end())
                return training_loop.run_fit(
                    self, feed, called, history, epochs, initial_epoch, validate, interruption
                )

    @with_known_arguments
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """The loss and metrics on some data.

        Args:
            x: as for `fit`.
            y: targets, for arrays.
            batch_size: samples in a batch of arrays, 32 by default.
            verbose: 0 for silence, else a bar and a line at the end.
            sample_weight: a weight for each sample, for arrays.
            steps: how many batches.
            callbacks: list of `Callback`s.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss, the metrics and the losses of several outputs, or a
            dict.

        Raises:
            ValueError: the model is not compiled, or there is no data.
        """
        self._require_compiled("evaluate")
        feed = self._divided(
            batch_sources.feed(x, y, sample_weight, batch_size=batch_size, steps=steps)
        )
        params = {"steps": feed.steps, "verbose": fit_arguments.verbosity(verbose)}
        called = self._callback_list(callbacks, None, LoopBar, params)
        self.__dict__["stop_evaluating"] = False
        with self._speaking():
            values = training_loop.run_evaluate(self, feed, called)
        return values if return_dict else fit_arguments.in_order(values, self.metrics)

    @with_known_arguments
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """The outputs for some data, as NumPy arrays.

        Args:
            x: as for `fit`.
            batch_size: samples in a batch of arrays, 32 by default.
            verbose: 0 for silence, else a bar if it takes long.
            steps: how many batches.
            callbacks: list of `Callback`s.

        Raises:
            ValueError: there is no data.
        """
        feed = self._divided(batch_sources.feed(x, batch_size=batch_size, steps=steps))
        params = {"steps": feed.steps, "verbose": fit_arguments.verbosity(verbose)}
        called = self._callback_list(callbacks, None, LoopBar, params)
        self.__dict__["stop_predicting"] = False
        with self._speaking():
            outputs = training_loop.run_predict(self, feed, called)
        if len(outputs) == 1:
            return nest.map_structure(np.array, outputs[0])
        return nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)

    def _divided(self, feed: Any) -> Any:
        """The batches of this process, where several train the model."""
        strategy = self.distribute_strategy
        if feed is None or (strategy.num_replicas_in_sync == 1 and strategy.virtual is None):
            return feed
        return replica_feeds.divided(feed, strategy)

    def _speaking(self) -> contextlib.AbstractContextManager[Any]:
        """A context on the device of the strategy, in which only the first process speaks."""
        strategy = self.distribute_strategy
        return said_by_others() if strategy.rank else strategy.placement()

    def _callback_list(
        self, callback_argument: Any, history: Any, bar: Any, params: Any, last: Any = ()
    ) -> CallbackList:
        if isinstance(callback_argument, CallbackList):
            callback_argument = callback_argument.callbacks
        elif callback_argument is None:
            callback_argument = []
        elif not isinstance(callback_argument, list | tuple):
            callback_argument = [callback_argument]
        callbacks: list[Any] = list(callback_argument)
        if history is not None:
            callbacks.append(history)
        if params["verbose"]:
            callbacks.append(bar(params["verbose"]))
        # a journal is the last, so that what it saves has what the others did
        callbacks += [callback for callback in last if callback is not None]
        return CallbackList(callbacks, model=self, **params)

    # ------------------------------------------------------------------ one batch

    @with_known_arguments
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on one batch.

        Args:
            x: inputs.
            y: targets.
            sample_weight: a weight for each sample.
            class_weight: weights by class number.
            return_dict: give a dict by names.

        Returns:
            The loss, or a list of the loss and the metrics on this batch, or a dict.
        """
        self._require_compiled("train_on_batch")
        self._clear_metrics()
        if class_weight:
            sample_weight = data_adapters.weights_of_classes(
                data_adapters.as_arrays(y), sample_weight, class_weight
            )
        logs = self._on_batch("train", x, y, sample_weight)
        return self._results(logs, return_dict)

    @with_known_arguments
    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Evaluate one batch; the arguments and the result are those of `train_on_batch`."""
        self._require_compiled("test_on_batch")
        self._clear_metrics()
        logs = self._on_batch("test", x, y, sample_weight)
        return self._results(logs, return_dict)

    @with_known_arguments
    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for one batch, as NumPy arrays."""
        outputs = self._on_batch("predict", x)
        return nest.map_structure(np.array, outputs)

    def _on_batch(self, mode: str, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        with self.distribute_strategy.placement():
            batch = fit_arguments.as_batch(x, y, sample_weight)
            return training_loop.on_batch(self, mode, batch)

    def _results(self, logs: dict[str, Any], return_dict: bool) -> Any:
        values = numbers(logs)
        return values if return_dict else fit_arguments.in_order(values, self.metrics)
