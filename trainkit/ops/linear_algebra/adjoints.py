"""Products and solutions with matrices that may be transposed or conjugated first.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.axes import expand_dims, squeeze, swapaxes
from trainkit.ops.arrays.creation import eye
from trainkit.ops.linear_algebra.linear_solve import inv as inv_
from trainkit.ops.linear_algebra.linear_solve import lstsq as lstsq_
from trainkit.ops.linear_algebra.linear_solve import solve as solve_
from trainkit.ops.linear_algebra.linear_solve import solve_triangular
from trainkit.ops.linear_algebra.matmul import matmul as matmul_
from trainkit.ops.linear_algebra.singular_values import svd as svd_
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.complex_parts import conj
from trainkit.ops.math.elementwise import add, cast, multiply
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.reductions import sum as sum_


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Matrix product of the last two axes; the leading axes broadcast.

    Args:
        a: (..., n, m).
        b: (..., m, p).
        transpose_a: take `a` as (..., m, n).
        transpose_b: take `b` as (..., p, m).
        adjoint_a: transpose and conjugate `a`.
        adjoint_b: transpose and conjugate `b`.
        a_is_sparse: a hint that changes no result.
        b_is_sparse: a hint that changes no result.
        output_type: dtype of the result.

    Returns:
        (..., n, p).

    Raises:
        ShapeError: the inner sizes differ.
        ValueError: an input is to be transposed twice.

    Example:
        >>> a = tk.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tk.linalg.matmul(a, a).numpy()
        array([[ 7., 10.],
               [15., 22.]], dtype=float32)
        >>> tk.linalg.matmul(a, a, transpose_b=True).numpy()
        array([[ 5., 11.],
               [11., 25.]], dtype=float32)
    """
    if transpose_a or adjoint_a:
        a = _turn(a, transpose_a, adjoint_a)
    if transpose_b or adjoint_b:
        b = _turn(b, transpose_b, adjoint_b)
    y = matmul_(a, b)
    return y if output_type is None else cast(y, output_type)


def _turn(x: Any, transpose: bool, adjoint_: bool) -> Tensor:
    if transpose and adjoint_:
        raise ValueError("matmul: an input is transposed or adjoint, not both")
    return adjoint(x) if adjoint_ else swapaxes(x, -1, -2)


def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """(..., n, m) times (..., m): (..., n).

    Args:
        a: (..., n, m).
        b: (..., m).
        transpose_a: take `a` as (..., m, n).
        adjoint_a: transpose and conjugate `a`.
        a_is_sparse: a hint that changes no result.
        b_is_sparse: a hint that changes no result.

    Example:
        >>> tk.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy()
        array([3., 7.], dtype=float32)
    """
    return squeeze(matmul(a, expand_dims(b, -1), transpose_a=transpose_a, adjoint_a=adjoint_a), -1)


def matrix_transpose(a: TensorLike, name: str | None = None, conjugate: bool = False) -> Tensor:
    """The last two axes exchanged.

    Args:
        a: (..., m, n).
        conjugate: conjugate complex values, too.

    Example:
        >>> tk.linalg.matrix_transpose([[1.0, 2.0], [3.0, 4.0]]).numpy()
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """
    return adjoint(a) if conjugate else swapaxes(a, -1, -2)


