"""Singular values and what is measured with them: svd, matrix_rank.

Source of the gradient: Townsend 2016, "Differentiating the singular value decomposition". Where two
singular values are equal, the vectors have no derivative; their share is left out there.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, MATRIX, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.diagonals import matrix_with_diagonal
from trainkit.ops.core.vmap import stacked
from trainkit.ops.linear_algebra.linear_solve import default_cutoff
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.linear_algebra.matrices import adjoint, lapack, matrices, safe_reciprocal, times
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import add, cast, multiply, subtract
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.reductions import sum as sum_


def _rank(n: int | None, m: int | None) -> int | None:
    return None if n is None or m is None else min(n, m)


def _svd_rule(x: Spec, *, full: bool) -> Any:
    *batch, n, m = x.shape
    k = _rank(n, m)
    s = Spec((*batch, k), x.dtype.real_dtype)
    return (
        Spec((*batch, n, n if full else k), x.dtype),
        s,
        Spec((*batch, m if full else k, m), x.dtype),
    )


@primitive(_svd_rule, name="svd", semantics=MATRIX)
@lapack(None)
def _svd(xp: ArrayModule, x: Array, *, full: bool) -> Any:
    """Left vectors, singular values, and right vectors as rows."""
    u, s, vh = xp.linalg.svd(x, full_matrices=full)
    return u, s, vh


@primitive(
    lambda x: Spec((*x.shape[:-2], _rank(*x.shape[-2:])), shapes.float_dtype(x.dtype).real_dtype),
    semantics=MATRIX,
)
@lapack(None)
def singular_values(xp: ArrayModule, x: Array) -> Array:
    """The singular values alone, greatest first."""
    return xp.linalg.svd(shapes.as_float_array(x), compute_uv=False)


def _values_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    u, _, vh = _svd(x, full=False)
    return matmul(multiply(u, expand_dims(cast(g, u.dtype), -2)), vh)


singular_values.gradients(_values_gradient)


@primitive(
    lambda g: Spec((), g.dtype),
    semantics=COMPOSITE,
    lowering=Absent("it raises by values"),
    no_gradient=Absent("it stops gradients"),
)
def no_gradient_here(xp: ArrayModule, g: Array) -> Array:
    """0; raises if a gradient arrives for vectors that are arbitrary."""
    if g.size and (g != 0).any():
        raise UnimplementedError(
            "svd: with full_matrices=True the vectors beyond min(n, m) are arbitrary and have no "
            "gradient; "
            "use full_matrices=False"
        )
    return xp.zeros((), g.dtype)


@no_gradient_here.batch_by
def _no_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    return stacked(primitive.op(inputs[0].stacked), count)


def _svd_gradient(g: Any, y: Any, x: Tensor, *, full: bool) -> Tensor:
    if x.dtype.is_complex:
        raise UnimplementedError(
            "svd: the gradient of complex matrices is not supported; of real ones it is"
        )
    n, m = x.shape[-2:]
    k = _rank(n, m)
    if full and k is None:
        raise UnimplementedError(f"svd: the gradient needs known sizes, got shape {tuple(x.shape)}")
    if not full or n == m:
        return _thin_gradient(g, y, n != m)
    (gu, gs, gvh), (u, s, vh) = g, y
    thin_g = (gu[..., :k], gs, gvh[..., :k, :])
    thin_y = (u[..., :k], s, vh[..., :k, :])
    thin = _thin_gradient(thin_g, thin_y, True)
    null_space = add(no_gradient_here(gu[..., k:]), no_gradient_here(gvh[..., k:, :]))
    return add(thin, null_space)


def _thin_gradient(g: Any, y: Any, oblong: bool) -> Tensor:
    (gu, gs, gvh), (u, s, vh) = g, y
    ut, v, gv = adjoint(u), adjoint(vh), adjoint(gvh)
    row, column = expand_dims(s, -2), expand_dims(s, -1)
    gaps = safe_reciprocal(multiply(subtract(row, column), add(row, column)))
    turn_u, turn_v = matmul(ut, gu), matmul(vh, gv)
    from_u = multiply(multiply(gaps, subtract(turn_u, adjoint(turn_u))), row)
    from_v = multiply(multiply(gaps, subtract(turn_v, adjoint(turn_v))), column)
    inner = add(add(from_u, from_v), matrix_with_diagonal(gs, k=0))
    gradient = times(u, inner, vh)
    if not oblong:
        return gradient
    shrink = expand_dims(safe_reciprocal(s), -2)
    outside_u = matmul(multiply(subtract(gu, matmul(u, turn_u)), shrink), vh)
    outside_v = matmul(multiply(u, shrink), adjoint(subtract(gv, matmul(v, turn_v))))
    return add(gradient, add(outside_u, outside_v))


_svd.gradients(_svd_gradient)


@overload
def svd(
    x: TensorLike, full_matrices: bool = True, compute_uv: Literal[True] = True
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def svd(x: TensorLike, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Tensor: ...
@overload
def svd(x: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any: ...
def svd(x: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values s and vectors u, vh with u @ diag(s) @ vh = x.

    Args:
        x: tensor (..., n, m); integers become the default float.
        full_matrices: give all n and m vectors, not only the first k = min(n, m).
        compute_uv: give the vectors at all.

    Returns:
        `u` (..., n, n) or (..., n, k), `s` (..., k), greatest first, and `vh` (..., m, m) or (...,
        k, m); only `s` without `compute_uv`. All are NaN for a matrix that has a NaN.

    Raises:
        ShapeError: `x` has fewer than two axes.
        UnimplementedError: a gradient by the vectors beyond k, or of complex matrices.

    Example:
        >>> u, s, v = tk.ops.svd([[3.0, 0.0], [0.0, 2.0]])
        >>> s.numpy().round(4)
        array([3., 2.], dtype=float32)
    """
    tensor = matrices(x, "svd")
    if not compute_uv:
        return singular_values(tensor)
    u, s, vh = _svd(tensor, full=bool(full_matrices))
    return u, s, vh


def matrix_rank(x: TensorLike, tol: float | None = None) -> Tensor:
    """The number of singular values of each matrix above `tol`.

    Args:
        x: tensor (..., n, m); integers become the default float.
        tol: absolute; by default max(n, m) epsilon times the greatest singular value.

    Returns:
        An int32 tensor (...).

    Raises:
        ShapeError: `x` has fewer than two axes.
        InvalidArgumentError: `tol` is negative.

    Example:
        >>> int(tk.ops.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
        1
    """
    tensor = matrices(x, "matrix_rank")
    s = singular_values(tensor)
    if tol is not None and tol < 0:
        raise InvalidArgumentError(f"matrix_rank: tol must be 0 or more, got {tol}")
    limit = (
        multiply(max_(s, axis=-1, keepdims=True, initial=0), default_cutoff(tensor))
        if tol is None
        else tol
    )
    return sum_(cast(greater(s, limit), dtypes.int32), axis=-1)
