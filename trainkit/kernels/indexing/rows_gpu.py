"""Picking rows by position on a GPU, and adding rows up by position.

Few rows are added up in order, as that costs nothing more; many only where results are to be the
same in each run (`tk.config.experimental.enable_op_determinism`), for which they are sorted first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.kernels.cuda.raw_kernel import blocks_for
from trainkit.kernels.indexing import rows_cuda as texts
from trainkit.kernels.sorting import sort_gpu
from trainkit.kernels.threads import pools

Array = Any

FEW = 1024
"""Rows up to which each is compared with all others: at most so many comparisons an element."""
_SIZES = np.dtype([("n", np.int64, (texts.MOST_AXES,))])
_PARTS = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}


def _here(xp: Any, *arrays: Array) -> bool:
    device = int(xp.cuda.Device().id)
    return all(isinstance(a, xp.ndarray) and int(a.device.id) == device for a in arrays)


def picked(xp: Any, x: Array, positions: Array, axis: int, wrap: bool) -> Array | None:
    """Slices of `x` along `axis`, zeros for a position outside; `None` without the kernel.

    Args:
        xp: CuPy.
        x: of any dtype.
        positions: integers of any shape.
        axis: along which.
        wrap: whether positions below 0 count from the end.
    """
    if positions.dtype.name not in texts.POSITIONS or x.dtype.itemsize not in texts.WORDS:
        return None
    kernel = texts.picked_rows(x.dtype.itemsize, positions.dtype.name)
    if not _here(xp, x, positions) or not kernel.is_there(xp):
        return None
    axis %= x.ndim
    inner = math.prod(x.shape[axis + 1 :])
    out = xp.empty((*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :]), x.dtype)
    if out.size:
        x, positions = xp.ascontiguousarray(x), xp.ascontiguousarray(positions)
        sizes = [np.int64(n) for n in (x.shape[axis], positions.size, inner, out.size)]
        kernel(blocks_for(out.size), (x, positions, out, *sizes, np.int32(wrap)))
    return out


def flat_positions(xp: Any, positions: Array, sizes: tuple[int, ...]) -> Array | None:
    """Rows of positions (..., k) as positions among all elements of the axes `sizes`, int64.

    Positions below 0 count from the end; a row that points outside is -1. `None` without a kernel.
    """
    axes = len(sizes)
    if positions.dtype.name not in texts.POSITIONS or axes > texts.MOST_AXES:
        return None
    kernel = texts.flat_positions(positions.dtype.name)
    if not _here(xp, positions) or not kernel.is_there(xp):
        return None
    flat = xp.empty(positions.shape[:-1], np.int64)
    if flat.size:
        record = np.zeros((), _SIZES)
        record["n"][:axes] = sizes
        numbers = (np.int64(flat.size), np.int32(axes), np.int32(1))
        kernel(blocks_for(flat.size), (xp.ascontiguousarray(positions), flat, *numbers, record))
    return flat


def add_rows(xp: Any, out: Array, positions: Array, rows: Array, wrap: bool) -> bool:
    """Add `rows` (m, d) to `out` (n, d) at `positions` (m,); what is outside is left out.

    Args:
        xp: CuPy.
        out: in row-major order; written in place.
        positions: integers.
        rows: of the dtype of `out`.
        wrap: whether positions below 0 count from the end.

    Returns:
        False, with nothing done, where the caller has to do it.

    Raises:
        UnimplementedError: the same bits are asked for in each run, and no kernel is there for it.
    """
    part = _PARTS.get(out.dtype)
    if part is not None and out.dtype == rows.dtype:  # real and imaginary parts side by side
        rows = xp.ascontiguousarray(rows).view(part)
        return add_rows(xp, out.view(part), positions, rows, wrap)
    ordered = positions.size <= FEW or pools.determined()
    if _serves(xp, out, positions, rows) and positions.size:
        rows, positions = xp.ascontiguousarray(rows), xp.ascontiguousarray(positions)
        was_launched = (
            _in_order(xp, "add", out, positions, rows, wrap)
            if ordered
            else _atomically(xp, out, positions, rows, wrap)
        )
        if was_launched:
            return True
    if pools.determined() and positions.size and out.dtype.kind in "fcV":
        raise UnimplementedError(
            f"enable_op_determinism: rows of {out.dtype} can't be added up in order on this GPU"
        )
    return False


def take_in_rows(xp: Any, op: str, out: Array, positions: Array, rows: Array) -> bool:
    """Multiply `out` (n, d) by `rows` (m, d) at `positions` (m,), or set it to the last of them.

    Args:
        xp: CuPy.
        op: `"multiply"` or `"last"`.
        out: in row-major order; written in place.
        positions: integers; what is outside of [0, n) is left out.
        rows: of the dtype of `out`; they come in order.

    Returns:
        False, with nothing done, where the caller has to do it.
    """
    if op == "last":
        if out.dtype != rows.dtype or out.dtype.itemsize > 8:
            return False
        bits = np.dtype(f"u{out.dtype.itemsize}")
        out, rows = out.view(bits), xp.ascontiguousarray(rows).view(bits)
    if not _serves(xp, out, positions, rows):
        return False
    rows, positions = xp.ascontiguousarray(rows), xp.ascontiguousarray(positions)
    return not positions.size or _in_order(xp, op, out, positions, rows, wrap=False)


def _serves(xp: Any, out: Array, positions: Array, rows: Array) -> bool:
    return (
        out.flags.c_contiguous
        and out.dtype == rows.dtype
        and out.dtype.name in texts.SUMMED
        and positions.dtype.name in texts.POSITIONS
        and _here(xp, out, positions, rows)
    )


def _atomically(xp: Any, out: Array, positions: Array, rows: Array, wrap: bool) -> bool:
    if out.dtype.name not in texts.ATOMIC:
        return False
    kernel = texts.sums_in_any_order(out.dtype.name, positions.dtype.name)
    if not kernel.is_there(xp):
        return False
    if rows.size:
        kernel(blocks_for(rows.size), (positions, rows, out, *_sizes(out, positions), _flag(wrap)))
    return True


def _in_order(xp: Any, op: str, out: Array, positions: Array, rows: Array, wrap: bool) -> bool:
    if positions.size > FEW:
        return _by_runs(xp, op, out, positions, rows, wrap)
    kernel = texts.of_few(op, out.dtype.name, positions.dtype.name)
    if not kernel.is_there(xp):
        return False
    if rows.size:
        n, count, inner = _sizes(out, positions)
        threads = min(max(32, 1 << (out.shape[1] - 1).bit_length()), 256)
        args = (positions, rows, out, n, np.int32(count), inner, _flag(wrap))
        kernel(positions.size, args, threads=threads)
    return True


def _by_runs(xp: Any, op: str, out: Array, positions: Array, rows: Array, wrap: bool) -> bool:
    kernel = texts.of_runs(op, out.dtype.name)
    if not kernel.is_there(xp):
        return False
    if wrap:
        flat = flat_positions(xp, positions[:, None], out.shape[:1])
    else:
        flat = positions.astype(np.int64)
        flat = xp.where((flat >= 0) & (flat < out.shape[0]), flat, -1)
    order = None if flat is None else sort_gpu.order_of_rows(xp, flat[None])
    if order is None:
        return False
    if rows.size:
        _, count, inner = _sizes(out, positions)
        kernel(blocks_for(rows.size), (flat, order, rows, out, count, inner))
    return True


def _sizes(out: Array, positions: Array) -> tuple[Any, Any, Any]:
    return np.int64(out.shape[0]), np.int64(positions.size), np.int64(out.shape[1])


def _flag(wrap: bool) -> Any:
    return np.int32(wrap)
