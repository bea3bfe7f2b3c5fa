"""Shapes without values: run a function on symbolic tensors and see what shapes come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor


class ShapeTrace:
    """A trace that keeps nothing: each operation gives a symbolic tensor by its shape rule."""

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The symbolic result of one operation."""
        result = primitive.shape_rule(*map(self.spec_of, inputs), **settings)
        if isinstance(result, tuple):
            return tuple(self.symbol(spec) for spec in result)
        return self.symbol(result)

    symbol = SymbolicTensor
    """What stands for a result, made of its `Spec`."""

    def spec_of(self, x: Any) -> Any:
        """The `Spec` of an input that is a tensor; all else as it is."""
        return Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x

    def cond(self, pred: Any, true_fn: Any, false_fn: Any) -> Any:
        """Symbolic results of both branches, which must agree but for single sizes."""
        return nest.map_structure(_join, true_fn(), false_fn())

    def while_loop(
        self, cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any = None
    ) -> Any:
        """Symbolic tensors like the loop variables; nothing runs."""
        return nest.map_structure(_symbol_like, loop_vars)

    def scan(self, f: Any, init: Any, xs: Any, steps: Any, reverse: bool = False) -> Any:
        """The symbolic last carry, and outputs of one round with the steps in front."""
        row = None
        if xs is not None:
            row = nest.map_structure(lambda x: SymbolicTensor(Spec(x.shape[1:], x.dtype)), xs)
        carry = nest.map_structure(_symbol_like, init)
        # One round tells: rounds whose shapes differ could not be stacked.
        _, outputs = f(carry, row)
        # A number of rounds that is a tensor has no value here.
        n = steps if isinstance(steps, int) else None

        def stack(y: Any) -> Any:
            one = None if y is None else _symbol_like(y)
            return None if one is None else SymbolicTensor(Spec((n, *one.shape), one.dtype))

        return carry, nest.map_structure(stack, outputs)

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """A symbolic tensor like the variable."""
        return SymbolicTensor(Spec(variable.shape, variable.dtype))

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Leave the variable alone: only shapes are asked for."""

    def initial_value(self, value: Any, name: str | None) -> Any:
        """Initial values of variables that are made on the way are real ones."""
        return value


def _symbol_like(x: Any) -> SymbolicTensor:
    """A symbolic tensor of the shape and dtype of `x`."""
    x = x._read() if hasattr(type(x), "_is_variable") else x
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    # A symbol of a functional model notes operations in that model: what a branch did with it would
    # run whichever branch is taken.
    if hasattr(x, "apply_function"):
        raise InvalidArgumentError(
            f"a function given to a branch or loop uses {x!r}, which it took from outside; hand it "
            "over as an argument or loop variable, or write a layer that does both in its call"
        )
    return SymbolicTensor(Spec(x.shape, x.dtype))


def _join(a: Any, b: Any) -> Any:
    """What both branches of a condition give, `None` for a size in which they differ."""
    if a is None or b is None:
        if a is b:
            return None
        raise InvalidArgumentError(
            f"cond: one branch gives None, the other {b if a is None else a!r}"
        )
    one, two = _symbol_like(a), _symbol_like(b)
    if one.dtype != two.dtype or len(one.shape) != len(two.shape):
        raise InvalidArgumentError(
            "cond: the branches give tensors that do not agree\n"
            f"  true_fn   {tuple(one.shape)} {one.dtype.name}\n"
            f"  false_fn  {tuple(two.shape)} {two.dtype.name}"
        )
    # Which branch runs is not known, so neither is a size that they do not share.
    sizes = (m if m == n else None for m, n in zip(one.shape, two.shape, strict=True))
    return SymbolicTensor(Spec(sizes, one.dtype))


class _Eager:
    """Suspends the traces of this thread while the block runs."""

    def __enter__(self) -> None:
        thread = trace_state.THREAD
        self._kept = (thread.traces, thread.acts_for_graph)
        thread.traces, thread.acts_for_graph = [], False

    def __exit__(self, *exc: object) -> None:
        thread = trace_state.THREAD
        thread.traces, thread.acts_for_graph = self._kept


def eagerly() -> _Eager:
    """Make a context in which operations run at once even while a graph is being traced."""
    return _Eager()


def run_under(trace: ShapeTrace, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `function` gives for symbols, with its operations handed to `trace`."""
    # Above a trace that goes on, which must get no nodes of a mere question; nor may a tape around.
    trace_state.THREAD.traces.append(trace)
    try:
        with trace_state.silence():
            return function(*args, **kwargs)
    finally:
        trace_state.THREAD.traces.pop()


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
    result = run_under(ShapeTrace(), function, *args, **kwargs)
    return nest.map_structure(
        lambda y: Spec(y.shape, y.dtype) if isinstance(y, Tensor) else y, result
    )
