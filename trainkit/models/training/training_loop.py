"""The loop of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import functools
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainkit.callbacks.callback import numbers
from trainkit.callbacks.callback_list import CallbackList
from trainkit.callbacks.history import History
from trainkit.checkpoints.interruption import Interruption
from trainkit.core.process.console import say_beside
from trainkit.core.trackable import set_silently
from trainkit.models.replicas.replica_runner import ReplicaRunner, runner_of
from trainkit.models.training.batch_sources import Feed, IterableFeed
from trainkit.models.training.data_wait import DataWait
from trainkit.models.training.memory_report import out_of_memory
from trainkit.models.training.training_run import TrainingRun


def run_fit(
    model: Any,
    feed: Feed,
    callbacks: CallbackList,
    history: History,
    epochs: int,
    initial_epoch: int,
    validate: Callable[[int], dict[str, float]] | None,
    interruption: Interruption,
) -> History:
    """Train for the epochs from `initial_epoch` up to `epochs`.

    A signal ends it after the batch; in a validation, after the epoch. A callback may have asked
    that the process ends then, by an attribute `exit_status`.

    Args:
        model: compiled.
        feed: gives the batches of each epoch.
        callbacks: `history` among them.
        history: returned.
        epochs: where training ends.
        initial_epoch: where it begins.
        validate: gives the logs of the validation for an epoch, empty when it is not due.
        interruption: tells whether a signal has come, since before the data was looked at.
    """
    replicas = runner_of(model, "train")
    run = TrainingRun(model, feed, callbacks.callbacks, initial_epoch, interruption, replicas)
    set_silently(model, training_run=run)
    try:
        is_finished = _run_epochs(run, callbacks, epochs, validate)
    finally:
        history.interrupted = interruption.asked or run.interrupted
        set_silently(model, training_run=None)
    statuses = [getattr(callback, "exit_status", None) for callback in callbacks.callbacks]
    status = next((status for status in statuses if status is not None), None)
    if not is_finished and status is not None:
        raise SystemExit(status)
    return history


def _run_epochs(
    run: TrainingRun,
    callbacks: CallbackList,
    epochs: int,
    validate: Callable[[int], dict[str, float]] | None,
) -> bool:
    """Train, and say whether a signal has left nothing to do."""
    model = run.model
    model.stop_training = False
    callbacks.call("on_train_begin", {})
    run.note_attributes()
    if run.waits:
        model.prepare(run.feed.spec())
    run.note_settings()
    run.run_actions("_before")
    if run.replicas is not None:
        run.replicas.begin(run.feed, (run.epoch, run.step))
        run.agree()
    run.first_step = int(model.optimizer.iterations) if model.optimizer is not None else 0
    logs: dict[str, Any] = {}
    while run.epoch < epochs and (run.step or not model.stop_training) and not run.interrupted:
        logs = _run_epoch(run, callbacks, validate)
        if run.feed.spent and not (run.step or run.epoch >= epochs or model.stop_training):
            _say_data_ran_out(run, "no batches", stops=True)
    is_finished = not run.interrupted or run.epoch >= epochs or model.stop_training
    if not is_finished:
        callbacks.call("on_train_interrupted", logs)
        _say_stopped(run, callbacks, epochs)
    elif model.optimizer is not None and model.optimizer.built:
        model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.call("on_train_end", logs)
    return is_finished


def _say_stopped(run: TrainingRun, callbacks: CallbackList, epochs: int) -> None:
    """Say that training is not finished: the program goes on, and may look as if it were."""
    number = run.interruption.number
    cause = "a signal to another process" if number is None else signal.Signals(number).name
    where = f"before batch {run.step + 1} of epoch {run.epoch + 1} of {epochs}"
    stores = any(getattr(callback, "stores_runs", False) for callback in callbacks.callbacks)
    next_run = "; the same call of fit goes on from there" if stores else ""
    say_beside(f"fit: {cause} stopped training {where}, so it is not finished{next_run}")


def _run_epoch(
    run: TrainingRun, callbacks: CallbackList, validate: Callable[[int], dict[str, float]] | None
) -> dict[str, Any]:
    model, epoch = run.model, run.epoch
    batches = run.begin_epoch()
    if run.step == 0:
        model.reset_metrics()
        callbacks.call("on_epoch_begin", epoch, {})
    else:  # the state that was taken up has what callbacks did when this epoch began
        with run.state_held():
            callbacks.call("on_epoch_begin", epoch, {})
    ended, logs = _run_steps(run, batches, callbacks)
    if not ended:
        return logs
    values = _of_metrics_or(model, logs)
    if epoch == run.first_epoch:
        _warn_of_missing_numbers(values, run.feed, "fit: the loss", "the data")
    if validate is not None:
        values.update(validate(epoch))
    run.epoch, run.step = epoch + 1, 0
    callbacks.call("on_epoch_end", epoch, values)
    run.compare()
    run.run_actions("_after")
    run.agree()
    return values


def _warn_of_missing_numbers(values: dict[str, Any], feed: Feed, loss: str, data: str) -> None:
    """Say where the data is not finite, if the loss is not."""
    value = values.get("loss", 0.0)
    if isinstance(value, float) and not math.isfinite(value):
        where = feed.missing_numbers()
        if where:
            name = "NaN" if math.isnan(value) else str(value)
            warnings.warn(
                f"{loss} is {name}, and {data} is not finite: {where}; fill or drop these rows",
                stacklevel=3,
            )


def _of_metrics_or(model: Any, logs: dict[str, Any]) -> dict[str, Any]:
    """What the metrics give now, if `logs` are of these; a step of the user's gives what it does.

    Callbacks of the last batch may have changed the metrics.
    """
    values = numbers(logs)
    now = model.get_metrics_result()
    if set(now) == set(values):
        values = numbers(now)
    return dict(sorted(values.items()))


def take(batches: Iterator[Any]) -> Any:
    """The next batch; a function of its own, so that a profile can see how long it takes."""
    return next(batches)


class Portion:
    """An iterator over so many of the next batches, which counts all that were taken.

    Attributes:
        done: how many batches were taken so far.
        left: how many more there are to take.
        kept: the batches of the step under way, or of the last one; `None` as long as nobody has
            put a list here.
        wait: adds up how long batches were waited for.
    """

    def __init__(
        self, batches: Iterator[Any], batch_count: int = 0, wait: DataWait | None = None
    ) -> None:
        self.batches, self.done, self.left = batches, batch_count, 0
        self.kept: list[Any] | None = None
        self.wait = wait

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        wait = self.wait
        if wait is None:
            batch = take(self.batches)
        else:
            wait.since = began_at = time.perf_counter()
            batch = take(self.batches)
            wait.seconds += time.perf_counter() - began_at
            wait.since = 0.0
            if wait.seconds > wait.patience:
                wait.watch()
        self.left -= 1
        self.done += 1
        if self.kept is not None:
            self.kept.append(batch)
        return batch


def _for_replicas(replicas: ReplicaRunner | None, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches around which replicas are left and entered: what makes them runs outside."""
    if replicas is None or replicas.is_of_one_process:
        return batches
    return replicas.batches_of(batches)


