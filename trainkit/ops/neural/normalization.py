"""Normalization: moments, batch, layer and root-mean-square normalization, vectors of unit length.

Layer normalization, and batch normalization by the moments of its own batch, are operations with a
hand-written gradient; what they send back is an operation too, so they can be differentiated again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, GRADIENT_STEP, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Dims, Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.normalization import norm_reference, norm_tuned
from trainkit.ops.arrays.shaping import as_tensor, expand_dims, reshape
from trainkit.ops.convolutional.pooling import as_floats
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    clip,
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

Axes = tuple[int, ...]

EPSILON = 1e-7
"""The small number that keras.ops takes where none is given."""

# ------------------------------------------------------------------ moments


def moments(
    x: Any, axes: int | Sequence[int], keepdims: bool = False, synchronized: bool = False
) -> tuple[Tensor, Tensor]:
    """Mean and variance of `x` along `axes`.

    The variance is mean((x - mean)**2); float16 and bfloat16 are computed in float32.

    Args:
        x: tensor of any shape; integers become the default float.
        axes: one axis or several.
        keepdims: keep the reduced axes with size 1.
        synchronized: must be `False`: there is one process.

    Returns:
        Two tensors of the shape of `x` less `axes`.

    Raises:
        InvalidArgumentError: `synchronized` is true.
        ShapeError: an axis is out of range.
    """
    if synchronized:
        raise InvalidArgumentError(
            "moments: synchronized=True needs several processes, which is not supported; use False"
        )
    x = as_tensor(x)
    axis = shapes.canonical_axes(axes, len(x.shape), "moments")
    narrow = x.dtype.name if x.dtype.name in ("float16", "bfloat16") else None
    if narrow:
        x = cast(x, "float32")
    centre, spread = mean(x, axis, keepdims), var(x, axis, keepdims)
    if narrow:  # what goes beyond the range is the greatest number, as in Keras
        low, high = dtypes.as_dtype(narrow).limits
        centre, spread = (clip(m, float(low), float(high)) for m in (centre, spread))
        return cast(centre, narrow), cast(spread, narrow)
    return centre, spread


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
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
    """
    x = as_tensor(x)
    along = shapes.canonical_axis(axis, len(x.shape), "batch_normalization")
    given = {"mean": mean, "variance": variance, "offset": offset, "scale": scale}
    vectors = {
        name: _feature_vector("batch_normalization", name, value, x.shape, along)
        for name, value in given.items()
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


# ------------------------------------------------------------------ fused normalization


def _wide(x: Any) -> Any:
    """float16 and bfloat16 as float32, and the dtype to go back to."""
    return x.astype(np.float32) if x is not None and x.dtype.itemsize < 4 else x


def _statistics_axes(axis: Axes, rank: int, over_batch: bool) -> Axes:
    """Axes over which moments are taken: all but `axis` for batches, `axis` for layers."""
    return tuple(i for i in range(rank) if i not in axis) if over_batch else axis


def _parameter_shape(x: Any, axis: Axes) -> Dims:
    return tuple(n if i in axis else 1 for i, n in enumerate(x.shape))


def _normalize_rule(
    x: Spec, scale: Any, offset: Any, *, axis: Axes, epsilon: float, over_batch: bool
) -> Any:
    for name, parameter in (("scale", scale), ("offset", offset)):
        if parameter is not None:
            _check_parameter(name, parameter.shape, x.shape, axis)
    if not over_batch:
        return Spec(x.shape, x.dtype)
    vector = Spec(tuple(x.shape[i] for i in axis), x.dtype)
    return Spec(x.shape, x.dtype), vector, vector


def _check_parameter(name: str, found: Dims, shape: Dims, axis: Axes) -> None:
    wanted = tuple(shape[i] for i in axis)
    if len(found) != len(wanted) or any(
        None not in (a, b) and a != b for a, b in zip(found, wanted, strict=True)
    ):
        raise ShapeError(
            f"normalization: {name} has shape {found}, the input {tuple(shape)} needs {wanted} "
            "for its "
            f"axes {axis}"
        )


@primitive(
    _normalize_rule,
    name="fused_normalization",
    semantics=COMPOSITE,
    lowering=Absent("a tuned kernel computes it as a whole"),
)
def _fused(
    xp: ArrayModule,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
) -> Any:
    """Normalize by own moments, then scale and shift; batches also give their mean and variance."""
    for name, parameter in (("scale", scale), ("offset", offset)):
        if parameter is not None:
            _check_parameter(name, parameter.shape, x.shape, axis)
    if xp is np:
        tuned = norm_tuned.normalized_columns if over_batch else norm_tuned.normalized_rows
        found = tuned(x, scale, offset, axis, epsilon)
        if found is not None:
            return found
    shape = _parameter_shape(x, axis)
    y, centre, spread = norm_reference.normalized(
        xp,
        _wide(x),
        None if scale is None else _wide(scale).reshape(shape),
        None if offset is None else _wide(offset).reshape(shape),
        _statistics_axes(axis, x.ndim, over_batch),
        epsilon,
    )
    y = y.astype(x.dtype, copy=False)
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    return y, centre.reshape(vector).astype(x.dtype), spread.reshape(vector).astype(x.dtype)


def _gradient_rule(g: Spec, x: Spec, scale: Any, *rest: Any, axis: Axes, **settings: Any) -> Any:
    vector = Spec(tuple(x.shape[i] for i in axis), x.dtype)
    return Spec(x.shape, x.dtype), vector, vector


@primitive(
    _gradient_rule,
    name="fused_normalization_gradient",
    semantics=COMPOSITE,
    lowering=Absent("a tuned kernel computes it as a whole"),
    export=GRADIENT_STEP,
)
def fused_normalization_gradient(
    xp: ArrayModule,
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
) -> Any:
    """Gradients of a fused normalization by x, scale and offset.

    `by_mean` and `by_variance` are the gradients by the moments that a batch gives beside its
    result.
    """
    if xp is np:
        found = (
            norm_tuned.normalized_columns_gradient(g, x, scale, by_mean, by_variance, axis, epsilon)
            if over_batch
            else norm_tuned.normalized_rows_gradient(g, x, scale, axis, epsilon)
        )
        if found is not None:
            return found
    shape = _parameter_shape(x, axis)
    wide = _wide(g)
    scale, by_mean, by_variance = (
        None if v is None else _wide(v).reshape(shape) for v in (scale, by_mean, by_variance)
    )
    axes = _statistics_axes(axis, x.ndim, over_batch)
    result, product = norm_reference.normalized_gradient(
        xp, wide, _wide(x), scale, by_mean, by_variance, axes, epsilon
    )
    outer = tuple(i for i in range(x.ndim) if i not in axis)
    by_scale, by_offset = product.sum(axis=outer), wide.sum(axis=outer)
    return tuple(part.astype(x.dtype, copy=False) for part in (result, by_scale, by_offset))


def _formula(
    x: Tensor, scale: Any, offset: Any, *, axis: Axes, epsilon: float, over_batch: bool
) -> Any:
    """The fused normalization in plain operations."""
    rank = len(x.shape)
    axes = _statistics_axes(axis, rank, over_batch)
    shape = tuple(
        -1 if len(axis) == 1 and i in axis else n for i, n in enumerate(_parameter_shape(x, axis))
    )
    centre, spread = mean(x, axes, True), var(x, axes, True)
    y = multiply(subtract(x, centre), rsqrt(add(spread, epsilon)))
    if scale is not None:
        y = multiply(y, reshape(scale, shape))
    if offset is not None:
        y = add(y, reshape(offset, shape))
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    return y, reshape(centre, vector), reshape(spread, vector)


def _fused_joint(g: Any, y: Any, x: Tensor, scale: Any, offset: Any, **settings: Any) -> Any:
    g, by_mean, by_variance = g if settings["over_batch"] else (g, None, None)
    by_x, by_scale, by_offset = fused_normalization_gradient(
        g, x, scale, by_mean, by_variance, **settings
    )
    return by_x, None if scale is None else by_scale, None if offset is None else by_offset


def _fused_second(
    gg: Any,
    y: Any,
    g: Tensor,
    x: Tensor,
    scale: Any,
    by_mean: Any,
    by_variance: Any,
    **settings: Any,
) -> Any:
    # The offset only shifts: any value has the same gradients, and zeros give it a place to go to.
    offset = multiply(y[2], 0.0)
    one = add(offset, 1.0) if scale is None else scale
    given = (g, by_mean, by_variance) if settings["over_batch"] else g
    by_given, by_inputs = replayed_second_gradient(
        lambda *inputs: _formula(*inputs, **settings), given, (x, one, offset), gg
    )
    by_g, *by_moments = by_given if settings["over_batch"] else (by_given, None, None)
    return by_g, by_inputs[0], None if scale is None else by_inputs[1], *by_moments


_fused.joint_gradient(_fused_joint)
fused_normalization_gradient.joint_gradient(_fused_second)


def fused_batch_normalization(
    x: Any, scale: Any = None, offset: Any = None, axis: int = -1, epsilon: float = 1e-3
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize by the batch's own moments, in one operation, for training.

    y = scale * (x - mean) / sqrt(variance + epsilon) + offset, with mean and variance along all
    axes but `axis`. Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1.

    Args:
        x: tensor of floats of any shape.
        scale: (features,), or `None` for 1 and 0.
        offset: (features,), or `None` for 1 and 0.
        axis: the axis of the features.
        epsilon: added to the variance.

    Returns:
        y, in the shape of `x`; mean and variance, (features,). The variance divides by the number
        of elements. All three have gradients.

    Raises:
        ShapeError: the axis is out of range, or scale or offset has another shape.
    """
    x = as_tensor(x)
    along = (shapes.canonical_axis(axis, len(x.shape), "fused_batch_normalization"),)
    y, centre, spread = _fused(
        x,
        _parameter(scale),
        _parameter(offset),
        axis=along,
        epsilon=float(epsilon),
        over_batch=True,
    )
    return y, centre, spread


def _parameter(value: Any) -> Tensor | None:
    return None if value is None else as_tensor(value)


def layer_normalization(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
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
    """
    if kwargs.keys() - {"rms_scaling"}:
        raise TypeError(f"layer_normalization: unknown arguments {sorted(kwargs)}")
    x = as_floats(as_tensor(x))
    axes = tuple(sorted(shapes.canonical_axes(axis, len(x.shape), "layer_normalization")))
    if kwargs.get("rms_scaling"):
        return _scaled_by_variance(x, gamma, axes, epsilon)
    small = EPSILON if epsilon is None else float(epsilon)
    y: Tensor = _fused(
        x, _parameter(gamma), _parameter(beta), axis=axes, epsilon=small, over_batch=False
    )
    return y


def _scaled_by_variance(x: Tensor, gamma: Any, axes: Any, epsilon: float | None) -> Tensor:
    """X / sqrt(variance + epsilon), times gamma."""
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
    x: Any, scale: Any = None, axis: int | Sequence[int] = -1, epsilon: float | None = None
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
    """
    given = as_floats(as_tensor(x))
    x = cast(given, "float32") if given.dtype.size < 4 else given  # squares overflow short floats
    axes = shapes.canonical_axes(axis, len(x.shape), "rms_normalization")
    small = EPSILON if epsilon is None else float(epsilon)
    y = multiply(x, rsqrt(add(mean(square(x), axes, True), small)))
    result: Tensor = y if scale is None else multiply(y, cast(as_tensor(scale), y.dtype))
    return result if result.dtype == given.dtype else cast(result, given.dtype)


def normalize(x: Any, axis: int = -1, order: int = 2, epsilon: float | None = None) -> Tensor:
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
        result = multiply(x, rsqrt(maximum(total(square(x), axes, True), small * small)))
    else:
        result = divide(x, maximum(_length(x, axes, order), small))
    return result


def _length(x: Tensor, axes: Axes, order: int) -> Tensor:
    size = absolute(x)
    if order == 1:
        return total(size, axes, True)
    return power(total(power(size, order), axes, True), 1 / order)
