"""`tk.linalg`: TensorFlow's names and orders of results for linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.dtypes import result_type
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops import einsum as einsum
from trainkit.ops import trace as _trace
from trainkit.ops.arrays.filling import eye as eye
from trainkit.ops.core.axis_numbers import count_of, plain
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.linear_algebra.adjoints import adjoint as adjoint
from trainkit.ops.linear_algebra.adjoints import cholesky_solve as cholesky_solve
from trainkit.ops.linear_algebra.adjoints import inv as inv
from trainkit.ops.linear_algebra.adjoints import lstsq as lstsq
from trainkit.ops.linear_algebra.adjoints import matmul as matmul
from trainkit.ops.linear_algebra.adjoints import matrix_rank as matrix_rank
from trainkit.ops.linear_algebra.adjoints import matrix_transpose as matrix_transpose
from trainkit.ops.linear_algebra.adjoints import matvec as matvec
from trainkit.ops.linear_algebra.adjoints import solve as solve
from trainkit.ops.linear_algebra.adjoints import svd as svd
from trainkit.ops.linear_algebra.adjoints import triangular_solve as triangular_solve
from trainkit.ops.linear_algebra.lengths import l2_normalize as l2_normalize
from trainkit.ops.linear_algebra.lengths import norm as norm
from trainkit.ops.linear_algebra.lengths import normalize as normalize
from trainkit.ops.linear_algebra.linear_solve import expm as _expm
from trainkit.ops.linear_algebra.matrix_diagonals import band_part as band_part
from trainkit.ops.linear_algebra.matrix_diagonals import diag as diag
from trainkit.ops.linear_algebra.matrix_diagonals import diag_part as diag_part
from trainkit.ops.linear_algebra.matrix_diagonals import set_diag as set_diag
from trainkit.ops.linear_algebra.matrix_diagonals import tensor_diag as tensor_diag
from trainkit.ops.linear_algebra.matrix_diagonals import tensor_diag_part as tensor_diag_part
from trainkit.ops.linear_algebra.matrix_functions import logm as logm
from trainkit.ops.linear_algebra.matrix_functions import lu as lu
from trainkit.ops.linear_algebra.matrix_functions import lu_matrix_inverse as lu_matrix_inverse
from trainkit.ops.linear_algebra.matrix_functions import lu_reconstruct as lu_reconstruct
from trainkit.ops.linear_algebra.matrix_functions import lu_solve as lu_solve
from trainkit.ops.linear_algebra.matrix_functions import sqrtm as sqrtm
from trainkit.ops.linear_algebra.tridiagonal import (
    banded_triangular_solve as banded_triangular_solve,
)
from trainkit.ops.linear_algebra.tridiagonal import eigh_tridiagonal as eigh_tridiagonal
from trainkit.ops.linear_algebra.tridiagonal import tridiagonal_matmul as tridiagonal_matmul
from trainkit.ops.linear_algebra.tridiagonal import tridiagonal_solve as tridiagonal_solve
from trainkit.ops.math.norm_clipping import global_norm as global_norm
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, TensorLike


def qr(
    input: TensorLike, full_matrices: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Orthogonal q and upper triangular r with input = q @ r.

    Args:
        input: (..., m, n).
        full_matrices: q (..., m, m) and r (..., m, n), rather than with min(m, n) columns and rows.

    Example:
        >>> q, r = tk.linalg.qr([[1.0, 2.0], [3.0, 4.0]])
        >>> (q @ r).numpy().round(4)
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    return ops.qr(input, mode="complete" if full_matrices else "reduced")


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order and eigenvectors (columns) of symmetric matrices.

    Args:
        tensor: square matrices (..., n, n), symmetric or Hermitian; the upper triangle is not
            looked at.

    Returns:
        Values and vectors of the dtype of `tensor`; those of complex matrices have no imaginary
        part.

    Example:
        >>> values, vectors = tk.linalg.eigh([[2.0, 0.0], [0.0, 3.0]])
        >>> values.numpy()
        array([2., 3.], dtype=float32)
    """
    values, vectors = ops.eigh(tensor)
    return ops.cast(values, vectors.dtype), vectors


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order.

    Args:
        tensor: square matrices (..., n, n), symmetric or Hermitian.

    Returns:
        Values of the dtype of `tensor`.

    Example:
        >>> tk.linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]]).numpy()
        array([2., 3.], dtype=float32)
    """
    return eigh(tensor)[0]


def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues and eigenvectors (columns).

    Args:
        tensor: square matrices (..., n, n).

    Example:
        >>> values, vectors = tk.linalg.eig([[2.0, 0.0], [0.0, 3.0]])
        >>> values.numpy().real
        array([2., 3.], dtype=float32)
    """
    return ops.eig(tensor)


