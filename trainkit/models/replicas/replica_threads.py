"""The turns of replicas that are threads of one process, such as one for each GPU.

The batches are those of one replica. Each is cut by rows, and what all replicas do with their parts
is put together as among processes, in a `ReplicaTurn` for each.
"""

from __future__ import annotations

import functools
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
from trainkit.models.replicas.replica_feeds import own_rows
from trainkit.models.replicas.replica_state import RepeatedSearch, all_variables
from trainkit.models.replicas.replica_turns import ReplicaTurn
from trainkit.ops.sampling.seeded_random import numbered_generators


class TurnsInThreads:
    """A turn for each device, all of them at once but for Python, of which one runs at a time.

    Args:
        model: the model.
        mode: `"train"`, `"test"` or `"predict"`.
        strategy: a `MirroredStrategy` of several devices.
    """

    def __init__(self, model: Any, mode: str, strategy: Any) -> None:
        if trace_state.THREAD.traces or replicas.current() is not None:
            raise FailedPreconditionError(
                f"model {model.name!r} of a MirroredStrategy starts a thread for each replica, "
                "which can't be done while a function is traced, or in a replica"
            )
        self._model, self._mode, self._strategy = model, mode, strategy
        self._turns = [
            ReplicaTurn(
                model, mode, group, functools.partial(replicas.Replica, group, averages=True)
            )
            for group in strategy.groups
        ]
        self._values = strategy.values_of(model)
        self._layers: list[Layer] = []
        self._variables: list[Variable] = []
        self._searches = RepeatedSearch()

    def run(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> Any:
        """See `ReplicaTurn.run`; the batches have rows for all replicas."""
        parts = _CutOnce(next(batches), batches, self._strategy.devices)
        self._look()
        if self._mode != "predict":
            for turn in self._turns:
                turn.state.look()

        def work(rank: int) -> Any:
            turn = self._turns[rank]
            with self._strategy.on_replica(rank):
                return turn.run(function, parts.of(rank, turn))

        switches = _ModelByTurn(self._values, self._layers, len(self._turns))
        agreed = False
        self._values.begin([*self._variables, *self._strategy.made_in_scope()])
        try:
            results = self._strategy.in_turns(work, switches)
            agreed = True
        finally:
            switches.begin_turn(0)
            self._values.end(agreed)
        return results[0]

    def _look(self) -> None:
        """Look layers and variables up, unless nothing can have changed."""
        model = self._model
        metric_count = len(model.__dict__.get("_compiled_metrics", ()))
        if not self._searches.is_due((model._step_cache, model.optimizer, metric_count)):
            return
        self._layers = [part for _, part in traverse(model) if isinstance(part, Layer)]
        metrics = [v for metric in model.metrics for v in metric.variables]
        compiled = [v for m in model.__dict__.get("_compiled_metrics", ()) for v in m.variables]
        numbered = [generator.state for generator in numbered_generators().values()]
        self._variables = tracking.once([*all_variables(model), *metrics, *compiled, *numbered])


class _CutOnce:
    """Batches of one execution, taken once and cut for each replica."""

    def __init__(
        self, first: Any, following: Iterator[Any], replica_devices: list[devices.Device]
    ) -> None:
        self._batches, self._following, self._devices = [first], following, replica_devices

    def of(self, rank: int, turn: ReplicaTurn) -> Iterator[Any]:
        """The rows of one replica of each batch.

        Args:
            rank: the replica's number.
            turn: left and entered around each.
        """
        number = 0
        while True:
            turn.leave()
            if number == len(self._batches):  # the first replica, which goes ahead of the others
                following = next(self._following, None)
                if following is None:
                    return
                self._batches.append(following)
            part, rows = own_rows(turn.group, self._batches[number])
            turn.enter(rows)
            yield nest.map_structure(lambda x: self._on_device(x, rank), part)
            number += 1

    def _on_device(self, x: Any, rank: int) -> Any:
        if type(x) is not Tensor or x.dtype is string:
            return x
        return wrap(devices.to_device(x._array, self._devices[rank]))


class _ModelByTurn:
    """Lets what belongs to a replica follow its turns: variables, and the losses of layers."""

    def __init__(self, values: Any, layers: list[Layer], count: int) -> None:
        self._values, self._layers = values, layers
        self._losses: list[list[tuple[Layer, list[Any]]]] = [[] for _ in range(count)]

    def begin_turn(self, rank: int) -> None:
        self._values.begin_turn(rank)
        layer_losses, self._losses[rank] = self._losses[rank], []
        for layer, losses in layer_losses:
            layer._losses[:] = losses
            layer.__dict__["_losses_held"] = True

    def end_turn(self, rank: int) -> None:
        # Losses that calls of this replica left with layers, as add_loss does, are kept for its
        # next turn, or the next replica would count them as its own.
        layer_losses = self._losses[rank]
        for layer in self._layers:
            if layer._losses_held:
                layer_losses.append((layer, list(layer._losses)))
                layer._losses.clear()
                layer.__dict__["_losses_held"] = False
        self._values.end_turn(rank)
