"""The turns in which a process runs its replicas: one alone, or several, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.autodiff.variable_scope import VariableScope
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.core import nest
from trainkit.data.transformations.sharing import share
from trainkit.distribution.strategy import Strategy
from trainkit.models.replicas.replica_results import JoinedLogs, drop_stand_ins, gather_outputs
from trainkit.models.replicas.replica_state import SharedState, StateByTurns, make_alike
from trainkit.optimizers.base.virtual_gradients import VirtualGradients

Function = Callable[[Any], Any]
"""A function of an iterator over batches, as `make_train_function` makes it."""


class ReplicaTurn:
    """The turn of one replica, which meets the others within its steps.

    Args:
        model: the model.
        mode: `"train"`, `"test"` or `"predict"`.
        group: the replicas: processes, or threads of this one.
        replica_on: makes the replica, a context to run a step in, for rows of a batch.

    Attributes:
        group: see above.
        state: what is put together after each execution.
    """

    def __init__(
        self, model: Any, mode: str, group: ProcessGroup, replica_on: Callable[[GlobalRows], Any]
    ) -> None:
        self.group, self._mode, self._replica_on = group, mode, replica_on
        self.state = SharedState(model, group, group.size, mode == "train")
        self._logs = JoinedLogs(model, mode, group.size)
        self._rows: list[GlobalRows] = []
        self._replica: Replica | None = None

    def leave(self) -> None:
        """Leave the replica: a batch is about to be made, which is none of its work."""
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.__exit__()

    def enter(self, rows: GlobalRows) -> None:
        """Enter the replica: the step on a batch of these rows is about to run."""
        if self._mode != "predict":
            if not self._rows:
                self.state.begin()
                self.state.begin_turn(self.group.rank)
            if not rows.size:
                self.state.begin_without_rows()
        self._rows.append(rows)
        self._replica = self._replica_on(rows).__enter__()

    def run(self, function: Function, batches: Iterator[Any]) -> Any:
        """One execution.

        Args:
            function: of batches.
            batches: calls `leave` and `enter` around each.

        Returns:
            The logs of all replicas together, or the outputs for all their rows in order.
        """
        self._rows = []
        try:
            result = function(batches)
        finally:
            self.leave()
        rows = self._rows
        if not rows:
            return result
        if self._mode == "predict":
            return nest.map_structure(lambda y: gather_outputs(y, rows, self.group), result)
        weight = sum(r.size for r in rows) / sum(r.total for r in rows)
        self.state.end_turn(self.group.rank, weight, self._logs.terms(result, weight))
        return self._logs.join(result, self.state.end())


class TurnsInOrder:
    """The turns of virtual replicas: each process runs its share of them one after the other.

    What they come to is joined in one order, whatever the number of processes: gradients before the
    update, which is made once, then metrics, logs and the statistics of the model.

    Args:
        model: the model.
        mode: `"train"`, `"test"` or `"predict"`.
        strategy: has virtual replicas.
    """

    def __init__(self, model: Any, mode: str, strategy: Strategy) -> None:
        assert strategy.virtual is not None
        self._model, self._mode, self._strategy = model, mode, strategy
        self.group, self._replica = strategy.group, strategy.virtual
        if self._replica.gradients is None:
            self._replica.gradients = VirtualGradients(self._replica)
        count = self._replica.count
        self._state = StateByTurns(model, self.group, count, mode == "train")
        self._logs = JoinedLogs(model, mode, count)
        self._rows: GlobalRows | None = None

    def leave(self) -> None:
        """A batch is about to be made: no turn is under way."""

    def enter(self, rows: GlobalRows) -> None:
        """A batch of these rows has come for all turns of this process."""
        self._rows = rows

    def run(self, function: Function, batches: Iterator[Any]) -> Any:
        """See `ReplicaTurn.run`; each batch is a step of its own."""
        results = [self._step(function, batch) for batch in batches]
        if not results:
            raise StopIteration
        if self._mode == "predict" and len(results) > 1:
            return nest.map_structure(lambda *parts: np.concatenate(parts), *results)
        return results[-1]

    # ------------------------------------------------------------------ one batch

    def _step(self, function: Function, batch: Any) -> Any:
        parts = [(rank, *self._cut(batch, rank)) for rank in self._replica.own]
        self._rehearse(function, *parts[0])
        if self._mode == "predict":
            outputs = [self._turn(function, *part) for part in parts]
            return self._join_outputs(outputs, [rows.size for _, _, rows in parts])
        return self._run_turns(function, parts)

    def _cut(self, batch: Any, rank: int) -> tuple[Any, GlobalRows]:
        """The rows of a virtual replica, at least one, and where they stand."""
        rows = self._rows
        assert rows is not None
        own_rows = GlobalRows(*share(rows.total, self._replica.count, rank))
        size, row_count = max(own_rows.size, 1), max(rows.size, 1)
        first = min(own_rows.start - rows.start, row_count - 1)
        if first == 0 and size == row_count:
            return batch, own_rows
        part = slice(first, first + size)
        return nest.map_structure(lambda x: None if x is None else x[part], batch), own_rows

    def _turn(self, function: Function, rank: int, part: Any, rows: GlobalRows) -> Any:
        with self._replica.turn(rank, rows):
            return function(iter([part]))

    def _rehearse(self, function: Function, rank: int, part: Any, rows: GlobalRows) -> None:
        """Run a first turn without effect, so that all that it makes is there before the real one.

        Otherwise a process with several turns would begin the second one with what the first has
        made of new variables, and one with a single turn would not.
        """
        rehearsed = self._model.__dict__.setdefault("_rehearsed", {})
        since = self._model._compile_arguments
        if self._mode in rehearsed and rehearsed[self._mode][0] is since:
            self._state.written = rehearsed[self._mode][1]
            return
        scope = VariableScope()
        try:
            with scope:
                self._turn(function, rank, part, rows)
        finally:
            self._replica.gradients.drop()
        self._state.written = [v for v in scope.written if not v.trainable]
        rehearsed[self._mode] = (since, self._state.written)
        make_alike(self._model, self.group)

    def _run_turns(self, function: Function, parts: list[Any]) -> Any:
        """The step of all replicas; their logs together."""
        state, logs = self._state, None
        state.begin()
        try:
            for rank, part, rows in parts:
                state.begin_turn(rank)
                if not rows.size:
                    state.begin_without_rows()
                logs = self._turn(function, rank, part, rows)
                weight = rows.size / rows.total
                state.end_turn(rank, weight, self._logs.terms(logs, weight))
            if self._mode == "train":
                self._replica.gradients.apply(self._strategy.shard_optimizer_state)
        except BaseException:
            self._replica.gradients.drop()
            state.undo()
            raise
        return self._logs.join(logs, state.end())

    def _join_outputs(self, outputs: list[Any], row_counts: list[int]) -> Any:
        """The outputs for the rows of all replicas, in order."""

        def gather(*parts: Any) -> Any:
            arrays = [np.asarray(part.numpy()) for part in parts]
            if arrays[0].ndim == 0:
                return parts[-1]
            array = np.ascontiguousarray(drop_stand_ins(np.concatenate(arrays), row_counts))
            return np.concatenate(self.group.all_gather(array, "the outputs of predict"))

        return nest.map_structure(gather, *outputs)
