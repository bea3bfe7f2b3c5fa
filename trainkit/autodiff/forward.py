"""Forward mode: `ForwardAccumulator`, and second derivatives as matrices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import get_ident
from typing import Any

from trainkit.autodiff.backward import ones_like
from trainkit.autodiff.tape import GradientTape, UnconnectedGradients
from trainkit.core import nest
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable


class ForwardAccumulator:
    """Directional derivatives of what a block computes.

    The derivative along a direction is linear in the direction, and the transpose of the gradient;
    so it is the gradient of the gradient's product with the direction, by the output gradient.
    Source: Townsend 2017, "A new trick for calculating Jacobian vector products".

    Args:
        primals: tensor or variable, or nest of them, to differentiate by.
        tangents: direction for each, of its shape and dtype.

    Raises:
        InvalidArgumentError: a tangent does not have the shape of its primal.

    >>> x = tk.constant([2.0, 3.0])
    >>> with ForwardAccumulator(x, tk.constant([1.0, 0.0])) as accumulator:
    ...     y = x * x
    >>> accumulator.jvp(y).numpy()
    array([4., 0.], dtype=float32)
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._primals = nest.flatten(primals)
        flat_tangents = nest.flatten(tangents)
        if len(flat_tangents) != len(self._primals):
            raise InvalidArgumentError(
                f"ForwardAccumulator: {len(self._primals)} primals but "
                f"{len(flat_tangents)} tangents"
            )
        self._tangents: list[Tensor] = []
        for x, t in zip(self._primals, flat_tangents, strict=True):
            tangent = convert_to_tensor(t, dtype_hint=x.dtype)
            if tuple(tangent.shape) != tuple(x.shape):
                raise InvalidArgumentError(
                    f"ForwardAccumulator: a primal has shape {x.shape}, its tangent {tangent.shape}"
                )
            self._tangents.append(tangent)
        # Each `jvp` goes back over the record anew, so it has to stay. Variables that the block
        # reads are constants here: the derivative is by the primals alone.
        self._tape = GradientTape(persistent=True, watch_accessed_variables=False)
        self._around: list[Any] = []

    def __enter__(self) -> ForwardAccumulator:
        # what differentiates this accumulator's results too, also when they are asked for later
        self._around = [tape for tape in trace_state.TAPES if tape.thread == get_ident()]
        self._tape.__enter__()
        self._tape.watch(self._primals)
        return self

    def __exit__(self, *exc: object) -> None:
        self._tape.__exit__(*exc)

    def jvp(self, primals: Any, unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        """The derivative of computed tensors along the tangents.

        Args:
            primals: tensor, or nest of tensors, that was computed in the block.
            unconnected_gradients: `"none"` or `"zero"` for what does not depend on the primals.

        Returns:
            A nest like `primals` of tensors of the same shapes, or `None`.
        """
        with contextlib.ExitStack() as stack:
            for tape in self._around:
                stack.enter_context(tape.resumed())
            return nest.map_structure(lambda y: self._one(y, unconnected_gradients), primals)

    def _one(self, y: Any, unconnected: str) -> Any:
        if isinstance(y, Variable):
            y = y.value()
        multiply, add = late_ops.multiply, late_ops.add
        total = late_ops.sum
        # Any value would do: the product below is linear in the weight, and it is the derivative by
        # the weight that is asked for.
        weight = ones_like(y)
        # The first pass back has to be recorded to be differentiated, so it runs under this tape.
        with GradientTape() as outer:
            outer.watch(weight)
            grads = self._tape.gradient(y, self._primals, weight)
            product = None
            for g, t in zip(grads, self._tangents, strict=True):
                if g is None:
                    continue
                term = total(multiply(g, t), axis=None, keepdims=False)
                product = term if product is None else add(product, term)
        if product is None:
            kind = getattr(unconnected, "value", unconnected)
            if kind == UnconnectedGradients.ZERO:
                return late_ops.zeros_like(y, dtype=None)
            return None
        return outer.gradient(product, weight, unconnected_gradients=UnconnectedGradients.ZERO)


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of a function, and its derivative along a direction.

    Args:
        fun: function of tensors to a tensor or a nest of them.
        primals: list or tuple of its arguments.
        tangents: direction for each argument, of its shape.
        has_aux: `fun` gives a pair of what is differentiated and something else.

    Returns:
        `(value, derivative)`, and what else `fun` gave as a third with `has_aux`. The derivative
        is zeros where the value does not depend on the arguments.

    Raises:
        InvalidArgumentError: a tangent does not have the shape of its primal.

    >>> value, slope = jvp(lambda x: x * x, [tk.constant(3.0)], [tk.constant(1.0)])
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    inputs = [x if isinstance(x, Tensor | Variable) else convert_to_tensor(x) for x in primals]
    with ForwardAccumulator(inputs, list(tangents)) as accumulator:
        outputs = fun(*inputs)
    value, aux = outputs if has_aux else (outputs, None)
    slope = accumulator.jvp(value, unconnected_gradients=UnconnectedGradients.ZERO)
    return (value, slope, aux) if has_aux else (value, slope)


def hessian(f: Callable[[Any], Any], x: Any) -> Any:
    """The second derivatives of a scalar function.

    Args:
        f: function of one tensor or variable to a scalar tensor.
        x: where to take them, of shape (...s).

    Returns:
        A tensor (...s, ...s).

    Raises:
        InvalidArgumentError: `f` does not give a scalar.

    >>> hessian(lambda x: tk.reduce_sum(x**3), tk.constant([1.0, 2.0])).numpy()
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    if not isinstance(x, Tensor | Variable):
        x = convert_to_tensor(x)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        if tuple(y.shape) != ():
            raise InvalidArgumentError(f"hessian: f must give a scalar, it gives shape {y.shape}")
        # Inside of the outer block, which records the first derivative to differentiate it again.
        gradient = inner.gradient(y, x, unconnected_gradients=UnconnectedGradients.ZERO)
    return outer.jacobian(gradient, x, unconnected_gradients=UnconnectedGradients.ZERO)
