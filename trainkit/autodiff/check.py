"""Gradient rules compared with finite differences, along random directions and to any order.

Along one random direction a wrong rule shows itself with probability 1, at the cost of four calls
instead of four per element. Each order is checked against differences of the order below, which has
passed by then: the slope of the operation against differences of its values, the slope of that
slope against differences of the slope, and so on.

The differences have five points, so their error is of the order h**4: with float64 and h = 5e-4
rounding (1e-16 / h) and truncation (h**4 / 30 times the fifth derivative) both stay near 1e-12 for
functions of moderate size. The default tolerance of 1e-7 leaves room for steep functions and still
finds a rule that is wrong by a millionth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.autodiff.tape import GradientTape
from trainkit.core import devices, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, constant_from, convert_to_tensor
from trainkit.ops.math.complex_parts import conj, real
from trainkit.ops.math.elementwise import add, multiply
from trainkit.ops.math.reductions import sum as total

_STEP = 5e-4
_STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))

Scalar = Callable[[list[Tensor]], Tensor]


class GradientError(AssertionError):
    """A gradient rule does not agree with finite differences."""


def check_gradient(
    op: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    order: int = 2,
    device: Any = None,
    tolerance: float = 1e-7,
    seed: int = 0,
    **settings: Any,
) -> None:
    """Compare the gradient rules of `op` with central differences in float64.

    Floating and complex inputs are taken in float64 and complex128, and moved; others are only
    handed over. The inputs should keep a distance of 0.01 to points where the operation has a kink
    or a pole.

    Args:
        op: made of operations; takes the inputs by position and the settings by keyword, gives a
            tensor or a nest of them, of which the floating and complex ones count.
        inputs: tensors, arrays, numbers or `None`.
        order: how many derivatives to check: 1 for the rules themselves, 2 for the rules of their
            rules.
        device: where to compute, such as `"/gpu:0"`; by default the current device.
        tolerance: allowed difference, relative to the greater of the slope and 1.
        seed: of the random directions.
        **settings: handed to `op`.

    Raises:
        GradientError: a slope differs by more; the text shows both numbers, input by input.
        InvalidArgumentError: no input is floating or complex.

    >>> check_gradient(lambda x: x * x, [3.0])
    """
    with devices.device(device or devices.current()):
        rng = np.random.default_rng(seed)
        arguments = [_in_double(x) for x in inputs]
        moved = [i for i, x in enumerate(arguments) if _is_moved(x)]
        if not moved:
            raise InvalidArgumentError("check_gradient: none of the inputs has a floating dtype")
        function = _weighted_sum(op, arguments, moved, settings, rng)
        at = [arguments[i] for i in moved]
        for level in range(1, order + 1):
            directions = [_direction(x, rng) for x in at]
            _compare(function, at, directions, tolerance, level, moved, op)
            function = _slope(function, directions)


def numerical_gradient(
    function: Callable[..., Any], inputs: Sequence[Any], *, step: float = _STEP
) -> list[Any]:
    """The gradient of the sum of `function`'s results by each element, from central differences.

    Args:
        function: takes the inputs by position, gives a tensor or a nest of them.
        inputs: tensors, arrays or numbers; those that are not floating are only handed over.
        step: distance of the points, which are computed in float64.

    Returns:
        For each input a float64 NumPy array of its shape, or `None` if it is not floating.
    """
    arguments = [_in_double(x) for x in inputs]

    def value(xs: list[Any]) -> float:
        results = nest.flatten(function(*xs))
        return float(sum(float(np.sum(y.numpy())) for y in results if y.dtype.is_floating))

    return [_by_element(value, arguments, i, step) for i in range(len(arguments))]


def _by_element(
    value: Callable[[list[Any]], float], arguments: list[Any], i: int, step: float
) -> Any:
    if not (isinstance(arguments[i], Tensor) and arguments[i].dtype.is_floating):
        return None
    base = np.asarray(arguments[i].numpy())
    gradient = np.zeros(base.shape)
    for index in np.ndindex(base.shape):
        for distance, weight in _STENCIL:
            shifted = base.copy()
            shifted[index] += distance * step
            changed = [*arguments[:i], constant_from(shifted), *arguments[i + 1 :]]
            gradient[index] += weight * value(changed) / step
    return gradient


# ------------------------------------------------------------------ the function that is checked


def _in_double(x: Any) -> Any:
    if x is None or isinstance(x, bool | int | str):
        return x
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_floating:
        return constant_from(np.asarray(tensor.numpy(), np.float64))
    if tensor.dtype.is_complex:
        return constant_from(np.asarray(tensor.numpy(), np.complex128))
    return tensor


def _is_moved(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_differentiable


def _direction(x: Tensor, rng: np.random.Generator) -> Tensor:
    # Away from 0, so that each element has a say in the slope; sizes and signs are random, so that
    # errors do not cancel.
    values = rng.uniform(0.5, 1, tuple(x.shape)) * rng.choice([-1.0, 1.0], tuple(x.shape))
    if x.dtype.is_complex:
        values = values + 1j * rng.uniform(-1, 1, tuple(x.shape))
    return constant_from(np.asarray(values, x.dtype.dtype))


def _weighted_sum(
    op: Callable[..., Any],
    inputs: list[Any],
    moved: list[int],
    settings: dict[str, Any],
    rng: np.random.Generator,
) -> Scalar:
    """A real number of the moved inputs: all elements of the results, each times its own weight."""
    weights: list[Tensor] = []

    def function(xs: list[Tensor]) -> Tensor:
        arguments = list(inputs)
        for i, x in zip(moved, xs, strict=True):
            arguments[i] = x
        outputs = nest.flatten(op(*arguments, **settings))
        results = [y._on(devices.current()) for y in outputs if y.dtype.is_differentiable]
        # Drawn in the first call, which knows how many results there are, and kept: all points of a
        # difference have to see one function.
        if not weights:
            weights.extend(_direction(y, rng) for y in results)
        return _inner(results, weights)

    return function


def _inner(a: Sequence[Tensor | None], b: Sequence[Tensor]) -> Tensor:
    """The real part of the sum of conj(a) * b over all elements; `None` counts as zeros."""
    result = constant_from(np.float64(0))
    for x, y in zip(a, b, strict=True):
        if x is not None:
            result = add(result, real(total(multiply(conj(x), y))))
    return result


def _slope(function: Scalar, directions: list[Tensor]) -> Scalar:
    """The derivative of `function` along `directions`, by a tape."""

    def slope(xs: list[Tensor]) -> Tensor:
        with GradientTape() as tape:
            tape.watch(xs)
            y = function(xs)
        return _inner(tape.gradient(y, xs), directions)

    return slope


# ------------------------------------------------------------------ comparison


def _difference(function: Scalar, at: list[Tensor], directions: list[Tensor]) -> float:
    slope = 0.0
    for distance, weight in _STENCIL:
        shifted = [
            constant_from(np.asarray(x.numpy() + distance * _STEP * d.numpy()))
            for x, d in zip(at, directions, strict=True)
        ]
        slope += weight * float(function(shifted)) / _STEP
    return slope


def _compare(
    function: Scalar,
    at: list[Tensor],
    directions: list[Tensor],
    tolerance: float,
    level: int,
    moved: list[int],
    op: Any,
) -> None:
    by_rule = float(_slope(function, directions)(at))
    by_difference = _difference(function, at, directions)
    if abs(by_rule - by_difference) <= tolerance * max(1.0, abs(by_difference)):
        return
    lines = []
    # Only now that the check has failed are the inputs moved one by one, to name the wrong rule.
    for i in range(len(at)):
        alone = [
            d if j == i else constant_from(np.zeros_like(d.numpy()))
            for j, d in enumerate(directions)
        ]
        one, two = float(_slope(function, alone)(at)), _difference(function, at, alone)
        lines.append(
            f"  input {moved[i]}  {tuple(at[i].shape)}  by the rule {one:.12g}  "
            f"by differences {two:.12g}"
        )
    name = getattr(op, "__name__", repr(op))
    raise GradientError(
        f"{name}: derivative {level} along a random direction is {by_rule:.12g} by the gradient "
        f"rules, {by_difference:.12g} by central differences.\n" + "\n".join(lines)
    )
