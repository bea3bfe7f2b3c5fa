"""`VariableScope`: a block in which variables have other values, and keep their own."""

from __future__ import annotations

import functools
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError


class VariableScope:
    """Context in which reads and assignments of variables go to a table.

    After the block all variables are as they were before it. Operations on symbols of a graph that
    is being traced around go to that graph.

    Attributes:
        values: what variables have inside, by their `id`; others have what they have around it.
    """

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self._outer: list[Any] = []
        # the trace around; branches that were traced in here ask for it after the end, too
        self._around: Any = None
        self._kept: list[Any] = []  # so that no other variable gets the id of one of these

    def __enter__(self) -> Any:
        traces = trace_state.THREAD.traces
        around = traces[-1] if traces else None
        self._outer.append(around)
        # Entered once more inside of itself, it still has the trace that was around it first.
        if around is not self:
            self._around = around
        traces.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if trace_state.THREAD.traces[-1] is not self:
            raise FailedPreconditionError(
                f"{type(self).__name__}: scopes end in the order of their begin"
            )
        trace_state.THREAD.traces.pop()
        self._outer.pop()

    def __getattr__(self, name: str) -> Any:
        """What the trace around has; branches and loop bodies lie in this scope, too."""
        # Not `self._around`: where `__init__` has not run, as in a copy, that would come back here.
        around = self.__dict__.get("_around")
        if around is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name == "outer":  # as a graph that lies in the one around
            return around
        return getattr(around, name)

    def _graph(self) -> Any:
        """The class of the trace around that is no scope."""
        around = self._around
        while isinstance(around, VariableScope):
            around = around._around
        return type(around)

    @property
    def cond(self) -> Any:
        """What the trace around does; its branches read and assign in here."""
        # The graph's own function with the scope in its place: what it asks of its trace, reads and
        # assignments of the branches among them, then goes through `self`.
        return functools.partial(self._graph().cond, self)

    @property
    def while_loop(self) -> Any:
        """The same for the body of a loop."""
        return functools.partial(self._graph().while_loop, self)

    @property
    def scan(self) -> Any:
        """The same for that of a fold."""
        return functools.partial(self._graph().scan, self)

    @property
    def written(self) -> list[Any]:
        """The variables that have values of their own inside, each once."""
        return list({id(variable): variable for variable in self._kept}.values())

    def put(self, variable: Any, value: Any) -> None:
        """Let `variable` have `value` inside."""
        self._kept.append(variable)
        self.values[id(variable)] = value

    def read_variable(self, variable: Any) -> Any:
        """The value inside."""
        value = self.values.get(id(variable))
        if value is not None:
            return value
        outer: Any = self._outer[-1] if self._outer else None
        is_outermost = outer is None or outer is self
        return variable._value if is_outermost else outer.read_variable(variable)

    def held(self, variable: Any) -> Any:
        """The value inside, for NumPy."""
        value = self.values.get(id(variable))
        if value is not None:
            return value
        outer = self._outer[-1]
        # A graph around has no values that NumPy could take, only other scopes have.
        deeper = outer is not self and hasattr(outer, "held")
        return outer.held(variable) if deeper else variable._value

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Note a new value."""
        self.put(variable, value)

    def initial_value(self, value: Any, name: str | None) -> Any:
        """The first value of a variable made inside."""
        outer = self._outer[-1]
        return value if outer is None or outer is self else outer.initial_value(value, name)
