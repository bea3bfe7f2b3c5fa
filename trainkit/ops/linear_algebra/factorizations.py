"""Matrices as products: cholesky, QR, LU, eigenvalues, singular values.

Gradients by matrix calculus; sources: Giles 2008, "An extended collection of matrix derivative
results"; Murray 2016, arXiv:1602.07527 (cholesky); Walter and Lehmann 2018 (QR), doi
10.1016/j.procs.2018.08.242; Boeddeker et al. 2017, arXiv:1701.00392 (eigenvalues). Where two
eigenvalues or singular values are equal, the vectors have no derivative; their share of the
gradient is left out there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule, to_numpy
from trainkit.core.dispatch.facets import INDEXING, INTEGERS, LEADING_AXES, MATRIX
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.linear_algebra import lapack_tuned
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import eye, zeros_like
from trainkit.ops.arrays.diagonals import diagonal, matrix_with_diagonal, tril, triu
from trainkit.ops.linear_algebra.linear_solve import _solve_triangular as solved
from trainkit.ops.linear_algebra.linear_solve import solve
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.linear_algebra.matrices import (
    adjoint,
    call,
    lapack,
    like_matrices,
    matrices,
    nan_where_lapack_fails,
    safe_reciprocal,
    times,
)
from trainkit.ops.math.complex_parts import real
from trainkit.ops.math.elementwise import add, cast, conjugated, log, multiply, subtract
from trainkit.ops.math.reductions import sum as sum_

# ------------------------------------------------------------------ cholesky


@primitive(like_matrices, name="cholesky", semantics=MATRIX, tuned=lapack_tuned.CHOLESKY)
@lapack("Cholesky decomposition was not successful. The input is not positive definite.")
def _cholesky(xp: ArrayModule, x: Array, *, or_nan: bool = False) -> Array:
    """The lower triangular matrices whose product with their adjoint is `x`.

    For a matrix that has none an error, or with `or_nan` NaN in the place of that matrix alone.
    """
    try:
        y = xp.linalg.cholesky(x)
        if xp is not np and not xp.isfinite(y).all():
            raise np.linalg.LinAlgError("Matrix is not positive definite")
    except np.linalg.LinAlgError:
        if not or_nan:
            raise
        y = nan_where_lapack_fails(xp, xp.linalg.cholesky, x)
    return y


def _halve(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal."""
    line = matrix_with_diagonal(diagonal(x, axis1=-2, axis2=-1), k=0)
    return subtract(tril(x), multiply(line, 0.5))


def _cholesky_gradient(g: Tensor, y: Tensor, x: Tensor, *, or_nan: bool = False) -> Tensor:
    yt = adjoint(y)
    inner = _halve(matmul(yt, tril(g)))
    left = solved(yt, inner, lower=False)
    both = adjoint(solved(yt, adjoint(left), lower=False))
    return multiply(add(both, adjoint(both)), 0.5)


_cholesky.gradients(_cholesky_gradient)


