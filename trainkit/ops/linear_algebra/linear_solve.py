"""Systems of linear equations and what hangs together with them: inv, solve, det, pinv, expm.

Gradients by matrix calculus; sources: Giles 2008, "An extended collection of matrix derivative
results"; for pinv Golub and Pereyra 1973, SIAM J. Numer. Anal. 10; for expm Higham 2008,
"Functions of Matrices".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import MATRIX
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.linear_algebra import lapack_tuned
from trainkit.ops.arrays.axes import expand_dims, squeeze
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import eye, zeros_like
from trainkit.ops.arrays.diagonals import lower_triangle, tril, triu, upper_triangle
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.linear_algebra.matrices import (
    adjoint,
    check_matrices,
    lapack,
    like_matrices,
    matrices,
    same_type,
    summed_like,
    times,
    unknown_sizes_fit,
)
from trainkit.ops.math.elementwise import add, conjugated, multiply, negative, subtract
from trainkit.ops.vmap_rules.shared_rules import of_matrices

_NOT_INVERTIBLE = "Input is not invertible."

# ------------------------------------------------------------------ inverse


@primitive(like_matrices, name="inv", semantics=MATRIX, tuned=lapack_tuned.INVERSE)
@lapack(_NOT_INVERTIBLE)
def _inv(xp: ArrayModule, x: Array) -> Array:
    """The inverse matrices."""
    return xp.linalg.inv(x)


_inv.gradients(lambda g, y, x: negative(times(adjoint(y), g, adjoint(y))))


def inv(x: TensorLike) -> Tensor:
    """The inverses of the matrices `x`.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        A tensor (..., n, n).

    Raises:
        InvalidArgumentError: a matrix is singular.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    result: Tensor = _inv(matrices(x, "inv", square=True))
    return result


# ------------------------------------------------------------------ solve


def _solve_rule(a: Spec, b: Spec, **settings: Any) -> Spec:
    if None not in (a.shape[-1], b.shape[-2]) and a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"solve: matrices of shape {a.shape} do not go with b of shape {b.shape}")
    batch = shapes.broadcast_dims(a.shape[:-2], b.shape[:-2], op="solve")
    return Spec((*batch, *b.shape[-2:]), b.dtype)


