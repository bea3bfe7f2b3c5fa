"""Products of matrices of float32 and float64 on the thread pool, in blocks.

OpenBLAS gives each of its threads a fixed share, and these wait for one another in a busy loop: on
a machine that others use too, all stand still until the last one has got a core again, so a product
of 40 microseconds took ten milliseconds beside eight busy processes. Here whoever has a core takes
the next block, and what nobody helps with is done by the caller. On a quiet machine it takes 0.5 to
1 of OpenBLAS's time (register tiles read weights where they lie, so little is copied).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import (
    CACHED_FLOATS,
    CALL_FLOATS,
    COPIED_COLUMN,
    COPIED_ROW,
    LINE_FLOATS,
    PART_NANOSECONDS,
    PRODUCT_NANOSECONDS,
)
from trainkit.core.cpu.processor import cache_bytes
from trainkit.kernels.jit.kernel_family import PRODUCT_SECONDS, Family
from trainkit.kernels.jit.register_tiles import BLOCK_DEPTH, block_columns, block_tiling
from trainkit.kernels.jit.target import multiplies_whole_vectors
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_MATRIX, EMPTY_VECTOR, Epilogue
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.threads.thread_pool import PARTS_EACH, thread_pool

Array = Any
Product = Callable[[Any, Any], Any]
"""Multiplies two arrays, or gives `None` where something else is to do it."""

PRODUCT = Family("product", "matmul.product_compiled", "product", alone=True)
FINISHED = Family("finished_product", "matmul.product_compiled", "finished_product", alone=True)
STACK = Family("stacked_product", "matmul.product_compiled", "stacked_product", alone=True)
_DOUBLE = "matmul.product_compiled", "product_double"
PRODUCT_DOUBLE = Family("product_double", *_DOUBLE, alone=True)
STACK_DOUBLE = Family("stacked_product_double", _DOUBLE[0], "stacked_product_double", alone=True)

FEWEST = CALL_FLOATS // 2
"""Elements of the first matrix from which on the kernel is asked."""
FEWEST_WEIGHTS = CACHED_FLOATS
"""Weights of float32 that lie by rows from which on it is asked of any first matrix.

Few rows wait for memory: of one row it gets a third more out of that than OpenBLAS does, and of a
few rows three times as much, as OpenBLAS copies the weights.
"""
LEAST_WORK = 1 << 18
"""Multiplications up to which OpenBLAS uses one thread, and is left alone."""
_LEAST_EACH = 1 << 14
"""Multiplications of each product of a stack, below which most of a tile is empty."""
BLOCK_WORK = int(PART_NANOSECONDS / PRODUCT_NANOSECONDS)
"""Multiplications that are worth a thread's while."""
WAITED = 0.25
"""The part of a block for which threads wait for the last one."""
_NARROWEST = LINE_FLOATS // 2
"""With fewer columns most of a vector is multiplied in vain."""

_TURNED_STRIPS = 3
"""Strips of columns from which on rows are laid as panels: their tiles take a seventh less time."""

STRIPS = "columns"
"""What layout of weights those of `_strips` are."""

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def product(
    x: Array,
    w: Array,
    bias: Array | None = None,
    rectify: bool = False,
    weights: PreparedWeights | None = None,
    epilogue: Epilogue | None = None,
) -> Array | None:
    """`np.matmul(x, w)` of two matrices, or `None` where that is to do it.

    Args:
        x: (rows, depth).
        w: (depth, columns).
        bias: (columns,) in row-major order and of float32, which sums start from; with `rectify`,
            too, both are of float32.
        rectify: whether results below 0 become 0.
        weights: keeps the strips of `w`, of float32, for further calls.
        epilogue: what follows the product of float32; without `rectify`, as limits are its own.
    """
    dtype = x.dtype
    if w.dtype is not dtype or x.ndim != 2 or w.ndim != 2 or dtype not in (_F32, _F64):
        return None
    rows, depth = x.shape
    columns = w.shape[1]
    if depth != w.shape[0] or not is_large(rows, w):
        return None
    size = dtype.itemsize
    if size not in w.strides:
        return None
    finished = not (bias is None and weights is None and epilogue is None) or rectify
    family = FINISHED if finished else PRODUCT if size == 4 else PRODUCT_DOUBLE
    run = family.find((), PRODUCT_SECONDS * rows * w.size)
    if run is None:
        return None
    strips = None if weights is None else weights.strips(w, _strips, STRIPS)
    pool, blocks, height, width = block_shares(rows, depth, columns, size)
    result, panels = np.empty((rows, columns), dtype), panel_columns()
    if finished:
        matrix = w if strips is None else strips
        strip = block_columns() * (w.strides[1] if strips is None else size * depth)
        start = EMPTY_VECTOR if bias is None else bias
        follows = EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_MATRIX
        limits = np.float32(0 if rectify else -np.inf), np.float32(np.inf)
        if epilogue is not None:
            residual = epilogue.residual_of(result.shape, EMPTY_MATRIX)
            follows, limits = (epilogue.factor, epilogue.shift, residual), epilogue.limits
        run(pool, blocks, x, matrix, start, *follows, result, height, width, strip, panels, *limits)
    else:
        run(pool, blocks, x, w, result, height, width, panels)
    return result