def cholesky(x: TensorLike, upper: bool = False) -> Tensor:
    """The triangular factors L of symmetric positive definite matrices: x = L @ transpose(L).

    Only the lower triangles are looked at. The gradient is symmetric.

    Args:
        x: tensor (..., n, n); integers become the default float.
        upper: give the transposed factors, with x = transpose(U) @ U.

    Returns:
        A tensor (..., n, n).

    Raises:
        InvalidArgumentError: a matrix is not positive definite.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.cholesky([[4.0, 0.0], [0.0, 9.0]]).numpy()
        array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    lower: Tensor = _cholesky(matrices(x, "cholesky", square=True))
    return adjoint(lower) if upper else lower


def cholesky_inverse(x: TensorLike, upper: bool = False) -> Tensor:
    """The inverses of positive definite matrices from their triangular factors.

    Args:
        x: factors L (..., n, n), such that the matrices are L @ transpose(L).
        upper: `x` are upper triangular, such that the matrices are transpose(U) @ U.

    Returns:
        A tensor (..., n, n).

    Raises:
        InvalidArgumentError: a factor has a 0 on its diagonal.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.cholesky_inverse([[2.0, 0.0], [0.0, 4.0]]).numpy()
        array([[0.25  , 0.    ],
               [0.    , 0.0625]], dtype=float32)
    """
    factor = matrices(x, "cholesky_inverse", square=True)
    unit = zeros_like(factor) + eye(_size(factor, "cholesky_inverse"), dtype=factor.dtype)
    y = solved(factor, unit, lower=not upper)
    return matmul(y, adjoint(y)) if upper else matmul(adjoint(y), y)


def _sides(x: Tensor, op: str) -> tuple[int, int]:
    rows, columns = x.shape[-2:]
    if rows is None or columns is None:
        raise InvalidArgumentError(
            f"{op}: the gradient needs matrices of known size, got shape {tuple(x.shape)}"
        )
    return int(rows), int(columns)


def _size(x: Tensor, op: str) -> int:
    n = x.shape[-1] if x.shape[-1] is not None else x.shape[-2]
    if n is None:
        raise InvalidArgumentError(
            f"{op}: needs matrices of known size, got shape {tuple(x.shape)}"
        )
    return int(n)


def logdet(x: TensorLike) -> Tensor:
    """The logarithms of the determinants of symmetric positive definite matrices.

    By the Cholesky factors; only the lower triangles are looked at, and the gradient is symmetric.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        A tensor (...) of real numbers, NaN where a matrix is not positive definite.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.logdet([[2.0, 0.0], [0.0, 2.0]]).numpy().round(4)
        np.float32(1.3863)
    """
    factor: Tensor = _cholesky(matrices(x, "logdet", square=True), or_nan=True)
    line = real(diagonal(factor, axis1=-2, axis2=-1))
    return multiply(sum_(log(line), axis=-1), 2.0)


# ------------------------------------------------------------------ QR


def _qr_rule(x: Spec, *, mode: str) -> Any:
    *batch, n, m = x.shape
    k = None if n is None or m is None else min(n, m)
    if mode == "complete":
        return Spec((*batch, n, n), x.dtype), Spec((*batch, n, m), x.dtype)
    return Spec((*batch, n, k), x.dtype), Spec((*batch, k, m), x.dtype)


@primitive(_qr_rule, name="qr", semantics=MATRIX, tuned=lapack_tuned.QR)
@lapack("the QR decomposition failed")
def _qr(xp: ArrayModule, x: Array, *, mode: str) -> Any:
    """Orthogonal times upper triangular matrices."""
    q, r = xp.linalg.qr(x, mode)
    return q, r


def _qr_gradient(g: Any, y: Any, x: Tensor, *, mode: str) -> Tensor:
    n, m = x.shape[-2:]
    if None in (n, m):
        raise UnimplementedError(f"qr: the gradient needs known sizes, got shape {tuple(x.shape)}")
    if mode == "complete" and n > m:
        raise UnimplementedError(
            f"qr: in mode 'complete' matrices of shape {(n, m)} have no gradient, for the last "
            f"{n - m} columns of q are arbitrary; use mode='reduced'"
        )
    (gq, gr), (q, r) = g, y
    if n >= m:
        return _qr_tall_gradient(gq, gr, q, r)
    right = x[..., n:]
    gq = add(gq, matmul(right, adjoint(gr[..., n:])))
    first = _qr_tall_gradient(gq, gr[..., :n], q, r[..., :n])
    return concatenate([first, matmul(q, gr[..., n:])], axis=-1)


def _qr_tall_gradient(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = subtract(matmul(r, adjoint(gr)), matmul(adjoint(gq), q))
    lower = tril(inner, -1)
    line = matrix_with_diagonal(diagonal(inner, axis1=-2, axis2=-1), k=0)
    symmetric = add(add(lower, adjoint(lower)), line)
    total = add(gq, matmul(q, symmetric))
    return adjoint(solved(r, adjoint(total), lower=False))


_qr.gradients(_qr_gradient)


def qr(x: TensorLike, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Orthogonal matrices q and upper triangular ones r with q @ r = x.

    Args:
        x: tensor (..., n, m); integers become the default float.
        mode: `"reduced"` for q (..., n, k) and r (..., k, m) with k = min(n, m), or `"complete"`
            for q (..., n, n) and r (..., n, m).

    Returns:
        `q` and `r`.

    Raises:
        ValueError: `mode` is another one.
        ShapeError: `x` has fewer than two axes.
        UnimplementedError: the gradient of mode `"complete"` with n > m.

    Example:
        >>> q, r = tk.ops.qr([[1.0, 2.0], [3.0, 4.0]])
        >>> (q @ r).numpy().round(4)
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    q, r = _qr(matrices(x, "qr"), mode=mode)
    return q, r


# ------------------------------------------------------------------ LU


def _lu_rule(x: Spec) -> Any:
    rows, columns = x.shape[-2:]
    short = None if rows is None or columns is None else min(rows, columns)
    return Spec(x.shape, x.dtype), Spec((*x.shape[:-2], short), dtypes.int32)


@primitive(_lu_rule, name="lu_factor", semantics=MATRIX, tuned=lapack_tuned.LU)
@lapack("Input is not invertible.")
def _lu_factor(xp: ArrayModule, x: Array) -> Any:
    """Both triangles in one matrix, and the row that each row was exchanged with."""
    work = np.array(to_numpy(x))
    flat = work.reshape(math.prod(work.shape[:-2]), *work.shape[-2:])
    short = min(work.shape[-2:])
    pivots = np.empty((len(flat), short), np.int32)
    every = np.arange(len(flat))
    for k in range(short):
        best = k + abs(flat[:, k:, k]).argmax(axis=1)
        pivots[:, k] = best
        rows = flat[every, best].copy()
        flat[every, best] = flat[:, k]
        flat[:, k] = rows
        if not flat[:, k, k].all():
            raise np.linalg.LinAlgError("Singular matrix")
        flat[:, k + 1 :, k] /= flat[:, k, None, k]
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    return xp.asarray(work), xp.asarray(pivots.reshape(*work.shape[:-2], short))


def _permutation_rule(pivots: Spec, *, rows: int | None = None) -> Spec:
    rows = pivots.shape[-1] if rows is None else rows
    return Spec((*pivots.shape[:-1], rows, rows), dtypes.float32)


@primitive(
    _permutation_rule, semantics=INDEXING, no_gradient=INTEGERS, tuned=lapack_tuned.PERMUTATION
)
def pivots_to_permutation(xp: ArrayModule, pivots: Array, *, rows: int | None = None) -> Array:
    """The matrices p with p @ l @ u = x for the exchanges of rows that `lu_factor` made.

    `rows` is the number of rows of x; without it x is square.
    """
    exchanges = to_numpy(pivots).reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    rows = pivots.shape[-1] if rows is None else rows
    order = np.tile(np.arange(rows), (len(exchanges), 1))
    every = np.arange(len(exchanges))
    for k in range(pivots.shape[-1]):
        other = exchanges[:, k]
        displaced = order[:, k].copy()
        order[:, k] = order[every, other]
        order[every, other] = displaced
    permutations = np.zeros((*order.shape, order.shape[-1]), np.float32)
    np.put_along_axis(permutations, order[:, None, :], 1.0, axis=1)
    return xp.asarray(permutations.reshape((*pivots.shape[:-1], rows, rows)))


pivots_to_permutation.declare(batch=LEADING_AXES)


def _lu_gradient(g: Any, y: Any, x: Tensor) -> Tensor:
    """The square part has the known rule; what lies below or beside it adds to that part's.

    Below, `x2 = l2 @ u`; beside, `x2 = l @ u2`: both are solutions with a triangle.
    """
    packed, pivots = y
    rows, columns = _sides(x, "lu_factor")
    n = min(rows, columns)
    g, square = g[0], packed[..., :n, :n]
    lower, upper = add(tril(square, -1), eye(n, dtype=x.dtype)), triu(square)
    lower_t, upper_t = adjoint(lower), adjoint(upper)
    to_lower, to_upper = tril(g[..., :n, :n], -1), triu(g[..., :n, :n])
    border = None
    if rows > n:
        border = adjoint(solved(upper, adjoint(g[..., n:, :]), lower=False))
        to_upper = subtract(to_upper, triu(matmul(adjoint(packed[..., n:, :]), border)))
    elif columns > n:
        border = solved(lower_t, g[..., n:], lower=False)
        to_lower = subtract(to_lower, tril(matmul(border, adjoint(packed[..., n:])), -1))
    inner = add(tril(matmul(lower_t, to_lower), -1), triu(matmul(to_upper, upper_t)))
    inner = solved(lower_t, inner, lower=False)
    inner = adjoint(solved(upper, adjoint(inner), lower=False))
    if border is not None:
        inner = concatenate([inner, border], axis=-2 if rows > n else -1)
    order = cast(pivots_to_permutation(pivots, rows=rows), x.dtype)
    return matmul(order, inner)


_lu_factor.gradients(_lu_gradient)


def lu_factor(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Lower times upper triangular matrices, after exchanges of rows.

    Args:
        x: tensor (..., n, m); integers become the default float.

    Returns:
        `lu` (..., n, m): the upper factor, and below the diagonal the lower one, whose diagonal is
        1; and `pivots` (..., min(n, m)), int32: row i was exchanged with row `pivots[i]`, one after
        the other.

    Raises:
        InvalidArgumentError: a matrix has not the full rank min(n, m), or the first columns of a
            wide one do not.
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> factors, pivots = tk.ops.lu_factor([[4.0, 2.0], [2.0, 3.0]])
        >>> factors.numpy()
        array([[4. , 2. ],
               [0.5, 2. ]], dtype=float32)
    """
    packed, pivots = _lu_factor(matrices(x, "lu_factor"))
    return packed, pivots


