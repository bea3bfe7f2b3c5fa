"""The product of matrices.

float16 and bfloat16 are summed in float32 on the CPU, and rounded once at the end, by kernels that
read them as they are. Integers wrap around as their type does; int8 times int8 gives int32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.eager import MOST_BY_DOT
from trainkit.core.dispatch.facets import COMMON, PRODUCT, Tuned
from trainkit.core.dispatch.formulas import ArrayCall
from trainkit.core.dispatch.native import A, B, G
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import DType, widen_halves
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.matmul import half_product_tuned, matmul_gpu, product_tuned
from trainkit.ops.arrays.axes import expand_dims, squeeze, swap_last_axes
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.vmap import ItemStack, aligned, reshaped, transposed
from trainkit.ops.math.elementwise import along, conjugated
from trainkit.ops.math.reductions import sum_to_like

SHORT_FLOATS = frozenset(d.dtype for d in (dtypes.float16, dtypes.bfloat16))
_INT8 = np.dtype(np.int8)
_EXACT_SUMS = 1 << 10
"""So many products of two int8 numbers are at most 2**24, up to which float32 has all integers."""

_BY_DOT = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64))


def product_dtype(*inputs: Any) -> DType:
    """The type of a product: that to which the inputs promote, int32 for int8 alone."""
    joined = dtypes.result_type(*inputs)
    return dtypes.int32 if joined == dtypes.int8 else joined


@primitive(
    lambda a, b: Spec(shapes.matmul_dims(a.shape, b.shape), product_dtype(a, b)),
    promotion=COMMON,
    semantics=PRODUCT,
    graph_name="MatMul",
    tuned=Tuned(
        product_tuned.product_of,
        fewest=product_tuned.FEWEST,
        fewest_beside=product_tuned.FEWEST_WEIGHTS,
        on_bfloat16=half_product_tuned.product_of,
        on_float16=half_product_tuned.product_of,
    ),
)
def matmul(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Matrix product of the last two axes; the leading axes broadcast.

    Shapes: `x1` (..., n, m) and `x2` (..., m, p) give (..., n, p). A vector `x1` counts as (1, m),
    a vector `x2` as (m, 1); the axis that was added is not in the result. The dtype is that to
    which the inputs promote; int8 gives int32. Raises `ShapeError` when the inner sizes differ or
    an input is a scalar.

    Example:
        >>> tk.ops.matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
        array([[11.]], dtype=float32)
    """
    dtype = x1.dtype
    if xp is np and x1.ndim == 2 == x2.ndim and dtype in _BY_DOT:
        if 1 < x1.size <= MOST_BY_DOT >= x2.size and x1.flags.forc and x2.flags.forc:
            return x1.dot(x2)  # `product`, without its call
        return np.matmul(x1, x2)
    if dtype in SHORT_FLOATS and xp is np:
        return dtypes.cast_array(_matmul(np, widen_halves(x1), widen_halves(x2)), dtype)
    if dtype is _INT8 or dtype == _INT8:
        return int8_sums(xp, x1, x2)
    return _matmul(xp, x1, x2)


def product(a: Array, b: Array) -> Array:
    """`np.matmul` of two NumPy matrices of one dtype in `_BY_DOT`, bit for bit.

    For small ones in a third of its time: `dot` makes the same call of BLAS without the machinery
    of ufuncs. Only of two single numbers it keeps the sign of a zero, which `matmul` does not.
    """
    if 1 < a.size <= MOST_BY_DOT >= b.size and a.flags.forc and b.flags.forc:
        return a.dot(b)
    return np.matmul(a, b)


def int8_sums(xp: ArrayModule, a: Array, b: Array) -> Array:
    """The product as int32, by BLAS in float32: sums of so few products are exact there."""
    if min(a.ndim, b.ndim) < 2:
        return _matmul(xp, a.astype(np.int32), b.astype(np.int32))
    total: Any = None
    for start in range(0, max(a.shape[-1], 1), _EXACT_SUMS):
        end = start + _EXACT_SUMS
        part = _matmul(
            xp, a[..., start:end].astype(np.float32), b[..., start:end, :].astype(np.float32)
        ).astype(np.int32)
        total = part if total is None else total + part
    return total


def _matmul(xp: ArrayModule, a: Array, b: Array) -> Array:
    if (
        a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous
    ):  # one large product, not many small ones
        rows = math.prod(a.shape[:-1])
        if a.shape[-1] == b.shape[0]:
            product = matmul_gpu.matmul(xp, a.reshape(rows, a.shape[-1]), b)
            return product.reshape((*a.shape[:-1], b.shape[1]))
    return matmul_gpu.matmul(xp, a, b)


