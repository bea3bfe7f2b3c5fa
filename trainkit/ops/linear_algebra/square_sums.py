"""Sums of squares along axes, of which lengths are the roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import REDUCTION, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.reductions.reductions_tuned import FEWEST, axis_square_sum, may_use_blas
from trainkit.ops.math.elementwise import along, multiply
from trainkit.ops.math.reductions import Axis, check_axes, over_last_axes, spread, wide_sum_dtype


def _not_by_blas(arrays: Sequence[Any], settings: dict[str, Any]) -> bool:
    return not may_use_blas(arrays[0].ndim, settings["axis"])


@primitive(
    lambda x, *, axis, keepdims: Spec(shapes.reduced_dims(x.shape, axis, keepdims), x.dtype),
    semantics=REDUCTION,
    tuned=Tuned(axis_square_sum, fewest=FEWEST, unless=_not_by_blas),
    direct=Direct("reduction", (np.add, np.square)),
)
def square_sum(xp: ArrayModule, x: Array, *, axis: Axis, keepdims: bool) -> Array:
    """Sum of the squares of real floats along axes, with the bits of `sum(square(x))`."""
    if axis is not None:
        check_axes(x, axis, "norm")
    sum_dtype = wide_sum_dtype(x.dtype)
    sums = xp.add.reduce(xp.square(x), axis, sum_dtype, None, keepdims)
    return sums if sum_dtype is None else sums.astype(x.dtype)


def _square_sum_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axis, keepdims: bool) -> Tensor:
    return along(spread(g, x, axis=axis, keepdims=keepdims, mean=False), multiply(x, 2))


square_sum.gradients(_square_sum_gradient)
square_sum.declare(stackable=over_last_axes)