# ------------------------------------------------------------------ eigenvalues


def _eigh_rule(x: Spec) -> Any:
    return Spec(x.shape[:-1], x.dtype.real_dtype), Spec(x.shape, x.dtype)


@primitive(_eigh_rule, name="eigh", semantics=MATRIX)
@lapack("Self-adjoint eigen decomposition did not converge.")
def _eigh(xp: ArrayModule, x: Array) -> Any:
    """Eigenvalues, least first, and eigenvectors of symmetric matrices."""
    w, v = xp.linalg.eigh(x)
    return w, v


def _gaps(w: Tensor) -> Tensor:
    """1 / (w[j] - w[i]), and 0 where they are equal."""
    return safe_reciprocal(subtract(expand_dims(w, -2), expand_dims(w, -1)))


def _eigh_gradient(g: Any, y: Any, x: Tensor) -> Tensor:
    (gw, gv), (w, v) = g, y
    vt = adjoint(v)
    inner = multiply(cast(_gaps(w), v.dtype), matmul(vt, gv))
    inner = add(inner, matrix_with_diagonal(cast(gw, v.dtype), k=0))
    by_x = times(v, inner, vt)
    return _halve(add(by_x, adjoint(by_x)))  # only the lower triangle was looked at


_eigh.gradients(_eigh_gradient)


