"""When compiled maxima, minima and running sums pay, and sums by BLAS."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import (
    BYTE_NANOSECONDS,
    CACHED_FLOATS,
    CALL_FLOATS,
    FIRST_FLOATS,
    LINE_FLOATS,
    THIRD_FLOATS,
)
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.dispatch.native import (
    lane_products,
    long_sum,
    row_products,
    row_square_sums,
    row_sums,
    vector_sum,
)
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.reductions.scans_tuned import scan
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import MOST_PARTS, VECTOR_SHARES, shared

Array = Any
Sizes = tuple[int, ...]

_F32 = np.dtype(np.float32)
ROW_MAX_MIN = {
    "max": kernel_family.Family("row_max", "reductions.reductions_compiled", "row_max"),
    "min": kernel_family.Family("row_min", "reductions.reductions_compiled", "row_min"),
}
COLUMN_MAX_MIN = {
    "max": kernel_family.Family("column_max", "reductions.reductions_compiled", "column_max"),
    "min": kernel_family.Family("column_min", "reductions.reductions_compiled", "column_min"),
}
RUNNING_ROWS = kernel_family.Family(
    "running_rows", "reductions.reductions_compiled", "running_rows", exact=True
)
RUNNING_COLUMNS = kernel_family.Family(
    "running_columns", "reductions.reductions_compiled", "running_columns", exact=True
)
COLUMN_SUMS = kernel_family.Family(
    "reduced_columns",
    "reductions.reductions_compiled",
    "column_sums",
    alone=True,
    formerly="column_sums",
)
MIDDLE_SUMS = kernel_family.Family(
    "middle_sums", "reductions.reductions_compiled", "middle_sums", alone=True
)
MIDDLE_SQUARE_SUMS = kernel_family.Family(
    "middle_square_sums", "reductions.reductions_compiled", "middle_square_sums", alone=True
)
HALF_COLUMN_SUMS = kernel_family.Family(
    "reduced_half_columns", "reductions.reductions_compiled", "half_column_sums", alone=True
)
HALF_MIDDLE_SUMS = kernel_family.Family(
    "half_middle_sums", "reductions.reductions_compiled", "half_middle_sums", alone=True
)
"""Of bfloat16, whose bits they read, in float32."""
ROW_SUMS = kernel_family.Family(
    "row_sums", "reductions.row_sums_compiled", "row_sums", exact=True, alone=True
)
ROW_SQUARE_SUMS = kernel_family.Family(
    "row_square_sums", "reductions.row_sums_compiled", "row_square_sums", exact=True, alone=True
)

FEWEST = 2 * FIRST_FLOATS
"""Smaller arrays are left to NumPy without a further look, or to the fused loops of a graph."""
FEWEST_RUNNING = 2 * LINE_FLOATS
"""The same for running sums, which are in no fused loop."""
FEWEST_OF_ALL = THIRD_FLOATS
"""The largest of fewer elements NumPy finds by one core as fast."""
_FEWEST_ROWS = 4
"""Rows that wait together in `row_sums`."""
_BROAD = 4 * LINE_FLOATS
"""Columns that make a sum of whole vectors."""


class _Cube(NamedTuple):
    """How an array is reduced along axes that lie side by side.

    Attributes:
        outer: elements before these axes.
        size: in them.
        inner: after them.
        rows: there are axes before them and none after.
        short: shape of the result without these axes.
        kept: its shape with them.
    """

    outer: int
    size: int
    inner: int
    rows: bool
    short: Sizes
    kept: Sizes


@lru_cache(maxsize=1024)
def _cube(shape: Sizes, axis: Any) -> _Cube | None:
    """The facts of a reduction; `None` where the axes don't lie side by side."""
    rank = len(shape)
    raw_axes = range(rank) if axis is None else axis if type(axis) is tuple else (axis,)
    if not raw_axes or not all(-rank <= a < rank for a in raw_axes):
        return None
    axes = sorted(a % rank for a in raw_axes)
    first, after = axes[0], axes[-1] + 1
    if axes != list(range(first, after)):
        return None
    before, between, behind = shape[:first], shape[first:after], shape[after:]
    sizes = math.prod(before), math.prod(between), math.prod(behind)
    keepdims_shape = (*before, *(1,) * len(between), *behind)
    return _Cube(*sizes, bool(before) and not behind, (*before, *behind), keepdims_shape)


