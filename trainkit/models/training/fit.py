"""What `fit`, `evaluate` and `predict` do: feeds of batches, a list of callbacks, the loop."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.callbacks import run_journal
from trainkit.callbacks.callback_list import CallbackList
from trainkit.callbacks.history import History
from trainkit.callbacks.loggers import log_metrics
from trainkit.callbacks.progress import LoopBar, ProgressBar, late_bar
from trainkit.checkpoints.interruption import Interruption
from trainkit.core import nest
from trainkit.core.process import console
from trainkit.core.tensor import Tensor, wrap_on_device
from trainkit.core.trackable import set_silently
from trainkit.models.replicas import replica_feeds
from trainkit.models.replicas.replica_runner import has_one_replica
from trainkit.models.training import batch_sources, fit_arguments, limits, training_loop
from trainkit.models.training.memory_report import out_of_memory


@contextlib.contextmanager
def said_by_others() -> Iterator[None]:
    """A context without messages and warnings, which another process gives."""
    with console.muted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def speaking(model: Any) -> contextlib.AbstractContextManager[Any]:
    """A context on the device of the strategy, in which only the first process speaks."""
    strategy = model.distribute_strategy
    return said_by_others() if strategy.rank else strategy.placement()


def divide(model: Any, feed: Any) -> Any:
    """The batches of this process, where several train the model."""
    strategy = model.distribute_strategy
    if feed is None or has_one_replica(strategy):
        return feed
    return replica_feeds.divide_feed(feed, strategy)


def callback_list(
    model: Any, callback_argument: Any, history: Any, bar: Any, params: Any, last: Any = ()
) -> CallbackList:
    """The callbacks of a loop: the user's, those that belong to the loop, and `last`."""
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
    return CallbackList(callbacks, model=model, **params)


def fit_model(
    model: Any,
    data: tuple[Any, Any, Any],
    validation_split: float,
    validation_data: Any,
    callbacks: Any,
    loggers: Any,
    run: Any,
    *,
    batch_size: int | None,
    epochs: int,
    verbose: Any,
    shuffle: Any,
    class_weight: dict[int, float] | None,
    initial_epoch: int,
    steps_per_epoch: int | None,
    validation_steps: int | None,
    validation_batch_size: int | None,
    validation_freq: Any,
) -> History:
    """Train `model` on `data`: x, y and sample weights; the rest is as for `Model.fit`."""
    x, y, sample_weight = data
    epochs = limits.epochs(epochs)
    initial_epoch = limits.whole(initial_epoch, "initial_epoch")
    limits.check_counts(
        steps_per_epoch=steps_per_epoch,
        validation_steps=validation_steps,
        validation_batch_size=validation_batch_size,
    )
    with Interruption() as interruption, speaking(model):
        if validation_split:
            if validation_data is not None:
                raise ValueError("fit: give either validation_split or validation_data")
            x, y, sample_weight, validation_data = fit_arguments.split(
                x, y, sample_weight, validation_split
            )
        feed = divide(
            model,
            batch_sources.feed(
                x,
                y,
                sample_weight,
                batch_size=batch_size,
                shuffle=shuffle,
                steps=steps_per_epoch,
                class_weight=class_weight,
                resumes=True,
            ),
        )
        validation_feed = divide(
            model,
            fit_arguments.validation_feed(
                validation_data, validation_batch_size or batch_size, validation_steps
            ),
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
        called = callback_list(model, callbacks, history, ProgressBar, params, [logging, journal])

        def validate(epoch: int) -> dict[str, float]:
            if validation_feed is None or not due(epoch):
                return {}
            validation_feed.reset()
            values = training_loop.run_evaluate(
                model, validation_feed, called, "the validation data"
            )
            return {f"val_{name}": value for name, value in values.items()}

        set_silently(model, history=history)
        feed.reset()
        with contextlib.ExitStack() as ends:
            if journal is not None:
                ends.enter_context(journal.open_until_the_end())
            if logging is not None:
                ends.enter_context(logging.finished_at_the_end())
            return training_loop.run_fit(
                model, feed, called, history, epochs, initial_epoch, validate, interruption
            )


def evaluate_model(
    model: Any, data: tuple[Any, ...], batch_size: Any, steps: Any, verbose: Any, callbacks: Any
) -> Any:
    """The loss and metrics on some data: what `Model.evaluate` gives, by name."""
    feed = batch_sources.feed(*data, batch_size=batch_size, steps=steps)
    feed.reset()
    loop = training_loop.run_evaluate
    return _run_over(model, loop, feed, verbose, callbacks, stop_evaluating=False)


def predict_model(
    model: Any, x: Any, batch_size: Any, steps: Any, verbose: Any, callbacks: Any
) -> Any:
    """The outputs for some data, those of all batches joined, as NumPy arrays."""
    if callbacks is None and steps is None and has_one_replica(model.distribute_strategy):
        rows = batch_sources.rows_of_one_batch(x, batch_size)
        if rows is not None:
            return _predict_batch(model, rows, verbose)
    feed = batch_sources.feed(x, batch_size=batch_size, steps=steps)
    loop = training_loop.run_predict
    outputs = _run_over(model, loop, feed, verbose, callbacks, stop_predicting=False)
    if len(outputs) == 1:
        return host_copies(outputs[0])
    return nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def _predict_batch(model: Any, rows: Any, verbose: Any) -> Any:
    """The outputs for one batch, of which no callback hears: the loop takes longer than it may."""
    bar = late_bar(fit_arguments.verbosity(verbose))
    set_silently(model, stop_predicting=False)
    with model.distribute_strategy.placement(), bar:
        try:
            outputs = training_loop.on_batch_alone(model, "predict", wrap_on_device(rows))
        except MemoryError as error:
            raise out_of_memory(model, "predict", error) from error
    return host_copies(outputs)


def host_copies(outputs: Any) -> Any:
    """Outputs as arrays of the caller's own, nested alike."""
    if type(outputs) is Tensor:
        return _host_copy(outputs)
    return nest.map_structure(_host_copy, outputs)


def _host_copy(output: Any) -> Any:
    """An output as an array of the caller's own."""
    # NumPy asks an object for several protocols before it takes the array that it has
    is_array = type(output) is Tensor and output._array.ndim > 0
    return output.numpy() if is_array else np.array(output)


def _run_over(
    model: Any, loop: Callable[..., Any], feed: Any, verbose: Any, callbacks: Any, **flags: bool
) -> Any:
    """What a loop without training gives for this process's batches; `flags` are set before it."""
    batches = divide(model, feed)
    verbosity = fit_arguments.verbosity(verbose)
    params = {"epochs": 1, "steps": batches.steps, "verbose": verbosity}
    callbacks = callback_list(model, callbacks, None, LoopBar, params)
    set_silently(model, **flags)
    with speaking(model):
        return loop(model, batches, callbacks)