def eigh(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric (complex: Hermitian) matrices.

    Only the lower triangles are looked at, and only they get a gradient.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        `w` (..., n), least first, and `v` (..., n, n), whose columns are the eigenvectors.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> values, vectors = tk.ops.eigh([[2.0, 0.0], [0.0, 3.0]])
        >>> values.numpy()
        array([2., 3.], dtype=float32)
    """
    w, v = _eigh(matrices(x, "eigh", square=True))
    return w, v


def _complex_of(dtype: Any) -> str:
    return (
        "complex128" if dtypes.as_dtype(dtype).size >= 8 and dtype != "complex64" else "complex64"
    )


def _eig_rule(x: Spec) -> Any:
    dtype = _complex_of(x.dtype)
    return Spec(x.shape[:-1], dtype), Spec(x.shape, dtype)


@primitive(_eig_rule, name="eig", semantics=MATRIX)
@lapack("the eigenvalues did not converge")
def _eig(xp: ArrayModule, x: Array) -> Any:
    """Eigenvalues and eigenvectors, complex."""
    complex_dtype = np.complex128 if x.dtype in (np.float64, np.complex128) else np.complex64
    w, v = call(xp, "eig", x)
    return w.astype(complex_dtype), v.astype(complex_dtype)


def _eig_gradient(g: Any, y: Any, x: Tensor) -> Tensor:
    (gw, gv), (w, v) = g, y
    vt = adjoint(v)
    pulled = matmul(vt, gv)
    line = cast(real(diagonal(pulled, axis1=-2, axis2=-1)), v.dtype)
    free = subtract(pulled, multiply(matmul(vt, v), expand_dims(line, -2)))
    inner = add(multiply(conjugated(_gaps(w)), free), matrix_with_diagonal(gw, k=0))
    by_x = solve(vt, matmul(inner, vt))
    return by_x if x.dtype.is_complex else cast(real(by_x), x.dtype)


_eig.gradients(_eig_gradient)


def eig(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        `w` (..., n) in no particular order and `v` (..., n, n), whose columns are the
        eigenvectors, of length 1; both complex.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> values, vectors = tk.ops.eig([[2.0, 0.0], [0.0, 3.0]])
        >>> values.numpy().real
        array([2., 3.], dtype=float32)
    """
    w, v = _eig(matrices(x, "eig", square=True))
    return w, v
