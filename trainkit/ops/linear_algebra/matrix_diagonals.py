"""Matrices made of diagonals, and diagonals of matrices.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.diagonals import diagonal as diagonal_
from trainkit.ops.arrays.diagonals import matrix_with_diagonal, tril, triu
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.dynamic_shapes import like, needs_values
from trainkit.ops.indexing.gathering import take
from trainkit.ops.linear_algebra.matrix_bands import (
    band_of,
    check_inside,
    from_band,
    is_single,
    to_band,
    with_band,
)
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import where
from trainkit.ops.math.value_limits import clip


def diag(
    diagonal: Any,
    name: str | None = None,
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the last axis of `diagonal` on their diagonal number `k`, zeros elsewhere.

    Args:
        diagonal: (..., n); for a band (..., diagonals, n), the highest first.
        k: 0 for the main diagonal, above 0 for those above it; or the numbers of the lowest and the
            highest diagonal of a band.
        num_rows: rows of the matrices; by default as many as needed, or as columns.
        num_cols: columns of the matrices, likewise.
        padding_value: what stands elsewhere.
        align: at which end of its row a shorter diagonal stands, for those above the main diagonal
            and those below: `"RIGHT_LEFT"`, `"LEFT_RIGHT"`, `"LEFT_LEFT"` or `"RIGHT_RIGHT"`.

    Raises:
        InvalidArgumentError: there is no matrix of these sizes, or `align` is another word.
        ShapeError: `diagonal` has not as many rows as the band has diagonals.

    Example:
        >>> tk.linalg.diag([1.0, 2.0]).numpy()
        array([[1., 0.],
               [0., 2.]], dtype=float32)
        >>> tk.linalg.diag([[0, 7, 8], [1, 2, 3]], k=(0, 1)).numpy()
        array([[1, 7, 0],
               [0, 2, 8],
               [0, 0, 3]], dtype=int32)
    """
    plainly = {type(k), type(num_rows), type(num_cols), type(padding_value)} == {int}
    if not plainly or (num_rows, num_cols, padding_value) != (-1, -1, 0):
        band = band_of(k, align, "diag")
        return from_band(diagonal, band, num_rows, num_cols, padding_value)
    return matrix_with_diagonal(convert_to_tensor(diagonal), k=k)


def diag_part(
    input: TensorLike,
    name: str | None = None,
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """The diagonal number `k` of the last two axes.

    Args:
        input: (..., m, n).
        k: 0 for the main diagonal, above 0 for those above it; or the numbers of the lowest and the
            highest diagonal of a band, which is (..., diagonals, length), the highest first.
        padding_value: what stands beside the shorter diagonals of a band.
        align: at which end of its row a shorter diagonal stands, as in `diag`.

    Raises:
        InvalidArgumentError: there is no such diagonal, or `align` is another word.

    Example:
        >>> tk.linalg.diag_part([[1.0, 2.0], [3.0, 4.0]]).numpy()
        array([1., 4.], dtype=float32)
        >>> tk.linalg.diag_part([[1, 7], [0, 4]], k=(0, 1)).numpy()
        array([[0, 7],
               [1, 4]], dtype=int32)
    """
    if not is_single(k):
        return to_band(convert_to_tensor(input), band_of(k, align, "diag_part"), padding_value)
    x = convert_to_tensor(input)
    if k:
        rows, columns = x.shape[-2:]
        check_inside(k, k, rows, columns, "diag_part")
    return diagonal_(x, offset=k, axis1=-2, axis2=-1)


def tensor_diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor (d..., d...) with `diagonal` (d...) where both indices agree.

    Args:
        diagonal: tensor of any shape.

    Example:
        >>> tk.linalg.tensor_diag([1.0, 2.0]).numpy()
        array([[1., 0.],
               [0., 2.]], dtype=float32)
    """
    d = convert_to_tensor(diagonal)
    return reshape(diag(reshape(d, (-1,))), tuple(d.shape) * 2)


def tensor_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """The elements of a tensor (d..., d...) where both indices agree.

    Args:
        input: (d..., d...).

    Raises:
        InvalidArgumentError: the shape is not one shape twice.

    Example:
        >>> tk.linalg.tensor_diag_part([[1.0, 2.0], [3.0, 4.0]]).numpy()
        array([1., 4.], dtype=float32)
    """
    x = convert_to_tensor(input)
    half = tuple(x.shape[: len(x.shape) // 2])
    if tuple(x.shape) != half * 2:
        raise InvalidArgumentError(f"tensor_diag_part: shape {x.shape} is not one shape twice")
    n = 1
    for size in half:
        n *= size
    return reshape(diag_part(reshape(x, (n, n))), half)


def set_diag(
    input: TensorLike, diagonal: Any, name: str | None = None, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`input` with `diagonal` on the diagonal number `k` of its last two axes.

    Args:
        input: (..., m, n).
        diagonal: (..., length); for a band (..., diagonals, length), the highest first.
        k: 0 for the main diagonal, above 0 for those above it; or the numbers of the lowest and the
            highest diagonal of a band.
        align: at which end of its row a shorter diagonal stands, as in `diag`.

    Raises:
        InvalidArgumentError: there is no such diagonal, or `align` is another word.
        ShapeError: `diagonal` has another size than the band.

    Example:
        >>> tk.linalg.set_diag(tk.ones((2, 2)), [5.0, 6.0]).numpy()
        array([[5., 1.],
               [1., 6.]], dtype=float32)
    """
    x = convert_to_tensor(input)
    if not is_single(k):
        return with_band(x, diagonal, band_of(k, align, "set_diag"))
    rows, columns = x.shape[-2:]
    if k:
        check_inside(k, k, rows, columns, "set_diag")
    i, j = arange(rows), arange(columns)
    on = equal(expand_dims(i, 1) + int(k), expand_dims(j, 0))
    start = max(-int(k), 0)
    positions = clip(i - start, 0, convert_to_tensor(diagonal).shape[-1] - 1)
    spread = expand_dims(take(diagonal, positions, axis=-1), -1)
    return where(on, spread, x)


@needs_values("num_lower", "num_upper", gives=lambda a: like(a["input"]))
def band_part(input: TensorLike, num_lower: int, num_upper: int, name: str | None = None) -> Tensor:
    """`num_lower` diagonals below and `num_upper` above the main one (-1: all); else zeros.

    Args:
        input: (..., m, n).
        num_lower: how many below; -1 for all.
        num_upper: how many above; -1 for all.

    Example:
        >>> tk.linalg.band_part(tk.ones((3, 3)), 0, 1).numpy()
        array([[1., 1., 0.],
               [0., 1., 1.],
               [0., 0., 1.]], dtype=float32)
    """
    x = convert_to_tensor(input)
    if num_lower >= 0:
        x = triu(x, k=-int(num_lower))
    if num_upper >= 0:
        x = tril(x, k=int(num_upper))
    return x
