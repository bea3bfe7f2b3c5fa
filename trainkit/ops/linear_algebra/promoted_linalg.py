"""Linear algebra with results in the dtype to which the operands promote.

The arguments are those of the Array API standard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainkit.core import dtypes
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims, moveaxis, squeeze, swap_last_axes, transpose
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.creation import eye
from trainkit.ops.arrays.diagonals import diagonal as diagonal_
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.type_limits import finfo
from trainkit.ops.linear_algebra.axis_products import outer as outer_
from trainkit.ops.linear_algebra.axis_products import tensordot as tensordot_
from trainkit.ops.linear_algebra.einsum import einsum
from trainkit.ops.linear_algebra.factorizations import cholesky as cholesky_
from trainkit.ops.linear_algebra.factorizations import eig as eig_
from trainkit.ops.linear_algebra.factorizations import eigh as eigh_
from trainkit.ops.linear_algebra.factorizations import qr as qr_
from trainkit.ops.linear_algebra.linear_solve import det as det_
from trainkit.ops.linear_algebra.linear_solve import inv as inv_
from trainkit.ops.linear_algebra.linear_solve import pinv as pinv_
from trainkit.ops.linear_algebra.linear_solve import slogdet as slogdet_
from trainkit.ops.linear_algebra.linear_solve import solve as solve_
from trainkit.ops.linear_algebra.matmul import matmul as matmul_
from trainkit.ops.linear_algebra.norms import norm
from trainkit.ops.linear_algebra.singular_values import singular_values
from trainkit.ops.linear_algebra.singular_values import svd as svd_
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.differences import cross as cross_
from trainkit.ops.math.elementwise import cast, conjugated, divide, multiply, where
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.reductions import sum as sum_

if TYPE_CHECKING:
    pass


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors, as `eig` and `eigh` give them."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The factors that `qr` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


EigResult = EighResult


def _as_promoted(y: Tensor, *inputs: Any) -> Tensor:
    """`y` in the dtype to which the inputs promote: sums of products do not widen here."""
    common_dtype = dtypes.result_type(*inputs)
    return y if y.dtype == common_dtype else cast(y, common_dtype)


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Matrix product of the last two axes; the leading axes broadcast."""
    a, b = as_tensor(x1), as_tensor(x2)
    return _as_promoted(matmul_(a, b), a, b)