def _run_steps(
    run: TrainingRun, batches: Iterator[Any], callbacks: CallbackList
) -> tuple[bool, dict[str, Any]]:
    """Train on the batches left of an epoch; whether it was finished, and the last logs."""
    wait, batches = DataWait(), _for_replicas(run.replicas, batches)
    portion = run.portion = Portion(batches, run.step, wait)
    if run.keeps_batches:
        portion.kept = []
    try:
        return _run_portion(run, portion, callbacks)
    finally:
        run.data_wait = wait.end()


def _run_portion(
    run: TrainingRun, portion: Portion, callbacks: CallbackList
) -> tuple[bool, dict[str, Any]]:
    model, feed, replicas = run.model, run.feed, run.replicas
    function, together = _function_of(model, "train", replicas), model.steps_per_execution
    agrees = replicas is not None and not replicas.is_of_one_process
    agrees = agrees and callbacks.hears_batches("train")
    logs: dict[str, Any] = {}
    total, begun = feed.steps, run.step
    while feed.more() and not (model.stop_training and portion.done):
        callbacks.batch_begin("train", begun)
        portion.left = together
        if portion.kept is not None:
            portion.kept = []
        try:
            logs = function(portion)
        except StopIteration:
            break
        except MemoryError as error:
            raise out_of_memory(model, "fit", error) from error
        if type(logs) is not dict:
            logs = _checked_logs(model, "train", logs)
        run.__dict__["step"] = portion.done
        begun += together
        callbacks.batch_end("train", begun - 1, logs)
        if agrees:
            run.agree()
        if run.interrupted and feed.more() and not model.stop_training:
            return False, logs
    feed.end()
    batch_count = portion.done
    if not batch_count and run.epoch == run.first_epoch:
        raise ValueError("fit: the data has no batches")
    if not batch_count or (total is not None and batch_count < total and not model.stop_training):
        of = "no batches" if not batch_count else f"{batch_count} of {total} batches"
        _say_data_ran_out(run, of, stops=not batch_count or feed.spent)
    # a run that goes on after the last batch of an epoch has its metrics, and no step to tell them
    return batch_count > 0, logs or model.get_metrics_result()


def _say_data_ran_out(run: TrainingRun, of: str, stops: bool) -> None:
    warnings.warn(
        f"fit: the data ran out after {of} of epoch {run.epoch + 1}; make it repeat, or give fewer "
        "steps_per_epoch or epochs",
        stacklevel=2,
    )
    if stops:
        run.model.stop_training = True


def _function_of(
    model: Any, mode: str, replicas: ReplicaRunner | None = None
) -> Callable[[Iterator[Any]], Any]:
    """The function of an iterator over batches, which a subclass may make itself.

    A subclass's `make_train_function` may give the function, or only keep it in `train_function`.
    """
    custom_function = getattr(model, f"make_{mode}_function")()
    function: Callable[[Iterator[Any]], Any] = getattr(model, f"{mode}_function")
    function = custom_function if custom_function is not None else function
    return function if replicas is None else functools.partial(replicas.run, function)


