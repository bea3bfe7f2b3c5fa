"""`tk.linalg`: TensorFlow's names and orders of results for linear algebra."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.dtypes import result_type
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.ops import einsum as einsum
from trainkit.ops import trace as _trace
from trainkit.ops.later import Bound, needs_values
from trainkit.optimizers.clipping import joint_norm
from trainkit.tf.arrays import eye as eye
from trainkit.tf.arrays import plain
from trainkit.tf.axes import count_of
from trainkit.tf.left_out import not_here as _not_here
from trainkit.tf.math import l2_normalize as l2_normalize
from trainkit.tf.matrix_functions import logm as logm
from trainkit.tf.matrix_functions import lu as lu
from trainkit.tf.matrix_functions import lu_matrix_inverse as lu_matrix_inverse
from trainkit.tf.matrix_functions import lu_reconstruct as lu_reconstruct
from trainkit.tf.matrix_functions import lu_solve as lu_solve
from trainkit.tf.matrix_functions import sqrtm as sqrtm
from trainkit.tf.spellings import cholesky as cholesky
from trainkit.tf.spellings import cross as cross
from trainkit.tf.spellings import det as det
from trainkit.tf.spellings import expm as expm
from trainkit.tf.spellings import logdet as logdet
from trainkit.tf.spellings import slogdet as slogdet
from trainkit.tf.tridiagonal import banded_triangular_solve as banded_triangular_solve
from trainkit.tf.tridiagonal import eigh_tridiagonal as eigh_tridiagonal
from trainkit.tf.tridiagonal import tridiagonal_matmul as tridiagonal_matmul
from trainkit.tf.tridiagonal import tridiagonal_solve as tridiagonal_solve


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    name: Any = None,
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
        name: not kept.

    Returns:
        (..., n, p).

    Raises:
        ShapeError: the inner sizes differ.
        ValueError: an input is to be transposed twice.
    """
    if transpose_a or adjoint_a:
        a = _turned(a, transpose_a, adjoint_a)
    if transpose_b or adjoint_b:
        b = _turned(b, transpose_b, adjoint_b)
    y = ops.matmul(a, b)
    return y if output_type is None else ops.cast(y, output_type)


def _turned(x: Any, transpose: bool, adjoint_: bool) -> Tensor:
    if transpose and adjoint_:
        raise ValueError("matmul: an input is transposed or adjoint, not both")
    return adjoint(x) if adjoint_ else ops.swapaxes(x, -1, -2)


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, name: Any = None
) -> Tensor:
    """(..., n, m) times (..., m): (..., n)."""
    return ops.squeeze(
        matmul(a, ops.expand_dims(b, -1), transpose_a=transpose_a, adjoint_a=adjoint_a), -1
    )


def matrix_transpose(a: Any, name: Any = None, conjugate: bool = False) -> Tensor:
    """The last two axes exchanged."""
    return adjoint(a) if conjugate else ops.swapaxes(a, -1, -2)


def adjoint(matrix: Any, name: Any = None) -> Tensor:
    """The last two axes exchanged, values conjugated."""
    x = ops.swapaxes(matrix, -1, -2)
    return ops.conj(x) if x.dtype.is_complex else x


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: Any = None
) -> Tensor:
    """Length of vectors or size of matrices.

    Args:
        tensor: of any shape.
        ord: `"euclidean"`, `"fro"`, 1, 2, another p above 0, or inf.
        axis: `None` for all elements as one vector, an int for vectors, a pair for matrices.
        keepdims: keep the axes with size 1.
        name: not kept.
    """
    axis, keep = plain(axis), bool(keepdims)
    x = convert_to_tensor(tensor)
    if axis is None:
        flat = norm(ops.reshape(x, (-1,)), "euclidean" if ord == "fro" else ord, 0)
        return ops.reshape(flat, (1,) * len(x.shape)) if keep else flat
    pair = isinstance(axis, tuple) and len(axis) == 2
    if ord in ("euclidean", "fro"):
        squares = ops.sum(ops.square(ops.abs(x)), axis=axis, keepdims=keep)
        return ops.sqrt(squares)
    single = axis[0] if isinstance(axis, tuple) and not pair else axis
    return ops.norm(x, ord=ord, axis=single, keepdims=keep)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: Any = None
) -> tuple[Tensor, Tensor]:
    """`tensor` divided by its norm, and the norm with the axes kept."""
    length = norm(tensor, ord, axis, keepdims=True)
    return ops.divide(tensor, length), length


