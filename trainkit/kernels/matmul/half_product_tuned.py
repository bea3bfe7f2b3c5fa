"""Products of 16-bit floats on the thread pool: sums of float32, rounded once.

Where the processor multiplies tiles of pairs of bfloat16 (AMX-BF16) a large product takes a fourth
of the time of one of float32. With pairs alone (AVX512-BF16) it takes half of it, but on Intel's
processors, which have half as many units for them, more than float32. Elsewhere, and of float16,
operands become float32 while they are laid side by side, and a large one takes 0.9 to 1.15 times as
long. The bits of all three differ as those of float32 do between processors: the instructions take
subnormal numbers for 0, and add and round the products of a pair in their own ways.
`TRAINKIT_BFLOAT16=0` makes all processors do without both, `=pairs` without tiles.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit import bfloat16_pairs, target
from trainkit.kernels.jit.kernel_family import PRODUCT_SECONDS, Family
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_VECTOR
from trainkit.kernels.matmul.product_tuned import (
    VECTORS,
    TileKind,
    as_four_axes,
    block_shares,
    is_worth_threads,
    one_or_many_products,
    stack_shares,
)
from trainkit.kernels.threads.part_functions import PartFunction, part_function

Array = Any

_FILE = "matmul.half_product_compiled"
_WORDS, _PAIRS, _FLOAT16, _TILES = range(4)
_PRODUCTS = (
    Family("bfloat16_word_product", _FILE, "word_product", alone=True),
    Family("bfloat16_pair_product", _FILE, "pair_product", alone=True),
    Family("float16_product", _FILE, "float16_product", alone=True),
    Family("bfloat16_tile_product", _FILE, "tile_product", alone=True),
)
_STACKS = (
    Family("stacked_bfloat16_word_product", _FILE, "stacked_word_product", alone=True),
    Family("stacked_bfloat16_pair_product", _FILE, "stacked_pair_product", alone=True),
    Family("stacked_float16_product", _FILE, "stacked_float16_product", alone=True),
    Family("stacked_bfloat16_tile_product", _FILE, "stacked_tile_product", alone=True),
)
"""By the kind of words: of bfloat16 by whether the processor multiplies pairs, or tiles of them."""

_TILES_OF_PAIRS = TileKind(rows=32, speed=4)
"""Two tiles of AMX below each other. They multiply eight times as many pairs as vectors do, but
half of the time goes into laying these side by side."""

_BF16, _F16 = bfloat16.dtype, np.dtype(np.float16)
_BITS, _F32 = np.dtype(np.uint16), np.dtype(np.float32)


def _kind_of(dtype: Any) -> int | None:
    """The kind of words of a type, `None` where there is no kernel for it."""
    if dtype is _BF16:
        if bfloat16_pairs.has_bfloat16_tiles():
            return _TILES
        return _PAIRS if bfloat16_pairs.has_bfloat16_pairs() else _WORDS
    return _FLOAT16 if dtype is _F16 and target.converts_float16() else None


def _words_of(kind: int, depth: int) -> int:
    return (depth + 1) // 2 if kind in (_PAIRS, _TILES) else depth


def _tile_kind(kind: int) -> TileKind:
    return _TILES_OF_PAIRS if kind == _TILES else VECTORS


def product(
    x: Array, w: Array, bias: Array | None = None, rectify: bool = False, dtype: Any = None
) -> Array | None:
    """The product of two matrices of 16-bit floats, or `None` where there is no kernel for it.

    Args:
        x: (rows, depth).
        w: (depth, columns).
        bias: (columns,) which sums start from.
        rectify: whether results below 0 become 0; for results of 16 bits.
        dtype: that of the result, by default that of both, else float32.
    """
    kind = _kind_of(x.dtype)
    if kind is None or x.dtype is not w.dtype or not x.ndim == 2 == w.ndim:
        return None
    rows, depth = x.shape
    columns = w.shape[1]
    work = rows * depth * columns
    if depth != w.shape[0] or not work:
        return None
    run = _PRODUCTS[kind].find((), PRODUCT_SECONDS * work)
    if run is None:
        return None
    pool, blocks, height, width = block_shares(
        rows, _words_of(kind, depth), columns, kind=_tile_kind(kind)
    )
    result = np.empty((rows, columns), x.dtype if dtype is None else dtype)
    rounds = result.itemsize == 2
    start = EMPTY_VECTOR if bias is None else np.ascontiguousarray(bias, _F32)
    run(
        pool, blocks, _bits(x), _bits(w), start, result.view(_BITS),
        height, width, int(rounds), int(rectify),
    )  # fmt: skip
    return result


def product_function(dtype: Any) -> PartFunction | None:
    """What `product` does to (x, w, bias, y, height, width, rounds, rectifies), or `None`."""
    kind = _kind_of(dtype)
    if kind is None:
        return None
    run = _PRODUCTS[kind].find((), 0.0)
    return None if run is None else _function_of(_PRODUCTS[kind].name, run)


@lru_cache
def _function_of(name: str, run: Any) -> PartFunction:
    bits = np.empty((1, 1), _BITS)
    return part_function(name, run, bits, bits, EMPTY_VECTOR, bits, 1, 1, 1, 0)


def is_shared(dtype: Any, rows: int, depth: int, columns: int) -> bool:
    """Whether several threads may do a product of a type that has a kernel."""
    kind = _kind_of(dtype) or _WORDS
    return is_worth_threads(rows, _words_of(kind, depth), columns, _tile_kind(kind))


def _bits(x: Array) -> Array:
    """The numbers of a matrix, or of a stack of them, with neighbours along one of its axes."""
    return (x if 2 in x.strides[-2:] else np.ascontiguousarray(x)).view(_BITS)


def product_of(x: Array, w: Array) -> Array | None:
    """`np.matmul(x, w)` of 16-bit floats, of two axes or of more, which broadcast; or `None`."""
    if x.dtype is not w.dtype or min(x.ndim, w.ndim) < 2:
        return None
    return one_or_many_products(product, stacked_product, x, w)


def stacked_product(x: Array, w: Array) -> Array | None:
    """The same where each matrix of a stack has its own product."""
    kind = _kind_of(x.dtype)
    if kind is None or x.dtype is not w.dtype:
        return None
    rows, depth = x.shape[-2:]
    columns = w.shape[-1]
    try:
        outside: tuple[int, ...] = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except ValueError:  # raised by the operation, which knows the names
        return None
    count = math.prod(outside)
    work = count * rows * depth * columns
    if depth != w.shape[-2] or not work:
        return None
    run = _STACKS[kind].find((), PRODUCT_SECONDS * work)
    if run is None:
        return None
    one, two = as_four_axes(x, outside), as_four_axes(w, outside)
    if one is None or two is None:
        return None
    words = _words_of(kind, depth)
    pool, parts, height, width = stack_shares(count, rows, words, columns, kind=_tile_kind(kind))
    result = np.empty((*one.shape[:2], rows, columns), x.dtype)
    run(pool, parts, _bits(one), _bits(two), result.view(_BITS), height, width)
    return result if len(outside) == 2 else result.reshape(*outside, rows, columns)
