"""Normalization by the moments of its own batch or of each sample, in one operation.

Its gradient is written by hand; what it sends back is an operation too, so it can be differentiated
again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, WHOLE_KERNEL, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Dims, Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.normalization import norm_reference, norm_tuned
from trainkit.kernels.repeated.repeated_rows import RepeatedRows
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.math.elementwise import add, cast, multiply, rsqrt, square, subtract
from trainkit.ops.math.reductions import mean, var

norm_gpu = DeferredModule("trainkit.kernels.normalization.norm_gpu")

Axes = tuple[int, ...]


def _statistics_axes(axis: Axes, rank: int, over_batch: bool) -> Axes:
    """Axes over which moments are taken: all but `axis` for batches, `axis` for layers."""
    return tuple(i for i in range(rank) if i not in axis) if over_batch else axis


def parameter_shape(x: Any, axis: Axes) -> Dims:
    """The shape in which sizes along `axis` broadcast against `x`."""
    return tuple(n if i in axis else 1 for i, n in enumerate(x.shape))


def _normalize_rule(
    x: Spec,
    scale: Any,
    offset: Any,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    _check_parameters(x, scale, offset, axis)
    if not over_batch:
        return Spec(x.shape, x.dtype)
    vector = Spec(tuple(x.shape[i] for i in axis), _vector_dtype(x, scale))
    return Spec(x.shape, x.dtype), vector, vector


def _vector_dtype(x: Any, scale: Any) -> Any:
    """That of moments: `x` may be of a shorter dtype than the scale."""
    return (x if scale is None else scale).dtype


def _check_parameters(x: Any, scale: Any, offset: Any, axis: Axes) -> None:
    shape = x.shape
    needed_dims = tuple([shape[i] for i in axis])
    if scale is not None and scale.shape != needed_dims:
        _check_parameter("scale", scale.shape, shape, needed_dims, axis)
    if offset is not None and offset.shape != needed_dims:
        _check_parameter("offset", offset.shape, shape, needed_dims, axis)


def _check_parameter(name: str, dims: Dims, shape: Dims, needed_dims: Dims, axis: Axes) -> None:
    if len(dims) != len(needed_dims) or any(
        None not in (a, b) and a != b for a, b in zip(dims, needed_dims, strict=True)
    ):
        raise ShapeError(
            f"normalization: {name} has shape {dims}, the input {tuple(shape)} needs {needed_dims} "
            "for its "
            f"axes {axis}"
        )


def _run_compiled(
    x: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    _check_parameters(x, scale, offset, axis)
    if not centred:
        return None
    tuned = norm_tuned.normalized_columns if over_batch else norm_tuned.normalized_rows
    return tuned(x, scale, offset, axis, epsilon)


def _bound(settings: dict[str, Any]) -> Callable[..., Any]:
    run, axis = functools.partial(_run_compiled, **settings), settings["axis"]
    if settings["over_batch"] or not settings.get("centred", True):
        return run
    numbers = (np.float32(settings["epsilon"]),)
    calls: Callable[..., Any] = RepeatedRows(
        norm_tuned.ROWS, run, lambda x: norm_tuned.trailing_size(x, axis), numbers
    ).calls
    return calls


def _on_gpu(
    xp: ArrayModule, x: Array, scale: Array | None, offset: Array | None, **settings: Any
) -> Any:
    _check_parameters(x, scale, offset, settings["axis"])
    return norm_gpu.normalized(xp, x, scale, offset, **settings)


@primitive(
    _normalize_rule,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(_run_compiled, on_gpu=(_on_gpu,), bind=_bound),
)
def fused_normalization(
    xp: ArrayModule,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    """Normalize by own moments, then scale and shift; batches also give their mean and variance.

    What is not centred is divided by its root mean square; that is for samples, not for batches.
    """
    _check_parameters(x, scale, offset, axis)
    shape = parameter_shape(x, axis)
    y, centre, spread = norm_reference.normalized(
        xp,
        widen_halves(x),
        None if scale is None else widen_halves(scale).reshape(shape),
        None if offset is None else widen_halves(offset).reshape(shape),
        _statistics_axes(axis, x.ndim, over_batch),
        epsilon,
        centred,
    )
    y = y.astype(x.dtype, copy=False)
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    dtype = _vector_dtype(x, scale)
    return y, centre.reshape(vector).astype(dtype), spread.reshape(vector).astype(dtype)


def _gradient_rule(g: Spec, x: Spec, scale: Any, *moments: Any, axis: Axes, **settings: Any) -> Any:
    vector = Spec(tuple(x.shape[i] for i in axis), _vector_dtype(x, scale))
    return Spec(x.shape, x.dtype), vector, vector


def _compiled_gradient(
    g: Array,
    x: Array,
    scale: Array | None,
    by_mean: Array | None,
    by_variance: Array | None,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    if not centred:
        return None
    if not over_batch:
        return norm_tuned.normalized_rows_gradient(g, x, scale, axis, epsilon)
    return norm_tuned.normalized_columns_gradient(g, x, scale, by_mean, by_variance, axis, epsilon)


def _gradient_on_gpu(xp: ArrayModule, *arrays: Array | None, **settings: Any) -> Any:
    return norm_gpu.normalized_gradient(xp, *arrays, **settings)


@primitive(
    _gradient_rule,
    name="fused_normalization_gradient",
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(_compiled_gradient, of=1, on_gpu=(_gradient_on_gpu,)),
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
    centred: bool = True,
) -> Any:
    """Gradients of a fused normalization by x, scale and offset.

    `by_mean` and `by_variance` are the gradients by the moments that a batch gives beside its
    result.
    """
    shape, dtype = parameter_shape(x, axis), _vector_dtype(x, scale)
    floats = widen_halves(g)
    scale, by_mean, by_variance = (
        None if v is None else widen_halves(v).reshape(shape) for v in (scale, by_mean, by_variance)
    )
    axes = _statistics_axes(axis, x.ndim, over_batch)
    result, product = norm_reference.normalized_gradient(
        xp, floats, widen_halves(x), scale, by_mean, by_variance, axes, epsilon, centred
    )
    outer = tuple(i for i in range(x.ndim) if i not in axis)
    sums = (product.sum(axis=outer), floats.sum(axis=outer))
    vectors = [part.astype(dtype, copy=False) for part in sums]
    return result.astype(x.dtype, copy=False), *vectors


def _formula(
    x: Tensor,
    scale: Any,
    offset: Any,
    *,
    axis: Axes,
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    """The fused normalization in plain operations."""
    rank, dtype = len(x.shape), x.dtype
    x = cast(x, _vector_dtype(x, scale))
    axes = _statistics_axes(axis, rank, over_batch)
    shape = tuple(
        -1 if len(axis) == 1 and i in axis else n for i, n in enumerate(parameter_shape(x, axis))
    )
    if centred:
        centre, spread = mean(x, axes, True), var(x, axes, True)
        y = multiply(subtract(x, centre), rsqrt(add(spread, epsilon)))
    else:
        y = multiply(x, rsqrt(add(mean(square(x), axes, True), epsilon)))
    if scale is not None:
        y = multiply(y, reshape(scale, shape))
    if offset is not None:
        y = add(y, reshape(offset, shape))
    y = cast(y, dtype)
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    return y, reshape(centre, vector), reshape(spread, vector)


def _fused_joint(g: Any, y: Any, x: Tensor, scale: Any, offset: Any, **settings: Any) -> Any:
    g, by_mean, by_variance = g if settings["over_batch"] else (g, None, None)
    if g is None:
        g = zeros_like(y[0])
    by_x, by_scale, by_offset = fused_normalization_gradient(
        g, x, scale, by_mean, by_variance, **settings
    )
    by_scale = None if scale is None else by_scale
    # Without a scale both vectors have the dtype of x, which is wider than that of weights where
    # short floats are summed in float32.
    return by_x, by_scale, None if offset is None else cast(by_offset, offset.dtype)


def _fuse_second(
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
    upstream = (g, by_mean, by_variance) if settings["over_batch"] else g
    by_given, by_inputs = replayed_second_gradient(
        lambda *inputs: _formula(*inputs, **settings), upstream, (x, one, offset), gg
    )
    by_g, *by_moments = by_given if settings["over_batch"] else (by_given, None, None)
    return by_g, by_inputs[0], None if scale is None else by_inputs[1], *by_moments


fused_normalization.joint_gradient(_fused_joint)
fused_normalization.declare(residuals=frozenset({0, 1}))
fused_normalization.primitive.joint_sparse = True  # moments go to moving averages alone
fused_normalization_gradient.joint_gradient(_fuse_second)


def fused_batch_normalization(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    axis: int = -1,
    epsilon: float = 1e-3,
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
    y, centre, spread = fused_normalization(
        x,
        None if scale is None else as_tensor(scale),
        None if offset is None else as_tensor(offset),
        axis=along,
        epsilon=float(epsilon),
        over_batch=True,
    )
    return y, centre, spread
