"""The loop of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from trainkit.callbacks.callback import CallbackList, numbers
from trainkit.callbacks.history import History
from trainkit.checkpoints.interruption import Interruption
from trainkit.core.registry import snake_case
from trainkit.core.trackable import Trackable
from trainkit.models.batches import Feed
from trainkit.ops.random import global_generator

_ITERATOR = "iterator."


class TrainingRun(Trackable):
    """All that a run of `fit` is made of, for checkpoints: what `BackupAndRestore` stores.

    Attributes:
        model: with its optimizer and metrics.
        callbacks: by the name of their class.
        random: the generator of all random operations without a seed.
        epoch: the epoch under way, or the next one.
        step: how many batches of it are done.
        resumed: whether an earlier run is taken up.
        first_epoch, first_step: where this process began; steps are those of the optimizer.
        interruption: tells whether a signal has come.
    """

    _untracked = frozenset({"feed", "batches"})
    batches: Any

    def __init__(
        self,
        model: Any,
        feed: Feed,
        callbacks: Iterable[Any],
        epoch: int,
        interruption: Interruption,
    ) -> None:
        self.model, self.feed = model, feed
        self.interruption = interruption
        self.callbacks = _by_name(callbacks)
        self.random = global_generator()
        self.epoch, self.step = epoch, 0
        self.resumed = False
        self.first_epoch, self.first_step = epoch, 0
        self.__dict__.update(_before=[], _after=[], batches=None)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM has come."""
        return self.interruption.asked

    def before_training(self, action: Callable[[], Any]) -> None:
        """Do `action` once all callbacks have begun."""
        self.__dict__["_before"].append(action)

    @property
    def waits(self) -> bool:
        """Whether a callback has asked for something before training."""
        return bool(self.__dict__["_before"])

    def after_epoch(self, action: Callable[[], Any]) -> None:
        """Do `action` once all callbacks have heard of the epoch that ends."""
        self.__dict__["_after"].append(action)

    def run_actions(self, which: str) -> None:
        """Do and forget what callbacks have asked for."""
        actions = self.__dict__[which]
        while actions:
            actions.pop(0)()

    def begin_epoch(self) -> Any:
        """The batches of the epoch, or those left of it."""
        if self.batches is None or self.step == 0:
            self.__dict__["batches"] = self.feed.begin()
        return self.batches

    def parts(self) -> dict[str, Trackable]:
        dataset = getattr(getattr(self.feed, "inner", self.feed), "dataset", None)
        return super().parts() | ({} if dataset is None else {"dataset": dataset})

    def state_arrays(self) -> dict[str, Any]:
        here = {
            "epoch": np.int64(self.epoch),
            "step": np.int64(self.step),
            "stopped": np.bool_(self.model.stop_training),
        }
        continues = self.step or not self.feed.whole_passes
        position = self.feed.position() if continues else {}
        return here | {_ITERATOR + name: value for name, value in position.items()}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if not {"epoch", "step"} <= set(arrays):
            raise ValueError(f"a run stores 'epoch' and 'step', the file has {sorted(arrays)}")
        position = {
            name.removeprefix(_ITERATOR): value
            for name, value in arrays.items()
            if name.startswith(_ITERATOR)
        }
        if position:
            self.__dict__["batches"] = self.feed.go_to(position)
        self.epoch, self.step = int(arrays["epoch"]), int(arrays["step"])
        self.model.stop_training = bool(arrays.get("stopped", False))  # absent in older files
        self.resumed, self.first_epoch = True, self.epoch