def _solve_stacks(xp: ArrayModule, a: Array, b: Array) -> Array:
    """`xp.linalg.solve`, whose leading axes CuPy does not broadcast."""
    if xp is not np and a.shape[:-2] != b.shape[:-2]:
        batch = shapes.broadcast_dims(a.shape[:-2], b.shape[:-2], op="solve")
        a, b = (xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return xp.linalg.solve(a, b)


@primitive(_solve_rule, name="solve", semantics=MATRIX, tuned=lapack_tuned.SOLVE)
@lapack(_NOT_INVERTIBLE)
def _solve(xp: ArrayModule, a: Array, b: Array) -> Array:
    """The matrices x with a @ x = b."""
    return _solve_stacks(xp, a, b)


def _solve_gradient(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
    gb = _solve(adjoint(a), g)
    return summed_like(negative(matmul(gb, adjoint(y))), a), summed_like(gb, b)


_solve.joint_gradient(_solve_gradient)
_solve.batch_by(of_matrices)


def _with_columns(a: Any, b: Any, op: str) -> tuple[Tensor, Tensor, bool]:
    """Square matrices, right sides as matrices, and whether these were vectors."""
    left, right = matrices(a, op, square=True), as_tensor(b)
    if type(left) is Tensor and type(right) is Tensor:  # the usual case, without a look at symbols
        left_dims, right_dims = left._array.shape, right._array.shape
        if left_dims[:-1] == right_dims[:-1]:
            left, right = same_type(left, right)
            return left, right, False
    _check_right_side(left, right, op)
    is_vector = len(right.shape) == len(left.shape) - 1
    if is_vector:
        right = expand_dims(right, -1)
    left, right = same_type(left, right)
    if len(left.shape) > 2:  # leading axes, which have to fit; rows have been looked at
        _solve_rule(Spec(left.shape, left.dtype), Spec(right.shape, right.dtype))
    return left, right, is_vector


def _check_right_side(left: Tensor, right: Tensor, op: str) -> None:
    """Raise `ShapeError` unless b is a vector or matrix with as many rows as the matrices a."""
    rank, n = len(right.shape), left.shape[-1]
    at = -1 if rank == len(left.shape) - 1 else -2
    rows = right.shape[at] if rank + at >= 0 else "none"
    unknown = None in (n, rows) and unknown_sizes_fit(left) and unknown_sizes_fit(right)
    if rows != n and not unknown:
        raise ShapeError(
            f"{op}: b must have as many rows as a.\n  a  {tuple(left.shape)}\n"
            f"  b  {tuple(right.shape)}"
        )


def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The solutions x of a @ x = b.

    Args:
        a: square matrices (..., n, n).
        b: right sides (..., n) with one axis less than `a`, or (..., n, m).

    Returns:
        A tensor of the shape of `b`.

    Raises:
        InvalidArgumentError: a matrix is singular.
        ShapeError: shapes don't fit.

    Example:
        >>> tk.ops.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [8.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    left, right, is_vector = _with_columns(a, b, "solve")
    result: Tensor = _solve(left, right)
    return squeeze(result, -1) if is_vector else result


@primitive(
    _solve_rule, name="solve_triangular", semantics=MATRIX, tuned=lapack_tuned.SOLVE_TRIANGULAR
)
@lapack(_NOT_INVERTIBLE)
def _solve_triangular(xp: ArrayModule, a: Array, b: Array, *, lower: bool) -> Array:
    """The matrices x with a @ x = b, where only one triangle of `a` counts."""
    return _solve_stacks(xp, (lower_triangle if lower else upper_triangle)(xp, a, 0), b)


def _triangular_gradient(g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, lower: bool) -> Any:
    gb = _solve_triangular(adjoint(a), g, lower=not lower)
    ga = negative(matmul(gb, adjoint(y)))
    return summed_like(tril(ga) if lower else triu(ga), a), summed_like(gb, b)


_solve_triangular.joint_gradient(_triangular_gradient)
_solve_triangular.batch_by(of_matrices)


def solve_triangular(a: TensorLike, b: TensorLike, lower: bool = False) -> Tensor:
    """The solutions x of a @ x = b with triangular matrices.

    Args:
        a: square matrices (..., n, n), of which only one triangle is looked at.
        b: right sides (..., n) with one axis less than `a`, or (..., n, m).
        lower: that triangle is the lower one.

    Returns:
        A tensor of the shape of `b`.

    Raises:
        InvalidArgumentError: a matrix has a 0 on its diagonal.
        ShapeError: shapes don't fit.

    Example:
        >>> tk.ops.solve_triangular([[2.0, 0.0], [0.0, 4.0]], [[2.0], [8.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    left, right, is_vector = _with_columns(a, b, "solve_triangular")
    result: Tensor = _solve_triangular(left, right, lower=bool(lower))
    return squeeze(result, -1) if is_vector else result


# ------------------------------------------------------------------ determinants


@primitive(
    lambda x: Spec(x.shape[:-2], x.dtype),
    name="det",
    semantics=MATRIX,
    tuned=lapack_tuned.DETERMINANT,
)
@lapack("the determinant failed")
def _det(xp: ArrayModule, x: Array) -> Array:
    """The determinants."""
    return xp.linalg.det(x)


def _det_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    scale = expand_dims(multiply(g, conjugated(y)), (-2, -1))
    return multiply(scale, adjoint(_inv(x)))


_det.gradients(_det_gradient)


def det(x: TensorLike) -> Tensor:
    """The determinants of the matrices `x`.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        A tensor (...).

    Raises:
        ShapeError: the matrices are not square.
        InvalidArgumentError: in the gradient, when a matrix is singular.

    Example:
        >>> float(tk.ops.det([[2.0, 0.0], [0.0, 3.0]]))
        6.0
    """
    result: Tensor = _det(matrices(x, "det", square=True))
    return result


def _slogdet_rule(x: Spec) -> Any:
    return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], x.dtype.real_dtype)


@primitive(_slogdet_rule, name="slogdet", semantics=MATRIX, tuned=lapack_tuned.LOG_DETERMINANT)
@lapack("the determinant failed")
def _slogdet(xp: ArrayModule, x: Array) -> Any:
    """Sign and logarithm of the magnitude of the determinants."""
    sign, size = xp.linalg.slogdet(x)
    return sign, size


_slogdet.gradients(lambda g, y, x: multiply(expand_dims(g[1], (-2, -1)), adjoint(_inv(x))))


def slogdet(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the magnitude of the determinants of the matrices `x`.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        `sign` (...): -1, 0 or 1 (of magnitude 1 for complex matrices), which has no gradient, and
        `logabsdet` (...), -inf for a singular matrix.

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> sign, log = tk.ops.slogdet([[-1.0, 0.0], [0.0, 1.0]])
        >>> float(sign), float(log)
        (-1.0, 0.0)
    """
    sign, size = _slogdet(matrices(x, "slogdet", square=True))
    return sign, size


# ------------------------------------------------------------------ pseudo-inverse


def _pinv_rule(x: Spec, *, rcond: float) -> Spec:
    return Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


@primitive(_pinv_rule, name="pinv", semantics=MATRIX)
@lapack(None)
def _pinv(xp: ArrayModule, x: Array, *, rcond: float) -> Array:
    """The Moore-Penrose inverses; singular values up to `rcond` times the greatest count as 0."""
    return xp.linalg.pinv(x, rcond)


def _pinv_gradient(g: Tensor, y: Tensor, x: Tensor, *, rcond: float) -> Tensor:
    rows, columns = _identity(x.shape[-2], x), _identity(x.shape[-1], x)
    ga, yt = adjoint(g), adjoint(y)
    left = times(subtract(rows, matmul(x, y)), ga, y, yt)
    right = times(yt, y, ga, subtract(columns, matmul(y, x)))
    return left + right - times(yt, g, yt)


def _identity(n: int | None, x: Tensor) -> Tensor:
    if n is None:
        raise ShapeError(f"pinv: its gradient needs matrices of known size, got {tuple(x.shape)}")
    return eye(n, dtype=x.dtype)


_pinv.gradients(_pinv_gradient)


def default_cutoff(x: Tensor) -> float:
    """The share of the greatest singular value below which rounding makes others meaningless."""
    sizes = [n or 1 for n in x.shape[-2:]]
    dtype = x.dtype.real_dtype.dtype
    epsilon = np.finfo(dtype if dtype.itemsize >= 4 else np.float32).eps
    return float(max(sizes) * epsilon)


def pinv(x: TensorLike, rcond: float | None = None) -> Tensor:
    """The Moore-Penrose inverses of the matrices `x`.

    The gradient is that on the set of matrices of the same rank.

    Args:
        x: tensor (..., n, m); integers become the default float.
        rcond: singular values up to this share of the greatest count as 0; by default
            10 max(n, m) epsilon.

    Returns:
        A tensor (..., m, n), NaN for a matrix that has a NaN.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tk.ops.pinv([[2.0, 0.0], [0.0, 4.0]]).numpy().round(4)
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    tensor = matrices(x, "pinv")
    cutoff = 10 * default_cutoff(tensor) if rcond is None else float(rcond)
    result: Tensor = _pinv(tensor, rcond=cutoff)
    return result


def lstsq(a: TensorLike, b: TensorLike, rcond: float | None = None) -> Tensor:
    """The x of least length that minimise the length of a @ x - b.

    Args:
        a: tensor (..., n, m).
        b: tensor (..., n) with one axis less than `a`, or (..., n, k).
        rcond: singular values of `a` up to this share of the greatest count as 0; by default
            max(n, m) epsilon.

    Returns:
        A tensor (..., m) or (..., m, k).

    Raises:
        ShapeError: shapes don't fit.

    Example:
        >>> tk.ops.lstsq([[1.0], [1.0]], [[1.0], [3.0]]).numpy().round(4)
        array([[2.]], dtype=float32)
    """
    left, right = matrices(a, "lstsq"), as_tensor(b)
    is_vector = len(right.shape) == len(left.shape) - 1
    if is_vector:
        right = expand_dims(right, -1)
    left, right = same_type(left, right)
    if None not in (left.shape[-2], right.shape[-2]) and left.shape[-2] != right.shape[-2]:
        raise ShapeError(
            f"lstsq: matrices of shape {tuple(left.shape)} do not go with b of shape "
            f"{tuple(as_tensor(b).shape)}"
        )
    cutoff = default_cutoff(left) if rcond is None else float(rcond)
    result: Tensor = matmul(_pinv(left, rcond=cutoff), right)
    return squeeze(result, -1) if is_vector else result


# ------------------------------------------------------------------ exponential


def _expm_rule(x: Spec) -> Spec:
    check_matrices(x.shape, "expm", square=True)
    return Spec(x.shape, shapes.float_dtype(x.dtype))


# Coefficients of the [13/13] Padé approximant of exp; Higham 2008, table 10.4.
_PADE = [
    math.factorial(26 - k)
    * math.factorial(13)
    / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
]
_THETA = 5.371920351148152  # the norm up to which [13/13] has double precision


@primitive(_expm_rule, name="expm", semantics=MATRIX)
@lapack("the Padé approximant failed")
def _expm(xp: ArrayModule, x: Array) -> Array:
    """Exponential of matrices by scaling and squaring with a Padé approximant."""
    x = shapes.as_float_array(x)
    norm = float(abs(x).sum(axis=-2).max()) if x.size else 0.0
    if not math.isfinite(norm):
        return xp.full(x.shape, np.nan, x.dtype)
    squarings = max(0, math.ceil(math.log2(norm / _THETA))) if norm > _THETA else 0
    a = x / 2**squarings
    a2 = a @ a
    power = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    odd = xp.zeros_like(x)
    even = xp.zeros_like(x)
    for k in range(0, 14, 2):
        even = even + x.dtype.type(_PADE[k]) * power
        odd = odd + x.dtype.type(_PADE[k + 1]) * power
        power = power @ a2
    odd = a @ odd
    y = xp.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        y = y @ y
    return y


def _expm_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The derivative stands in the corner of exp([[x', g], [0, x']]); Higham 2008, theorem 3.6."""
    n = x.shape[-1]
    xt = adjoint(x)
    top = concatenate([xt, g], axis=-1)
    bottom = concatenate([zeros_like(xt), xt], axis=-1)
    corner: Tensor = _expm(concatenate([top, bottom], axis=-2))
    return corner[..., :n, n:]


_expm.gradients(_expm_gradient)


def matrix_power(x: TensorLike, n: int) -> Tensor:
    """The product of `n` times the matrices `x`; of their inverses where `n` is negative.

    Args:
        x: tensor (..., m, m); integers become the default float where `n` is negative.
        n: a whole number.

    Returns:
        A tensor like `x`; identity matrices for 0.

    Raises:
        TypeError: `n` is no whole number.
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.matrix_power([[2.0, 0.0], [0.0, 3.0]], 2).numpy()
        array([[4., 0.],
               [0., 9.]], dtype=float32)
    """
    if not hasattr(n, "__index__"):
        raise TypeError(f"matrix_power: n must be an int, got {n!r}")
    count, base = int(n.__index__()), as_tensor(x)
    sizes = tuple(base.shape)
    check_matrices(sizes, "matrix_power", square=True, unknown_fits=unknown_sizes_fit(base))
    if count < 0:
        count, base = -count, inv(base)
    if count == 0:
        size = base.shape[-1] or base.shape[-2]
        return add(multiply(base, 0), eye(size, dtype=base.dtype))
    while count % 2 == 0:
        base, count = matmul(base, base), count // 2
    result = base
    while count := count // 2:
        base = matmul(base, base)
        result = matmul(result, base) if count % 2 else result
    return result


def expm(x: TensorLike) -> Tensor:
    """The exponentials of the matrices `x`: the sum of x**k / k!.

    Source: Higham 2005, SIAM J. Matrix Anal. Appl. 26(4), by scaling and squaring.

    Args:
        x: tensor (..., n, n); integers become the default float.

    Returns:
        A tensor (..., n, n).

    Raises:
        ShapeError: the matrices are not square.

    Example:
        >>> tk.ops.expm([[0.0, 0.0], [0.0, 0.0]]).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    result: Tensor = _expm(matrices(x, "expm", square=True))
    return result
