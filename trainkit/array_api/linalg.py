"""The extension `linalg` of the Array API standard."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainkit import ops
from trainkit.array_api.data_types import finfo
from trainkit.core import dtypes
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.ops.elementwise import conjugated
from trainkit.ops.shaping import as_tensor, swap_last_axes
from trainkit.ops.singular_values import singular_values


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
    wanted = dtypes.result_type(*inputs)
    return y if y.dtype == wanted else ops.cast(y, wanted)


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Matrix product of the last two axes; the leading axes broadcast."""
    a, b = as_tensor(x1), as_tensor(x2)
    return _as_promoted(ops.matmul(a, b), a, b)


def matrix_transpose(x: Any, /) -> Tensor:
    """The matrices `x` (..., n, m) as (..., m, n)."""
    return swap_last_axes(as_tensor(x))


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """Sum of products over pairs of axes."""
    return ops.tensordot(x1, x2, axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Sum of products over one axis, the first factor conjugated; the other axes broadcast."""
    a, b = as_tensor(x1), as_tensor(x2)
    n, m = a.shape[axis], b.shape[axis]
    if n != m:
        raise ShapeError(f"vecdot: axis {axis} has sizes {n} and {m} in {a.shape} and {b.shape}")
    one, two = ops.moveaxis(conjugated(a), axis, -1), ops.moveaxis(b, axis, -1)
    return _as_promoted(ops.einsum("...i,...i->...", one, two), a, b)


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular factors of symmetric positive definite matrices."""
    return ops.cholesky(x, upper=upper)


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
    return ops.cross(a, b, axis=axis)


def det(x: Any, /) -> Tensor:
    """The determinants."""
    return ops.det(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two axes."""
    return ops.diagonal(x, offset, -2, -1)


def eig(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of square matrices, complex."""
    return EighResult(*ops.eig(x))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric (complex: Hermitian) matrices."""
    return EighResult(*ops.eigh(x))


def eigvals(x: Any, /) -> Tensor:
    """The eigenvalues of square matrices, complex."""
    return ops.eig(x)[0]


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of symmetric (complex: Hermitian) matrices, least first."""
    return ops.eigh(x)[0]


def inv(x: Any, /) -> Tensor:
    """The inverse matrices."""
    return ops.inv(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The size of the matrices in the last two axes; `ord` as in `trainkit.ops.norm`."""
    return ops.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """The product of `n` factors `x`; of -n inverses where `n` is negative."""
    base = as_tensor(x)
    if n < 0:
        base, n = ops.inv(base), -n
    size = base.shape[-1]
    y: Tensor | None = None
    while n:
        if n & 1:
            y = base if y is None else ops.matmul(y, base)
        n >>= 1
        base = ops.matmul(base, base) if n else base
    if y is None:
        return ops.broadcast_to(ops.eye(size, dtype=base.dtype), tuple(base.shape))
    return y


def _epsilon(x: Tensor) -> float:
    return finfo(x.dtype).eps


def _cutoff(s: Tensor, x: Tensor, rtol: Any) -> Tensor:
    """The least singular value that counts, for each matrix."""
    epsilon = _epsilon(s) * max(x.shape[-2:]) if rtol is None else rtol
    share = ops.expand_dims(as_tensor(epsilon), -1) if len(as_tensor(epsilon).shape) else epsilon
    return ops.multiply(ops.max(s, axis=-1, keepdims=True, initial=0), share)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The number of singular values above `rtol` times the greatest.

    Raises:
        ValueError: `x` has fewer than two axes.
    """
    tensor = as_tensor(x)
    if len(tensor.shape) < 2:
        raise ShapeError(f"matrix_rank: needs matrices, got shape {tuple(tensor.shape)}")
    s = singular_values(tensor)
    return ops.sum(ops.cast(ops.greater(s, _cutoff(s, tensor, rtol)), "int32"), axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverses; singular values up to `rtol` times the greatest count as 0."""
    tensor = as_tensor(x)
    if rtol is None or isinstance(rtol, int | float):
        share = _epsilon(tensor) * max(tensor.shape[-2:]) if rtol is None else rtol
        return ops.pinv(tensor, rcond=share)
    u, s, vh = ops.svd(tensor, full_matrices=False)
    some = ops.greater(s, _cutoff(s, tensor, rtol))
    turned = ops.where(some, ops.divide(1.0, ops.where(some, s, 1.0)), 0.0)
    v = swap_last_axes(conjugated(vh))
    scaled = ops.multiply(v, ops.cast(ops.expand_dims(turned, -2), v.dtype))
    return ops.matmul(scaled, swap_last_axes(conjugated(u)))


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
    return ops.outer(a, b)


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Orthogonal times upper triangular matrices."""
    return QRResult(*ops.qr(x, mode=mode))


def slogdet(x: Any, /) -> SlogdetResult:
    """Sign and logarithm of the magnitude of the determinants."""
    return SlogdetResult(*ops.slogdet(x))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solutions of x1 @ x = x2; `x2` is a vector only if it has one axis."""
    b = as_tensor(x2)
    if len(b.shape) == 1:
        return ops.squeeze(ops.solve(x1, _columns(as_tensor(x1), b)), -1)
    a = as_tensor(x1)
    if len(b.shape) == len(a.shape) - 1:
        b = ops.expand_dims(b, 0)
    return ops.solve(a, b)


def _columns(a: Tensor, b: Tensor) -> Tensor:
    """A vector as matrices of one column, one for each matrix of `a`."""
    column = ops.expand_dims(b, -1)
    return ops.broadcast_to(column, (*a.shape[:-2], *column.shape))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values and vectors."""
    return SVDResult(*ops.svd(x, full_matrices=full_matrices))


def svdvals(x: Any, /) -> Tensor:
    """The singular values, greatest first."""
    return ops.svd(x, compute_uv=False)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along the diagonals of the matrices in the last two axes."""
    line = diagonal(x, offset=offset)
    total = ops.sum(line if dtype is None else ops.cast(line, dtype), axis=-1)
    return total if dtype is None else ops.cast(total, as_dtype(dtype))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The length of the vectors over `axis`, by default of all elements as one vector."""
    tensor = as_tensor(x)
    rank = len(tensor.shape)
    axes = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(a % rank for a in axes) if rank else ()
    rest = [i for i in range(rank) if i not in axes]
    lead = [tensor.shape[i] for i in rest]
    flat = ops.reshape(ops.transpose(tensor, (*rest, *axes)), (*lead, _count(tensor, axes)))
    found = ops.norm(flat, ord=ord, axis=-1)
    kept = [1 if i in axes else n for i, n in enumerate(tensor.shape)]
    return ops.reshape(found, tuple(kept)) if keepdims else found


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    total = 1
    for a in axes:
        total *= x.shape[a]
    return total
