"""Mean and variance over the rows of all replicas."""

from __future__ import annotations

import functools

from trainkit.collectives import replica as replicas
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.arrays.axes import squeeze
from trainkit.ops.arrays.creation import ones_like
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.collective.all_reduce import all_reduce
from trainkit.ops.math.elementwise import add, cast, divide, maximum, multiply, square, subtract
from trainkit.ops.math.reductions import sum as total

_LEAST = 1e-30
"""What replaces a count of 0, where all sums are 0 too."""


def has_other_replicas() -> bool:
    """Whether there are rows in other replicas, too."""
    return replicas.among_others() is not None


def synchronized_moments(
    x: Tensor, axes: tuple[int, ...], keepdims: bool, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance of `x` along `axes` over the rows of all replicas.

    Each replica takes the moments of its own rows first. Count, sum and sum of squares that follow
    from these are added up in float64 and in one message, so that little is lost where the mean is
    far from 0. Replicas may have different numbers of rows, and none. Gradients are those of the
    moments of the whole batch.
    Source: Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances".

    Args:
        x: float32 or float64.
        axes: from 0 on.
        keepdims: keep the reduced axes with size 1.
        weights: how much each element counts, in a shape that broadcasts with `x`; by default 1.

    Raises:
        UnimplementedError: the replicas run one after the other.
    """
    replica = replicas.among_others()
    assert replica is not None, "`has_other_replicas` is asked first"
    replica.check_meets("BatchNormalization(synchronized=True)")
    count = _count(x, axes, weights)
    some = maximum(cast(count, x.dtype), _LEAST)
    centre = divide(_weighted_sum(x, weights, axes), some)
    spread = divide(_weighted_sum(square(subtract(x, centre)), weights, axes), some)
    wide_centre, wide_spread = cast(centre, "float64"), cast(spread, "float64")
    sums = multiply(count, wide_centre)
    squares = multiply(count, add(wide_spread, square(wide_centre)))
    # a replica without rows computes on a row that stands in for none, and must not be counted
    rows = replica.rows
    counts = 1.0 if rows is None or rows.size else 0.0
    count, sums, squares = all_reduce([count, sums, squares], weight=counts, replica=replica)
    count = maximum(count, _LEAST)
    mean = divide(sums, count)
    variance = maximum(subtract(divide(squares, count), square(mean)), 0.0)
    results = [cast(part, x.dtype) for part in (mean, variance)]
    if not keepdims:
        results = [squeeze(part, axes) for part in results]
    return results[0], results[1]


def _weighted_sum(x: Tensor, weights: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    return total(x if weights is None else multiply(x, weights), axes, keepdims=True)


def _count(x: Tensor, axes: tuple[int, ...], weights: Tensor | None) -> Tensor:
    """How many elements each sum has, float64."""
    if weights is not None:
        counted = multiply(ones_like(x), cast(weights, x.dtype))
        return cast(total(counted, axes, keepdims=True), "float64")
    sizes = shape_of(x)
    element_count: Tensor = functools.reduce(
        multiply, [cast(convert_to_tensor(sizes[i]), "float64") for i in axes]
    )
    return element_count