def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The last two axes exchanged, values conjugated.

    Args:
        matrix: (..., m, n).

    Example:
        >>> tk.linalg.adjoint([[1.0 + 2.0j, 3.0]]).numpy()
        array([[1.-2.j],
               [3.-0.j]])
    """
    x = swapaxes(matrix, -1, -2)
    return conj(x) if x.dtype.is_complex else x


@overload
def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: Literal[True] = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    *,
    compute_uv: Literal[False],
    name: str | None = None,
) -> Tensor: ...
@overload
def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any: ...
def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any:
    """Singular values s, and u, v with tensor = u @ diag(s) @ adjoint(v), in this order.

    Args:
        tensor: (..., m, n).
        full_matrices: u (..., m, m) and v (..., n, n), rather than with min(m, n) columns.
        compute_uv: give u and v, not s alone.

    Example:
        >>> values, u, v = tk.linalg.svd([[3.0, 0.0], [0.0, 2.0]])
        >>> values.numpy().round(4)
        array([3., 2.], dtype=float32)
    """
    if not compute_uv:
        return svd_(tensor, full_matrices=full_matrices, compute_uv=False)
    u, s, vh = svd_(tensor, full_matrices=full_matrices)
    return s, u, adjoint(vh)


def solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """`x` with matrix @ x = rhs; matrix (..., n, n), rhs (..., n, k).

    Args:
        matrix: (..., n, n).
        rhs: (..., n, k).
        adjoint: solve with the adjoint matrices.

    Example:
        >>> tk.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [8.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    return solve_(_adjoint(matrix) if adjoint else matrix, rhs)


_adjoint = adjoint


def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of square matrices, or of their adjoints.

    Args:
        input: (..., n, n).
        adjoint: invert the adjoint matrices.

    Raises:
        InvalidArgumentError: a matrix is singular.

    Example:
        >>> tk.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    return inv_(_adjoint(input) if adjoint else input)


def triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """`x` with matrix @ x = rhs for a triangular matrix; the other triangle is not looked at.

    Args:
        matrix: (..., n, n).
        rhs: (..., n, k).
        lower: which triangle.
        adjoint: solve with the adjoint matrices.

    Example:
        >>> tk.linalg.triangular_solve([[2.0, 0.0], [1.0, 2.0]], [[2.0], [3.0]]).numpy()
        array([[1.],
               [1.]], dtype=float32)
    """
    if adjoint:
        return solve_triangular(_adjoint(matrix), rhs, lower=not lower)
    return solve_triangular(matrix, rhs, lower=lower)


def cholesky_solve(chol: Any, rhs: TensorLike, name: str | None = None) -> Tensor:
    """`x` with (chol @ adjoint(chol)) @ x = rhs; chol is lower triangular.

    Args:
        chol: (..., n, n), as `cholesky` gives it.
        rhs: (..., n, k).

    Example:
        >>> factor = tk.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]])
        >>> tk.linalg.cholesky_solve(factor, [[4.0], [18.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)


def lstsq(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """`x` that makes |matrix @ x - rhs|**2 + l2_regularizer * |x|**2 least.

    With `fast=False` the x of least length that makes |matrix @ x - rhs| least, without a
    regularizer, as in TensorFlow.

    Args:
        matrix: (..., m, n).
        rhs: (..., m, k).
        l2_regularizer: 0 or above; counts with `fast=True` alone.
        fast: by the normal equations; otherwise by the singular values.

    Example:
        >>> tk.linalg.lstsq([[1.0], [1.0]], [[1.0], [3.0]]).numpy().round(4)
        array([[2.]], dtype=float32)
    """
    if not fast:
        return lstsq_(matrix, rhs)
    a = convert_to_tensor(matrix)
    m, n = a.shape[-2:]
    if m >= n:
        normal = matmul(a, a, adjoint_a=True)
        return solve_(_ridge(normal, n, l2_regularizer), matmul(a, rhs, adjoint_a=True))
    normal = matmul(a, a, adjoint_b=True)
    return matmul(a, solve_(_ridge(normal, m, l2_regularizer), rhs), adjoint_a=True)


def _ridge(normal: Tensor, n: int, strength: float) -> Tensor:
    return add(normal, multiply(eye(n, dtype=normal.dtype), strength)) if strength else normal


def matrix_rank(
    a: TensorLike, tol: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The number of singular values above `tol`.

    Args:
        a: (..., m, n).
        tol: by default the greatest singular value times max(m, n) times the step of the dtype at
            1.
        validate_args: changes nothing: shapes are always looked at.

    Example:
        >>> int(tk.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
        1
    """
    x = convert_to_tensor(a)
    s = svd_(x, compute_uv=False)
    if tol is None:
        eps = float(np.finfo(x.dtype.dtype).eps)
        tol = multiply(max_(s, axis=-1, keepdims=True, initial=0), eps * max(x.shape[-2:]))
    return cast(sum_(cast(greater(s, tol), "int32"), axis=-1), "int32")
