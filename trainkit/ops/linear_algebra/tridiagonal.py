"""Tridiagonal and banded matrices, of which only the diagonals are stored.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims, squeeze, swapaxes
from trainkit.ops.arrays.creation import eye
from trainkit.ops.arrays.diagonals import diagonal
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.linear_algebra.adjoints import triangular_solve
from trainkit.ops.linear_algebra.factorizations import eigh
from trainkit.ops.linear_algebra.linear_solve import solve
from trainkit.ops.math.complex_parts import conj
from trainkit.ops.math.elementwise import add, multiply


def _diagonals(diagonals: Any, form: str, op: str) -> tuple[Tensor, Tensor, Tensor]:
    """Above, on and below the diagonal, each (..., n): what lies outside is in no row.

    Raises:
        ValueError: the form is unknown.
        ShapeError: there are not three diagonals.
    """
    if form == "sequence":
        parts = [convert_to_tensor(d) for d in diagonals]
        if len(parts) != 3:
            raise ShapeError(f"{op}: needs three diagonals, got {len(parts)}")
        above, main, below = parts
        n = main.shape[-1]
        lead = ((0, 0),) * (len(main.shape) - 1)
        if above.shape[-1] == n - 1:
            above = pad(above, (*lead, (0, 1)))
        if below.shape[-1] == n - 1:
            below = pad(below, (*lead, (1, 0)))
        return above, main, below
    x = convert_to_tensor(diagonals)
    if form == "compact":
        if len(x.shape) < 2 or x.shape[-2] != 3:
            raise ShapeError(f"{op}: compact diagonals must be (..., 3, n), got {tuple(x.shape)}")
        return x[..., 0, :], x[..., 1, :], x[..., 2, :]
    if form != "matrix":
        raise ValueError(f"{op}: diagonals_format {form!r}; use 'compact', 'matrix' or 'sequence'")
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{op}: matrices must be square, got {tuple(x.shape)}")
    lead = ((0, 0),) * (len(x.shape) - 2)
    above = pad(diagonal(x, 1, -2, -1), (*lead, (0, 1)))
    below = pad(diagonal(x, -1, -2, -1), (*lead, (1, 0)))
    return above, diagonal(x, 0, -2, -1), below


def _dense(above: Tensor, main: Tensor, below: Tensor) -> Tensor:
    n = main.shape[-1]
    one = eye(n, dtype=main.dtype)
    up = eye(n, k=1, dtype=main.dtype)
    down = eye(n, k=-1, dtype=main.dtype)
    total = multiply(expand_dims(main, -1), one)
    total = add(total, multiply(expand_dims(above, -1), up))
    return add(total, multiply(expand_dims(below, -1), down))


def tridiagonal_matmul(
    diagonals: TensorLike,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    name: str | None = None,
) -> Tensor:
    """The product of tridiagonal matrices with `rhs` (..., n, k).

    Args:
        diagonals: `"compact"`: (..., 3, n), the last element of the upper and the first of the
            lower diagonal not looked at; `"matrix"`: (..., n, n); `"sequence"`: three tensors.
        rhs: (..., n, k).
        diagonals_format: see `diagonals`.

    Raises:
        ValueError: the format is another one.
        ShapeError: the shapes do not fit.

    Example:
        >>> diagonals = [[0.0, 0.0], [2.0, 3.0], [0.0, 0.0]]
        >>> tk.linalg.tridiagonal_matmul(diagonals, [[1.0], [1.0]]).numpy()
        array([[2.],
               [3.]], dtype=float32)
    """
    above, main, below = _diagonals(diagonals, diagonals_format, "tridiagonal_matmul")
    x = convert_to_tensor(rhs)
    if x.shape[-2] != main.shape[-1]:
        raise ShapeError(f"tridiagonal_matmul: rhs {tuple(x.shape)} needs {main.shape[-1]} rows")
    lead = ((0, 0),) * (len(x.shape) - 2)
    next_row = pad(x, (*lead, (0, 1), (0, 0)))[..., 1:, :]
    row_before = pad(x, (*lead, (1, 0), (0, 0)))[..., :-1, :]
    total = multiply(expand_dims(main, -1), x)
    total = add(total, multiply(expand_dims(above, -1), next_row))
    return add(total, multiply(expand_dims(below, -1), row_before))


def tridiagonal_solve(
    diagonals: TensorLike,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """`x` with matrix @ x = rhs for tridiagonal matrices, by elimination with pivots.

    The matrices are written out, so the work grows with the cube of n.

    Args:
        diagonals: see `tridiagonal_matmul`.
        rhs: (..., n) or (..., n, k).
        diagonals_format: see `tridiagonal_matmul`.
        transpose_rhs: exchange the last two axes of `rhs` first.
        conjugate_rhs: conjugate `rhs` first.
        partial_pivoting: rows are always exchanged where that is more accurate.
        perturb_singular: only False; a singular matrix raises.

    Raises:
        InvalidArgumentError: a matrix is singular, or `perturb_singular` is True.
        ShapeError: the shapes do not fit.

    Example:
        >>> diagonals = [[0.0, 0.0], [2.0, 4.0], [0.0, 0.0]]
        >>> tk.linalg.tridiagonal_solve(diagonals, [[2.0], [8.0]]).numpy()
        array([[1.],
               [2.]], dtype=float32)
    """
    if perturb_singular:
        raise InvalidArgumentError("tridiagonal_solve: perturb_singular=True is not supported")
    above, main, below = _diagonals(diagonals, diagonals_format, "tridiagonal_solve")
    x = convert_to_tensor(rhs)
    vector = len(x.shape) == len(main.shape)
    x = expand_dims(x, -1) if vector else x
    x = swapaxes(x, -1, -2) if transpose_rhs and not vector else x
    x = conj(x) if conjugate_rhs and x.dtype.is_complex else x
    y = solve(_dense(above, main, below), x)
    return squeeze(y, -1) if vector else y


@overload
def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: Literal[True] = True,
    select: str = "a",
    select_range: Any = None,
    tol: None = None,
    name: str | None = None,
) -> Tensor: ...
@overload
def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: bool,
    select: str = "a",
    select_range: Any = None,
    tol: None = None,
    name: str | None = None,
) -> Any: ...
def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    name: str | None = None,
) -> Any:
    """Eigenvalues, ascending, of symmetric tridiagonal matrices, and their vectors if asked for.

    Args:
        alpha: (n,), the diagonal.
        beta: (n - 1,), beside it.
        eigvals_only: leave out the vectors.
        select: `"a"` for all, `"i"` for those with numbers in `select_range` (both included).
        select_range: pair of ints for `"i"`.
        tol: only `None`: full accuracy.

    Raises:
        ValueError: a setting is none of those above.

    Example:
        >>> tk.linalg.eigh_tridiagonal([2.0, 3.0], [0.0]).numpy()
        array([2., 3.], dtype=float32)
    """
    if tol is not None or select not in ("a", "i"):
        raise ValueError(
            f"eigh_tridiagonal: select={select!r}, tol={tol!r}; use select 'a' or 'i', tol None"
        )
    main, beside = convert_to_tensor(alpha), convert_to_tensor(beta)
    above, main, below = _diagonals((conj(beside), main, beside), "sequence", "eigh_tridiagonal")
    w, v = eigh(_dense(above, main, below))
    if select == "i":
        first, last = (int(k) for k in select_range)
        w, v = w[..., first : last + 1], v[..., first : last + 1]
    return w if eigvals_only else (w, v)


def banded_triangular_solve(
    bands: Any, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """`x` with matrix @ x = rhs for triangular matrices with few diagonals.

    Args:
        bands: (..., k, n). Row 0 of lower matrices is the main diagonal, row i the one i below,
            with its element in column j at [i, j]; the last row of upper ones is the main diagonal.
        rhs: (..., n, m).
        lower: which triangle.
        adjoint: solve with the adjoint matrices.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> bands = [[2.0, 2.0], [0.0, 1.0]]
        >>> tk.linalg.banded_triangular_solve(bands, [[2.0], [3.0]]).numpy()
        array([[1.],
               [1.]], dtype=float32)
    """
    b = convert_to_tensor(bands)
    if len(b.shape) < 2 or b.shape[-2] > b.shape[-1]:
        raise ShapeError(f"banded_triangular_solve: bands must be (..., k, n), got {b.shape}")
    k, n = b.shape[-2:]
    total: Any = None
    for i in range(k):
        # Element (i, j) of the bands stands in row j of the matrix.
        offset = -i if lower else k - 1 - i
        diagonal_mask = eye(n, k=offset, dtype=b.dtype)
        part = multiply(expand_dims(b[..., i, :], -1), diagonal_mask)
        total = part if total is None else add(total, part)
    return triangular_solve(total, rhs, lower=lower, adjoint=adjoint)
