"""`TrainingRun`: all that a run of `fit` is made of, for the checkpoints that it goes on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainkit.checkpoints.interruption import Interruption
from trainkit.core.registry import snake_case
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.values import attribute_state
from trainkit.core.variable import Variable
from trainkit.models import part_settings
from trainkit.models.part_settings import is_of_package
from trainkit.models.replicas.replica_runner import ReplicaRunner
from trainkit.models.training.batch_sources import Feed
from trainkit.ops.sampling.generators import global_generator

_ITERATOR = "iterator."
_ATTRIBUTES = "attributes."
_SETTINGS = "settings"


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
        keeps_batches: whether `portion.kept` has the batches of each step, for callbacks; they set
            it before the epoch.
        data_wait: what is to be said of how long the last epoch waited for data.
    """

    _untracked = frozenset(
        "feed batches portion data_wait replicas "
        "_before _after _at_first _settings_at_first".split()
    )
    batches: Any
    replicas: ReplicaRunner | None
    portion: Any
    data_wait: str
    _at_first: dict[str, dict[str, str]]
    _settings_at_first: part_settings.Settings | None

    def __init__(
        self,
        model: Any,
        feed: Feed,
        callbacks: Iterable[Any],
        epoch: int,
        interruption: Interruption,
        replicas: ReplicaRunner | None = None,
    ) -> None:
        self.model, self.feed = model, feed
        self.interruption = interruption
        self.replicas = replicas
        self.callbacks = _by_name(callbacks)
        self.random = global_generator()
        self.epoch, self.step = epoch, 0
        self.resumed = self.keeps_batches = False
        self.first_epoch, self.first_step = epoch, 0
        self._before: list[Callable[[], Any]] = []
        self._after: list[Callable[[], Any]] = []
        self.batches = self.portion = self._settings_at_first = None
        self.data_wait, self._at_first = "", {}

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM has come; with replicas, to any as all of them know."""
        replicas = self.replicas
        if replicas is None or replicas.is_of_one_process:
            return self.interruption.asked
        return replicas.interrupted

    def agree(self) -> None:
        """Let all replicas know whether one of them wants to stop."""
        if self.replicas is not None:
            self.replicas.agree("stop_training", self.interruption.asked)

    def compare(self) -> None:
        """Make sure that all replicas hold the same after an epoch, before it is stored."""
        if self.replicas is not None:
            self.replicas.compare(self.epoch)

    def before_training(self, action: Callable[[], Any]) -> None:
        """Do `action` once all callbacks have begun."""
        self._before.append(action)

    @property
    def waits(self) -> bool:
        """Whether a callback has asked for something before training."""
        return bool(self._before)

    def after_epoch(self, action: Callable[[], Any]) -> None:
        """Do `action` once all callbacks have heard of the epoch that ends."""
        self._after.append(action)

    def run_actions(self, attribute: str) -> None:
        """Do and forget what callbacks have asked for."""
        actions = getattr(self, attribute)
        while actions:
            actions.pop(0)()

    def begin_epoch(self) -> Any:
        """The batches of the epoch, or those left of it."""
        if self.batches is None or self.step == 0:
            self.batches = self.feed.begin()
        return self.batches

    # ------------------------------------------------------------------ what callbacks hold

    def note_attributes(self) -> None:
        """Note what callbacks of the user's hold; a checkpoint has what they change from now on.

        What the program begins with is the program's: an attribute that begins otherwise when the
        run is taken up, as another setting does, is not set to what was stored.
        """
        self._at_first = {
            name: attribute_state.texts_of(callback, _names_of_package(type(callback)))
            for name, callback in self._callbacks_of_user().items()
        }

    def note_settings(self) -> None:
        """Note the settings of the model's parts and its optimizer, likewise."""
        self._settings_at_first = part_settings.settings_of(self.model)

    def _callbacks_of_user(self) -> dict[str, Any]:
        """Those of classes that do not say themselves what they store."""
        return {
            name: callback
            for name, callback in self.callbacks.items()
            if not is_of_package(type(callback))
            and is_of_package(_class_with(type(callback), "state_arrays"))
        }

    def _attributes(self, unchanged: bool = False) -> dict[str, Any]:
        """The attributes of callbacks that have changed, or all of them, as arrays by name."""
        arrays: dict[str, Any] = {}
        for name, callback in self._callbacks_of_user().items():
            first = self._at_first.get(name, {})
            now = attribute_state.texts_of(callback, _names_of_package(type(callback)))
            pairs = {key: (first.get(key), text) for key, text in now.items()}
            changes = {key: pair for key, pair in pairs.items() if unchanged or pair[0] != pair[1]}
            if changes:
                arrays[_ATTRIBUTES + name] = attribute_state.packed(changes)
        return arrays

    def _load_attributes(self, arrays: dict[str, Any]) -> None:
        for name, callback in self._callbacks_of_user().items():
            if _ATTRIBUTES + name in arrays:
                first = self._at_first.get(name, {})
                attribute_state.load(callback, arrays[_ATTRIBUTES + name], first)

    @contextmanager
    def state_held(self) -> Iterator[None]:
        """A context in which callbacks may change what a checkpoint holds, and which undoes it."""
        roots = [self.model, self.random, *self.callbacks.values()]
        parts = {id(part): part for root in roots for _, part in traverse(root)}.values()
        values = [(v, v.value()) for v in parts if isinstance(v, Variable) and _has_value(v)]
        arrays = [(part, type(part).state_arrays(part)) for part in self.callbacks.values()]
        attributes, stopped = self._attributes(unchanged=True), self.model.stop_training
        settings = part_settings.settings_of(self.model)
        yield
        for variable, value in values:
            if variable.value()._array is not value._array:
                variable.assign(value)
        for part, state in arrays:
            if state:
                type(part).load_state_arrays(part, state)
        self._load_attributes(attributes)
        part_settings.put_back(self.model, settings)
        self.model.stop_training = stopped

    # ------------------------------------------------------------------ what is stored

    def parts(self) -> dict[str, Trackable]:
        dataset = getattr(self.feed, "dataset", None)
        return super().parts() | ({} if dataset is None else {"dataset": dataset})

    def state_arrays(self) -> dict[str, Any]:
        progress = {
            "epoch": np.int64(self.epoch),
            "step": np.int64(self.step),
            "stopped": np.bool_(self.model.stop_training),
        }
        position = self.feed.position(within=self.step > 0)
        iterator = {_ITERATOR + name: value for name, value in position.items()}
        changed = part_settings.changes_since(self._settings_at_first, self.model)
        settings = {} if changed is None else {_SETTINGS: changed}
        return progress | self._attributes() | settings | iterator

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if not {"epoch", "step"} <= set(arrays):
            raise ValueError(f"a run stores 'epoch' and 'step', the file has {sorted(arrays)}")
        position = {
            name.removeprefix(_ITERATOR): value
            for name, value in arrays.items()
            if name.startswith(_ITERATOR)
        }
        if position:
            self.batches = self.feed.go_to(position, int(arrays["step"]))
        self.epoch, self.step = int(arrays["epoch"]), int(arrays["step"])
        self.model.stop_training = bool(arrays.get("stopped", False))  # absent in older files
        self.resumed, self.first_epoch = True, self.epoch
        self._load_attributes(arrays)
        if _SETTINGS in arrays:
            part_settings.take_over(self.model, arrays[_SETTINGS], self._settings_at_first)


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


def _class_with(kind: type, method: str) -> type:
    """The class that `kind` has a method from."""
    return next(base for base in kind.__mro__ if method in vars(base))


def _names_of_package(kind: type) -> frozenset[str]:
    """The attributes that the package's own classes among the bases see to."""
    bases = [base for base in kind.__mro__ if is_of_package(base)]
    codes = [getattr(f, "__code__", None) for base in bases for f in vars(base).values()]
    names = {name for code in codes if code is not None for name in code.co_names}
    return frozenset(names | {"params", "_model"})


def _has_value(variable: Variable) -> bool:
    """Whether a value is all there, and not kept in shares by several ranks."""
    return isinstance(variable._value, Tensor)
