"""State of a model that replicas train together: made alike, and put together after steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.checkpoints.replicas import whole_state
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.tree_sum import TreeSum
from trainkit.core import devices
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import traverse
from trainkit.core.values.aggregation import aggregation_name
from trainkit.core.variable import Variable
from trainkit.layers.base import tracking
from trainkit.ops.sampling.generators import global_generator

_OF_FIRST = "only_first_replica"


def array_of(variable: Variable) -> Any:
    """The value as a NumPy array."""
    return devices.to_numpy(variable._value._array)


# ---------------------------------------------------------------------- made alike


def make_alike(model: Any, group: ProcessGroup) -> bool:
    """Give all ranks the variables of rank 0, those of its optimizer and of random draws included.

    Args:
        model: built or not, in all ranks alike.
        group: the processes.

    Returns:
        Whether there were weights already.

    Raises:
        FailedPreconditionError: the ranks have models with other variables.
    """
    optimizer = model.optimizer
    slots = optimizer is not None and bool(optimizer.built)
    if any(group.exchange(slots, "which ranks have optimizer slots")) and not slots:
        if optimizer is not None and model.trainable_variables:
            optimizer.build(model.trainable_variables)
    variables = all_variables(model)
    signatures = [(v.path, tuple(v.shape), v.dtype.name) for v in variables]
    _check_alike(model, group.exchange(signatures, "the variables of the model"))
    by_dtype: dict[Any, list[Variable]] = {}
    for variable in variables:
        if type(variable._value) is Tensor:
            by_dtype.setdefault(array_of(variable).dtype, []).append(variable)
    with whole_state(model):  # slots that ranks keep in shares come from their owners
        for some in by_dtype.values():
            _broadcast(some, group)
    return bool(model.weights)


def all_variables(model: Any) -> list[Variable]:
    """The variables of a model, of its optimizer, and of random operations without a seed."""
    variables = list(model.variables)
    if model.optimizer is not None:
        variables += list(model.optimizer.variables)
    return tracking.once(variables + _variables_of_draws())


def _variables_of_draws() -> list[Variable]:
    """The state of the generator that random operations without a seed draw from."""
    return [part for _, part in traverse(global_generator()) if isinstance(part, Variable)]


def _check_alike(model: Any, ranks: list[Any]) -> None:
    for rank, signatures in enumerate(ranks):
        pairs = zip(ranks[0], signatures, strict=False)
        differ = next((pair for pair in pairs if pair[0][1:] != pair[1][1:]), None)
        if differ is None and len(signatures) == len(ranks[0]):
            continue
        difference = f"{len(ranks[0])} and {len(signatures)} variables"
        if differ is not None:
            difference = " and ".join(f"{path} {shape} {dtype}" for path, shape, dtype in differ)
        raise FailedPreconditionError(
            f"model {model.name!r} is not the same in ranks 0 and {rank}, which have {difference}: "
            "make and build it in all of them alike"
        )


def _broadcast(variables: Sequence[Variable], group: ProcessGroup) -> None:
    flat = np.concatenate([array_of(v).reshape(-1) for v in variables])
    group.broadcast(flat, 0, "the variables of rank 0")
    if group.rank == 0:
        return
    at = 0
    for variable in variables:
        now = array_of(variable)
        new = flat[at : at + now.size].reshape(now.shape)
        at += now.size
        if new.tobytes() != now.tobytes():
            variable.assign(new)


# ---------------------------------------------------------------------- put together


class RepeatedSearch:
    """Counts how often a model has been searched for variables: twice for each of its states.

    A first step makes some, such as those of metrics, which the second search finds.
    """

    def __init__(self) -> None:
        self._state: Any = None
        self._count = 0

    def is_due(self, state: Any) -> bool:
        """Whether to search now; counts it then.

        Args:
            state: what is another one whenever the model may have other variables.
        """
        if self._state != state:
            self._state, self._count = state, 0
        self._count += 1
        return self._count <= 2

    def repeat(self) -> None:
        """Make one more search due."""
        self._count = min(self._count, 1)


class SharedState:
    """What metrics hold, and what steps change in a model besides its weights.

    Before an execution all replicas hold the same. Those other than 0 then count from 0 on; after
    it the sums over all are what each holds, so that results are those of the global batches.

    Args:
        model: the model.
        group: the processes, or the threads.
        count: how many replicas there are in all of them.
        trains: whether steps change the statistics of the model, too.

    Attributes:
        counted: variables of metrics, which count what all replicas have seen.
        statistics: variables that a step assigns and no optimizer does, such as moving means.
    """

    def __init__(self, model: Any, group: ProcessGroup, count: int, trains: bool) -> None:
        self.model, self.group, self.trains = model, group, trains
        self.counted: list[Variable] = []
        self.statistics: list[Variable] = []
        self._count = count
        self._sums: TreeSum | None = None
        self._before: dict[int, Any] = {}  # by id, the statistics before the execution
        # by id, what was counted before a batch of which this replica has no rows
        self._without_rows: dict[int, Any] | None = None
        self._searches = RepeatedSearch()
        self._has_looked = False

    def look(self) -> None:
        """Look for variables ahead of `begin`, where another replica may make some before it."""
        self._look()
        self._has_looked = True

    def begin(self) -> None:
        """Before the first turn of an execution."""
        if not self._has_looked:
            self._look()
        self._has_looked = False
        self._before = {id(v): v.value() for v in self.statistics}
        self._sums = TreeSum(self.group, self._count, np.float64, "the metrics of a step")

    def begin_turn(self, rank: int) -> None:
        """Before the first batch of a replica."""
        self._without_rows = None
        if rank:
            for variable in self.counted:
                if not is_mean(variable):
                    array = variable._value._array
                    variable.assign(np.zeros(array.shape, array.dtype))

    def begin_without_rows(self) -> None:
        """Before a batch of which a replica has no rows, and which must not be counted here."""
        if self._without_rows is None:
            self._without_rows = {id(v): array_of(v).copy() for v in self.counted}

    def _look(self) -> None:
        """Look the variables up, unless nothing can have changed."""
        model = self.model
        if not self._searches.is_due((model._step_cache, len(_compiled_metrics(model)))):
            return
        self.counted = counted_variables(model)
        if self.trains:
            counted = {id(v) for v in self.counted}
            self.statistics = [
                v
                for v in model.variables
                if v.dtype.is_floating and not tracking.was_trainable(v) and id(v) not in counted
            ]

    def end_turn(self, rank: int, share: float, extra: Sequence[float]) -> None:
        """After the last batch of a replica: all that is shared becomes one array.

        Args:
            rank: its number.
            share: which part of the rows of all replicas it had.
            extra: further numbers, which are added up.
        """
        counted_ids = {id(v) for v in self.counted}
        self._look_for_new()
        terms = [self._term(v, rank, id(v) in counted_ids) for v in self.counted]
        terms += [self._change(v, share) for v in self.statistics]
        parts = [np.asarray(x, np.float64).reshape(-1) for x in terms]
        assert self._sums is not None
        self._sums.add([np.concatenate([*parts, np.asarray(extra, np.float64)])])

    def _look_for_new(self) -> None:
        """Look for variables that the turn has made, as a metric does in its first step."""
        self._searches.repeat()
        self._look()

    def end(self) -> Any:
        """After the last turn: each replica holds the sums over all.

        Returns:
            The sums of `extra`, and zeros after them.
        """
        assert self._sums is not None
        flat, offset = self._sums.total(), 0
        for variable in [*self.counted, *self.statistics]:
            shape = tuple(variable.shape)
            size = math.prod(shape)
            self._take(variable, flat[offset : offset + size].reshape(shape))
            offset += size
        self._before = {}
        return flat[offset:]

    def _term(self, variable: Variable, rank: int, was_counted: bool) -> Any:
        """What a replica adds to the value that all will hold."""
        value = array_of(variable)
        if self._without_rows is not None:
            value = self._without_rows.get(id(variable), np.zeros_like(value))
        if is_mean(variable):
            return value / self._count
        if rank and counts_in_first(variable):
            return np.zeros_like(value)
        # Made in this execution: its first value, which all replicas have, counts once.
        if rank and not was_counted:
            first = _first_value(self.model, variable)
            return value if first is None else value - first
        return value

    def _change(self, variable: Variable, share: float) -> Any:
        """The change of a statistic, by the rows that made it; all of a new one's value."""
        before = self._before.get(id(variable))
        value = np.asarray(array_of(variable), np.float64)
        if not share:  # whatever the row that stood in has made of it
            return np.zeros_like(value)
        if before is None:
            return value * share
        return (value - devices.to_numpy(before._array)) * share

    def _take(self, variable: Variable, joined: Any) -> None:
        before = self._before.get(id(variable))
        if before is not None:
            joined = np.asarray(devices.to_numpy(before._array), np.float64) + joined
        variable.assign(joined.astype(variable._value._array.dtype))


