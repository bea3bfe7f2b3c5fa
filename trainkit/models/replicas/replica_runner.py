"""`ReplicaRunner`: the executions of a model's loop, run in the replicas of this process.

The loops of `fit` and others call it around each. It makes all processes begin alike, lets turns do
the work (`ReplicaTurn`, `TurnsInThreads`, `TurnsInOrder`), and stops all where one wants to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core.tensor import Tensor
from trainkit.core.trackable import set_silently, traverse
from trainkit.core.variable import Variable
from trainkit.distribution import rank_digests
from trainkit.layers.base.layer import Layer
from trainkit.models.replicas import replica_feeds
from trainkit.models.replicas.replica_state import counted_variables, make_alike
from trainkit.models.replicas.replica_threads import TurnsInThreads
from trainkit.models.replicas.replica_turns import ReplicaTurn, TurnsInOrder
from trainkit.ops.sampling.generators import global_generator

if TYPE_CHECKING:
    from trainkit.collectives.replica import GlobalRows


_NONE = object()


class ReplicaRunner:
    """Runs the executions of one loop.

    Args:
        model: the model.
        strategy: of several replicas.
        mode: `"train"`, `"test"` or `"predict"`.

    Attributes:
        group: the processes.
        is_of_one_process: whether all replicas belong to this process, which then takes whole
            batches, and has nobody to agree with.
        interrupted: whether a signal has come to any process, as all of them know.
    """

    def __init__(self, model: Any, strategy: Any, mode: str) -> None:
        self.model, self.mode = model, mode
        self.group = strategy.group
        self.is_of_one_process = bool(strategy.is_of_one_process)
        self.interrupted = False
        self._count = strategy.num_replicas_in_sync
        self._is_unchecked = mode == "train" and not self.is_of_one_process
        self._is_unmade = False
        self._feed: Any = None
        self._turns: ReplicaTurn | TurnsInOrder | TurnsInThreads
        if strategy.virtual is not None:
            self._turns = TurnsInOrder(model, mode, strategy)
        elif self.is_of_one_process:
            self._turns = TurnsInThreads(model, mode, strategy)
        else:
            replica_on = functools.partial(strategy.replica, averages=True)
            self._turns = ReplicaTurn(model, mode, self.group, replica_on)

    # ------------------------------------------------------------------ before

    def begin(self, feed: Any, position: tuple[int, int] = (0, 0)) -> None:
        """Before the first batch: the processes begin alike."""
        if self.is_of_one_process:
            return  # there is one model and one pipeline
        if self.mode == "train":
            self._look_only_in_first()
            if not self.model.weights:
                self.model.prepare(feed.spec())
        replica_feeds.agree_on_data(feed, position, self.group)
        self._is_unmade = not make_alike(self.model, self.group)
        if self._compares():
            self._feed = feed
            rank_digests.check_settings(self.group, self._settings(feed))

    def begin_batch(self) -> None:
        """The same for one batch; only the first one after `compile` makes the processes alike."""
        if self.mode == "train":
            self._look_only_in_first()
        compiled = self.model._compile_arguments
        if self.model.__dict__.get("_alike_since", self) is not compiled:
            self._is_unmade = not make_alike(self.model, self.group)
            set_silently(self.model, _alike_since=compiled)

    def _look_only_in_first(self) -> None:
        """Let rank 0 alone warn of likely mistakes."""
        if self.group.rank:
            set_silently(self.model, _unseen=False)

    # ------------------------------------------------------------------ batches

    def batches_of(self, feed: Any) -> Iterator[Any]:
        """The batches of a feed, each of which is made outside of the replica, and used in it.

        Args:
            feed: an iterator that says the `rows` of the batch given last.
        """
        assert not isinstance(self._turns, TurnsInThreads)
        while True:
            self._turns.leave()
            batch = next(feed, _NONE)
            if batch is _NONE:
                return
            self._enter(feed.rows)
            yield batch

    def _enter(self, rows: GlobalRows) -> None:
        if self._is_unchecked:
            replica_feeds.check_first_batch(rows, self._count)
            self._is_unchecked = False
        assert not isinstance(self._turns, TurnsInThreads)
        self._turns.enter(rows)

    def run(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> Any:
        """One execution.

        Args:
            function: of an iterator over batches.
            batches: those of `batches_of`, or whole ones where all replicas are of this process.

        Returns:
            The logs of all replicas together, or the outputs for all their rows in order.
        """
        result = self._turns.run(function, batches)
        if self._is_unmade and self.mode != "predict":
            self._is_unmade = not make_alike(self.model, self.group)
        return result

    def run_batch(self, function: Callable[[Any], Any], batch: Any) -> Any:
        """The same for one batch of rows for all replicas."""
        if self.is_of_one_process:
            return self.run(function, iter([batch]))
        self.begin_batch()
        return self.run(function, self._rows_of(batch))

    def _rows_of(self, batch: Any) -> Iterator[Any]:
        """The rows of this process."""
        part, rows = replica_feeds.own_rows(self.group, batch)
        self._enter(rows)
        yield part

    # ------------------------------------------------------------------ stopping

    def agree(self, stop: str, interrupted: bool = False) -> None:
        """Stop in all processes where one of them wants to.

        Args:
            stop: the attribute of the model that says so.
            interrupted: whether a signal has come to this one.
        """
        if self.is_of_one_process:
            self.interrupted = interrupted
            return
        flags = np.array([bool(getattr(self.model, stop)), interrupted], np.int64)
        self.group.all_reduce(flags, "MAX", "whether to stop")
        setattr(self.model, stop, bool(flags[0]))
        self.interrupted = bool(flags[1])

    # ------------------------------------------------------------------ the same in all ranks

    def compare(self, epoch: int) -> None:
        """Make sure that all ranks hold the same after an epoch.

        Raises:
            StatesDifferError: they do not.
        """
        if not self._compares():
            return
        variables = self._compared_variables()
        digests = rank_digests.digests_of(variables).values()
        number = rank_digests.number_of([*digests, replica_feeds.place_of(self._feed)])
        both = np.array([number, -number], np.int64)
        self.group.all_reduce(both, "MAX", "whether all ranks hold the same")
        if both[0] != -both[1]:
            rank_digests.raise_difference(self.group, variables, f"after epoch {epoch}")

    def _compares(self) -> bool:
        return self.mode == "train" and self.group.size > 1 and not self.is_of_one_process

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

    def _compared_variables(self) -> dict[str, Variable]:
        """The variables that are the same in all ranks between epochs, by their paths."""
        counted = {id(v) for v in counted_variables(self.model)}
        roots = [*traverse(self.model), *traverse(global_generator())]
        return {
            "/".join(path): part
            for path, part in roots
            if isinstance(part, Variable) and type(part._value) is Tensor
            if id(part) not in counted and _is_shared(part, path)
        }


def _is_shared(variable: Variable, path: tuple[str, ...]) -> bool:
    """Whether steps keep it the same in all ranks; a count of the user's may be one of its rows."""
    return bool(variable.dtype.is_floating) or path[-1] in ("iterations", "state")


def runner_of(model: Any, mode: str) -> ReplicaRunner | None:
    """What runs the executions of a loop; `None` where the model is trained by one replica."""
    strategy = model.distribute_strategy
    return None if has_one_replica(strategy) else ReplicaRunner(model, strategy, mode)


def has_one_replica(strategy: Any) -> bool:
    """Whether steps in the scope of `strategy` are those of one replica, which joins nothing."""
    return strategy.virtual is None and bool(strategy.num_replicas_in_sync == 1)
