"""Products of matrices and tensors: matmul, dot, tensordot, inner, outer, cross.

float16 and bfloat16 are multiplied in float32 on the CPU, whose BLAS has no shorter type, and
rounded once at the end. Integers wrap around as their type does; int8 times int8 gives int32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.callables import MOST_BY_DOT
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dtypes import DType
from trainkit.core.errors import ShapeError
from trainkit.core.facets import COMMON, PRODUCT
from trainkit.core.native import A, B, G, Step
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import PRIMITIVES, Tensor
from trainkit.kernels import products_gpu
from trainkit.ops.elementwise import along, cast, conjugated, multiply
from trainkit.ops.later import Bound
from trainkit.ops.one_node import sizes_later
from trainkit.ops.shaping import as_tensor, expand_dims, reshape, squeeze, swap_last_axes

SHORT_FLOATS = frozenset(d.dtype for d in (dtypes.float16, dtypes.bfloat16))
_INT8 = np.dtype(np.int8)
_BY_DOT = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64))


def product_dtype(*inputs: Any) -> DType:
    """The type of a product: that to which the inputs promote, int32 for int8 alone."""
    joined = dtypes.result_type(*inputs)
    return dtypes.int32 if joined == dtypes.int8 else joined


def _matmul_rule(a: Spec, b: Spec) -> Spec:
    return Spec(shapes.matmul_dims(a.shape, b.shape), product_dtype(a, b))


@primitive(_matmul_rule, promotion=COMMON, semantics=PRODUCT, graph_name="MatMul")
def matmul(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Matrix product of the last two axes; the leading axes broadcast.

    Shapes: `x1` (..., n, m) and `x2` (..., m, p) give (..., n, p). A vector `x1` counts as (1, m),
    a vector `x2` as (m, 1); the axis that was added is not in the result. The dtype is that to
    which the inputs promote; int8 gives int32. Raises `ShapeError` when the inner sizes differ or
    an input is a scalar.
    """
    dtype = x1.dtype
    if xp is np and x1.ndim == 2 == x2.ndim and dtype in _BY_DOT:
        if 1 < x1.size <= MOST_BY_DOT >= x2.size and x1.flags.forc and x2.flags.forc:
            return x1.dot(x2)  # `product`, without its call
        return np.matmul(x1, x2)
    if dtype in SHORT_FLOATS and xp is np:
        wide = _matmul(np, x1.astype(np.float32), x2.astype(np.float32))
        return wide.astype(dtype)
    if dtype is _INT8 or dtype == _INT8:
        return _matmul(xp, x1.astype(np.int32), x2.astype(np.int32))
    return _matmul(xp, x1, x2)


def product(a: Array, b: Array) -> Array:
    """`np.matmul` of two NumPy matrices of one dtype in `_BY_DOT`, bit for bit.

    For small ones in a third of its time: `dot` makes the same call of BLAS without the machinery
    of ufuncs. Only of two single numbers it keeps the sign of a zero, which `matmul` does not.
    """
    if 1 < a.size <= MOST_BY_DOT >= b.size and a.flags.forc and b.flags.forc:
        return a.dot(b)
    return np.matmul(a, b)


def _matmul(xp: ArrayModule, a: Array, b: Array) -> Array:
    if (
        a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous
    ):  # one large product, not many small ones
        rows = math.prod(a.shape[:-1])
        if a.shape[-1] == b.shape[0]:
            product = products_gpu.matmul(xp, a.reshape(rows, a.shape[-1]), b)
            return product.reshape((*a.shape[:-1], b.shape[1]))
    return products_gpu.matmul(xp, a, b)


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
        return matmul(reshape(g, (-1,)), rows)  # type: ignore[no-any-return]
    return matmul(swap_last_axes(rows), reshape(g, (-1, g.shape[-1])))  # type: ignore[no-any-return]


