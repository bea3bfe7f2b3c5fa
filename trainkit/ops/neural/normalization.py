"""Normalization: moments, of batches, layers and by root mean squares; vectors of length 1."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Dims
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.convolutional.pooling import as_floats
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    maximum,
    multiply,
    power,
    rsqrt,
    square,
    subtract,
)
from trainkit.ops.math.reductions import mean, var
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.math.value_limits import clip
from trainkit.ops.neural.fused_normalization import fused_normalization
from trainkit.ops.neural.standardization import is_one_kernel, standardized
from trainkit.ops.neural.synchronized_moments import has_other_replicas, synchronized_moments

Axes = tuple[int, ...]

EPSILON = 1e-7
"""The small number that keras.ops takes where none is given."""
_LEAST_SQUARE = {"float16": 2.0**-24}  # what is above 0 in a type of few exponents

# ------------------------------------------------------------------ moments


def moments(
    x: TensorLike, axes: int | Sequence[int], keepdims: bool = False, synchronized: bool = False
) -> tuple[Tensor, Tensor]:
    """Mean and variance of `x` along `axes`.

    The variance is mean((x - mean)**2); float16 and bfloat16 are computed in float32.

    Args:
        x: tensor of any shape; integers become the default float.
        axes: one axis or several.
        keepdims: keep the reduced axes with size 1.
        synchronized: over the rows of all replicas, where this thread is in one of several.

    Returns:
        Two tensors of the shape of `x` less `axes`.

    Raises:
        ShapeError: an axis is out of range.

    Example:
        >>> mean, variance = tk.ops.moments([[1.0], [3.0]], axes=[0])
        >>> mean.numpy(), variance.numpy()
        (array([2.], dtype=float32), array([1.], dtype=float32))
    """
    x = as_tensor(x)
    axis = shapes.canonical_axes(axes, len(x.shape), "moments")
    narrow = x.dtype.name if x.dtype.name in ("float16", "bfloat16") else None
    if narrow:
        x = cast(x, "float32")
    if synchronized and has_other_replicas():
        x = x if x.dtype.is_floating else as_floats(x)
        centre, spread = synchronized_moments(x, axis, keepdims)
    else:
        centre, spread = mean(x, axis, keepdims), var(x, axis, keepdims)
    if narrow:  # what goes beyond the range is the greatest number, as in Keras
        low, high = dtypes.as_dtype(narrow).limits
        centre, spread = (clip(m, float(low), float(high)) for m in (centre, spread))
        return cast(centre, narrow), cast(spread, narrow)
    return centre, spread


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    axis: int,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """Normalize `x` by given moments: scale * (x - mean) / sqrt(variance + epsilon) + offset.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Args:
        x: tensor of any shape.
        mean: (features,), the moments along the other axes.
        variance: (features,), the moments along the other axes.
        axis: the axis of the features.
        offset: (features,), or `None` for 0 and 1.
        scale: (features,), or `None` for 0 and 1.
        epsilon: added to the variance.

    Returns:
        A tensor like `x`.

    Raises:
        ShapeError: the axis is out of range, or a vector does not have as many features as `x`.

    Example:
        >>> tk.ops.batch_normalization([[1.0], [3.0]], [2.0], [1.0], -1, epsilon=0.0).numpy()
        array([[-1.],
               [ 1.]], dtype=float32)
    """
    x = as_tensor(x)
    along = shapes.canonical_axis(axis, len(x.shape), "batch_normalization")
    parameters = {"mean": mean, "variance": variance, "offset": offset, "scale": scale}
    vectors = {
        name: _feature_vector("batch_normalization", name, value, x.shape, along)
        for name, value in parameters.items()
        if value is not None
    }
    factor = rsqrt(add(vectors["variance"], epsilon))
    if scale is not None:
        factor = multiply(factor, vectors["scale"])
    shift = multiply(vectors["mean"], factor)
    y = multiply(x, factor)
    if offset is None:
        result: Tensor = subtract(y, shift)
    else:
        result = add(y, subtract(vectors["offset"], shift))
    return result


def _feature_vector(op: str, name: str, value: Any, shape: Dims, axis: int) -> Tensor:
    """`value` (features,) shaped to broadcast along `axis` of `shape`."""
    vector = as_tensor(value)
    if len(vector.shape) != 1 or (
        None not in (vector.shape[0], shape[axis]) and vector.shape[0] != shape[axis]
    ):
        raise ShapeError(
            f"{op}: {name} has shape {tuple(vector.shape)}, the input {tuple(shape)} needs "
            f"({shape[axis]},) for its axis {axis}"
        )
    return reshape(vector, tuple(-1 if i == axis else 1 for i in range(len(shape))))


# ------------------------------------------------------------------ of each sample


def layer_normalization(
    x: TensorLike,
    gamma: TensorLike | None = None,
    beta: TensorLike | None = None,
    axis: int | Sequence[int] = -1,
    epsilon: float | None = None,
    **kwargs: Any,
) -> Tensor:
    """Normalize each sample by its own moments.

    gamma * (x - mean) / sqrt(variance + epsilon) + beta

    Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.

    Args:
        x: tensor of any shape; integers become the default float.
        gamma: of the sizes of `x` along `axis`, or `None` for 1 and 0.
        beta: of the sizes of `x` along `axis`, or `None` for 1 and 0.
        axis: the axes along which moments are taken.
        epsilon: added to the variance; 1e-7 by default.
        **kwargs: `rms_scaling=True`, which is deprecated: divide by the root of the variance
            alone, as Keras does; `rms_normalization` divides by the root mean square.

    Returns:
        A tensor like `x`.

    Raises:
        ShapeError: an axis is out of range, or gamma or beta has another shape.
        TypeError: an argument by keyword is unknown.

    Example:
        >>> tk.ops.layer_normalization([[1.0, 3.0]]).numpy().round(2)
        array([[-1.,  1.]], dtype=float32)
    """
    if kwargs.keys() - {"rms_scaling"}:
        raise TypeError(f"layer_normalization: unknown arguments {sorted(kwargs)}")
    x = as_floats(as_tensor(x))
    axes = tuple(sorted(shapes.canonical_axes(axis, len(x.shape), "layer_normalization")))
    if kwargs.get("rms_scaling"):
        return _scaled_by_variance(x, gamma, axes, epsilon)
    small = EPSILON if epsilon is None else float(epsilon)
    scale, offset = (None if v is None else as_tensor(v) for v in (gamma, beta))
    y: Tensor = fused_normalization(x, scale, offset, axis=axes, epsilon=small, over_batch=False)
    return y


def _scaled_by_variance(x: Tensor, gamma: Any, axes: Any, epsilon: float | None) -> Tensor:
    """x / sqrt(variance + epsilon), times gamma."""
    warnings.warn(
        "layer_normalization: rms_scaling=True is deprecated; use rms_normalization",
        UserWarning,
        stacklevel=3,
    )
    apart = subtract(x, mean(x, axes, True))
    small = EPSILON if epsilon is None else float(epsilon)
    y: Tensor = multiply(x, rsqrt(add(mean(square(apart), axes, True), small)))
    if gamma is None:
        return y
    sizes = [n if i in axes else 1 for i, n in enumerate(x.shape)]
    scaled: Tensor = multiply(y, cast(reshape(as_tensor(gamma), sizes), y.dtype))
    return scaled


def rms_normalization(
    x: TensorLike,
    scale: TensorLike | None = None,
    axis: int | Sequence[int] = -1,
    epsilon: float | None = None,
) -> Tensor:
    """Divide by the root mean square along `axis`: scale * x / sqrt(mean(x**2) + epsilon).

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    Args:
        x: tensor of any shape; integers become the default float.
        scale: broadcasts against `x`, or `None` for 1.
        axis: the axes along which the mean is taken.
        epsilon: added to the mean square; 1e-7 by default.

    Returns:
        A tensor like `x`.

    Raises:
        ShapeError: an axis is out of range.

    Example:
        >>> tk.ops.rms_normalization([[3.0, 3.0]]).numpy().round(3)
        array([[1., 1.]], dtype=float32)
    """
    tensor = as_floats(as_tensor(x))
    axes = shapes.canonical_axes(axis, len(tensor.shape), "rms_normalization")
    small = EPSILON if epsilon is None else float(epsilon)
    along = tuple(sorted(axes))
    vector = _drop_other_axes(scale, tensor, along) if is_one_kernel(tensor) else None
    if vector is not None:  # one kernel, which computes in float32 where elements are shorter
        scaled: Tensor = fused_normalization(
            tensor, vector, None, axis=along, epsilon=small, over_batch=False, centred=False
        )
        return scaled
    # Squares overflow short floats.
    x = cast(tensor, "float32") if tensor.dtype.size < 4 else tensor
    if is_one_kernel(x):
        y = standardized(x, axis=along, epsilon=small, centred=False)
    else:
        y = multiply(x, rsqrt(add(mean(square(x), axes, True), small)))
    result: Tensor = y if scale is None else multiply(y, cast(as_tensor(scale), y.dtype))
    return result if result.dtype == tensor.dtype else cast(result, tensor.dtype)


def _drop_other_axes(scale: Any, x: Tensor, axes: Axes) -> Tensor | None:
    """A scale as a kernel takes it, of the sizes along `axes`; `None` if it is another one."""
    if scale is None:
        return None
    scale = as_tensor(scale)
    sizes = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    first = len(sizes) - len(scale.shape)  # axes that broadcasting puts in front
    if (
        None in sizes
        or first < 0
        or sizes[first:] != tuple(scale.shape)
        or sizes[:first] != (1,) * first
    ):
        return None
    sum_dtype = "float32" if x.dtype.size < 4 else x.dtype.name
    if scale.dtype.name not in (x.dtype.name, sum_dtype):
        return None
    vector: Tensor = reshape(scale, tuple(x.shape[i] for i in axes))
    return vector


def normalize(
    x: TensorLike, axis: int = -1, order: int = 2, epsilon: float | None = None
) -> Tensor:
    """Divide by the length along `axis`, so that each vector has length 1.

    The length is (sum of |x|**order)**(1/order).

    Args:
        x: tensor of any shape; integers become the default float, a scalar a vector.
        axis: the axis of the vectors.
        order: of the norm, an int of 1 or more.
        epsilon: lengths below it are taken as it; 1e-7 by default.

    Returns:
        A tensor like `x`.

    Raises:
        ShapeError: the axis is out of range.
        InvalidArgumentError: the order is another one.

    Example:
        >>> tk.ops.normalize([[3.0, 4.0]]).numpy().round(4)
        array([[0.6, 0.8]], dtype=float32)
    """
    x = as_floats(as_tensor(x))
    if len(x.shape) == 0:
        x = expand_dims(x, 0)
    axes = shapes.canonical_axes(axis, len(x.shape), "normalize")
    small = EPSILON if epsilon is None else float(epsilon)
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise InvalidArgumentError(f"normalize: order must be an int of 1 or more, got {order!r}")
    result: Tensor
    if order == 2:
        # the square of the least length must not be 0 in the type at hand
        smallest = max(small * small, _LEAST_SQUARE.get(x.dtype.name, 0.0))
        result = multiply(x, rsqrt(maximum(total(square(x), axes, True), smallest)))
    else:
        result = divide(x, maximum(_length(x, axes, order), small))
    return result


def _length(x: Tensor, axes: Axes, order: int) -> Tensor:
    size = absolute(x)
    if order == 1:
        return total(size, axes, True)
    return power(total(power(size, order), axes, True), 1 / order)
