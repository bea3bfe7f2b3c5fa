"""Steps of a model whose replicas are threads of one process, such as one for each GPU.

The batches are those of one replica. Each is cut by rows, and what all replicas do with their parts
is put together as among processes, by a `ReplicaSteps` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import string
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.layers.base import tracking
from trainkit.layers.base.layer import Layer
from trainkit.models.training import replica_feeds
from trainkit.models.training.replica_state import all_variables
from trainkit.models.training.replica_steps import ReplicaSteps
from trainkit.models.training.virtual_steps import VirtualSteps
from trainkit.ops.sampling.seeded_random import numbered_generators


class MirroredSteps:
    """Runs the executions of one loop; see `ReplicaSteps`.

    Args:
        model: the model.
        strategy: a `MirroredStrategy` of several devices.
        mode: `"train"`, `"test"` or `"predict"`.
    """

    def __init__(self, model: Any, strategy: Any, mode: str) -> None:
        if trace_state.THREAD.traces or replicas.current() is not None:
            raise FailedPreconditionError(
                f"model {model.name!r} of a MirroredStrategy starts a thread for each replica, "
                "which can't be done while a function is traced, or in a replica"
            )
        self.model, self.strategy, self.mode = model, strategy, mode
        self.interrupted = False
        self._each = [
            ReplicaSteps(model, _OneReplica(strategy, rank), mode)
            for rank in range(len(strategy.devices))
        ]
        self._values = strategy.values_of(model)
        self._layers: list[Layer] = []
        self._variables: list[Variable] = []
        self._known_for: Any = None
        self._looks = 0

    def begin(self, feed: Any, position: tuple[int, int] = (0, 0)) -> None:
        """Before the first batch: nothing, as there is one model and one pipeline.

        Args:
            feed: gives the batches.
            position: the epoch and the step to begin with.
        """

    def begin_batch(self) -> None:
        """The same for one batch."""

    def agree(self, stop: str, interrupted: bool = False) -> None:
        """Note whether a signal has come; the model is the same for all replicas.

        Args:
            stop: the attribute of the model that says whether to stop.
            interrupted: whether a signal has come.
        """
        self.interrupted = interrupted

    def compare(self, epoch: int) -> None:
        """Nothing: all replicas are of this process.

        Args:
            epoch: which has ended.
        """

    def run(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> Any:
        """One execution.

        Args:
            function: of an iterator over batches.
            batches: of rows for all replicas.

        Returns:
            The logs of all replicas together, or the outputs for all rows in order.
        """
        parts = _CutOnce(next(batches), batches, self.strategy.devices)
        self._look()
        if self.mode != "predict":
            for steps in self._each:
                steps.state.look()

        def work(rank: int) -> Any:
            steps = self._each[rank]
            with self.strategy.on_replica(rank):
                return steps.run(function, parts.of(rank, steps))

        switches = _ModelByTurn(self._values, self._layers, len(self._each))
        agreed = False
        self._values.begin([*self._variables, *self.strategy.made_in_scope()])
        try:
            results = self.strategy.in_turns(work, switches)
            agreed = True
        finally:
            switches.begin_turn(0)
            self._values.end(agreed)
        return results[0]

    def _look(self) -> None:
        """Look layers and variables up, unless nothing can have changed."""
        model = self.model
        metric_count = len(model.__dict__.get("_compiled_metrics", ()))
        known_for = (model._step_cache, model.optimizer, metric_count)
        if self._known_for != known_for:
            self._known_for, self._looks = known_for, 0
        if self._looks > 1:
            return
        self._looks += 1
        self._layers = [part for _, part in traverse(model) if isinstance(part, Layer)]
        metrics = [v for metric in model.metrics for v in metric.variables]
        compiled = [v for m in model.__dict__.get("_compiled_metrics", ()) for v in m.variables]
        numbered = [generator.state for generator in numbered_generators().values()]
        self._variables = tracking.once([*all_variables(model), *metrics, *compiled, *numbered])


class _OneReplica:
    """What `ReplicaSteps` asks a strategy, for one of the replicas.

    Args:
        strategy: of all.
        rank: the replica's number.
    """

    def __init__(self, strategy: Any, rank: int) -> None:
        self.group = strategy.groups[rank]

    def replica(self, rows: replicas.GlobalRows, averages: bool) -> replicas.Replica:
        """The replica, on rows of a batch."""
        return replicas.Replica(self.group, rows, averages)


class _CutOnce:
    """Batches of one execution, taken once and cut for each replica.

    Args:
        first: a batch.
        following: gives those after it.
        replica_devices: the device of each replica.
    """

    def __init__(
        self, first: Any, following: Iterator[Any], replica_devices: list[devices.Device]
    ) -> None:
        self._taken, self._rest, self._places = [first], following, replica_devices

    def of(self, rank: int, steps: ReplicaSteps) -> Iterator[Any]:
        """The rows of one replica of each batch.

        Args:
            rank: the replica's number.
            steps: hears of each.
        """
        number = 0
        while True:
            steps.taking()
            if number == len(self._taken):  # the first replica, which goes ahead of the others
                following = next(self._rest, None)
                if following is None:
                    return
                self._taken.append(following)
            own, rows = replica_feeds.own_rows(steps.group, self._taken[number])
            steps.took(rows)
            yield nest.map_structure(lambda x: self._placed(x, rank), own)
            number += 1

    def _placed(self, x: Any, rank: int) -> Any:
        if type(x) is not Tensor or x.dtype is string:
            return x
        return wrap(devices.to_device(x._array, self._places[rank]))


class _ModelByTurn:
    """Lets what belongs to a replica follow its turns: variables, and the losses of layers.

    Args:
        values: of the variables.
        layers: of the model.
        count: how many replicas there are.
    """

    def __init__(self, values: Any, layers: list[Layer], count: int) -> None:
        self._values, self._layers = values, layers
        self._losses: list[list[tuple[Layer, list[Any]]]] = [[] for _ in range(count)]
        self._active = 0

    def begin_turn(self, rank: int) -> None:
        self._values.begin_turn(rank)
        layer_losses, self._losses[rank] = self._losses[rank], []
        for layer, losses in layer_losses:
            layer._losses[:] = losses
            layer.__dict__["_losses_held"] = True

    def end_turn(self, rank: int) -> None:
        layer_losses = self._losses[rank]
        for layer in self._layers:
            if layer._losses_held:
                layer_losses.append((layer, list(layer._losses)))
                layer._losses.clear()
                layer.__dict__["_losses_held"] = False
        self._values.end_turn(rank)


def steps_of(model: Any, mode: str) -> ReplicaSteps | MirroredSteps | None:
    """What runs the executions of a loop; `None` where the model is trained by one replica.

    Args:
        model: the model.
        mode: see `ReplicaSteps`.
    """
    strategy = model.distribute_strategy
    if strategy.virtual is not None:
        return VirtualSteps(model, strategy, mode)
    if strategy.num_replicas_in_sync == 1:
        return None
    kind = MirroredSteps if strategy.is_of_one_process else ReplicaSteps
    return kind(model, strategy, mode)
