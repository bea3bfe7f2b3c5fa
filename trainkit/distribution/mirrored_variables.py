"""The values that variables have in each of the replicas of one process, on its device."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from trainkit.autodiff.variable_scope import VariableScope
from trainkit.collectives.device_sums import DeviceSums
from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.values.aggregation import aggregation_name
from trainkit.core.variable import Variable
from trainkit.ops.math.elementwise import cast


class ValuesByTurn:
    """Variables that change their values with the turns of the replicas.

    Whoever's turn it is finds its own values in the variables themselves, so that all runs as in a
    program of one replica: updates in place, compiled steps, code of the user's. Between two calls
    of `begin` and `end` the variables have the values of the first replica, and what is assigned
    then reaches all others.

    Args:
        places: the device of each replica. What lies elsewhere, such as the count of steps on the
            CPU, is not moved.
        sums: hands values from the first device to the others.
    """

    def __init__(self, places: Sequence[devices.Device], sums: DeviceSums) -> None:
        self._places, self._sums = list(places), sums
        self._variables: list[Variable] = []
        # of each replica, `None` for the one whose values the variables have
        self._values: list[list[Tensor] | None] = [None for _ in places]
        # what the variables had after the last call; held, so that nobody writes into it
        self._outside: list[Tensor] = []
        self._made: dict[int, tuple[Variable, Tensor]] = {}  # in this turn
        self._found: dict[int, weakref.ref[Variable]] = {}
        self._active: int | None = None

    def begin(self, variables: Iterable[Variable]) -> None:
        """Before the first turn: let all replicas have what variables have now.

        Args:
            variables: those that steps may change. What is made in steps is found.
        """
        by_id = {id(v): v for v in variables}
        by_id |= alive(self._found)
        all_variables = list(by_id.values())
        positions: dict[int, int] = {id(v): i for i, v in enumerate(self._variables)}
        own, outside = self._values, self._outside
        unchanged = [
            outside[i] if outside and (i := positions.get(id(v))) is not None else None
            for v in all_variables
        ]
        new = [
            v
            for v, value in zip(all_variables, unchanged, strict=True)
            if value is not v._value or None in own[1:]
        ]
        others = self._in_others({id(v): v._value for v in new})
        for rank in range(1, len(self._places)):
            before = own[rank]
            own[rank] = [
                others[id(v)][rank] if id(v) in others else before[positions[id(v)]]  # type: ignore[index]
                for v in all_variables
            ]
        own[0], self._outside, self._variables = None, [], all_variables
        self._active = 0

    def _in_others(self, values: dict[int, Tensor]) -> dict[int, list[Tensor]]:
        """Tensors of the first replica as all have them; those that lie elsewhere stay."""
        moved = [key for key, x in values.items() if devices.device_of(x._array) is self._places[0]]
        copies = self._sums.spread([values[key]._array for key in moved], self._places)
        stay = {key: [wrap(x._array) for _ in self._places] for key, x in values.items()}
        return stay | {key: list(map(wrap, r)) for key, r in zip(moved, copies, strict=True)}

    def begin_turn(self, rank: int) -> None:
        """Let variables have the values of a replica."""
        trace_state.THREAD.made = self._note
        if self._active == rank:
            return
        values, self._values[rank], self._active = self._values[rank], None, rank
        for variable, value in zip(self._variables, values or (), strict=True):
            variable._value = value

    def end_turn(self, rank: int) -> None:
        """Keep the values of a replica."""
        trace_state.THREAD.made = None
        if self._active != rank:
            return
        new_variables, self._made = self._made, {}
        for variable, first in new_variables.values():
            self._variables.append(variable)
            self._found[id(variable)] = weakref.ref(variable)
            for other, values in enumerate(self._values):
                if other != rank and values is not None:
                    values.append(self._like(first, rank, other))
        self._values[rank] = [variable._value for variable in self._variables]
        self._active = None

    def _note(self, variable: Variable) -> None:
        """Remember what a variable begins with: at its creation, and again if a file has more."""
        if id(variable) in self._made or not any(v is variable for v in self._variables):
            self._made[id(variable)] = variable, variable._value

    def _like(self, value: Tensor, rank: int, other: int) -> Tensor:
        """What one replica made as its first value, as another one has it."""
        array = value._array
        if devices.device_of(array) is self._places[rank]:
            array = devices.to_device(array, self._places[other])
        return wrap(array)

    def end(self, agreed: bool) -> None:
        """After the last turn: the variables have the values of the first replica.

        Args:
            agreed: all went well. Otherwise the others begin with these values the next time.
        """
        self.begin_turn(0)
        trace_state.THREAD.made = None
        self._made.clear()
        if agreed:
            self._outside = [variable._value for variable in self._variables]
        else:
            self._variables, self._values = [], [None for _ in self._places]


def alive(references: dict[int, weakref.ref[Variable]]) -> dict[int, Variable]:
    """The variables that are still there, by `id`; others are forgotten."""
    living = {key: variable for key, ref in references.items() if (variable := ref()) is not None}
    for key in references.keys() - living.keys():
        del references[key]
    return living


class ScopedCopies(VariableScope):
    """The values that variables have in one replica of `Strategy.run`, whichever it reads.

    Operations find them in a table. A graph looks into the variables themselves, so these have the
    values of the replica while it runs, as long as its turn is.

    Args:
        device: where. Single numbers of the host, such as the count of steps, are not moved.
        all_copies: of all replicas, in order, this one among them.
        sums: hands values from the first device to the others.
    """

    def __init__(
        self, device: devices.Device, all_copies: Sequence[ScopedCopies], sums: DeviceSums
    ) -> None:
        super().__init__()
        self.device, self._all_copies, self._sums = device, all_copies, sums
        self._main: dict[int, Any] = {}
        self._variables: dict[int, Any] = {}
        self._of_graph: tuple[Variable, ...] = ()

    def begin(self) -> dict[int, Any]:
        """Forget values of variables that were assigned outside; what variables have outside."""
        for key, variable in list(self._variables.items()):
            if variable._value is not self._main[key]:
                for table in (self.values, self._main, self._variables):
                    table.pop(key, None)
        return self._main

    def forget(self) -> None:
        """Begin anew with what variables have outside."""
        self.values.clear()
        self._variables.clear()
        self._main.clear()

    def read_variable(self, variable: Any) -> Any:
        """The value of a variable in this replica, copied to its device at the first read."""
        value = self.values.get(id(variable))
        if value is None:
            value = variable._value
            array = value._array
            device = devices.device_of(array)
            if device is not self.device and not devices.is_host_number(array):
                # What lies on the first device is sent to all others in one go, since each of them
                # is about to read it too; from anywhere else this replica fetches it for itself.
                if device is self._all_copies[0].device:
                    self._copy_to_all(variable)
                    return self.values[id(variable)]
                value = wrap(devices.to_device(array, self.device))
            self.put(variable, value)
        return value

    def _copy_to_all(self, variable: Any) -> None:
        """Give what the first replica has read, and others will, to all of them at once."""
        first, *others = self._all_copies
        unread = {id(variable): variable} | {
            key: other_variable
            for key, other_variable in first._variables.items()
            if any(other._is_missing(key) for other in others)
        }
        begins = [
            first._main.get(key, other_variable._value) for key, other_variable in unread.items()
        ]
        pairs = [
            (other_variable, value)
            for other_variable, value in zip(unread.values(), begins, strict=True)
            if devices.device_of(value._array) is first.device
            and not devices.is_host_number(value._array)
        ]
        replica_devices = [copies.device for copies in self._all_copies]
        arrays = self._sums.spread([value._array for _, value in pairs], replica_devices)
        for (other_variable, _), ranks in zip(pairs, arrays, strict=True):
            for other, array in zip(others, ranks[1:], strict=True):
                if other._is_missing(id(other_variable)):
                    other.put(other_variable, wrap(array))

    def _is_missing(self, key: int) -> bool:
        """Whether this replica has no value of a variable, of which a graph may hold it."""
        return key not in self.values and all(id(v) != key for v in self._of_graph)

    def put(self, variable: Any, value: Any) -> None:
        self._variables[id(variable)] = variable
        self._main.setdefault(id(variable), variable._value)
        self.values[id(variable)] = value

    # ------------------------------------------------------------------ graphs

    def run_graph(self, concrete: Any, tensors: list[Any]) -> Any:
        """What a graph of this replica gives, run as a program."""
        for variable in concrete.variables:
            self.read_variable(variable)
        # The operations of the graph run as they are: this scope, which is asked for each operation
        # of the thread, steps aside meanwhile.
        trace_state.THREAD.traces.pop()
        self._of_graph = concrete.variables
        self.begin_turn()
        try:
            return concrete.run_arrays([x._array for x in tensors])
        finally:
            self.end_turn()
            self._of_graph = ()
            trace_state.THREAD.traces.append(self)

    def begin_turn(self) -> None:
        """Let the variables of the graph that runs have the values of this replica."""
        for variable in self._of_graph:  # taken out, so that a graph may write in their memory
            variable._value = self.values.pop(id(variable))

    def end_turn(self) -> None:
        """Keep the values of this replica, and let the variables have those from outside."""
        for variable in self._of_graph:
            self.values[id(variable)] = variable._value
            variable._value = self._main[id(variable)]


class CopiesByTurn:
    """Lets variables follow the turns of replicas, while graphs of these run."""

    def __init__(self, copies: Sequence[ScopedCopies]) -> None:
        self._copies = copies

    def begin_turn(self, rank: int) -> None:
        """The turn of a replica begins."""
        self._copies[rank].begin_turn()

    def end_turn(self, rank: int) -> None:
        """The turn of a replica ends."""
        self._copies[rank].end_turn()


def write_back(copies: list[ScopedCopies], main: dict[int, Any], sums: DeviceSums) -> None:
    """Give variables, outside, what they have in the replicas now."""
    first = copies[0]
    brought = _on_first(copies, sums)
    for key, variable in first._variables.items():
        if _is_joined(variable):
            values = brought.get(key) or [
                other.values[key]._array for other in copies if key in other.values
            ]
            variable._value = _join(variable, main[key], values, len(copies))
            for other in copies:
                other.values.pop(key, None)
        elif key in first.values:
            variable._value = first.values[key]
        for other in copies:
            if key in other._variables:
                other._main[key] = variable._value


def _is_joined(variable: Variable) -> bool:
    """Whether the values of all replicas count."""
    return aggregation_name(getattr(variable, "aggregation", None)) in ("sum", "mean")


def _join(variable: Variable, before: Any, values: Sequence[Any], count: int) -> Any:
    """The value after a step.

    Args:
        variable: that is joined.
        before: its value, a tensor.
        values: arrays of those of `count` replicas that have changed it.
        count: of replicas.
    """
    device = devices.device_of(before._array)
    changes = [wrap(devices.to_device(array, device)) - before for array in values]
    if not changes:
        return before
    change = functools.reduce(operator.add, changes)
    if aggregation_name(variable.aggregation) == "mean":
        change = cast(change / count, before.dtype)
    return before + change


def _on_first(copies: list[ScopedCopies], sums: DeviceSums) -> dict[int, list[Any]]:
    """On the first device, what all replicas have of variables in which all are joined."""
    keys = [
        key
        for key, variable in copies[0]._variables.items()
        if _is_joined(variable)
        and all(
            key in other.values
            and devices.device_of(other.values[key]._array) is other.device is not devices.CPU
            for other in copies
        )
    ]
    arrays = [[other.values[key]._array for other in copies] for key in keys]
    return dict(zip(keys, sums.gather(arrays), strict=True)) if keys else {}