@lru_cache(maxsize=1)
def panel_columns() -> int:
    """Columns from which on rows are laid as panels.

    Where a vector is multiplied in two halves, tiles wait for that and not for what lies apart.
    """
    return _TURNED_STRIPS * block_columns() if multiplies_whole_vectors() else sys.maxsize


def is_large(rows: int, w: Array) -> bool:
    """Whether a product of so many rows by a matrix `w` is worth a kernel's while."""
    if w.shape[1] < _NARROWEST:
        return False
    work = rows * w.size
    return work > LEAST_WORK or (work > 0 and has_many_weights(w))


def has_many_weights(w: Array) -> bool:
    """Whether the kernel is asked for products by `w` however few rows the other matrix has."""
    many: bool = w.size >= FEWEST_WEIGHTS
    return many and w.dtype is _F32 and w.ndim == 2 and w.strides[1] == w.itemsize


def is_asked(x: Array, w: Array) -> bool:
    """Whether the kernel is asked for the product of two matrices: with others bits are BLAS's."""
    if x.ndim == 2 == w.ndim and not is_large(len(x), w):
        return False
    return x.size >= FEWEST or has_many_weights(w)


def _strips(w: Array) -> Array:
    """The columns of each tile of `w`, one strip below the other, zeros beyond the last column."""
    depth, columns = w.shape
    width = block_columns()
    strips = np.zeros((-(-columns // width), depth, width), np.float32)
    for strip, first in zip(strips, range(0, columns, width), strict=True):
        part = w[:, first : first + width]
        strip[:, : part.shape[1]] = part
    return strips.reshape(-1, width)


def pooled_product(x: Array, w: Array) -> Array:
    """The product of two matrices, on the pool where that pays."""
    result = product(x, w)
    return np.matmul(x, w) if result is None else result


def product_of(x: Array, w: Array) -> Array | None:
    """`np.matmul(x, w)` of two matrices, of their stacks, or of a stack and one matrix, or `None`.

    Stacks of more than two axes broadcast as NumPy's do.
    """
    if not is_asked(x, w) or min(x.ndim, w.ndim) < 2:
        return None
    return one_or_many_products(product, stacked_product, x, w)


def one_or_many_products(one: Product, many: Product, x: Array, w: Array) -> Array | None:
    """The product of two matrices, or of stacks of them, by what does one and what does many."""
    if w.ndim == 2:
        if x.ndim == 2:
            return one(x, w)
        if x.flags.c_contiguous:  # one large product, not many small ones
            flat_product = one(x.reshape(-1, x.shape[-1]), w)
            return None if flat_product is None else flat_product.reshape(*x.shape[:-1], -1)
    return many(x, w)


def stacked_product(x: Array, w: Array) -> Array | None:
    """The same where each matrix of a stack has its own product."""
    dtype = x.dtype
    if w.dtype is not dtype or dtype not in (_F32, _F64) or not x.size:
        return None
    rows, depth = x.shape[-2:]
    columns = w.shape[-1]
    if columns < _NARROWEST or depth != w.shape[-2]:
        return None
    size = dtype.itemsize
    if size not in w.strides[-2:]:
        return None
    outside: tuple[int, ...] = x.shape[:-2]
    if outside != w.shape[:-2]:
        try:
            outside = np.broadcast_shapes(outside, w.shape[:-2])
        except ValueError:  # raised by the operation, which knows the names
            return None
    count = math.prod(outside)
    each = rows * depth * columns
    work = count * each
    if work <= LEAST_WORK or each < _LEAST_EACH:
        return None
    run = (STACK if size == 4 else STACK_DOUBLE).find((), PRODUCT_SECONDS * work)
    if run is None:
        return None
    one, two = as_four_axes(x, outside), as_four_axes(w, outside)
    if one is None or two is None:
        return None
    pool, parts, height, width = stack_shares(count, rows, depth, columns, size)
    result = np.empty((*one.shape[:2], rows, columns), dtype)
    run(pool, parts, one, two, result, height, width, panel_columns())
    return result if len(outside) == 2 else result.reshape(*outside, rows, columns)


def as_four_axes(x: Array, outside: tuple[int, ...]) -> Array | None:
    """A view of four axes of a stack that is broadcast to the axes `outside`, if there is one."""
    if x.shape[:-2] != outside:
        x = np.broadcast_to(x, (*outside, *x.shape[-2:]))
    if x.ndim == 4:
        return x
    if x.ndim == 3:
        return x[None]
    first = math.prod(outside[:-1])
    try:
        return np.reshape(x, (first, *x.shape[-3:]), copy=False)
    except ValueError:
        return None


class TileKind(NamedTuple):
    """What a kernel multiplies by.

    Attributes:
        rows: of a tile; 0 for those of `block_tiling`.
        speed: multiplications in the time of one by vectors of float32.
    """

    rows: int = 0
    speed: int = 1


VECTORS = TileKind()


def is_worth_threads(rows: int, depth: int, columns: int, kind: TileKind = VECTORS) -> bool:
    """Whether several threads may do a product: it is work enough for two blocks at least."""
    return rows * depth * columns // kind.speed >= 2 * BLOCK_WORK


def block_shares(
    rows: int, depth: int, columns: int, size: int = 4, kind: TileKind = VECTORS
) -> tuple[int, int, int, int]:
    """What a kernel of one product runs in.

    Args:
        rows: of the product.
        depth: multiplications of each sum.
        columns: of the product.
        size: bytes of what is multiplied.
        kind: what multiplies.

    Returns:
        The address of the thread pool, 0 for this thread alone; the number of blocks; and the rows
        and columns of each but the last ones.
    """
    helpers = thread_pool() if is_worth_threads(rows, depth, columns, kind) else None
    threads = helpers.most if helpers else 1
    height, width, blocks = block_sizes(rows, depth, columns, threads, size, kind)
    return helpers.run_address if helpers and blocks > 1 else 0, blocks, height, width


def stack_shares(
    count: int, rows: int, depth: int, columns: int, size: int = 4, kind: TileKind = VECTORS
) -> tuple[int, int, int, int]:
    """The same for a stack of `count` products, whose parts each take some blocks."""
    work = count * rows * depth * columns // kind.speed
    helpers = thread_pool() if work >= 2 * BLOCK_WORK else None
    threads = helpers.most if helpers else 1
    shares = PARTS_EACH * threads
    each_threads = 1 if count >= shares else threads
    height, width, blocks = block_sizes(rows, depth, columns, each_threads, size, kind)
    parts = min(count * blocks, max(1, min(shares, work // BLOCK_WORK)))
    return helpers.run_address if helpers and parts > 1 else 0, parts, height, width


@lru_cache(maxsize=4096)
def block_sizes(
    rows: int, depth: int, columns: int, threads: int, size: int = 4, kind: TileKind = VECTORS
) -> tuple[int, int, int]:
    """Height and width of blocks, and their number.

    The numbers of a block's rows take up the second cache at most, as they are read for each strip
    of columns. Blocks are tall and wide, so that little is copied to be read side by side: columns
    are for each block below another, rows for each beside another. Where all columns fit in that
    cache beside a block, it is as low as leaves room for its results, too. Of blocks for several
    threads there are a few for each, so that who is held up for a while leaves the rest to others.
    Each sum is added up in order whatever the blocks, so no bit depends on them.
    """
    tall, vectors, lanes = block_tiling()
    tall = kind.rows or tall
    tile = vectors * lanes * 4 // size
    tiles_down, tiles_across = -(-rows // tall), -(-columns // tile)
    near = -(-cache_bytes(2) // size // tall // min(depth, BLOCK_DEPTH))
    if depth * columns * size <= cache_bytes(2) // 2:
        # numbers, results and residuals of a row
        bytes_of_row = size * (min(depth, BLOCK_DEPTH) + 2 * columns)
        near = min(near, max(1, cache_bytes(2) // bytes_of_row // tall))
    min_down = -(-tiles_down // near)
    work = rows * depth * columns // kind.speed
    max_blocks = min(PARTS_EACH * threads, work // BLOCK_WORK) if threads > 1 else 1
    best, fewest_seconds = (0, 0, 0), math.inf
    for down in range(min_down, min(tiles_down, max(min_down, max_blocks)) + 1):
        height = tall * -(-tiles_down // down)
        for across in range(1, min(tiles_across, max(1, max_blocks // down)) + 1):
            width = tile * -(-tiles_across // across)
            blocks = -(-rows // height) * -(-columns // width)
            each = (min(height, rows) + COPIED_COLUMN) * (min(width, columns) + COPIED_ROW)
            seconds = each * (-(-blocks // max(1, threads)) + WAITED)
            if seconds < fewest_seconds:
                best, fewest_seconds = (height, width, blocks), seconds
    return best