def global_norm(t_list: Any, name: Any = None) -> Tensor:
    """Root of the sum of squares of all elements of all tensors; `None` counts as zeros.

    Args:
        t_list: tensors of any shapes.
        name: not kept.

    Returns:
        A scalar; 0 when there is no tensor.
    """
    present = [convert_to_tensor(t) for t in t_list if t is not None]
    return joint_norm(ops, present) if present else convert_to_tensor(0.0)


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: Any = None) -> Any:
    """Singular values s, and u, v with tensor = u @ diag(s) @ adjoint(v), in this order."""
    if not compute_uv:
        return ops.svd(tensor, full_matrices=full_matrices, compute_uv=False)
    u, s, vh = ops.svd(tensor, full_matrices=full_matrices)
    return s, u, adjoint(vh)


def qr(input: Any, full_matrices: bool = False, name: Any = None) -> tuple[Tensor, Tensor]:
    """Orthogonal q and upper triangular r with input = q @ r."""
    return ops.qr(input, mode="complete" if full_matrices else "reduced")


def eigh(tensor: Any, name: Any = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order and eigenvectors (columns) of symmetric matrices."""
    return ops.eigh(tensor)


def eigvalsh(tensor: Any, name: Any = None) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order."""
    return ops.eigh(tensor)[0]


def eig(tensor: Any, name: Any = None) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues and eigenvectors (columns)."""
    return ops.eig(tensor)


def eigvals(tensor: Any, name: Any = None) -> Tensor:
    """Complex eigenvalues."""
    return ops.eig(tensor)[0]


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: Any = None) -> Tensor:
    """`x` with matrix @ x = rhs; matrix (..., n, n), rhs (..., n, k)."""
    return ops.solve(_adjoint(matrix) if adjoint else matrix, rhs)


_adjoint = adjoint


def inv(input: Any, adjoint: bool = False, name: Any = None) -> Tensor:
    """The inverse of square matrices, or of their adjoints.

    Raises:
        InvalidArgumentError: a matrix is singular.
    """
    return ops.inv(_adjoint(input) if adjoint else input)


def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: Any = None
) -> Tensor:
    """`x` with matrix @ x = rhs for a triangular matrix; the other triangle is not looked at."""
    if adjoint:
        return ops.solve_triangular(_adjoint(matrix), rhs, lower=not lower)
    return ops.solve_triangular(matrix, rhs, lower=lower)


def cholesky_solve(chol: Any, rhs: Any, name: Any = None) -> Tensor:
    """`x` with (chol @ adjoint(chol)) @ x = rhs; chol is lower triangular."""
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)


def lstsq(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: Any = None
) -> Tensor:
    """`x` that makes |matrix @ x - rhs|**2 + l2_regularizer * |x|**2 least.

    Args:
        matrix: (..., m, n).
        rhs: (..., m, k).
        l2_regularizer: 0 or above.
        fast: by the normal equations; otherwise by the singular values.
        name: not kept.
    """
    if not fast and not l2_regularizer:
        return ops.lstsq(matrix, rhs)
    a = convert_to_tensor(matrix)
    m, n = a.shape[-2:]
    if m >= n:
        normal = matmul(a, a, adjoint_a=True)
        return ops.solve(_ridge(normal, n, l2_regularizer), matmul(a, rhs, adjoint_a=True))
    normal = matmul(a, a, adjoint_b=True)
    return matmul(a, ops.solve(_ridge(normal, m, l2_regularizer), rhs), adjoint_a=True)


def _ridge(normal: Tensor, n: int, strength: float) -> Tensor:
    return (
        ops.add(normal, ops.multiply(ops.eye(n, dtype=normal.dtype), strength))
        if strength
        else normal
    )


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: Any = None) -> Tensor:
    """Moore-Penrose inverse; singular values below rcond times the greatest count as 0."""
    return ops.pinv(a, rcond)


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: Any = None) -> Tensor:
    """The number of singular values above `tol`."""
    x = convert_to_tensor(a)
    s = ops.svd(x, compute_uv=False)
    if tol is None:
        import numpy as np

        eps = float(np.finfo(x.dtype.dtype).eps)
        tol = ops.multiply(ops.max(s, axis=-1, keepdims=True), eps * max(x.shape[-2:]))
    return ops.cast(ops.sum(ops.cast(ops.greater(s, tol), "int32"), axis=-1), "int32")


def trace(x: Any, name: Any = None) -> Tensor:
    """Sum of the main diagonal of the last two axes."""
    return _trace(x, axis1=-2, axis2=-1)


def diag(diagonal: Any, name: Any = None, k: int = 0) -> Tensor:
    """Matrices with the last axis of `diagonal` on their diagonal number `k`, zeros elsewhere."""
    d = convert_to_tensor(diagonal)
    n = d.shape[-1]
    size = n + abs(int(k))
    columns = ops.eye(size, dtype=d.dtype)[max(k, 0) : max(k, 0) + n]
    rows = ops.multiply(ops.expand_dims(d, -1), columns)
    above, below = (0, int(k)) if k >= 0 else (-int(k), 0)
    lead = [(0, 0)] * (len(d.shape) - 1)
    return ops.pad(rows, (*lead, (above, below), (0, 0)))


def diag_part(input: Any, name: Any = None, k: int = 0) -> Tensor:
    """The diagonal number `k` of the last two axes."""
    return ops.diagonal(input, offset=int(k), axis1=-2, axis2=-1)


def tensor_diag(diagonal: Any, name: Any = None) -> Tensor:
    """A tensor (d..., d...) with `diagonal` (d...) where both indices agree."""
    d = convert_to_tensor(diagonal)
    return ops.reshape(diag(ops.reshape(d, (-1,))), tuple(d.shape) * 2)


def tensor_diag_part(input: Any, name: Any = None) -> Tensor:
    """The elements of a tensor (d..., d...) where both indices agree."""
    x = convert_to_tensor(input)
    half = tuple(x.shape[: len(x.shape) // 2])
    if tuple(x.shape) != half * 2:
        raise InvalidArgumentError(f"tensor_diag_part: shape {x.shape} is not one shape twice")
    n = 1
    for size in half:
        n *= size
    return ops.reshape(diag_part(ops.reshape(x, (n, n))), half)


def set_diag(input: Any, diagonal: Any, name: Any = None, k: int = 0) -> Tensor:
    """`input` with `diagonal` on the diagonal number `k` of its last two axes."""
    x = convert_to_tensor(input)
    rows, columns = x.shape[-2:]
    i, j = ops.arange(rows), ops.arange(columns)
    on = ops.equal(ops.expand_dims(i, 1) + int(k), ops.expand_dims(j, 0))
    start = max(-int(k), 0)
    places = ops.clip(i - start, 0, convert_to_tensor(diagonal).shape[-1] - 1)
    spread = ops.expand_dims(ops.take(diagonal, places, axis=-1), -1)
    return ops.where(on, spread, x)


def band_part(input: Any, num_lower: int, num_upper: int, name: Any = None) -> Tensor:
    """`num_lower` diagonals below and `num_upper` above the main one (-1: all); else zeros."""
    x = convert_to_tensor(input)
    if num_lower >= 0:
        x = ops.triu(x, k=-int(num_lower))
    if num_upper >= 0:
        x = ops.tril(x, k=int(num_upper))
    return x


def _tensordot_spec(given: Bound) -> Spec:
    a, b = convert_to_tensor(given["a"]), convert_to_tensor(given["b"])
    axes = given["axes"]
    dims = axes.shape if is_tensor(axes) else (2, count_of(axes[0], "tensordot"))
    if len(dims) != 2 or dims[1] is None:
        raise InvalidArgumentError(
            "tensordot: the number of axes must be known while a graph is traced, axes is a tensor "
            f"of shape {tuple(dims)}; give a pair of lists, or a tensor (2, n) with n known"
        )
    rank = len(a.shape) + len(b.shape) - 2 * int(dims[1])
    return Spec((None,) * rank, result_type(a, b))


@needs_values("axes", gives=_tensordot_spec)
def tensordot(a: Any, b: Any, axes: Any, name: Any = None) -> Tensor:
    """Sum of products over `axes`: a number of last and first axes, or a pair of lists."""
    axes = plain(axes)
    return ops.tensordot(a, b, axes=axes)


def __getattr__(name: str) -> Any:
    raise _not_here("linalg", name, globals())
