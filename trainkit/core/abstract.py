"""Shapes without values: run a function on symbolic tensors and see what shapes come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest, recorder
from trainkit.core.shapes import Spec
from trainkit.core.tensor import SymbolicTensor, Tensor


class ShapeTrace:
    """A trace that keeps nothing: each operation gives a symbolic tensor by its shape rule."""

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The symbolic result of one operation."""
        specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
        result = primitive.shape_rule(*specs, **settings)
        if isinstance(result, tuple):
            return tuple(SymbolicTensor(spec) for spec in result)
        return SymbolicTensor(result)

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """A symbolic tensor like the variable."""
        return SymbolicTensor(Spec(variable.shape, variable.dtype))

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Leave the variable alone: only shapes are asked for."""

    def initial_value(self, value: Any, name: str | None) -> Any:
        """Initial values of variables that are made on the way are real ones."""
        return value


class _Eager:
    """Suspends the traces of this thread while the block runs."""

    def __enter__(self) -> None:
        self._kept = recorder.THREAD.traces
        recorder.THREAD.traces = []

    def __exit__(self, *exc: object) -> None:
        recorder.THREAD.traces = self._kept


def eagerly() -> _Eager:
    """Make a context in which operations run at once even while a graph is being traced."""
    return _Eager()


def result_specs(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The nest of `Spec`s that `function` would return.

    Args:
        function: made of operations; it sees symbolic tensors.
        *args: its arguments, with `Spec`s for tensors, nested as you like.
        **kwargs: its keyword arguments, likewise.

    Raises:
        ShapeError: an operation can't take the shapes.
    """

    def symbol(x: Any) -> Any:
        return SymbolicTensor(x) if isinstance(x, Spec) else x

    args, kwargs = nest.map_structure(symbol, args), nest.map_structure(symbol, kwargs)
    recorder.THREAD.traces.append(ShapeTrace())
    try:
        with recorder.silence():
            result = function(*args, **kwargs)
    finally:
        recorder.THREAD.traces.pop()
    return nest.map_structure(
        lambda y: Spec(y.shape, y.dtype) if isinstance(y, Tensor) else y, result
    )
