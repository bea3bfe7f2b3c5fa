"""LU factors as TensorFlow gives them, square roots and logarithms of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.creation import eye, ones, zeros
from trainkit.ops.arrays.diagonals import tril, triu
from trainkit.ops.arrays.ordering import invert_permutation
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.sorting import argsort
from trainkit.ops.core.batch_gathering import gather
from trainkit.ops.indexing.gathering import take
from trainkit.ops.linear_algebra.factorizations import lu_factor, pivots_to_permutation
from trainkit.ops.linear_algebra.linear_solve import det, inv, solve, solve_triangular
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.linear_algebra.matrices import matrices
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    multiply,
    power,
    square,
    subtract,
)
from trainkit.ops.math.max_and_argmax import argmax

# ---------------------------------------------------------------------- LU


def lu(
    input: TensorLike, output_idx_type: Any = "int32", name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Lower times upper triangular matrices, after a permutation of rows.

    Args:
        input: (..., n, n).
        output_idx_type: dtype of the permutation, int32 or int64.

    Returns:
        `lu` (..., n, n): the upper factor, and below the diagonal the lower one, whose diagonal is
        1; and `p` (..., n): row i of lower @ upper is row `p[i]` of the input.

    Raises:
        InvalidArgumentError: a matrix is singular.
        ShapeError: the matrices are not square.

    Example:
        >>> factors, order = tk.linalg.lu([[0.0, 2.0], [4.0, 8.0]])
        >>> factors.numpy(), order.numpy()
        (array([[4., 8.],
               [0., 2.]], dtype=float32), array([1, 0], dtype=int32))
    """
    packed, pivots = lu_factor(matrices(input, "lu", square=True))
    order = pivots_to_permutation(pivots)
    # Without rows there is no place of a one in them.
    permutation = zeros(pivots.shape) if order.shape[-1] == 0 else argmax(order, axis=-2)
    return packed, cast(permutation, output_idx_type)


def _triangles(lower_upper: Any) -> tuple[Tensor, Tensor]:
    packed = convert_to_tensor(lower_upper)
    if len(packed.shape) < 2 or packed.shape[-1] != packed.shape[-2]:
        raise ShapeError(f"lower_upper must be (..., n, n), got shape {tuple(packed.shape)}")
    unit = eye(packed.shape[-1], dtype=packed.dtype)
    return add(tril(packed, -1), unit), triu(packed)


def _rows(x: Tensor, order: Any) -> Tensor:
    """The rows of matrices (..., n, k) in the order (..., n)."""
    order = convert_to_tensor(order)
    if len(order.shape) == 1:
        return take(x, order, axis=-2)
    return gather(x, order, axis=len(order.shape) - 1, batch_dims=len(order.shape) - 1)


def _invert(perm: Any) -> Tensor:
    order = convert_to_tensor(perm)
    return invert_permutation(order) if len(order.shape) == 1 else argsort(order)