def _is_ready(x: Array) -> bool:
    return type(x) is np.ndarray and x.dtype is _F32 and x.flags.c_contiguous


def axis_extreme(name: str, x: Array, axis: Any, keepdims: bool) -> Array | None:
    """The "max" or "min" along axes, or `None` where NumPy is to find it."""
    if not _is_ready(x) or not x.size:
        return None
    cube = _cube(x.shape, axis)
    if cube is None:
        return None
    outer, size, inner, _, short, keepdims_shape = cube
    if inner > 1:
        reduced = _column_extreme(name, x.reshape(outer, size, inner))
    elif outer == 1:
        reduced = _whole_extreme(name, x.reshape(-1)) if size >= FEWEST_OF_ALL else None
    else:
        reduced = _row_extreme(name, x.reshape(outer, size))
    return reduced if reduced is None else reduced.reshape(keepdims_shape if keepdims else short)


def _row_extreme(name: str, x: Array) -> Array | None:
    # NumPy's call for each row counts where rows are short.
    run = ROW_MAX_MIN[name].find((), kernel_family.BYTE_SECONDS * x.nbytes)
    if run is None:
        return None
    y = np.empty(len(x), np.float32)
    run(*shared(BYTE_NANOSECONDS * x.nbytes), x, y)
    return y


def _whole_extreme(name: str, x: Array) -> Array | None:
    end = x.size // MOST_PARTS * MOST_PARTS
    rows = _row_extreme(name, x[:end].reshape(MOST_PARTS, -1))
    if rows is None:
        return None
    return getattr(np, name)(np.concatenate([rows, x[end:]]))


def _column_extreme(name: str, x: Array) -> Array | None:
    outer, _, inner = x.shape
    run = COLUMN_MAX_MIN[name].find((), kernel_family.BYTE_SECONDS * x.nbytes)
    if run is None:
        return None
    y = np.empty((outer, inner), np.float32)
    pool, parts = shared(BYTE_NANOSECONDS * x.nbytes)
    run(pool, parts, x, y, _columns_each(outer, inner, parts))
    return y