def _summed_like(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the batch axes along which `x` was broadcast."""
    if type(g) is Tensor and type(x) is Tensor:
        if g._array.shape == x._array.shape:
            return g
    elif tuple(g.shape) == tuple(x.shape) and None not in g.shape:
        return g
    result: Tensor = PRIMITIVES["sum_to_like"].op(g, x)
    return result


def _of_matrices_1(g: Array, y: Array, a: Array, b: Array) -> Any:
    return product(g, b.T) if a.ndim == 2 == b.ndim else NotImplemented


def _of_matrices_2(g: Array, y: Array, a: Array, b: Array) -> Any:
    return product(a.T, g) if a.ndim == 2 == b.ndim else NotImplemented


_of_matrices_1.steps = [  # type: ignore[attr-defined]
    Step("product", MOST_BY_DOT, (G, B), settings={"turned": (False, True)})
]
_of_matrices_2.steps = [  # type: ignore[attr-defined]
    Step("product", MOST_BY_DOT, (A, G), settings={"turned": (True, False)})
]
matmul.gradients(_matmul_gradient_1, _matmul_gradient_2)
matmul.array_gradients(_of_matrices_1, _of_matrices_2)


# ------------------------------------------------------------------ other products


def dot(x1: Any, x2: Any) -> Tensor:
    """Dot product: the last axis of `x1` with the second to last (of a vector: the only) of `x2`.

    Args:
        x1: tensor (..., m); a scalar multiplies.
        x2: tensor (..., m, p) or (m,); a scalar multiplies.

    Returns:
        A tensor of shape `x1.shape[:-1] + x2.shape[:-2] + x2.shape[-1:]`.

    Raises:
        ShapeError: the sizes of the joined axes differ.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank_a, rank_b = len(a.shape), len(b.shape)
    if not rank_a or not rank_b:
        return multiply(a, b)  # type: ignore[no-any-return]
    if rank_b <= 2:
        return _kept_short(matmul(a, b), a, b)
    return tensordot(a, b, axes=((rank_a - 1,), (rank_b - 2,)))


def _kept_short(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`y` as int8 if the inputs promote to it; only `matmul` and `einsum` widen it, as in Keras."""
    if y.dtype == dtypes.int32 and dtypes.result_type(a, b) == dtypes.int8:
        return cast(y, dtypes.int8)
    return y


def vdot(x1: Any, x2: Any) -> Tensor:
    """Sum of the products of all elements; the first tensor is conjugated. A scalar tensor.

    Raises:
        ShapeError: the numbers of elements differ.
    """
    a = reshape(x1, (-1,))
    b = reshape(x2, (-1,))
    return _kept_short(matmul(conjugated(a), b), a, b)


def inner(x1: Any, x2: Any) -> Tensor:
    """Sum of products over the last axis of both.

    Args:
        x1: tensor (...a, m); a scalar multiplies.
        x2: tensor (...b, m); a scalar multiplies.

    Returns:
        A tensor (...a, ...b).

    Raises:
        ShapeError: the last sizes differ.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if not len(a.shape) or not len(b.shape):
        return multiply(a, b)  # type: ignore[no-any-return]
    return tensordot(a, b, axes=((len(a.shape) - 1,), (len(b.shape) - 1,)))


def outer(x1: Any, x2: Any) -> Tensor:
    """All products of an element of `x1` with one of `x2`: a matrix (x1.size, x2.size)."""
    a, b = reshape(x1, (-1, 1)), reshape(x2, (1, -1))
    return multiply(a, b)  # type: ignore[no-any-return]


def _kron_spec(a: Bound) -> Any:
    x, y = as_tensor(a["x1"]), as_tensor(a["x2"])
    rank = max(len(x.shape), len(y.shape))
    pairs = zip(*((1,) * (rank - len(z.shape)) + tuple(z.shape) for z in (x, y)), strict=True)
    dims = [None if None in pair else pair[0] * pair[1] for pair in pairs]
    return Spec(dims, dtypes.result_type(x, y)) if None in dims else None


@sizes_later("numpy.kron", _kron_spec)
def kron(x1: Any, x2: Any) -> Tensor:
    """Kronecker product: `x2` laid out once for each element of `x1`, multiplied by it.

    Args:
        x1: tensor of any shape; the one of lower rank gets axes of size 1 in front.
        x2: tensor of any shape.

    Returns:
        A tensor whose sizes are the products of theirs.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    rank = max(len(a.shape), len(b.shape))
    dims_a = (1,) * (rank - len(a.shape)) + tuple(a.shape)
    dims_b = (1,) * (rank - len(b.shape)) + tuple(b.shape)
    spread_a = reshape(a, [k for n in dims_a for k in (n, 1)])
    spread_b = reshape(b, [k for n in dims_b for k in (1, n)])
    return reshape(
        multiply(spread_a, spread_b), [n * m for n, m in zip(dims_a, dims_b, strict=True)]
    )


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """Sum of products over pairs of axes.

    Args:
        x1: tensor of any shape.
        x2: tensor of any shape.
        axes: an int n, for the last n axes of `x1` with the first n of `x2`; or two axes, or two
            sequences of axes, one for each tensor.

    Returns:
        A tensor with the other axes of `x1`, then those of `x2`.

    Raises:
        ShapeError: joined sizes differ, the numbers of axes differ, or an axis is out of range.
    """
    from trainkit.ops.contraction import labels, product_of_two

    a, b = as_tensor(x1), as_tensor(x2)
    of_a, of_b = _paired_axes(axes, len(a.shape), len(b.shape))
    names = labels(len(a.shape) + len(b.shape))
    for_a = names[: len(a.shape)]
    for_b = names[len(a.shape) :]
    for i, j in zip(of_a, of_b, strict=True):
        n, m = a.shape[i], b.shape[j]
        if None not in (n, m) and n != m:
            raise ShapeError(
                f"tensordot: axis {i} of x1 has size {n}, axis {j} of x2 has {m}\n"
                f"  x1  {tuple(a.shape)}\n  x2  {tuple(b.shape)}"
            )
        for_b[j] = for_a[i]
    kept = [s for i, s in enumerate(for_a) if i not in of_a]
    kept += [s for j, s in enumerate(for_b) if j not in of_b]
    product = product_of_two(a, b, "".join(for_a), "".join(for_b), "".join(kept))
    return _kept_short(product, a, b)


def _paired_axes(axes: Any, rank_a: int, rank_b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(rank_a, rank_b):
            raise ShapeError(
                f"tensordot: can't join {count} axes of tensors of rank {rank_a} and {rank_b}"
            )
        return tuple(range(rank_a - count, rank_a)), tuple(range(count))
    if len(axes) != 2:
        raise ShapeError(f"tensordot: axes must be an int or a pair, got {axes!r}")
    of_a = shapes.canonical_axes(axes[0], rank_a, "tensordot")
    of_b = shapes.canonical_axes(axes[1], rank_b, "tensordot")
    if len(of_a) != len(of_b):
        raise ShapeError(f"tensordot: {len(of_a)} axes of x1 and {len(of_b)} of x2 can't be paired")
    return of_a, of_b
