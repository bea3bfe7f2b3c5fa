"""Normalization over neighbouring channels."""

from __future__ import annotations

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import LAST_AXES, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.elementwise.half_casts_tuned import run_in_float32
from trainkit.kernels.reductions.neighbour_sums_tuned import neighbour_sums
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.elementwise import add, multiply, power, square
from trainkit.ops.math.reductions import wide_sum_dtype


def _by_kernel(x: Array, *, radius: int) -> Array | None:
    return neighbour_sums(x, min(radius, x.shape[-1]))


def _by_kernel_in_float32(x: Array, *, radius: int) -> Array | None:
    return run_in_float32(_by_kernel, x, radius=radius)


@primitive(
    lambda x, *, radius: Spec(x.shape, x.dtype),
    semantics=LAST_AXES,
    tuned=Tuned(
        _by_kernel,
        exact=neighbour_sums.exact,
        fewest=neighbour_sums.fewest,
        on_bfloat16=_by_kernel_in_float32,
        on_float16=_by_kernel_in_float32,
    ),
)
def channel_window_sums(xp: ArrayModule, x: Array, *, radius: int) -> Array:
    """Sums of the numbers up to `radius` places before and behind each along the last axis.

    Direct sums, from the first to the last: differences of running sums would lose what is small,
    and products with ones would spread NaN over all channels.
    """
    dtype, channels = wide_sum_dtype(x.dtype) or x.dtype, x.shape[-1]
    radius = min(radius, channels)
    width, rows = channels + 2 * radius, x.size // max(channels, 1)
    # zeros between the rows, so that one vector of all of them is shifted and not each row
    line = xp.zeros(rows * width + 2 * radius, dtype)
    line[: rows * width].reshape(rows, width)[:, radius : radius + channels] = x.reshape(
        rows, channels
    )
    total = xp.zeros(rows * width, dtype)
    for k in range(2 * radius + 1):
        total += line[k : k + rows * width]
    return total.reshape(rows, width)[:, :channels].reshape(x.shape).astype(x.dtype)


# the matrix of these sums is symmetric
channel_window_sums.gradients(lambda g, y, x, *, radius: channel_window_sums(g, radius=radius))
channel_window_sums.declare(residuals=frozenset())


def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Each value divided by the strength of the channels around it.

    y = x / (bias + alpha * sum of x**2 over channels c - depth_radius to c + depth_radius)**beta
    Source: Krizhevsky, Sutskever and Hinton 2012, "ImageNet classification with deep convolutional
    neural networks", section 3.3.

    Args:
        input: (batch, height, width, channels), floating.
        depth_radius: how many channels on either side count.
        bias: keeps the divisor from 0.
        alpha: factor of the sum.
        beta: exponent.

    Raises:
        ShapeError: the rank is not 4.
        InvalidArgumentError: `depth_radius` is below 0.

    Example:
        >>> tk.nn.local_response_normalization(tk.ones((1, 1, 1, 3)), 1).numpy().round(4)
        array([[[[0.5774, 0.5   , 0.5774]]]], dtype=float32)
    """
    x = convert_to_tensor(input)
    if len(x.shape) != 4:
        raise ShapeError(
            "local_response_normalization: needs (batch, height, width, channels), got shape "
            f"{tuple(x.shape)}"
        )
    radius = int(plain(depth_radius))
    if radius < 0:
        raise InvalidArgumentError(
            f"local_response_normalization: depth_radius={depth_radius!r} must be 0 or more"
        )
    total = channel_window_sums(square(x), radius=radius)
    strength = add(multiply(total, alpha), bias)
    return multiply(x, power(strength, -beta))


lrn = local_response_normalization