def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The matrices that `lu` was called with, from its two results.

    `validate_args` changes nothing: shapes are always looked at.

    Args:
        lower_upper: (..., n, n), as `lu` gives it.
        perm: (..., n), as `lu` gives it.
        validate_args: changes nothing: shapes are always looked at.

    Example:
        >>> tk.linalg.lu_reconstruct(*tk.linalg.lu([[0.0, 2.0], [4.0, 8.0]])).numpy()
        array([[0., 2.],
               [4., 8.]], dtype=float32)
    """
    lower, upper = _triangles(lower_upper)
    return _rows(matmul(lower, upper), _invert(perm))


def lu_solve(
    lower_upper: Any,
    perm: Any,
    rhs: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """`x` with matrix @ x = rhs (..., n, k), from the two results of `lu`.

    `validate_args` changes nothing: shapes are always looked at.

    Args:
        lower_upper: (..., n, n), as `lu` gives it.
        perm: (..., n), as `lu` gives it.
        rhs: (..., n, k).
        validate_args: changes nothing: shapes are always looked at.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> factors, order = tk.linalg.lu([[2.0, 0.0], [0.0, 4.0]])
        >>> tk.linalg.lu_solve(factors, order, [[2.0], [8.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    lower, upper = _triangles(lower_upper)
    right = convert_to_tensor(rhs)
    if len(right.shape) < 2 or right.shape[-2] != lower.shape[-1]:
        raise ShapeError(
            f"lu_solve: rhs must be (..., {lower.shape[-1]}, k), got shape {tuple(right.shape)}"
        )
    order = convert_to_tensor(perm)
    if len(right.shape) < len(lower.shape):
        right = broadcast_to(right, (*lower.shape[:-2], *right.shape[-2:]))
    inner = solve_triangular(lower, _rows(right, order), lower=True)
    return solve_triangular(upper, inner, lower=False)


def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The inverse matrices, from the two results of `lu`; `validate_args` changes nothing.

    Args:
        lower_upper: (..., n, n), as `lu` gives it.
        perm: (..., n), as `lu` gives it.
        validate_args: changes nothing: shapes are always looked at.

    Example:
        >>> tk.linalg.lu_matrix_inverse(*tk.linalg.lu([[2.0, 0.0], [0.0, 4.0]])).numpy()
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    packed = convert_to_tensor(lower_upper)
    unit = broadcast_to(eye(packed.shape[-1], dtype=packed.dtype), packed.shape)
    return lu_solve(packed, perm, unit)


# ---------------------------------------------------------------------- roots and logarithms

_ROOT_STEPS = 14


_ROOTS = 8


_NODES = 8


def _as_complex128(matrix: Any, op: str) -> tuple[Tensor, Any]:
    """The matrices in the widest dtype of their kind, and their own dtype."""
    x = convert_to_tensor(matrix)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{op}: needs square matrices (..., n, n), got shape {tuple(x.shape)}")
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise InvalidArgumentError(f"{op}: needs floats or complex numbers, got {x.dtype.name}")
    return cast(x, "complex128" if x.dtype.is_complex else "float64"), x.dtype


def _root(x: Tensor) -> Tensor:
    """The principal square root by the product form of the Denman-Beavers iteration.

    Source: Higham 2008, "Functions of Matrices", equation 6.29, scaled by determinants (6.31).
    """
    n = x.shape[-1]
    if n == 0:
        return x
    unit = eye(n, dtype=x.dtype)
    m, y = x, x
    for step in range(_ROOT_STEPS):
        if step < _ROOT_STEPS // 2:
            size = absolute(det(m))
            scale = cast(power(size, -0.5 / n), x.dtype)
        else:
            scale = ones(x.shape[:-2], dtype=x.dtype)
        scale = reshape(scale, (*x.shape[:-2], 1, 1))
        inverse = divide(inv(m), square(scale))
        y = multiply(matmul(y, add(unit, inverse)), 0.5 * scale)
        m = multiply(square(scale), m)
        m = add(multiply(unit, 0.5), multiply(add(m, inverse), 0.25))
    return y


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """The principal square roots: root @ root = input, eigenvalues with positive real parts.

    Source: Higham 2008, "Functions of Matrices", chapter 6. Gradients go through the iteration.

    Args:
        input: (..., n, n), floating or complex, with no eigenvalue on the negative real axis or 0.

    Raises:
        InvalidArgumentError: a matrix is singular, has no such root, or holds NaN or infinity.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).numpy().round(4)
        array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    x, dtype = _as_complex128(input, "sqrtm")
    if hasattr(x, "_array") and not np.isfinite(x.numpy()).all():
        raise InvalidArgumentError("sqrtm: a matrix holds NaN or infinity, so it has no root")
    root = _root(x)
    if hasattr(root, "_array"):
        _check_root(x.numpy(), root.numpy(), dtype)
    return cast(root, dtype)


def _check_root(x: Any, root: Any, dtype: Any) -> None:
    error = np.abs(root @ root - x).max(initial=0)
    if not error <= 1e-4 * (1 + np.abs(x).max(initial=0)):
        raise InvalidArgumentError(
            "sqrtm: an eigenvalue lies on the negative real axis, where there is no principal "
            f"root in {dtype.name} (root @ root is off by {error:g})"
        )


matrix_square_root = sqrtm


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """The principal logarithms: the inverse of `expm`.

    Square roots until the matrix is near 1, then a Pade approximant as a sum of partial fractions.
    Source: Higham 2008, "Functions of Matrices", equations 11.17 and 11.18. Gradients go through.

    Args:
        input: (..., n, n), floating or complex, with no eigenvalue on the negative real axis or 0.

    Raises:
        InvalidArgumentError: a matrix is singular.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.linalg.logm([[1.0, 0.0], [0.0, 1.0]]).numpy()
        array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    x, dtype = _as_complex128(input, "logm")
    for _ in range(_ROOTS):
        x = _root(x)
    unit = eye(x.shape[-1], dtype=x.dtype)
    residual = subtract(x, unit)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    total: Any = None
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        part = solve(add(unit, multiply(residual, float(node))), residual)
        part = multiply(part, float(weight))
        total = part if total is None else add(total, part)
    return cast(multiply(total, 2.0**_ROOTS), dtype)
