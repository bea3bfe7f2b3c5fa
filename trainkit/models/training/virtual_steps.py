"""Steps of virtual replicas: each process runs its share of them one after the other.

What they come to is joined in one order, whatever the number of processes: gradients before the
update, which is made once, then metrics, logs and the statistics of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.autodiff.variable_scope import VariableScope
from trainkit.callbacks.callback import numbers
from trainkit.collectives.replica import GlobalRows
from trainkit.collectives.tree_sum import TreeSum
from trainkit.core import nest
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.data.transformations.sharing import share
from trainkit.distribution.strategy import Strategy
from trainkit.layers.base import tracking
from trainkit.models.training import replica_feeds
from trainkit.models.training.replica_state import (
    SharedState,
    array_of,
    counts_in_first,
    is_mean,
    make_alike,
)
from trainkit.models.training.replica_steps import ReplicaSteps, replaced
from trainkit.ops.sampling.random import global_generator
from trainkit.optimizers.base.virtual_gradients import VirtualGradients


class VirtualState(SharedState):
    """What metrics and a model hold besides weights, over the turns of one step.

    Each turn begins with what all replicas had before the step; metrics count from 0 on in all but
    the first.

    Args:
        model: the model.
        strategy: has virtual replicas.
        trains: whether steps change the statistics of the model, too.

    Attributes:
        written: what a turn assigns, also beside the model, as generators that nothing tracks.
    """

    def __init__(self, model: Any, strategy: Strategy, trains: bool) -> None:
        super().__init__(model, strategy.group, trains)
        assert strategy.virtual is not None
        self._count = strategy.virtual.count
        self._kept: list[tuple[Variable, Any]] = []
        self._sums: TreeSum | None = None
        self._is_first_here = True
        self.written: list[Variable] = []

    def begin(self) -> None:
        """Before the first turn."""
        self._look()
        self._before = {id(v): v.value() for v in self.statistics}
        counted = {id(v) for v in self.counted}
        variables = [v for v in self.model.variables if not tracking.was_trainable(v)]
        variables += [
            part for _, part in traverse(global_generator()) if isinstance(part, Variable)
        ]
        variables = [
            v for v in variables if self.trains or not v.dtype.is_floating or id(v) in counted
        ]
        model_ids = {id(v) for v in self.model.variables}
        variables += [v for v in self.written if id(v) not in model_ids]
        self._kept = [(v, v.value()) for v in tracking.once([*self.counted, *variables])]
        self._sums = TreeSum(self.group, self._count, np.float64, "the metrics of a step")
        self._is_first_here = True

    def begin_turn(self, rank: int) -> None:
        """Before the turn of a replica."""
        if not self._is_first_here:
            self.undo()
        self._is_first_here = False
        if rank:
            for variable in self.counted:
                if not is_mean(variable):
                    variable.assign(np.zeros_like(array_of(variable)))

    def undo(self) -> None:
        """Let all be as it was before the step."""
        for variable, value in self._kept:
            variable.assign(value)

    def end_turn(self, rank: int, weight: float, extra: list[float]) -> None:
        """After the turn of a replica.

        Args:
            rank: its number.
            weight: which part of the rows of all it had.
            extra: further numbers, which are added up.
        """
        own = [self._part(v, rank, weight) for v in self.counted]
        own += [self._change(v, weight) if weight else self._nothing(v) for v in self.statistics]
        flat = np.concatenate([*(np.asarray(x, np.float64).reshape(-1) for x in own), extra])
        assert self._sums is not None
        self._sums.add([flat])

    def _nothing(self, variable: Variable) -> Any:
        return np.zeros(tuple(variable.shape))

    def _part(self, variable: Variable, rank: int, weight: float) -> Any:
        """What a replica adds to the value that all will hold."""
        value = array_of(variable)
        if is_mean(variable):
            return value / self._count
        if not weight:  # of a row that stood in for none
            before = next(b for v, b in self._kept if v is variable)
            return np.zeros_like(value) if rank else before.numpy()
        return np.zeros_like(value) if rank and counts_in_first(variable) else value

    def end(self) -> Any:  # type: ignore[override]
        """After the last turn; the sums of the `extra` of all."""
        assert self._sums is not None
        flat, at = self._sums.total(), 0
        for variable in [*self.counted, *self.statistics]:
            shape = tuple(variable.shape)
            size = int(np.prod(shape))
            self._take(variable, flat[at : at + size].reshape(shape))
            at += size
        self._before, self._kept = {}, []
        return flat[at:]


class VirtualSteps(ReplicaSteps):
    """Runs the executions of one loop, each batch in the turns of all virtual replicas.

    Args:
        model: the model.
        strategy: has virtual replicas.
        mode: `"train"`, `"test"` or `"predict"`.
    """

    def __init__(self, model: Any, strategy: Strategy, mode: str) -> None:
        super().__init__(model, strategy, mode)
        assert strategy.virtual is not None
        self._turns = strategy.virtual
        if self._turns.gradients is None:
            self._turns.gradients = VirtualGradients(self._turns)
        self._virtual = VirtualState(model, strategy, mode == "train")

    def taking(self) -> None:
        """A batch is about to be made."""

    def took(self, rows: GlobalRows) -> None:
        """The step on a batch of these rows is about to run."""
        if self._unchecked:
            replica_feeds.check_first_batch(rows, self._turns.count)
            self._unchecked = False
        self._rows.append(rows)

    def run(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> Any:
        self._rows = []
        results = [self._step(function, batch, self._rows[-1]) for batch in batches]
        if not results:
            raise StopIteration
        if self.mode == "predict" and len(results) > 1:
            return nest.map_structure(lambda *parts: np.concatenate(parts), *results)
        return results[-1]

    # ------------------------------------------------------------------ one batch

    def _step(self, function: Callable[[Any], Any], batch: Any, rows: GlobalRows) -> Any:
        own = [(rank, *self._cut(batch, rows, rank)) for rank in self._turns.own]
        self._rehearse(function, *own[0])
        if self.mode == "predict":
            return self._predict([self._turn(function, *each) for each in own], own)
        return self._joined_turns(function, own)

    def _cut(self, batch: Any, rows: GlobalRows, rank: int) -> tuple[Any, GlobalRows]:
        """The rows of a virtual replica, at least one, and where they stand."""
        own_rows = GlobalRows(*share(rows.total, self._turns.count, rank))
        size, row_count = max(own_rows.size, 1), max(rows.size, 1)
        first = min(own_rows.start - rows.start, row_count - 1)
        if first == 0 and size == row_count:
            return batch, own_rows
        part = slice(first, first + size)
        return nest.map_structure(lambda x: None if x is None else x[part], batch), own_rows

    def _turn(self, function: Callable[[Any], Any], rank: int, part: Any, rows: GlobalRows) -> Any:
        with self._turns.turn(rank, rows):
            return function(iter([part]))

    def _rehearse(
        self, function: Callable[[Any], Any], rank: int, part: Any, rows: GlobalRows
    ) -> None:
        """Run a first turn without effect, so that all that it makes is there before the real one.

        Otherwise a process with several turns would begin the second one with what the first has
        made of new variables, and one with a single turn would not.
        """
        rehearsed = self.model.__dict__.setdefault("_rehearsed", {})
        since = self.model._compile_arguments
        if self.mode in rehearsed and rehearsed[self.mode][0] is since:
            self._virtual.written = rehearsed[self.mode][1]
            return
        scope = VariableScope()
        try:
            with scope:
                self._turn(function, rank, part, rows)
        finally:
            self._turns.gradients.drop()
        self._virtual.written = [v for v in scope.written if not v.trainable]
        rehearsed[self.mode] = (since, self._virtual.written)
        make_alike(self.model, self.group)

    def _joined_turns(self, function: Callable[[Any], Any], own: list[Any]) -> Any:
        """The step of all replicas; their logs together."""
        state = self._virtual
        names: list[str] = []
        state.begin()
        logs: Any = {}
        try:
            for rank, part, rows in own:
                state.begin_turn(rank)
                logs = self._turn(function, rank, part, rows)
                names, extra = self._own_numbers(logs, rows)
                state.end_turn(rank, rows.size / rows.total, extra)
            if self.mode == "train":
                self._turns.gradients.apply(self.strategy.shard_optimizer_state)
        except BaseException:
            self._turns.gradients.drop()
            state.undo()
            raise
        sums = state.end()
        if not self._own_logs and isinstance(logs, dict):
            return self.model.get_metrics_result()
        if names:
            result, logs = numbers(self.model.get_metrics_result()), dict(logs)
            for i, name in enumerate(names):
                of_metric = sums[2 * i] == self._turns.count and name in result
                value = result[name] if of_metric else float(sums[2 * i + 1])
                logs = replaced(logs, name, value)
        return logs

    def _own_numbers(self, logs: Any, rows: GlobalRows) -> tuple[list[str], list[float]]:
        """Names in logs of a step of the user's; is each what a metric gives, or of these rows?"""
        if not self._own_logs or not isinstance(logs, dict):
            return [], []
        values = numbers(logs)
        names = sorted(name for name, value in values.items() if isinstance(value, float))
        local = numbers(self.model.get_metrics_result()) if names else {}
        extra, weight = [], rows.size / rows.total
        for name in names:
            own = values[name]
            extra += [float(local.get(name) == own), own * weight if weight else 0.0]
        return names, extra

    def _predict(self, outputs: list[Any], own: list[Any]) -> Any:
        """The outputs for the rows of all replicas, in order."""
        sizes = [rows.size for _, _, rows in own]

        def gathered(*parts: Any) -> Any:
            arrays = [np.asarray(part.numpy()) for part in parts]
            if arrays[0].ndim == 0:
                return parts[-1]
            rows = [x[:size] for x, size in zip(arrays, sizes, strict=True)]
            joined = np.ascontiguousarray(np.concatenate(rows))
            return np.concatenate(self.group.all_gather(joined, "the outputs of predict"))

        return nest.map_structure(gathered, *outputs)