def matrix_transpose(x: Any, /) -> Tensor:
    """The matrices `x` (..., n, m) as (..., m, n)."""
    return swap_last_axes(as_tensor(x))


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """Sum of products over pairs of axes."""
    return tensordot_(x1, x2, axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Sum of products over one axis, the first factor conjugated; the other axes broadcast.

    Raises:
        ShapeError: the two have different sizes along `axis`.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    n, m = a.shape[axis], b.shape[axis]
    if n != m:
        raise ShapeError(f"vecdot: axis {axis} has sizes {n} and {m} in {a.shape} and {b.shape}")
    one, two = moveaxis(conjugated(a), axis, -1), moveaxis(b, axis, -1)
    return _as_promoted(einsum("...i,...i->...", one, two), a, b)


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular factors of symmetric positive definite matrices."""
    return cholesky_(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Cross product of vectors with three components along `axis`.

    Raises:
        ValueError: there are not three components.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ShapeError(
            f"cross: needs three components along axis {axis}, got {a.shape}, {b.shape}"
        )
    return cross_(a, b, axis=axis)


def det(x: Any, /) -> Tensor:
    """The determinants."""
    return det_(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two axes."""
    return diagonal_(x, offset, -2, -1)


def eig(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of square matrices, complex."""
    return EighResult(*eig_(x))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric (complex: Hermitian) matrices."""
    return EighResult(*eigh_(x))


def eigvals(x: Any, /) -> Tensor:
    """The eigenvalues of square matrices, complex."""
    return eig_(x)[0]


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of symmetric (complex: Hermitian) matrices, least first."""
    return eigh_(x)[0]


def inv(x: Any, /) -> Tensor:
    """The inverse matrices."""
    return inv_(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The size of the matrices in the last two axes; `ord` as in `trainkit.ops.norm`."""
    return norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """The product of `n` factors `x`; of -n inverses where `n` is negative."""
    base = as_tensor(x)
    if n < 0:
        base, n = inv_(base), -n
    size = base.shape[-1]
    y: Tensor | None = None
    while n:
        if n & 1:
            y = base if y is None else matmul_(y, base)
        n >>= 1
        base = matmul_(base, base) if n else base
    if y is None:
        return broadcast_to(eye(size, dtype=base.dtype), tuple(base.shape))
    return y


def _epsilon(x: Tensor) -> float:
    return finfo(x.dtype).eps


def _cutoff(s: Tensor, x: Tensor, rtol: Any) -> Tensor:
    """The least singular value that counts, for each matrix."""
    epsilon = _epsilon(s) * max(x.shape[-2:]) if rtol is None else rtol
    share = expand_dims(as_tensor(epsilon), -1) if len(as_tensor(epsilon).shape) else epsilon
    return multiply(max_(s, axis=-1, keepdims=True, initial=0), share)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The number of singular values above `rtol` times the greatest.

    Raises:
        ValueError: `x` has fewer than two axes.
    """
    tensor = as_tensor(x)
    if len(tensor.shape) < 2:
        raise ShapeError(f"matrix_rank: needs matrices, got shape {tuple(tensor.shape)}")
    s = singular_values(tensor)
    return sum_(cast(greater(s, _cutoff(s, tensor, rtol)), "int32"), axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverses; singular values up to `rtol` times the greatest count as 0."""
    tensor = as_tensor(x)
    if rtol is None or isinstance(rtol, int | float):
        share = _epsilon(tensor) * max(tensor.shape[-2:]) if rtol is None else rtol
        return pinv_(tensor, rcond=share)
    u, s, vh = svd_(tensor, full_matrices=False)
    some = greater(s, _cutoff(s, tensor, rtol))
    turned = where(some, divide(1.0, where(some, s, 1.0)), 0.0)
    v = swap_last_axes(conjugated(vh))
    scaled = multiply(v, cast(expand_dims(turned, -2), v.dtype))
    return matmul_(scaled, swap_last_axes(conjugated(u)))


def outer(x1: Any, x2: Any, /) -> Tensor:
    """All products of an element of one vector with one of the other.

    Raises:
        ValueError: an input is no vector.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(
            f"outer: needs two vectors, got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return outer_(a, b)


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Orthogonal times upper triangular matrices."""
    return QRResult(*qr_(x, mode=mode))


def slogdet(x: Any, /) -> SlogdetResult:
    """Sign and logarithm of the magnitude of the determinants."""
    return SlogdetResult(*slogdet_(x))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solutions of x1 @ x = x2; `x2` is a vector only if it has one axis."""
    b = as_tensor(x2)
    if len(b.shape) == 1:
        return squeeze(solve_(x1, _columns(as_tensor(x1), b)), -1)
    a = as_tensor(x1)
    if len(b.shape) == len(a.shape) - 1:
        b = expand_dims(b, 0)
    return solve_(a, b)


def _columns(a: Tensor, b: Tensor) -> Tensor:
    """A vector as matrices of one column, one for each matrix of `a`."""
    column = expand_dims(b, -1)
    return broadcast_to(column, (*a.shape[:-2], *column.shape))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values and vectors."""
    return SVDResult(*svd_(x, full_matrices=full_matrices))


def svdvals(x: Any, /) -> Tensor:
    """The singular values, greatest first."""
    values: Tensor = svd_(x, compute_uv=False)
    return values


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along the diagonals of the matrices in the last two axes."""
    line = diagonal(x, offset=offset)
    total = sum_(line if dtype is None else cast(line, dtype), axis=-1)
    return total if dtype is None else cast(total, as_dtype(dtype))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The length of the vectors over `axis`, by default of all elements as one vector."""
    tensor = as_tensor(x)
    rank = len(tensor.shape)
    axes = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(a % rank for a in axes) if rank else ()
    other_axes = [i for i in range(rank) if i not in axes]
    lead = [tensor.shape[i] for i in other_axes]
    flat = reshape(transpose(tensor, (*other_axes, *axes)), (*lead, _count(tensor, axes)))
    lengths = norm(flat, ord=ord, axis=-1)
    dims = [1 if i in axes else n for i, n in enumerate(tensor.shape)]
    return reshape(lengths, tuple(dims)) if keepdims else lengths


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    total = 1
    for a in axes:
        total *= x.shape[a]
    return total
