"""`StatelessScope` and `SymbolicScope`: blocks without lasting effects, and without values."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from trainkit.autodiff.variable_scope import VariableScope
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import ShapeTrace
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.math import elementwise


class StatelessScope(VariableScope):
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
        super().__init__()
        # One dict under two names: what is assigned inside shows in the mapping.
        self.state_mapping: dict[int, Tensor] = self.values
        for variable, value in state_mapping or ():
            self.add_update((variable, _check(variable, value)))

    def add_loss(self, loss: Any) -> None:
        """Note a loss."""
        self.losses.append(loss)

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Take a pair of a variable and its new value."""
        self.put(*update)

    def get_current_value(self, variable: Any) -> Tensor | None:
        """The value that `variable` has here; `None` if none was given or assigned."""
        return self.state_mapping.get(id(variable))


def _check(variable: Any, value: Any) -> Tensor:
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


class _SymbolicDepth(threading.local):
    """How many `SymbolicScope`s this thread is in."""

    depth = 0


_SYMBOLIC = _SymbolicDepth()


class SymbolicScope:
    """Context that says: what runs inside is asked for shapes, not for values.

    Code that is not made of operations looks at `in_symbolic_scope`, to do without.

    >>> with SymbolicScope():
    ...     in_symbolic_scope()
    True
    """

    def __enter__(self) -> SymbolicScope:
        _SYMBOLIC.depth += 1
        return self

    def __exit__(self, *exc: object) -> None:
        _SYMBOLIC.depth -= 1


def in_symbolic_scope() -> bool:
    """Whether shapes alone are asked for: in a `SymbolicScope`, or where a layer runs on shapes."""
    traces = trace_state.THREAD.traces
    return _SYMBOLIC.depth > 0 or any(isinstance(trace, ShapeTrace) for trace in traces)