def _checked_logs(model: Any, mode: str, logs: Any) -> dict[str, Any]:
    """What a step of the user's gave, as a dict of numbers by name.

    Raises:
        TypeError: it is no dict.
    """
    if isinstance(logs, Mapping):
        return dict(logs)
    gave = "None: does it end with `return`?" if logs is None else f"a {type(logs).__name__}."
    raise TypeError(
        f"{type(model).__name__}.{mode}_step must return a dict of numbers by name, such as "
        f'{{"loss": loss}} or self.get_metrics_result(), and it gave {gave}'
    )


def on_batch(model: Any, mode: str, batch: Any) -> Any:
    """The logs or outputs of one batch."""
    replicas = runner_of(model, mode)
    if replicas is None:
        result = on_batch_alone(model, mode, batch)
    else:
        result = replicas.run_batch(_function_of(model, mode), batch)
    if mode == "predict" or type(result) is dict:
        return result
    return _checked_logs(model, mode, result)


def on_batch_alone(model: Any, mode: str, batch: Any) -> Any:
    """What the step gives for one batch, where there is one replica."""
    return _function_of(model, mode)(iter([batch]))


def run_evaluate(
    model: Any, feed: Feed, callbacks: CallbackList, data: str = "the data"
) -> dict[str, float]:
    """The metrics of a whole pass over `feed`; none, with a warning, where it has no batch.

    Raises:
        ValueError: `feed` is a generator without a batch.
    """
    model.reset_metrics()
    callbacks.call("on_test_begin", {})
    logs: dict[str, Any] = {}
    last_batch = 0
    replicas = runner_of(model, "test")
    for last_batch, logs in _steps(model, feed, callbacks, "test", replicas):
        if type(logs) is not dict:
            logs = _checked_logs(model, "test", logs)
        callbacks.batch_end("test", last_batch, logs)
        _agree(replicas, callbacks, "test", "stop_evaluating")
        if model.stop_evaluating:
            break
    if not logs:
        _say_no_results(feed, data)
    values = _of_metrics_or(model, logs) if logs else {}
    _warn_of_missing_numbers(values, feed, "evaluate: the loss", data)
    callbacks.call("on_test_end", values)
    return values


def _say_no_results(feed: Feed, data: str) -> None:
    """Warn that there are no results; raise for a generator that never had a batch, as Keras does.

    Data that says its size, as arrays and data sets do, may well be empty after a split or a
    filter; a generator that gives nothing at once was used up before, or is mistaken.
    """
    if feed.begun_again:
        words = (
            "evaluate: the data ran out; make it repeat, or give something that can be iterated "
            "again and again"
        )
    else:
        words = "evaluate: the data has no batches, so there are no results"
        if isinstance(feed, IterableFeed):
            kind = type(feed.source).__name__
            raise ValueError(
                f"evaluate: {data} has no batches; give a new {kind}: one that was iterated to its "
                "end gives none again"
            )
    warnings.warn(words, stacklevel=3)


def _agree(replicas: ReplicaRunner | None, callbacks: CallbackList, mode: str, stop: str) -> None:
    if replicas is not None and callbacks.hears_batches(mode):
        replicas.agree(stop)


def _steps(
    model: Any, feed: Feed, callbacks: CallbackList, mode: str, replicas: ReplicaRunner | None
) -> Iterator[tuple[int, Any]]:
    """The number of the last batch and the result of each execution."""
    function, together = _function_of(model, mode, replicas), model.steps_per_execution
    if replicas is not None:
        replicas.begin(feed)
    portion = Portion(_for_replicas(replicas, feed.begin(anew=True)))
    begun = 0
    while feed.more():
        callbacks.batch_begin(mode, begun)
        portion.left = together
        try:
            result = function(portion)
        except StopIteration:
            break
        except MemoryError as error:
            method = "evaluate" if mode == "test" else mode
            raise out_of_memory(model, method, error) from error
        begun += together
        yield begun - 1, result
    feed.end()
    if feed.steps is not None and 0 < portion.done < feed.steps:
        warnings.warn(
            f"the data ran out after {portion.done} of {feed.steps} batches; make it repeat, or "
            "ask for fewer steps",
            stacklevel=2,
        )


def run_predict(model: Any, feed: Feed, callbacks: CallbackList) -> list[Any]:
    """The outputs for each batch, or for each execution of several, of `feed`."""
    callbacks.call("on_predict_begin", {})
    outputs = []
    replicas = runner_of(model, "predict")
    for last_batch, batch_outputs in _steps(model, feed, callbacks, "predict", replicas):
        outputs.append(batch_outputs)
        callbacks.batch_end("predict", last_batch, {"outputs": batch_outputs})
        _agree(replicas, callbacks, "predict", "stop_predicting")
        if model.stop_predicting:
            break
    if not outputs:
        raise ValueError("predict: the data has no batches")
    callbacks.call("on_predict_end", {})
    return outputs