def _matmul_gradient_1(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    rank_a, rank_b = len(a.shape), len(b.shape)
    if rank_b == 1:
        # y = sum over m of a[..., m] * b[m]
        return along(g if rank_a == 1 else expand_dims(g, -1), b)
    if rank_a == 1:
        g = expand_dims(g, -2)
    ga = matmul(g, swap_last_axes(conjugated(b)))
    if rank_a == 1:
        ga = squeeze(ga, -2)
    return _summed_like(ga, a)


def _matmul_gradient_2(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    rank_a, rank_b = len(a.shape), len(b.shape)
    if rank_a == 1:
        if rank_b == 1:
            return along(g, a)
        return _summed_like(along(expand_dims(g, -2), expand_dims(a, -1)), b)
    a = conjugated(a)
    if rank_b <= 2 < rank_a and None not in (a.shape[-1], g.shape[-1]):
        return _flat_product(a, g, rank_b)
    if rank_b == 1:
        return _summed_like(squeeze(matmul(swap_last_axes(a), expand_dims(g, -1)), -1), b)
    return _summed_like(matmul(swap_last_axes(a), g), b)


def _flat_product(a: Tensor, g: Tensor, rank: int) -> Tensor:
    """The gradient of `a @ b` by `b`, of rank 1 or 2: one product over the rows of all batches."""
    rows = reshape(a, (-1, a.shape[-1]))
    if rank == 1:
        return matmul(reshape(g, (-1,)), rows)
    return matmul(swap_last_axes(rows), reshape(g, (-1, g.shape[-1])))


def _summed_like(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the batch axes along which `x` was broadcast."""
    if type(g) is Tensor and type(x) is Tensor:
        if g._array.shape == x._array.shape:
            return g
    elif tuple(g.shape) == tuple(x.shape) and None not in g.shape:
        return g
    result: Tensor = sum_to_like(g, x)
    return result


def tuned_product(a: Array, b: Array) -> Array:
    """`product`, by the tuned kernel where that pays."""
    tuned = product_tuned.product(a, b) if a.size >= product_tuned.FEWEST else None
    return product(a, b) if tuned is None else tuned


def _of_matrices_1(g: Array, y: Array, a: Array, b: Array) -> Any:
    return tuned_product(g, b.T) if a.ndim == 2 == b.ndim else NotImplemented


def _of_matrices_2(g: Array, y: Array, a: Array, b: Array) -> Any:
    return tuned_product(a.T, g) if a.ndim == 2 == b.ndim else NotImplemented


_of_matrices_1.calls = [  # type: ignore[attr-defined]
    ArrayCall("product", (G, B), settings={"turned": (False, True)})
]
_of_matrices_2.calls = [  # type: ignore[attr-defined]
    ArrayCall("product", (A, G), settings={"turned": (True, False)})
]
matmul.gradients(_matmul_gradient_1, _matmul_gradient_2)
matmul.array_gradients(_of_matrices_1, _of_matrices_2)
matmul.declare(residuals=frozenset({0, 1}))


@matmul.batch_by
def _matmul_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """One large product, not many small ones, where a matrix is shared."""
    a, b = inputs
    rank_a, rank_b = len(a.shape), len(b.shape)
    if min(rank_a, rank_b) == 1:
        return _vector_stack(primitive, inputs, count)
    if not isinstance(b, ItemStack) and rank_b == 2:
        dims = tuple(a.stacked.shape)
        flat = reshaped(a.stacked, (-1, dims[-1]))
        return reshaped(primitive.op(flat, b), (*dims[:-1], b.shape[-1]))
    if not isinstance(a, ItemStack) and rank_a == rank_b == 2:
        n, m = b.shape
        columns = reshaped(transposed(b.stacked, (1, 0, 2)), (n, None if m is None else count * m))
        product = reshaped(primitive.op(a, columns), (a.shape[0], count, m))
        return transposed(product, (1, 0, 2))
    rank = max(rank_a, rank_b)
    return primitive.op(aligned(a, rank), aligned(b, rank))


def _vector_stack(primitive: Any, inputs: Any, count: int) -> Any:
    """Vectors are rows or columns, whose axis of size 1 the result does not have."""
    a, b = inputs
    rank_a, rank_b = len(a.shape), len(b.shape)
    rank = max(rank_a, rank_b, 2)
    one = _as_rows(a, rank) if rank_a == 1 else aligned(a, rank)
    two = _as_columns(b, rank) if rank_b == 1 else aligned(b, rank)
    y = primitive.op(one, two)
    dims = list(y.shape)
    if rank_b == 1:
        del dims[-1]
    if rank_a == 1:
        del dims[-1 if rank_b == 1 else -2]
    return reshaped(y, tuple(dims))


def _as_rows(x: Any, rank: int) -> Any:
    y = aligned(x, rank - 1)
    return reshaped(y, (*tuple(y.shape)[:-1], 1, y.shape[-1]))


def _as_columns(x: Any, rank: int) -> Any:
    y = aligned(x, rank - 1)
    return reshaped(y, (*tuple(y.shape), 1))
