"""Steps of a model that is trained by several replicas, as the loops of `fit` and others run them.

Each execution runs in the replica of this process, on its rows of the global batch. What it gives
is then made global: logs, and the outputs of predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.callbacks.callback import numbers
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.core import nest
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.distribution import rank_digests
from trainkit.layers.base.layer import Layer
from trainkit.models.training import replica_feeds
from trainkit.models.training.replica_state import SharedState, make_alike
from trainkit.ops.sampling.random import global_generator


class ReplicaSteps:
    """Runs the executions of one loop.

    Args:
        model: the model.
        strategy: of several replicas.
        mode: `"train"`, `"test"` or `"predict"`.

    Attributes:
        interrupted: whether a signal has come to any rank, as all of them know.
        state: what is put together after each execution.
    """

    def __init__(self, model: Any, strategy: Any, mode: str) -> None:
        self.model, self.strategy, self.mode = model, strategy, mode
        self.group = group = strategy.group
        self.interrupted = False
        self.state = SharedState(model, group, mode == "train")
        self._rows: list[GlobalRows] = []
        self._replica: Replica | None = None
        self._unchecked = mode == "train" and not group.is_of_one_process
        self._unmade = False
        self._feed: Any = None
        own = f"{mode}_step"
        self._own_logs = getattr(type(model), own) is not _plain(model, own)

    # ------------------------------------------------------------------ before

    def begin(self, feed: Any, position: tuple[int, int] = (0, 0)) -> None:
        """Before the first batch: the ranks begin alike.

        Args:
            feed: gives the batches.
            position: the epoch and the step to begin with.
        """
        if self.mode == "train":
            self._look_only_in_first()
            if not self.model.weights:
                self.model.prepare(feed.spec())
        replica_feeds.agree_on_data(feed, position, self.group)
        self._unmade = not make_alike(self.model, self.group)
        if self._compares():
            self._feed = feed
            rank_digests.check_settings(self.group, self._settings(feed))

    def begin_batch(self) -> None:
        """The same for one batch; only the first one after `compile` makes the ranks alike."""
        if self.mode == "train":
            self._look_only_in_first()
        attributes, compiled = self.model.__dict__, self.model._compile_arguments
        if attributes.get("_alike_since", self) is not compiled:
            self._unmade = not make_alike(self.model, self.group)
            attributes["_alike_since"] = compiled

    def _look_only_in_first(self) -> None:
        """Let rank 0 alone warn of likely mistakes."""
        if self.group.rank:
            self.model.__dict__["_unseen"] = False

    # ------------------------------------------------------------------ batches

    def taking(self) -> None:
        """A batch is about to be made, outside of the replica."""
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.__exit__()

    def took(self, rows: GlobalRows) -> None:
        """The step on a batch of these rows is about to run, in the replica."""
        if self._unchecked:
            replica_feeds.check_first_batch(rows, self.group.size)
            self._unchecked = False
        if self.mode != "predict":
            if not self._rows:
                self.state.begin()
            if not rows.size:
                self.state.begin_without_rows()
        self._rows.append(rows)
        self._replica = self.strategy.replica(rows, averages=True).__enter__()

    def run(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> Any:
        """One execution.

        Args:
            function: of an iterator over batches.
            batches: calls `taking` and `took` around each.

        Returns:
            The logs of all ranks together, or the outputs for all their rows in order.
        """
        self._rows = []
        try:
            result = function(batches)
        finally:
            self.taking()
        if not self._rows:
            return result
        if self.mode == "predict":
            return nest.map_structure(self._gathered, result)
        return self._joined(result)

    # ------------------------------------------------------------------ after

    def _joined(self, logs: Any) -> Any:
        sizes, totals = sum(r.size for r in self._rows), sum(r.total for r in self._rows)
        share = sizes / totals
        plain = not self._own_logs and isinstance(logs, dict)
        values = {} if plain or not isinstance(logs, dict) else numbers(logs)
        names = sorted(name for name, value in values.items() if isinstance(value, float))
        local = numbers(self.model.get_metrics_result()) if names else {}
        extra: list[float] = []
        for name in names:  # is it what a metric gives, or a number of this rank's rows?
            own = values[name]
            extra += [float(local.get(name) == own), own * share if share else 0.0]
        sums = self.state.end(share, extra)
        if self._unmade:
            self._unmade = not make_alike(self.model, self.group)
        if plain:
            return self.model.get_metrics_result()
        if names:
            result = numbers(self.model.get_metrics_result())
            logs = dict(logs)
            for i, name in enumerate(names):
                of_metric = sums[2 * i] == self.group.size and name in result
                logs = replaced(logs, name, result[name] if of_metric else float(sums[2 * i + 1]))
        return logs

    def _gathered(self, outputs: Any) -> Any:
        own_outputs = np.ascontiguousarray(convert_to_tensor(outputs).numpy())
        rows = self._rows
        if own_outputs.ndim == 0:
            return outputs
        cut = [r.size for r in rows]
        if len(rows) > 1 and any(not size for size in cut):  # a row that stood in for none
            keep, at = [], 0
            for size in cut:
                keep.append(own_outputs[at : at + size])
                at += max(size, 1)
            own_outputs = np.concatenate(keep)
        elif not cut[-1]:
            own_outputs = own_outputs[:0]
        parts = self.group.all_gather(own_outputs, "the outputs of predict")
        if len(rows) == 1:
            return np.concatenate(parts)
        sizes = self.group.exchange(cut, "the rows of predict")
        ends = [np.cumsum([0, *each]) for each in sizes]
        pieces = [
            part[end[i] : end[i + 1]]
            for i in range(len(rows))
            for part, end in zip(parts, ends, strict=True)
        ]
        return np.concatenate(pieces)

    # ------------------------------------------------------------------ stopping

    def agree(self, stop: str, interrupted: bool = False) -> None:
        """Stop in all ranks where one of them wants to.

        Args:
            stop: the attribute of the model that says so.
            interrupted: whether a signal has come to this one.
        """
        flags = np.array([bool(getattr(self.model, stop)), interrupted], np.int64)
        self.group.all_reduce(flags, "MAX", "whether to stop")
        setattr(self.model, stop, bool(flags[0]))
        self.interrupted = bool(flags[1])

    # ------------------------------------------------------------------ the same in all ranks

    def compare(self, epoch: int) -> None:
        """Make sure that all ranks hold the same after an epoch.

        Args:
            epoch: which one, from 1.

        Raises:
            StatesDifferError: they do not.
        """
        if not self._compares():
            return
        variables = self._compared()
        digests = rank_digests.digests_of(variables).values()
        number = rank_digests.number_of([*digests, replica_feeds.place_of(self._feed)])
        both = np.array([number, -number], np.int64)
        self.group.all_reduce(both, "MAX", "whether all ranks hold the same")
        if both[0] != -both[1]:
            rank_digests.raise_difference(self.group, variables, f"after epoch {epoch}")

    def _compares(self) -> bool:
        return self.mode == "train" and self.group.size > 1 and not self.group.is_of_one_process

    def _settings(self, feed: Any) -> dict[str, str]:
        """What has to be the same in all ranks, as texts."""
        compiled = dict(self.model._compile_arguments or {})
        optimizer = self.model.optimizer
        config = {} if optimizer is None else dict(rank_digests.config_of(optimizer))
        if isinstance(config.get("learning_rate"), float):  # a variable, which rank 0 gives to all
            config.pop("learning_rate")
        compiled["optimizer"] = [type(optimizer).__name__, config]
        layers = [part for _, part in traverse(self.model) if isinstance(part, Layer)]
        texts = {f"{name} of compile": rank_digests.text_of(x) for name, x in compiled.items()}
        inner = [layer for layer in layers if not hasattr(layer, "fit")]
        texts |= {
            f"layer {i} ({type(x).__name__})": rank_digests.text_of(x) for i, x in enumerate(inner)
        }
        texts["class_weight"] = rank_digests.text_of(getattr(feed, "class_weight", None))
        return texts | {"the data": replica_feeds.text_of_data(feed)}

    def _compared(self) -> dict[str, Variable]:
        """The variables that are the same in all ranks between epochs, by their paths."""
        counted = {id(v) for v in self.state.counted}
        roots = [*traverse(self.model), *traverse(global_generator())]
        return {
            "/".join(path): part
            for path, part in roots
            if isinstance(part, Variable) and type(part._value) is Tensor
            if id(part) not in counted and _is_shared(part, path)
        }


def _plain(model: Any, step: str) -> Any:
    """The step of the base of all models."""
    kinds = [kind for kind in type(model).__mro__ if step in vars(kind)]
    return vars(kinds[-1])[step]


def replaced(logs: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The logs with another value for a name, which may stand in a dict inside."""
    if name in logs:
        return {**logs, name: value}
    return {
        key: replaced(inner, name, value) if isinstance(inner, dict) and name in inner else inner
        for key, inner in logs.items()
    }


def _is_shared(variable: Variable, path: tuple[str, ...]) -> bool:
    """Whether steps keep it the same in all ranks; a count of the user's may be one of its rows."""
    return bool(variable.dtype.is_floating) or path[-1] in ("iterations", "state")


class OneBatch:
    """An iterator over one batch of all replicas, of which this one takes its rows.

    Args:
        steps: hears of it.
        batch: a nest of tensors.
    """

    def __init__(self, steps: ReplicaSteps, batch: Any) -> None:
        self.steps, self.batch, self.left = steps, batch, 1

    def __iter__(self) -> OneBatch:
        return self

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        self.left = 0
        own, rows = replica_feeds.own_rows(self.steps.group, self.batch)
        self.steps.took(rows)
        return own