class StateByTurns(SharedState):
    """The same where replicas take turns: each begins with what all had before the step.

    Attributes:
        written: what a turn assigns, also beside the model, as generators that nothing tracks.
    """

    def __init__(self, model: Any, group: ProcessGroup, count: int, trains: bool) -> None:
        super().__init__(model, group, count, trains)
        self.written: list[Variable] = []
        self._first_values: list[tuple[Variable, Any]] = []
        self._is_first_turn = True

    def begin(self) -> None:
        super().begin()
        counted = {id(v) for v in self.counted}
        # Weights change after the last turn alone, so they need not be put back.
        variables = [v for v in self.model.variables if not tracking.was_trainable(v)]
        variables += _variables_of_draws()
        # Where nothing is trained only counters and states of generators change, which are ints.
        variables = [
            v for v in variables if self.trains or not v.dtype.is_floating or id(v) in counted
        ]
        model_ids = {id(v) for v in self.model.variables}
        variables += [v for v in self.written if id(v) not in model_ids]
        self._first_values = [(v, v.value()) for v in tracking.once([*self.counted, *variables])]
        self._is_first_turn = True

    def begin_turn(self, rank: int) -> None:
        if not self._is_first_turn:
            self.undo()
        self._is_first_turn = False
        super().begin_turn(rank)

    def undo(self) -> None:
        """Let all be as it was before the step."""
        for variable, value in self._first_values:
            variable.assign(value)

    def _look_for_new(self) -> None:
        """Nothing: a rehearsal has made all."""

    def end(self) -> Any:
        sums = super().end()
        self._first_values = []
        return sums


def is_mean(variable: Variable) -> bool:
    """Whether all replicas hold the mean of what each of them has come to."""
    return bool(aggregation_name(variable.aggregation) == "mean")


def counts_in_first(variable: Variable) -> bool:
    """Whether all replicas hold what the first of them has come to."""
    return bool(aggregation_name(variable.aggregation) == _OF_FIRST)


def counted_variables(model: Any) -> list[Variable]:
    """The variables of the metrics of a model."""
    metrics = tracking.once([*_compiled_metrics(model), *model.metrics])
    return tracking.once([v for metric in metrics for v in metric.variables])


def _compiled_metrics(model: Any) -> list[Any]:
    """The metrics that `compile` made, which a subclass's `metrics` may leave out."""
    return list(model.__dict__.get("_compiled_metrics", ()))


def _first_value(model: Any, variable: Variable) -> Any:
    for metric in tracking.once([*_compiled_metrics(model), *model.metrics]):
        added = getattr(getattr(metric, "_own", None), "added", ())
        for own, value in added:
            if own is variable:
                first = devices.to_numpy(value._array)
                return first if np.isfinite(first).all() else None
    return None
