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
    FINISHED,
    STRIPS,
    block_shares,
    is_worth_threads,
    panel_columns,
    product,
)
from trainkit.kernels.repeated.planned_call import (
    CalledArray,
    CallPlan,
    KeptWeights,
    NewArray,
    RepeatedCalls,
    plan_call,
)

Array = Any

_F32 = np.dtype(np.float32)


class RepeatedProduct(RepeatedCalls):
    """`product` of float32, with bias and rectifier, by weights that a program does not assign.

    Args:
        weights: keeps the strips of the second matrix.
        rectify: whether results below 0 become 0.
        otherwise: what is done where this is another call than the one before: it may ask `first`.
    """

    __slots__ = ("_limits", "_rectifies", "_weights")

    def __init__(self, weights: PreparedWeights, rectify: bool, otherwise: Any) -> None:
        self._weights, self._rectifies = weights, rectify
        self._limits = np.float32(0 if rectify else -np.inf), np.float32(np.inf)
        super().__init__(otherwise)

    def _run(self, *operands: Any) -> Array | None:
        x, w, bias = (*operands, None)[:3]
        if x.ndim < 2 or not x.flags.c_contiguous:
            return None
        rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        start = None if bias is None else owned(bias)
        result = product(rows, w, start, self._rectifies, self._weights)
        if result is None or x.ndim == 2:
            return result
        return result.reshape(*x.shape[:-1], -1)

    def _plan(self, *operands: Any) -> Any:
        return product_call(operands, operands[1].shape[1], self._weights, self._limits)


def product_call(
    operands: tuple[Any, ...], columns: int, weights: PreparedWeights, limits: Any
) -> Any:
    """A planned call of a product that was done, `None` where weights are copied at each call.

    Args:
        operands: input, weights (also with further axes of 1 in front), bias, factor, shift and
            residual; as many as further calls have, `None` for those that there are not.
        columns: of the matrix that weights are.
        weights: keeps strips of them.
        limits: the smallest and the largest result.
    """
    x, w = operands[:2]
    bias, factor, shift, residual = (*operands[2:], None, None, None, None)[:4]
    strips = weights.current(w, STRIPS)
    array = None if strips is None else strips.array
    if array is None:
        return None
    rows, depth = math.prod(x.shape[:-1]), x.shape[-1]
    y_shape, flat = (*x.shape[:-1], columns), (rows, columns)

    def shares() -> tuple[int, int, int, int]:
        return block_shares(rows, depth, columns)

    pool, blocks, height, width = shares()
    strip = block_columns() * _F32.itemsize * depth
    expected = (
        CalledArray((2,), (rows, depth), x.shape, is_copied=True),
        KeptWeights((3,), array.shape, strips),
        None if bias is None else CalledArray((4,), (columns,)),
        None if factor is None else CalledArray((5,), (columns,)),
        None if shift is None else CalledArray((6,), (columns,)),
        None if residual is None else CalledArray((7,), flat, y_shape),
    )
    arguments = (
        pool, blocks, None, None, EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_MATRIX, None,
        height, width, strip, panel_columns(), *limits,
    )  # fmt: skip
    # how many threads there are is asked anew
    is_shared = is_worth_threads(rows, depth, columns)
    plan = CallPlan(
        FINISHED, (), arguments, expected[: len(operands)], NewArray(8, flat, y_shape),
        # pool, blocks, and rows and columns of each
        fresh=((0, 1, 9, 10), shares) if is_shared else None,
    )  # fmt: skip
    return plan_call(plan)
