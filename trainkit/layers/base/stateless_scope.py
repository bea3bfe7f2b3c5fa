"""`StatelessScope`: a block in which variables have other values, and keep their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError, UnimplementedError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.math import elementwise


class StatelessScope:
    """Context in which reads and assignments of variables go to a mapping.

    After the block all variables are as they were before it; `get_current_value` tells what was
    assigned. A variable made inside has its first value at once.

    Args:
        state_mapping: pairs of a variable and the value that it has inside, of its shape; a value
            of another dtype is cast. Other variables begin with the values that they have.
        collect_losses: kept as an attribute; losses are noted by `add_loss` only.
        initialize_variables: only `True`: variables are never without a value.

    Attributes:
        state_mapping: the values inside, by `id` of the variable.
        losses: what `add_loss` was given.

    Raises:
        ValueError: a key is no variable, or a value has another shape.
        UnimplementedError: `initialize_variables` is false.

    >>> v = Variable(1.0)
    >>> with StatelessScope([(v, 5.0)]) as scope:
    ...     _ = v.assign_add(2.0)
    >>> float(scope.get_current_value(v)), float(v)
    (7.0, 1.0)
    """

    def __init__(
        self,
        state_mapping: Iterable[tuple[Any, Any]] | None = None,
        collect_losses: bool = False,
        initialize_variables: bool = True,
    ) -> None:
        if not initialize_variables:
            raise UnimplementedError(
                "StatelessScope: initialize_variables=False is not supported; use True"
            )
        self.collect_losses = collect_losses
        self.initialize_variables = initialize_variables
        self.losses: list[Any] = []
        self.state_mapping: dict[int, Tensor] = {}
        self._outer: list[Any] = []
        self._kept: list[Variable] = []  # so that no other variable gets the id of one of these
        for variable, value in state_mapping or ():
            self.add_update((variable, _checked(variable, value)))

    def __enter__(self) -> StatelessScope:
        traces = trace_state.THREAD.traces
        self._outer.append(traces[-1] if traces else None)
        traces.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if trace_state.THREAD.traces[-1] is not self:
            raise FailedPreconditionError("StatelessScope: scopes end in the order of their begin")
        trace_state.THREAD.traces.pop()
        self._outer.pop()

    def __getattr__(self, name: str) -> Any:
        """Operations on symbols of a graph that is being traced around go to that graph."""
        outer = self.__dict__.get("_outer")
        if not outer or outer[-1] is None or outer[-1] is self:
            raise AttributeError(f"StatelessScope has no attribute {name!r}")
        return getattr(outer[-1], name)

    def add_loss(self, loss: Any) -> None:
        """Note a loss."""
        self.losses.append(loss)

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Take a pair of a variable and its new value."""
        variable, value = update
        self._kept.append(variable)
        self.state_mapping[id(variable)] = value

    def get_current_value(self, variable: Any) -> Tensor | None:
        """The value that `variable` has here; `None` if none was given or assigned."""
        return self.state_mapping.get(id(variable))

    # ------------------------------------------------------------------ what variables ask

    def read_variable(self, variable: Any) -> Any:
        """The value inside."""
        value = self.state_mapping.get(id(variable))
        if value is not None:
            return value
        outer: Any = self._outer[-1] if self._outer else None
        known = outer is None or outer is self
        return variable._value if known else outer.read_variable(variable)

    def held(self, variable: Any) -> Any:
        """The value inside, for NumPy."""
        value = self.state_mapping.get(id(variable))
        if value is not None:
            return value
        outer = self._outer[-1]
        deeper = outer is not self and hasattr(outer, "held")
        return outer.held(variable) if deeper else variable._value

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Note a new value."""
        self.add_update((variable, value))

    def initial_value(self, value: Any, name: str | None) -> Any:
        """The first value of a variable made inside."""
        outer = self._outer[-1]
        return value if outer is None or outer is self else outer.initial_value(value, name)


def _checked(variable: Any, value: Any) -> Tensor:
    if not isinstance(variable, Variable):
        raise ValueError(
            "StatelessScope: all keys in argument `mapping` must be Variable objects, got "
            f"{variable!r}"
        )
    tensor = value._read() if hasattr(type(value), "_is_variable") else convert_to_tensor(value)
    if not variable.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            "StatelessScope: all values in argument `mapping` must be tensors with the shape of "
            f"their variable; {variable.path!r} has {tuple(variable.shape)}, its value "
            f"{tuple(tensor.shape)}"
        )
    same = tensor.dtype == variable.dtype
    return tensor if same else elementwise.cast(tensor, variable.dtype)