def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Complex eigenvalues.

    Args:
        tensor: square matrices (..., n, n).

    Example:
        >>> tk.linalg.eigvals([[2.0, 0.0], [0.0, 3.0]]).numpy().real
        array([2., 3.], dtype=float32)
    """
    return ops.eig(tensor)[0]


def pinv(
    a: TensorLike, rcond: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Moore-Penrose inverse; singular values below rcond times the greatest count as 0.

    Args:
        a: (..., m, n).
        rcond: share of the greatest singular value; by default 10 max(m, n) times the step of the
            dtype at 1.
        validate_args: changes nothing: shapes are always looked at.

    Example:
        >>> tk.linalg.pinv([[2.0, 0.0], [0.0, 4.0]]).numpy().round(4)
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    return ops.pinv(a, rcond)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Sum of the main diagonal of the last two axes.

    Args:
        x: (..., m, n).

    Example:
        >>> float(tk.linalg.trace([[1.0, 2.0], [3.0, 4.0]]))
        5.0
    """
    return _trace(x, axis1=-2, axis2=-1)


def _tensordot_spec(arguments: Bound) -> Spec:
    a, b = convert_to_tensor(arguments["a"]), convert_to_tensor(arguments["b"])
    axes = arguments["axes"]
    dims = axes.shape if is_tensor(axes) else (2, count_of(axes[0], "tensordot"))
    if len(dims) != 2 or dims[1] is None:
        raise InvalidArgumentError(
            "tensordot: the number of axes must be known while a graph is traced, axes is a tensor "
            f"of shape {tuple(dims)}; give a pair of lists, or a tensor (2, n) with n known"
        )
    rank = len(a.shape) + len(b.shape) - 2 * int(dims[1])
    return Spec((None,) * rank, result_type(a, b))


@needs_values("axes", gives=_tensordot_spec)
def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """Sum of products over `axes`: a number of last and first axes, or a pair of lists.

    Args:
        a: tensor.
        b: tensor.
        axes: a number n, for the last n axes of `a` and the first n of `b`, or two lists of axes.

    Example:
        >>> tk.linalg.tensordot([[1.0, 2.0]], [[3.0], [4.0]], axes=1).numpy()
        array([[11.]], dtype=float32)
    """
    axes = plain(axes)
    return ops.tensordot(a, b, axes=axes)


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """The lower triangle whose product with its adjoint is the matrix.

    Args:
        input: square matrices (..., n, n), symmetric and positive definite.

    Example:
        >>> tk.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]]).numpy()
        array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    return ops.cholesky(input)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """The cross product of vectors of three elements, along the last axis.

    Args:
        a: (..., 3).
        b: (..., 3).

    Example:
        >>> tk.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy()
        array([0., 0., 1.], dtype=float32)
    """
    return ops.cross(a, b)


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """The determinant of square matrices.

    Args:
        input: square matrices (..., n, n).

    Example:
        >>> float(tk.linalg.det([[2.0, 0.0], [0.0, 3.0]]))
        6.0
    """
    return ops.det(input)


def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """The exponential of square matrices.

    Args:
        input: square matrices (..., n, n).

    Example:
        >>> tk.linalg.expm([[0.0, 0.0], [0.0, 0.0]]).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return _expm(input)


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of positive definite matrices.

    Args:
        matrix: square matrices (..., n, n).

    Example:
        >>> round(float(tk.linalg.logdet([[2.0, 0.0], [0.0, 2.0]])), 4)
        1.3863
    """
    return ops.logdet(matrix)


def slogdet(input: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Sign, and logarithm of the absolute value, of the determinant of square matrices.

    Args:
        input: square matrices (..., n, n).

    Returns:
        Two tensors (...) of the dtype of `input`, complex where that is.

    Example:
        >>> sign, log = tk.linalg.slogdet([[-1.0, 0.0], [0.0, 1.0]])
        >>> float(sign), float(log)
        (-1.0, 0.0)
    """
    sign, size = ops.slogdet(input)
    return sign, ops.cast(size, sign.dtype)


_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("linalg", globals())
