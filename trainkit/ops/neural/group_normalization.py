"""Normalization of each sample within groups of its features, in one operation.

Its gradient is written by hand; what it sends back is an operation too, so it can be differentiated
again.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, WHOLE_KERNEL, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.normalization import norm_reference, norm_tuned
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.math.elementwise import add, multiply, rsqrt, square, subtract
from trainkit.ops.math.reductions import mean
from trainkit.ops.neural.fused_normalization import parameter_shape
from trainkit.ops.neural.standardization import is_one_kernel, standardized


def _group_sizes(sizes: Any, axis: int, groups: int) -> tuple[Any, ...]:
    """Sizes with the features as an axis of groups and one of each group's features."""
    return (*sizes[:axis], groups, sizes[axis] // groups, *sizes[axis + 1 :])


def _axes_of_groups(rank: int, axis: int) -> tuple[int, ...]:
    """Axes of grouped arrays over which moments are taken, of samples of `rank` axes."""
    return tuple(i for i in range(1, rank + 1) if i != axis)


def _group_vector(vector: Array | None, x: Array, axis: int, groups: int) -> Array | None:
    """A number for each feature as it broadcasts against what is grouped."""
    if vector is None:
        return None
    return widen_halves(vector).reshape(_group_sizes(parameter_shape(x, (axis,)), axis, groups))


@primitive(
    lambda x, scale, offset, **settings: Spec(x.shape, x.dtype),
    name="grouped_normalization",
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(norm_tuned.normalized_groups),
)
def grouped_normalization(
    xp: ArrayModule,
    x: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: int,
    groups: int,
    epsilon: float,
) -> Array:
    """Normalize each sample within `groups` groups along `axis`, then scale and shift.

    Source: Wu and He 2018, arXiv:1803.08494.
    """
    floats = widen_halves(x).reshape(_group_sizes(x.shape, axis, groups))
    y: Array = norm_reference.normalized(
        xp,
        floats,
        _group_vector(scale, x, axis, groups),
        _group_vector(offset, x, axis, groups),
        _axes_of_groups(x.ndim, axis),
        epsilon,
    )[0]
    return y.reshape(x.shape).astype(x.dtype, copy=False)


def _gradient_rule(g: Spec, x: Spec, scale: Any, *, axis: int, **settings: Any) -> Any:
    vector = Spec((x.shape[axis],), (x if scale is None else scale).dtype)
    return Spec(x.shape, x.dtype), vector, vector


@primitive(
    _gradient_rule,
    name="grouped_normalization_gradient",
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(norm_tuned.normalized_groups_gradient, of=1),
)
def grouped_normalization_gradient(
    xp: ArrayModule,
    g: Array,
    x: Array,
    scale: Array | None,
    *,
    axis: int,
    groups: int,
    epsilon: float,
) -> Any:
    """Gradients of a grouped normalization by x, scale and offset."""
    sizes, upstream = _group_sizes(x.shape, axis, groups), widen_halves(g)
    result, product = norm_reference.normalized_gradient(
        xp,
        upstream.reshape(sizes),
        widen_halves(x).reshape(sizes),
        _group_vector(scale, x, axis, groups),
        None,
        None,
        _axes_of_groups(x.ndim, axis),
        epsilon,
    )
    outer = tuple(i for i in range(x.ndim) if i != axis)
    sums = product.reshape(x.shape).sum(axis=outer), upstream.sum(axis=outer)
    dtype = (x if scale is None else scale).dtype
    vectors = [part.astype(dtype, copy=False) for part in sums]
    return result.reshape(x.shape).astype(x.dtype, copy=False), *vectors


def _scale(y: Tensor, scale: Any, offset: Any, axis: int) -> Tensor:
    sizes = parameter_shape(y, (axis,))
    if scale is not None:
        y = multiply(y, reshape(scale, sizes))
    return y if offset is None else add(y, reshape(offset, sizes))


def _formula(
    x: Tensor, scale: Any, offset: Any, *, axis: int, groups: int, epsilon: float
) -> Tensor:
    """The grouped normalization in plain operations."""
    dims, over = shape_of(x), _axes_of_groups(len(x.shape), axis)
    grouped = reshape(x, _group_sizes(dims, axis, groups))
    deviation = subtract(grouped, mean(grouped, over, True))
    factor = rsqrt(add(mean(square(deviation), over, True), epsilon))
    return _scale(reshape(multiply(deviation, factor), dims), scale, offset, axis)


def _joint(g: Tensor, y: Any, x: Tensor, scale: Any, offset: Any, **settings: Any) -> Any:
    by_x, by_scale, by_offset = grouped_normalization_gradient(g, x, scale, **settings)
    return by_x, None if scale is None else by_scale, None if offset is None else by_offset


def _second(gg: Any, y: Any, g: Tensor, x: Tensor, scale: Any, **settings: Any) -> Any:
    # The offset only shifts: any value has the same gradients, and zeros give it a place to go to.
    offset = multiply(y[2], 0.0)
    one = add(offset, 1.0) if scale is None else scale
    by_g, (by_x, by_scale, _) = replayed_second_gradient(
        lambda *inputs: _formula(*inputs, **settings), g, (x, one, offset), gg
    )
    return by_g, by_x, None if scale is None else by_scale


grouped_normalization.joint_gradient(_joint)
grouped_normalization.declare(residuals=frozenset({0, 1}))
grouped_normalization_gradient.joint_gradient(_second)


def group_normalization(
    x: Tensor, scale: Any, offset: Any, axis: int, groups: int, epsilon: float
) -> Tensor:
    """Each sample within groups, by the kernel of a device that standardizes, or in one operation.

    Args:
        x: tensor of floats, whose features are known.
        scale: (features,), or `None`.
        offset: (features,), or `None`.
        axis: that of the features, from 0 on.
        groups: of which their number is a multiple.
        epsilon: added to variances.
    """
    if not is_one_kernel(x):
        y: Tensor = grouped_normalization(
            x, scale, offset, axis=axis, groups=groups, epsilon=epsilon
        )
        return y
    dims, over = shape_of(x), _axes_of_groups(len(x.shape), axis)
    grouped = reshape(x, _group_sizes(dims, axis, groups))
    normal = reshape(standardized(grouped, axis=over, epsilon=epsilon), dims)
    return _scale(normal, scale, offset, axis)
