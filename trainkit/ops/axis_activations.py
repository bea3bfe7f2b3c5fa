"""Activations along an axis: softmax, log_softmax, sparsemax and the gated linear unit."""

from __future__ import annotations

from typing import Any

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.errors import ShapeError
from trainkit.core.primitive import primitive
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.activations import sigmoid
from trainkit.ops.elementwise import cast, divide, exp, greater, keep_where, multiply, subtract
from trainkit.ops.reductions import axis_setting
from trainkit.ops.reductions import sum as total

# ------------------------------------------------------------------ softmax


@primitive(shapes.floating, name="softmax")
def _softmax(xp: ArrayModule, x: Array, *, axis: Any) -> Array:
    """exp(x) over its sum along axes."""
    powers = xp.exp(x - x.max(axis=axis, keepdims=True))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


@primitive(shapes.unchanged)
def softmax_gradient(xp: ArrayModule, g: Array, y: Array, *, axis: Any) -> Array:
    """Gradient by the input of softmax, y * (g - sum(g * y)), from its output `y`."""
    share = g * y
    return share - y * share.sum(axis=axis, keepdims=True)


def _by_output(g: Tensor, out: Tensor, before: Tensor, y: Tensor, *, axis: Any) -> Tensor:
    mean = total(multiply(before, y), axis=axis, keepdims=True)
    level = total(multiply(g, y), axis=axis, keepdims=True)
    return subtract(multiply(g, subtract(before, mean)), multiply(before, level))  # type: ignore[no-any-return]


softmax_gradient.gradients(
    lambda g, out, before, y, *, axis: softmax_gradient(g, y, axis=axis), _by_output
)
_softmax.gradients(lambda g, y, x, *, axis: softmax_gradient(g, y, axis=axis))


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`: positive numbers whose sum is 1.

    Args:
        x: tensor of any shape but a scalar.
        axis: int, a sequence of ints whose axes count as one, or `None` for all axes.

    Returns:
        A tensor like `x`, of floats.

    Raises:
        InvalidArgumentError: an axis is out of range.
    """
    return _softmax(x, axis=axis_setting(axis))  # type: ignore[no-any-return]


@primitive(shapes.floating, name="log_softmax")
def _log_softmax(xp: ArrayModule, x: Array, *, axis: Any) -> Array:
    """x less the logarithm of the sum of exponentials along axes."""
    centred = x - x.max(axis=axis, keepdims=True)
    return centred - xp.log(xp.exp(centred).sum(axis=axis, keepdims=True))


_log_softmax.gradients(
    lambda g, y, x, *, axis: subtract(
        g, multiply(exp(y), total(g, axis=axis, keepdims=True))
    )
)


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """Logarithm of `softmax(x, axis)`, exact where that is close to 0.

    Args:
        x: tensor of any shape but a scalar.
        axis: int, a sequence of ints whose axes count as one, or `None` for all axes.

    Returns:
        A tensor like `x`, of floats.

    Raises:
        InvalidArgumentError: an axis is out of range.
    """
    return _log_softmax(x, axis=axis_setting(axis))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ sparsemax


@primitive(shapes.floating, name="sparsemax")
def _sparsemax(xp: ArrayModule, x: Array, *, axis: int) -> Array:
    """Projection onto the probability simplex along an axis: algorithm 1 of the paper."""
    z = xp.moveaxis(x, axis, -1)
    descending = xp.flip(xp.sort(z, axis=-1), axis=-1)
    ranks = xp.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    sums = xp.cumsum(descending, axis=-1)
    support = xp.sum(1 + ranks * descending > sums, axis=-1, keepdims=True)
    tau = (xp.take_along_axis(sums, support - 1, axis=-1) - 1) / support.astype(z.dtype)
    return xp.moveaxis(xp.maximum(z - tau, 0), -1, axis)


def _sparsemax_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Tensor:
    support = greater(y, 0)
    inside = keep_where(g, support)
    count = total(cast(support, g.dtype), axis=axis, keepdims=True)
    level = divide(total(inside, axis=axis, keepdims=True), count)
    return keep_where(subtract(g, level), support)  # type: ignore[no-any-return]


_sparsemax.gradients(_sparsemax_gradient)


def sparsemax(x: Any, axis: int = -1) -> Tensor:
    """The nearest vector of shares, which has exact zeros, along `axis`.

    Source: Martins and Astudillo 2016, arXiv:1602.02068.

    Args:
        x: tensor of any shape but a scalar.
        axis: an int.

    Returns:
        A tensor like `x`, of floats; sums along the axis are 1.

    Raises:
        InvalidArgumentError: the axis is out of range.
    """
    return _sparsemax(x, axis=int(axis))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ gated linear unit


def glu(x: Any, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of `x` times the sigmoid of the second half.

    Source: Dauphin et al. 2017, arXiv:1612.08083.

    Args:
        x: tensor whose size along `axis` is even.
        axis: an int.

    Returns:
        A tensor with half the size along `axis`.

    Raises:
        ShapeError: the size along `axis` is odd, or the axis out of range.
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    size = x.shape[shapes.canonical_axis(axis, len(x.shape), "glu")]
    if size is not None and size % 2:
        raise ShapeError(
            f"glu: axis {axis} has the odd size {size}; it is cut in halves, so it must be even"
        )
    from trainkit.ops.joining import split

    x = cast(x, shapes.float_dtype(x.dtype))
    value, gate = split(x, 2, axis=axis)
    return multiply(value, sigmoid(gate))  # type: ignore[no-any-return]
