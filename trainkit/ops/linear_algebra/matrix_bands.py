"""Bands of matrices: several diagonals side by side, as TensorFlow packs them.

A band `(lowest, highest)` is an array (..., diagonals, length): first the highest diagonal, then
those below it, each as long as the longest. Shorter ones stand at the left or at the right of their
row, which `align` says for those above and those below the main diagonal.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.shaping import shape as sizes
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.indexing.gathering import take
from trainkit.ops.math.comparisons import logical_and
from trainkit.ops.math.elementwise import cast, maximum, minimum, where
from trainkit.ops.math.value_limits import clip

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")

_LATER = SimpleNamespace(
    arange=arange,
    clip=clip,
    expand_dims=expand_dims,
    logical_and=logical_and,
    maximum=maximum,
    minimum=minimum,
    where=where,
)
"""What there is of NumPy where sizes are tensors, known only when a graph runs."""


class Band(NamedTuple):
    """Which diagonals, and at which end of their rows short ones stand.

    Attributes:
        low: number of the lowest, below 0 for those below the main one.
        high: number of the highest.
        right_above: whether those above the main diagonal stand at the right.
        right_below: likewise those below.
    """

    low: int
    high: int
    right_above: bool
    right_below: bool

    @property
    def diagonals(self) -> int:
        """How many diagonals there are."""
        return self.high - self.low + 1

    def length(self, rows: Any, columns: Any) -> Any:
        """That of the longest diagonal of a matrix."""
        one, other = rows + min(self.high, 0), columns - max(self.low, 0)
        return _numbers(rows, columns).minimum(one, other)


def is_single(k: Any) -> bool:
    """Whether `k` is the number of one diagonal."""
    return type(k) is int


def band_of(k: Any, align: str, operation: str) -> Band:
    """The band that `k`, a number or a pair, and `align` mean.

    Raises:
        InvalidArgumentError: the numbers are in the wrong order, or `align` is another word.
    """
    if align not in ALIGNMENTS:
        raise InvalidArgumentError(
            f"{operation}: align is {align!r}; it can be {', '.join(map(repr, ALIGNMENTS))}"
        )
    ends = np.asarray(plain(k)).reshape(-1).tolist()
    if len(ends) not in (1, 2) or ends[0] > ends[-1]:
        raise InvalidArgumentError(
            f"{operation}: k is {k}; it is the number of a diagonal, or those of the lowest and "
            "the highest one"
        )
    above, below = align.split("_")
    return Band(int(ends[0]), int(ends[-1]), above == "RIGHT", below == "RIGHT")


def from_band(
    diagonal: Any, band: Band, num_rows: Any, num_cols: Any, padding_value: Any
) -> Tensor:
    """Matrices with a band, and `padding_value` elsewhere; see `diag`."""
    d = _pack(convert_to_tensor(diagonal), band, "diag")
    length = sizes(d)[-1]
    rows, columns = _matrix_sizes(band, length, int(plain(num_rows)), int(plain(num_cols)))
    spread, inside = _spread(d, band, rows, columns)
    return where(inside, spread, cast(padding_value, d.dtype))


def to_band(x: Tensor, band: Band, padding_value: Any) -> Tensor:
    """The band of matrices, with `padding_value` beside short diagonals; see `diag_part`."""
    rows, columns = sizes(x)[-2:]
    check_inside(band.low, band.high, rows, columns, "diag_part")
    numbers = _numbers(rows, columns)
    length = band.length(rows, columns)
    diagonals = (band.high - np.arange(band.diagonals))[:, None]
    position = numbers.expand_dims(numbers.arange(length), 0) - _offsets(
        band, diagonals, rows, columns
    )
    i, j = position + np.maximum(-diagonals, 0), position + np.maximum(diagonals, 0)
    inside = numbers.logical_and(position >= 0, numbers.logical_and(i < rows, j < columns))
    flat = numbers.where(inside, i * columns + j, 0)
    values = take(_flatten(x), flat, axis=-1)
    packed: Tensor = where(inside, values, cast(padding_value, x.dtype))
    return packed if band.diagonals > 1 else packed[..., 0, :]


def with_band(x: Tensor, diagonal: Any, band: Band) -> Tensor:
    """Matrices with their band replaced; see `set_diag`."""
    rows, columns = sizes(x)[-2:]
    check_inside(band.low, band.high, rows, columns, "set_diag")
    d = _pack(convert_to_tensor(diagonal), band, "set_diag")
    length, expected = sizes(d)[-1], band.length(rows, columns)
    if isinstance(length, int) and isinstance(expected, int | np.integer) and length != expected:
        raise ShapeError(
            f"set_diag: diagonals {band.low} to {band.high} of matrices ({rows}, {columns}) have "
            f"{expected} elements, the diagonal has shape {tuple(d.shape)}"
        )
    spread, inside = _spread(d, band, rows, columns)
    return where(inside, spread, x)


def check_inside(low: int, high: int, rows: Any, columns: Any, operation: str) -> None:
    """Raise `InvalidArgumentError` for a diagonal outside of matrices of known sizes."""
    for k in (low, high):
        below = isinstance(rows, int) and k <= -rows
        above = isinstance(columns, int) and k >= columns
        if k and (below or above):
            raise InvalidArgumentError(
                f"{operation}: there is no diagonal {k} in matrices ({rows}, {columns}); their "
                f"diagonals are those above {-rows} and below {columns}"
            )


def _numbers(*dims: Any) -> Any:
    """NumPy, or the operations that stand for it where a size is a tensor."""
    return np if all(isinstance(n, int | np.integer) for n in dims) else _LATER


def _pack(d: Tensor, band: Band, operation: str) -> Tensor:
    """The band with an axis for its diagonals, which a single one lacks."""
    if band.diagonals == 1:
        return expand_dims(d, -2)
    if len(d.shape) < 2 or d.shape[-2] not in (None, band.diagonals):
        raise ShapeError(
            f"{operation}: diagonals {band.low} to {band.high} are {band.diagonals}, which the "
            f"last axis but one must have; the diagonal has shape {tuple(d.shape)}"
        )
    return d


def _matrix_sizes(band: Band, length: Any, num_rows: int, num_cols: int) -> tuple[Any, Any]:
    """Rows and columns of matrices, -1 being the smallest that have room."""
    smallest = length - min(band.high, 0), length + max(band.low, 0)
    if num_rows == num_cols == -1:
        n = _numbers(length).maximum(*smallest)
        return n, n
    rows = smallest[0] if num_rows == -1 else num_rows
    columns = smallest[1] if num_cols == -1 else num_cols
    if not isinstance(length, int):
        return rows, columns
    few = rows < smallest[0] or columns < smallest[1]
    if few or (rows != smallest[0] and columns != smallest[1]):
        raise InvalidArgumentError(
            f"diag: a matrix ({rows}, {columns}) does not have diagonals {band.low} to {band.high} "
            f"of {length} elements; that has {smallest[0]} rows and {smallest[1]} columns or more, "
            "and one of them is just that"
        )
    return rows, columns


def _offsets(band: Band, diagonals: Any, rows: Any, columns: Any) -> Any:
    """How far from the left the `diagonals` begin in the rows of the band."""
    numbers = _numbers(rows, columns)
    below, above = numbers.minimum(diagonals, 0), numbers.maximum(diagonals, 0)
    free = band.length(rows, columns) - numbers.minimum(rows + below, columns - above)
    right = ((diagonals > 0) & band.right_above) | ((diagonals < 0) & band.right_below)
    return numbers.where(right | (diagonals == 0) & band.right_above & band.right_below, free, 0)


def _spread(d: Tensor, band: Band, rows: Any, columns: Any) -> tuple[Tensor, Any]:
    """The values of a band at their places in matrices, and where these places are."""
    length = sizes(d)[-1]
    numbers = _numbers(rows, columns, length)
    i = numbers.expand_dims(numbers.arange(rows), 1)
    j = numbers.expand_dims(numbers.arange(columns), 0)
    diagonals = j - i
    inside = numbers.logical_and(diagonals >= band.low, diagonals <= band.high)
    clipped = numbers.clip(diagonals, band.low, band.high)
    position = i + numbers.minimum(clipped, 0) + _offsets(band, clipped, rows, columns)
    flat = (band.high - clipped) * length + position
    return take(_flatten(d), numbers.where(inside, flat, 0), axis=-1), inside


def _flatten(x: Tensor) -> Tensor:
    """`x` with its last two axes as one."""
    *lead, rows, columns = sizes(x)
    return reshape(x, (*lead, rows * columns))
