"""A product by weights that stay, of inputs whose sizes stay too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.jit.register_tiles import block_columns
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_MATRIX, EMPTY_VECTOR
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.matmul.product_tuned import (
    BLOCK_WORK,
    FINISHED,
    STRIPS,
    block_shares,
    panel_columns,
    product,
)

Array = Any

_F32 = np.dtype(np.float32)


class ProductCall:
    """What the sizes of a product of float32 decide, for further calls of the same sizes.

    In a product of ten microseconds to ask again would be a third of the time, the more as the
    weights drive what Python needs out of the caches.

    Args:
        shape: of the input, whose last axis is multiplied.
        columns: of the product.
        strips: what is kept of the weights.
        limits: the smallest and the largest result.
    """

    __slots__ = ("_flat", "_limits", "_shape", "_shares", "_strip", "_strips", "_y_shape")

    def __init__(self, shape: tuple[int, ...], columns: int, strips: Any, limits: Any) -> None:
        depth = shape[-1]
        self._shape, self._y_shape, self._limits = shape, (*shape[:-1], columns), limits
        self._flat = math.prod(shape[:-1]), depth
        self._strips, self._strip = strips, block_columns() * _F32.itemsize * depth
        is_shared = self._flat[0] * depth * columns >= 2 * BLOCK_WORK
        # how many threads there are is asked anew
        self._shares = None if is_shared else self._block_shares(columns)

    def _block_shares(self, columns: int) -> tuple[int, int, int, int]:
        return block_shares(*self._flat, columns, in_strips=True)

    def __call__(
        self,
        x: Array,
        w: Array,
        bias: Array | None,
        factor: Array | None = None,
        shift: Array | None = None,
        residual: Array | None = None,
    ) -> Array | None:
        """The product and what follows it, `None` where this is another call than the first."""
        strips = self._strips
        # read first: strips that are let go in between are those of this array still
        matrix = strips.array
        if (
            not strips.are_of(w)
            or x.shape != self._shape
            or not (bias is None or bias.flags.c_contiguous)
        ):
            return None
        run = FINISHED.find((), 0.0)
        if run is None:
            return None
        y = np.empty(self._y_shape, _F32)
        rows, sums = x, y
        if x.ndim > 2:
            rows, sums = x.reshape(self._flat), y.reshape(self._flat[0], -1)
        behind = EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_MATRIX
        if factor is not None:
            if not are_in_order(self._y_shape, factor, shift, residual):
                return None
            beside = EMPTY_MATRIX if residual is None else residual.reshape(sums.shape)
            behind = factor.reshape(-1), shift.reshape(-1), beside  # type: ignore[union-attr]
        shares = self._shares or self._block_shares(self._y_shape[-1])
        pool, blocks, height, width = shares
        run(
            pool, blocks, rows, matrix, EMPTY_VECTOR if bias is None else bias, *behind, sums,
            height, width, self._strip, panel_columns(), *self._limits,
        )  # fmt: skip
        return y


def are_in_order(
    shape: tuple[int, ...], factor: Array, shift: Array | None, residual: Array | None
) -> bool:
    """Whether kernels may read what follows results of `shape` where it lies."""
    if residual is not None and not (residual.shape == shape and residual.flags.carray):
        return False
    fits: bool = factor.flags.carray and shift is not None and shift.flags.carray
    return fits


class RepeatedProduct:
    """`product` of float32, with bias and rectifier, by weights that a program does not assign.

    Args:
        weights: keeps the strips of the second matrix.
        rectify: whether results below 0 become 0.
    """

    __slots__ = ("_call", "_limits", "_rectifies", "_weights")

    def __init__(self, weights: PreparedWeights, rectify: bool) -> None:
        self._weights, self._rectifies = weights, rectify
        self._limits = np.float32(0 if rectify else -np.inf), np.float32(np.inf)
        self._call: ProductCall | None = None

    def repeat(self, x: Array, w: Array, bias: Array | None) -> Array | None:
        """The product of the last axis of `x` where this is a call as the one before, or `None`."""
        return None if self._call is None else self._call(x, w, bias)

    def first(self, x: Array, w: Array, bias: Array | None) -> Array | None:
        """The same of other sizes and weights, `None` where the body is to do it."""
        self._call = None
        if x.ndim < 2 or not x.flags.c_contiguous:
            return None
        rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        bias = None if bias is None else owned(bias)
        result = product(rows, w, bias, self._rectifies, self._weights)
        if result is None:
            return None
        self._call = product_call(x.shape, w, w.shape[1], self._weights, self._limits)
        return result if x.ndim == 2 else result.reshape(*x.shape[:-1], -1)


def product_call(
    shape: tuple[int, ...], w: Array, columns: int, weights: PreparedWeights, limits: Any
) -> ProductCall | None:
    """What is remembered of a product that was done, `None` where weights are copied at each call.

    Args:
        shape: of the input.
        w: the weights, also with further axes of 1 in front.
        columns: of the matrix that they are.
        weights: keeps strips of them.
        limits: the smallest and the largest result.
    """
    strips = weights.current(w, STRIPS)
    return None if strips is None else ProductCall(shape, columns, strips, limits)
