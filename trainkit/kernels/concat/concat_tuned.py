"""When arrays are joined, or taken apart, by several threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, LINE_FLOATS
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads.thread_pool import shared, thread_pool

Array = Any

_F32 = np.dtype(np.float32)
COPIED_ROWS = kernel_family.Family(
    "copied_rows", "concat.concat_compiled", "copied_rows", exact=True
)


def concatenate(*xs: Array, axis: int) -> Array | None:
    """`np.concatenate`, or `None` where that is to do it."""
    if not _is_served(xs, axis):
        return None
    axis %= xs[0].ndim
    before, behind = xs[0].shape[:axis], xs[0].shape[axis + 1 :]
    if any(x.shape[:axis] != before or x.shape[axis + 1 :] != behind for x in xs):
        return None
    rows, lengths = math.prod(before), [x.shape[axis] * math.prod(behind) for x in xs]
    run = _kernel(rows, lengths)
    if run is None:
        return None
    result = np.empty((*before, sum(x.shape[axis] for x in xs), *behind), np.float32)
    flat, start = result.reshape(rows, -1), 0
    for x, length in zip(xs, lengths, strict=True):
        _copy(run, x.reshape(rows, length), flat[:, start : start + length])
        start += length
    return result


def pieces(x: Array, cuts: Sequence[int], axis: int) -> tuple[Array, ...] | None:
    """What lies between rising cuts along an axis, in arrays of their own; `None` for views.

    Kernels take arrays in row-major order: one that is given a view copies it, and where a gradient
    goes back through a concatenation several are given it.
    """
    if not _is_served((x,), axis):
        return None
    axis %= x.ndim
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    starts, ends = (0, *cuts), (*cuts, x.shape[axis])
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    rows, inside = math.prod(before), math.prod(behind)
    # a single row is in order as it is, and cuts that do not rise are left to NumPy's rules
    if rows < 2 or starts[0] < 0 or min(sizes) < 0 or ends[-1] < starts[-1]:
        return None
    run = _kernel(rows, [size * inside for size in sizes])
    if run is None:
        return None
    flat, results = x.reshape(rows, -1), []
    for start, size in zip(starts, sizes, strict=True):
        piece = np.empty((*before, size, *behind), np.float32)
        columns = flat[:, start * inside : (start + size) * inside]
        _copy(run, columns, piece.reshape(rows, size * inside))
        results.append(piece)
    return tuple(results)


def _is_served(arrays: Sequence[Array], axis: int) -> bool:
    """Whether threads can copy rows of these arrays, and the first has such an axis."""
    return (
        thread_pool() is not None
        and all(type(x) is np.ndarray and x.dtype is _F32 and x.flags.c_contiguous for x in arrays)
        and -arrays[0].ndim <= axis < arrays[0].ndim
    )


def _kernel(rows: int, lengths: Sequence[int]) -> Any:
    """The kernel for rows of such lengths, `None` where it does not pay."""
    # a copy of a shorter row takes longer than one number after the other
    if not rows or min(lengths) < LINE_FLOATS:
        return None
    nbytes = 8 * rows * sum(lengths)
    return COPIED_ROWS.find((), nbytes * kernel_family.BYTE_SECONDS)


def _copy(run: Any, source: Array, target: Array) -> None:
    run(*shared(2 * BYTE_NANOSECONDS * source.nbytes), source, target)