def _columns_each(outer: int, inner: int, parts: int) -> int:
    """How many columns are worked on at a time; no bit depends on it.

    They take an eighth of the first cache, and there is work for all threads. By few columns a row
    is read in pieces, which takes up to twice as long: there are a quarter of what an
    eighth of a usual first cache holds, at least.
    """
    tasks = 1 if parts == 1 else math.ceil(min(parts, pools.compute_threads()) / outer)
    fitting = cache_bytes(1) // (8 * 4)
    return max(FIRST_FLOATS // 32, min(fitting, math.ceil(inner / tasks)))


def is_turned(x: Array) -> bool:
    """Whether the axes of an array lie in memory in reverse order, as those of a transpose do."""
    return bool(x.ndim > 1 and x.flags.fnc)


def running_sum(x: Array, axis: int) -> Array | None:
    """Sums of all elements up to each along `axis`, or `None` where NumPy is to make them."""
    if not _is_ready(x) or not x.size:
        return None
    axis %= x.ndim
    size, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if inner == 1 and size % 1024 == 0:  # eight such rows, all in one set of a cache, would not fit
        return scan(x, axis, False, False, False)
    family = RUNNING_ROWS if inner == 1 else RUNNING_COLUMNS
    run = family.find((), kernel_family.BYTE_SECONDS * 2 * x.nbytes)
    if run is None:
        return None
    y = np.empty(x.shape, np.float32)
    pool, parts = shared(2 * BYTE_NANOSECONDS * x.nbytes)
    if inner == 1:
        run(pool, parts, x.reshape(-1, size), y.reshape(-1, size))
    else:
        dims = (-1, size, inner)
        columns = _columns_each(x.size // (size * inner), inner, parts)
        run(pool, parts, x.reshape(dims), y.reshape(dims), columns)
    return y


def leading_sum(x: Array, count: int) -> Array:
    """Sums over the first `count` axes.

    Those of large arrays of floats are made on the pool, or are a product with ones, for which BLAS
    uses all cores.
    """
    if x.size < FEWEST or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return np.add.reduce(x, 0 if count == 1 else tuple(range(count)))
    result_shape = x.shape[count:]
    return column_sum(x.reshape(-1, math.prod(result_shape))).reshape(result_shape)


def _nanoseconds(x: Array) -> float:
    """What a sum takes on one core, by a kernel or BLAS.

    A number of any dtype takes as long as two bytes. Of columns the parts have sums of their own,
    so that this decides on roundings.
    """
    return 2 * BYTE_NANOSECONDS * float(x.size)


def column_sum(x: Array) -> Array:
    """Sums of the columns of a large matrix of floats, by the kernel or by BLAS."""
    if x.dtype is _F32:
        folds = _folds(*x.shape)
        run = COLUMN_SUMS.find((), _nanoseconds(x) * 1e-9) if folds else None
        if run is not None:
            width = folds * x.shape[1]
            pool, parts = shared(_nanoseconds(x))
            parts = min(parts, VECTOR_SHARES)
            sums = np.empty((parts, width), np.float32)
            run(pool, parts, x.reshape(-1, width), sums)
            return np.add.reduce(sums.reshape(parts * folds, x.shape[1]), 0)
    return np.ones(len(x), x.dtype) @ x


@lru_cache(maxsize=1024)
def _folds(rows: int, columns: int) -> int:
    """How many rows are read as one so that it fills vectors; 0 where that can't be."""
    folds = 1
    while folds * columns < _BROAD and rows % (2 * folds) == 0:
        folds *= 2
    return folds if folds * columns >= _BROAD // 4 else 0


_RUN = LINE_FLOATS**2
"""Elements of a whole sum that are added up one after the other, in the lanes of a register."""
_RUNS = LINE_FLOATS
"""Such runs are added up first, one after the other, in compiled sums."""
_AS_COMPILED = (_RUN, _RUNS) == (256, 16)
"""Whether these are the numbers of `long_sum`."""
_SMALLEST = CALL_FLOATS // 8
"""Elements of a matrix whose rows are added up, for which calling BLAS pays."""


def axis_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """Sums of large arrays of floats, else `None`.

    They are products with ones, for which BLAS uses all cores. The errors are those of NumPy's
    sums or smaller. Sums of rows have the bits of NumPy's own loop, which compiled graphs call.
    """
    if axis is None and x.dtype is _F32 and not keepdims:  # at once: it takes as long as its calls
        is_served = x.size >= FEWEST and x.flags.forc
        return _whole_sum(x.reshape(-1, order="A"), of_squares=False) if is_served else None
    total = wide_axis_sum(x, axis, keepdims)
    return None if total is None else cast_array(total, x.dtype)


def axis_square_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """`axis_sum` of the squares, with its bits; sums of rows and of all need no memory for them."""
    if is_turned(x):
        return _turned_sum(x, axis, keepdims, of_squares=True)
    return _float_axis_sum(x, axis, keepdims, of_squares=True)


def wide_axis_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """The same as float32 where that is what 16-bit floats are summed in."""
    if is_turned(x):
        return _turned_sum(x, axis, keepdims)
    if x.dtype == bfloat16.dtype:
        return _half_axis_sum(x, axis, keepdims)
    if x.dtype == np.float16:
        if x.size < FEWEST or not x.flags.c_contiguous:
            return None
        x = cast_array(x, _F32)
    return _float_axis_sum(x, axis, keepdims)


def _turned_sum(x: Array, axis: Any, keepdims: bool, of_squares: bool = False) -> Array | None:
    """The sum along axes of the transpose of `x`, which lies in order, if that has NumPy's order.

    NumPy goes through memory, so that columns of `x` are rows to it. Its rows, which are columns in
    memory, would be a product with ones, which a graph takes no such rows for.
    """
    if x.size < FEWEST:
        return None
    axes = _turned_axes(axis)
    cube = _cube(x.shape[::-1], axes)
    if cube is not None and cube.inner == 1:
        if of_squares:
            total = _float_axis_sum(x.T, axes, keepdims, of_squares)
        else:
            total = wide_axis_sum(x.T, axes, keepdims)
        return total if total is None else np.transpose(total)
    if x.dtype == np.float16:  # NumPy would cast a part at a time, each by itself
        return np.sum(cast_array(x, _F32), axis=axis, keepdims=keepdims)
    return None


def _turned_axes(axis: Any) -> Any:
    """The axes of a transpose that are those along `axis`; wrong ones stay wrong."""
    if type(axis) is tuple:
        return tuple(-1 - a for a in axis)
    return axis if axis is None else -1 - axis


def _float_axis_sum(x: Array, axis: Any, keepdims: bool, of_squares: bool = False) -> Array | None:
    if x.size < FEWEST or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return None
    cube = _cube(x.shape, axis)
    if cube is None:
        return _sum_in_steps(x, axis, keepdims, of_squares)
    outer, size, inner, is_rows, short, keepdims_shape = cube
    if is_rows:
        sums = _row_sum(x.reshape(outer, size), of_squares) if outer >= _FEWEST_ROWS else None
        return None if sums is None else sums.reshape(keepdims_shape if keepdims else short)
    if outer == inner == 1:
        total = _whole_sum(x.reshape(-1), of_squares)
        # The axes that stay may be there, each of size 1.
        shape = keepdims_shape if keepdims else short
        return np.full(shape, total) if shape else total
    if of_squares:
        x = np.square(x)
    if outer == 1:
        total = column_sum(x.reshape(size, inner))
    elif inner > 1 and size * inner >= _SMALLEST:
        total = _middle_sum(x.reshape(outer, size, inner))
    else:
        return None
    return total.reshape(keepdims_shape if keepdims else short)


def _sum_in_steps(x: Array, axis: Any, keepdims: bool, of_squares: bool) -> Array | None:
    """Sums along axes that others lie between: the last ones that are neighbours go first.

    NumPy's own loop is along the last axis alone, however short that is.
    """
    rank = x.ndim
    if type(axis) is not tuple or not axis or not all(-rank <= a < rank for a in axis):
        return None
    axes = sorted({a % rank for a in axis})
    if len(axes) < len(axis):  # the operation says what is wrong
        return None
    first = axes[-1]
    while first - 1 in axes:
        first -= 1
    sums = _float_axis_sum(x, tuple(range(first, axes[-1] + 1)), True, of_squares)
    if sums is None:
        return None
    over = tuple(a for a in axes if a < first)
    total = _float_axis_sum(sums, over, True)
    if total is None:
        total = np.add.reduce(sums, over, keepdims=True)
    return total if keepdims else total.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def _half_axis_sum(x: Array, axis: Any, keepdims: bool) -> Array | None:
    """Sums of bfloat16 along leading axes or axes in the middle, by kernels that read its bits."""
    if x.size < FEWEST or not x.flags.c_contiguous:
        return None
    cube = _cube(x.shape, axis)
    if cube is None or cube.inner == 1:
        return None
    bits, shape = x.view(np.uint16), cube.kept if keepdims else cube.short
    family = HALF_COLUMN_SUMS if cube.outer == 1 else HALF_MIDDLE_SUMS
    run = family.find((), _nanoseconds(x) * 1e-9)
    if run is None:
        return None
    pool, parts = shared(_nanoseconds(x))
    if cube.outer > 1:
        y = np.empty((cube.outer, cube.inner), np.float32)
        run(pool, parts, bits.reshape(cube.outer, cube.size, cube.inner), y)
        return y.reshape(shape)
    folds = _folds(cube.size, cube.inner) or 1
    parts = min(parts, VECTOR_SHARES)
    sums = np.empty((parts, folds * cube.inner), np.float32)
    run(pool, parts, bits.reshape(-1, folds * cube.inner), sums)
    return np.add.reduce(sums.reshape(parts * folds, cube.inner), 0).reshape(shape)


_ADDED_AT_ONCE, _SIDE_BY_SIDE = 128, 8
"""Numbers of a row that NumPy adds up in eight sums side by side; a longer row in halves."""


@lru_cache(maxsize=256)
def row_leaves(size: int) -> tuple[Array, Array]:
    """How NumPy adds up a row: where each run begins that is added up at once, and its end.

    And after each run, how often the sums of the last two halves become one.
    """
    starts, merges = [], []

    def halve(start: int, length: int) -> None:
        if length <= _ADDED_AT_ONCE:
            starts.append(start)
            merges.append(0)
            return
        half = length // 2 // _SIDE_BY_SIDE * _SIDE_BY_SIDE
        halve(start, half)
        halve(start + half, length - half)
        merges[-1] += 1

    halve(0, size)
    return np.array([*starts, size], np.int64), np.array(merges, np.int64)


def _row_sum(x: Array, of_squares: bool) -> Array | None:
    """Sums of rows with the bits of NumPy's, by a kernel or by compiled code; else `None`."""
    if not of_squares and shared(_nanoseconds(x))[1] == 1:  # the call of a kernel gains nothing
        sums = row_sums(x)
        if sums is not None:
            return sums
    sums = _row_sum_on_pool(x, of_squares)
    if sums is None:
        sums = row_square_sums(x) if of_squares else row_sums(x)
    return sums


def _row_sum_on_pool(x: Array, of_squares: bool) -> Array | None:
    if x.dtype is not _F32 or x.shape[1] < _SIDE_BY_SIDE:
        return None
    run = (ROW_SQUARE_SUMS if of_squares else ROW_SUMS).find((), _nanoseconds(x) * 1e-9)
    if run is None or not _adds_as_numpy(run, of_squares):
        return None
    sums = np.empty(len(x), np.float32)
    run(*shared(_nanoseconds(x)), x, *row_leaves(x.shape[1]), sums)
    return sums


@lru_cache(maxsize=8)
def _adds_as_numpy(run: Any, of_squares: bool) -> bool:
    """Whether this NumPy adds up rows in the order of the kernel; a later one may have another."""
    for size in (9, 131, 1000):
        x = (np.cos(np.arange(9.0 * size)).reshape(9, size) * 2).astype(np.float32)
        sums = np.empty(len(x), np.float32)
        run(0, 1, x, *row_leaves(size), sums)
        if sums.tobytes() != np.add.reduce(np.square(x) if of_squares else x, 1).tobytes():
            return False
    return True


def _middle_sum(x: Array) -> Array:
    """Sums along the middle of three axes, by the kernel or by BLAS."""
    sums = _middle_sum_on_pool(x)
    return np.matmul(np.ones((1, x.shape[1]), x.dtype), x) if sums is None else sums


def _middle_sum_on_pool(x: Array, family: kernel_family.Family = MIDDLE_SUMS) -> Array | None:
    if x.dtype is not _F32 or x.shape[2] < _BROAD // 4:
        return None
    nanoseconds = _nanoseconds(x)
    run = family.find((), nanoseconds * 1e-9)
    if run is None:
        return None
    y = np.empty((len(x), x.shape[2]), _F32)
    run(*shared(nanoseconds), x, y)
    return y


def _whole_sum(x: Array, of_squares: bool) -> Any:
    """The sum of all elements: NumPy adds up the sums of runs in pairs, so the error is small."""
    if not of_squares and _may_go_by_code(x) and (code_sum := long_sum(x)) is not None:
        return code_sum[()]
    end = x.size // (_RUN * _RUNS) * (_RUN * _RUNS)
    family = MIDDLE_SQUARE_SUMS if of_squares else MIDDLE_SUMS
    runs = (x if end == x.size else x[:end]).reshape(-1, _RUNS, _RUN)
    total = _middle_sum_on_pool(runs, family)
    if total is None and of_squares:
        return _whole_sum(np.square(x), of_squares=False)
    if total is None:
        end = x.size // _RUN * _RUN
        total = x[:end].reshape(-1, _RUN) @ np.ones(_RUN, x.dtype)
    total = _sum_in_pairs(total.reshape(-1))
    if end == x.size:
        return total
    tail = np.square(x[end:]) if of_squares else x[end:]
    return total + np.add.reduce(tail)


def _may_go_by_code(x: Array) -> bool:
    """Whether the kernel would add up a vector in one thread: the call of it is left out then."""
    nanoseconds = _nanoseconds(x)
    if not _AS_COMPILED or shared(nanoseconds)[1] > 1:
        return False
    return MIDDLE_SUMS.find((), nanoseconds * 1e-9) is not None


_FEWEST_QUARTERED = 1 << 10
"""Numbers whose quarters NumPy adds up by themselves: it halves what is more than 128."""


def _sum_in_pairs(x: Array) -> Any:
    """`np.add.reduce` of a vector: quarters go side by side, by compiled code or a kernel of rows.

    NumPy halves a vector in the same way, and waits for each sum before it begins the next.
    """
    # a kernel has longer vectors and all cores, but its call has to pay
    if x.size < CACHED_FLOATS // 2 and (total := vector_sum(x)) is not None:
        return total[()]
    quarter, remainder = divmod(x.size, 4)
    if x.size < _FEWEST_QUARTERED or remainder or quarter % _SIDE_BY_SIDE:
        return np.add.reduce(x)
    quarters = _row_sum_on_pool(x.reshape(4, quarter), of_squares=False)
    if quarters is None:
        return np.add.reduce(x)
    halves = quarters[::2] + quarters[1::2]
    return halves[0] + halves[1]


_LANES = 2 * LINE_FLOATS
"""So many products of a long row are made side by side, of numbers that lie as far apart.

Of many numbers below 1 a product is 0 in the end, and on the way there one of those that take a
processor a hundred times as long: the fewer products, the fewer of them.
"""


def axis_product(x: Array, *, axis: Any, keepdims: bool) -> Array | None:
    """Products of rows or of all of many floats, else `None`.

    Those of short rows have the bits of NumPy's, where each product waits for the one before it.
    """
    if x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return None
    cube = _cube(x.shape, axis)
    if cube is None or cube.inner != 1:
        return None
    shape, rows = cube.kept if keepdims else cube.short, x.reshape(cube.outer, cube.size)
    products = row_products(rows) if cube.size < 2 * _LANES else _long_products(rows)
    return None if products is None else products.reshape(shape)


def _long_products(x: Array) -> Array:
    """Products of the rows of `x`; the compiled half has the same bits."""
    products: Array | None = lane_products(x)
    if products is not None:
        return products
    end = x.shape[1] // _LANES * _LANES
    lanes = np.multiply.reduce(x[:, :end].reshape(len(x), end // _LANES, _LANES), 1)
    while lanes.shape[1] > 1:
        width = lanes.shape[1] // 2
        lanes = lanes[:, :width] * lanes[:, width:]
    return lanes[:, 0] * np.multiply.reduce(x[:, end:], 1)


def may_use_blas(rank: int, axis: Any) -> bool:
    """Whether the sum or mean of an array of so many axes along `axis` may be products."""
    cube = _cube((2,) * rank, axis)
    return not cube.rows if cube is not None else type(axis) is tuple and len(axis) > 1
