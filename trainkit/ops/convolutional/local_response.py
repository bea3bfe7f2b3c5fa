"""Normalization over neighbouring channels."""

from __future__ import annotations

from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.elementwise import add, multiply, power, square


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
    radius, channels = int(plain(depth_radius)), x.shape[-1]
    squares = pad(square(x), ((0, 0), (0, 0), (0, 0), (radius, radius)))
    total = squares[..., :channels]
    for k in range(1, 2 * radius + 1):
        total = add(total, squares[..., k : k + channels])
    strength = add(multiply(total, alpha), bias)
    return multiply(x, power(strength, -beta))


lrn = local_response_normalization