def _by_name(callbacks: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for callback in callbacks:
        if isinstance(callback, Trackable):
            name, count = snake_case(type(callback).__name__), 1
            base = name
            while name in named:
                name, count = f"{base}_{count}", count + 1
            named[name] = callback
    return named


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

    A signal ends it after the batch; in a validation, after the epoch.

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
    run = TrainingRun(model, feed, callbacks.callbacks, initial_epoch, interruption)
    model.__dict__["training_run"] = run
    try:
        _run_epochs(run, callbacks, epochs, validate)
    finally:
        history.interrupted = interruption.asked
        model.__dict__["training_run"] = None
    return history


def _run_epochs(
    run: TrainingRun,
    callbacks: CallbackList,
    epochs: int,
    validate: Callable[[int], dict[str, float]] | None,
) -> None:
    model = run.model
    model.stop_training = False
    callbacks.call("on_train_begin", {})
    if run.waits:
        model.prepare(run.feed.spec())
        run.run_actions("_before")
    run.first_step = int(model.optimizer.iterations) if model.optimizer is not None else 0
    logs: dict[str, Any] = {}
    while run.epoch < epochs and (run.step or not model.stop_training) and not run.interrupted:
        logs = _run_epoch(run, callbacks, validate)
    if run.interrupted and run.epoch < epochs and not model.stop_training:
        callbacks.call("on_train_interrupted", logs)
    callbacks.call("on_train_end", logs)


def _run_epoch(
    run: TrainingRun,
    callbacks: CallbackList,
    validate: Callable[[int], dict[str, float]] | None,
) -> dict[str, Any]:
    model, epoch = run.model, run.epoch
    batches = run.begin_epoch()
    if run.step == 0:
        model.reset_metrics()
    callbacks.call("on_epoch_begin", epoch, {})
    ended, logs = _run_steps(run, batches, callbacks)
    if not ended:
        return logs
    values = numbers(logs)
    values = dict(sorted(values.items()))
    if validate is not None:
        values.update(validate(epoch))
    run.epoch, run.step = epoch + 1, 0
    callbacks.call("on_epoch_end", epoch, values)
    run.run_actions("_after")
    return values


def take(batches: Iterator[Any]) -> Any:
    """The next batch; a function of its own, so that a profile can see how long it takes."""
    return next(batches)


def _run_steps(
    run: TrainingRun, batches: Iterator[Any], callbacks: CallbackList
) -> tuple[bool, dict[str, Any]]:
    """Train on the batches left of an epoch; whether it was finished, and the last logs."""
    model, feed = run.model, run.feed
    step_function, together = model.make_train_function(), model.steps_per_execution
    logs: dict[str, Any] = {}
    total = feed.steps
    done = run.step
    while (total is None or done < total) and not (model.stop_training and done):
        callbacks.batch_begin("train", done)
        count = together if total is None else min(together, total - done)
        try:
            for _ in range(count):
                logs = step_function(take(batches))
                done += 1
        except StopIteration:
            if done == run.step:
                break
        run.__dict__["step"] = done
        callbacks.batch_end("train", done - 1, logs)
        if run.interrupted and done != total and not model.stop_training:
            return False, logs
    if not done:
        raise ValueError("fit: the data has no batches")
    if total is not None and done < total and not model.stop_training:
        warnings.warn(
            f"fit: the data ran out after {done} of {total} batches of epoch {run.epoch + 1}; "
            f"make it repeat, "
            "or give fewer steps_per_epoch",
            stacklevel=2,
        )
        if feed.whole_passes:
            feed.steps = done
        else:
            model.stop_training = True
    return True, logs or model.get_metrics_result()


def run_evaluate(model: Any, feed: Feed, callbacks: CallbackList) -> dict[str, float]:
    """The metrics of a whole pass over `feed`."""
    model.reset_metrics()
    callbacks.call("on_test_begin", {})
    logs: dict[str, Any] = {}
    step_function = model.make_test_function()
    for step, batch in enumerate(_first(feed.begin(), feed.steps)):
        callbacks.batch_begin("test", step)
        logs = step_function(batch)
        callbacks.batch_end("test", step, logs)
        if model.stop_evaluating:
            break
    if not logs:
        raise ValueError("evaluate: the data has no batches")
    values = dict(sorted(numbers(logs).items()))
    callbacks.call("on_test_end", values)
    return values


def run_predict(model: Any, feed: Feed, callbacks: CallbackList) -> list[Any]:
    """The outputs for each batch of `feed`."""
    callbacks.call("on_predict_begin", {})
    outputs = []
    step_function = model.make_predict_function()
    for step, batch in enumerate(_first(feed.begin(), feed.steps)):
        callbacks.batch_begin("predict", step)
        outputs.append(step_function(batch))
        callbacks.batch_end("predict", step, {"outputs": outputs[-1]})
        if model.stop_predicting:
            break
    if not outputs:
        raise ValueError("predict: the data has no batches")
    callbacks.call("on_predict_end", {})
    return outputs


def _first(batches: Iterator[Any], count: int | None) -> Iterator[Any]:
    """The first `count` batches, all for `None`."""
    if count is None:
        yield from batches
        return
    for _ in range(count):
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch
