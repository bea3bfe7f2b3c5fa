"""Dropout by numbers that a seed fixes, or that a function of the caller's draws.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Real
from typing import Any

from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import shape as shape_
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.math.comparisons import greater_equal
from trainkit.ops.math.elementwise import divide, multiply, subtract, where
from trainkit.ops.sampling.seeded_random import stateless_uniform


def _shape_of_noise(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return shape_(x)
    if is_later(noise_shape):
        return noise_shape
    sizes = shape_(x)
    noise = tuple(plain(noise_shape))
    if len(noise) != len(sizes):
        return noise
    return tuple(n if m is None else m for n, m in zip(sizes, noise, strict=True))


def general_dropout(
    x: TensorLike,
    rate: Any,
    uniform_sampler: Callable[..., Any],
    noise_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """Zeros where numbers that the caller draws are below `rate`, the rest divided by 1 - rate.

    Args:
        x: floating tensor.
        rate: number in [0, 1), or a scalar tensor of the dtype of `x`; at 0 nothing is drawn.
        uniform_sampler: called with `shape=` and `dtype=`, gives numbers in [0, 1), all equally
            likely, such as `tk.random.Generator.uniform`.
        noise_shape: of the numbers, 1 where they are shared; `None` in it stands for the size in
            `x`.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        ValueError: `rate` is a number outside of [0, 1) or a tensor of another dtype, or `x` is not
            floating.

    Example:
        >>> sampler = lambda shape, dtype: tk.constant([0.1, 0.5, 0.9], dtype)
        >>> tk.nn.experimental.general_dropout(tk.ones((3,)), 0.5, sampler).numpy()
        array([0., 2., 2.], dtype=float32)
    """
    is_number = isinstance(rate, Real)
    if is_number and not 0 <= rate < 1:
        raise ValueError(f"dropout: rate must lie in [0, 1), got {rate}")
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        raise ValueError(f"dropout: takes floats, which it scales, got {x.dtype.name}")
    if is_number:
        if rate == 0:
            return x
        scaled = multiply(x, 1 / (1 - rate))
    else:
        rate = convert_to_tensor(rate)
        if rate.dtype != x.dtype or len(rate.shape):
            raise ValueError(
                f"dropout: rate must be a number or a scalar of dtype {x.dtype.name}, got shape "
                f"{tuple(rate.shape)} of {rate.dtype.name}"
            )
        scaled = divide(x, subtract(1.0, rate))
    numbers = uniform_sampler(shape=_shape_of_noise(x, noise_shape), dtype=x.dtype)
    return where(greater_equal(numbers, rate), scaled, zeros_like(x))


def stateless_dropout(
    x: TensorLike,
    rate: Any,
    seed: TensorLike,
    rng_alg: Any = None,
    noise_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """Zeros with probability `rate` that depend on `seed` alone, the rest divided by 1 - rate.

    Args:
        x: floating tensor.
        rate: number in [0, 1), or a scalar tensor of the dtype of `x`.
        seed: two ints, or a tensor (2,).
        rng_alg: `"philox"`, `"auto_select"` or `None`.
        noise_shape: shape of the mask, 1 where it is shared; `None` in it stands for the size in
            `x`.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        ValueError: as for `general_dropout`.
        InvalidArgumentError: `seed` has another shape, or the algorithm is another.

    Example:
        >>> a, b = (tk.nn.experimental.stateless_dropout(tk.ones((9,)), 0.5, (1, 2)) for _ in "ab")
        >>> bool(tk.reduce_all(a == b))
        True
    """
    alg = "auto_select" if rng_alg is None else rng_alg
    sampler = functools.partial(stateless_uniform, seed=seed, alg=alg)
    return general_dropout(x, rate, sampler, noise_shape)
