"""Normal draws between any two bounds, by the quantile of a uniform number.

The arguments are TensorFlow's; `name` is not kept.
Source of the gradients: Figurnov, Mohamed and Mnih 2018, "Implicit reparameterization gradients",
arXiv:1805.08498.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import Shape, TensorLike
from trainkit.ops.arrays.conversion import stop_gradient
from trainkit.ops.core.assertions import assert_less, assert_positive
from trainkit.ops.math.comparisons import greater, less
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
    where,
)
from trainkit.ops.math.error_functions import erfc, ndtri
from trainkit.ops.sampling import random as _random
from trainkit.ops.sampling.generators import stateless

_FAR = 30.0  # standard deviations from the mean, where shares are too small for float64 soon


class _Parameters(NamedTuple):
    means: Tensor
    stddevs: Tensor
    minvals: Tensor
    maxvals: Tensor


def _read_parameters(*values: Any) -> _Parameters:
    """The parameters as tensors of one floating dtype, which numbers take over."""
    tensors = [convert_to_tensor(x) for x in values]
    typed = [y for x, y in zip(values, tensors, strict=True) if is_tensor(x)] or tensors
    names = {x.dtype.name for x in typed}
    dtype = typed[0].dtype
    if len(names) > 1 or not dtype.is_floating:
        raise InvalidArgumentError(
            "stateless_parameterized_truncated_normal: means, stddevs, minvals and maxvals need "
            f"one floating dtype, got {', '.join(sorted(names))}"
        )
    return _Parameters(*(cast(x, dtype) for x in tensors))


def _share_below(x: Tensor) -> Tensor:
    """Of the normal distribution, to all digits where it is small."""
    return multiply(erfc(multiply(x, -math.sqrt(0.5))), 0.5)


def _log_tail(x: Tensor) -> Tensor:
    """The logarithm of the share above x > 30, but for a constant: a series in 1 / x**2."""
    inverse = divide(1.0, square(x))
    terms = multiply(inverse, subtract(multiply(inverse, 3.0), 1.0))
    return add(subtract(multiply(square(x), -0.5), log(x)), log1p(terms))


def _far_quantile(uniforms: Tensor, near: Tensor, end: Tensor) -> Tensor:
    """Where the tail between `near` and `end` has the share `uniforms` nearer to `near`.

    Two steps of Newton's method, from where it lay if density fell like x exp(-x**2 / 2).
    """
    start = maximum(near, _FAR)
    ratio = expm1(subtract(_log_tail(maximum(end, start)), _log_tail(start)))
    drop = log1p(multiply(uniforms, ratio))
    target = add(_log_tail(start), drop)
    x = sqrt(subtract(square(start), multiply(drop, 2.0)))
    for _ in range(2):
        x = add(x, divide(subtract(_log_tail(x), target), add(x, divide(1.0, x))))
    return x


def _standard_quantile(uniforms: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Where the normal distribution from `low` to `high` has the share `uniforms` below."""
    mirrored = greater(low, 0.0)  # the lower tail has the digits
    a, b = where(mirrored, negative(high), low), where(mirrored, negative(low), high)
    u = where(mirrored, subtract(1.0, uniforms), uniforms)
    below = _share_below(a)
    share = add(below, multiply(u, subtract(_share_below(b), below)))
    tail = negative(_far_quantile(subtract(1.0, u), negative(b), negative(a)))
    z = where(less(b, -_FAR), tail, ndtri(share))
    return where(mirrored, negative(z), z)


def _derivatives_by_bounds(
    uniforms: Tensor, z: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """How far a draw, which has the share `uniforms` below it, moves with each bound."""
    by_low = multiply(exp(multiply(subtract(square(z), square(low)), 0.5)), subtract(1.0, uniforms))
    by_high = multiply(exp(multiply(subtract(square(z), square(high)), 0.5)), uniforms)
    return by_low, by_high


def stateless_parameterized_truncated_normal(
    shape: Shape,
    seed: TensorLike,
    means: TensorLike = 0.0,
    stddevs: TensorLike = 1.0,
    minvals: TensorLike = -2.0,
    maxvals: TensorLike = 2.0,
    name: str | None = None,
) -> Tensor:
    """Draws of normal distributions that lie between two bounds, and depend on `seed` alone.

    y = means + stddevs * z. Gradients reach all four parameters: by `means` 1, by `stddevs` z,
    each with the standardized bounds held, and by the bounds as their draws move with them.

    Args:
        shape: of the result; its last axes are those that the parameters have together.
        seed: two ints, or a tensor (2,).
        means: floats.
        stddevs: floats above 0.
        minvals: lower bounds, finite.
        maxvals: upper bounds, finite and above the lower ones.

    Returns:
        A tensor of `shape` and of the parameters' dtype, float32 where they are all numbers.

    Raises:
        InvalidArgumentError: a bound is not finite or not below the other, a standard deviation is
            not above 0, the dtypes differ, or `shape` does not end with that of the parameters.

    Example:
        >>> y = tk.random.stateless_parameterized_truncated_normal((100,), (1, 2), maxvals=-1.0)
        >>> bool(tk.reduce_all((y >= -2.0) & (y <= -1.0)))
        True
    """
    parameters = _read_parameters(means, stddevs, minvals, maxvals)
    means, stddevs, minvals, maxvals = parameters
    op = "stateless_parameterized_truncated_normal"
    assert_less(minvals, maxvals, f"{op}: minvals must be below maxvals")
    assert_less(subtract(maxvals, minvals), math.inf, f"{op}: bounds must be finite")
    assert_positive(stddevs, f"{op}: stddevs must be above 0")
    m, s, low, high = (stop_gradient(cast(x, "float64")) for x in parameters)
    low, high = divide(subtract(low, m), s), divide(subtract(high, m), s)
    uniforms = _random.uniform(shape, dtype="float64", seed=stateless(seed))
    z = _standard_quantile(uniforms, low, high)
    if tuple(z.shape) != tuple(uniforms.shape):
        raise InvalidArgumentError(
            f"{op}: shape {tuple(uniforms.shape)} must end with that of the parameters, "
            f"{tuple(low.shape)}"
        )
    y = add(means, multiply(stddevs, cast(z, means.dtype)))
    y = add(y, subtract(stop_gradient(minimum(maximum(y, minvals), maxvals)), stop_gradient(y)))
    derivatives = _derivatives_by_bounds(uniforms, z, low, high)
    for bound, derivative in zip((minvals, maxvals), derivatives, strict=True):
        # adds 0, whose derivative by the bound is the one of the draws
        y = add(y, multiply(subtract(bound, stop_gradient(bound)), cast(derivative, y.dtype)))
    return y
