"""Small products of matrices, by register tiles, between addresses."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types

from trainkit.core.cpu.cost_model import CACHE_LINE, LINE_FLOATS
from trainkit.kernels.convolution.conv_microkernels import copy_floats
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.options import compiled, inlined
from trainkit.kernels.jit.register_tiles import UNROLLED, product_tiling
from trainkit.kernels.jit.simd import BYTES, F32, CountedLoop, Loop, Tile, call_apart

CUT, WHOLE, FETCHING, PANEL, FETCHING_CUT = range(5)
"""Kinds of tiles of blocks."""
_F64 = ir.DoubleType()
_ROWS, _VECTORS, _LANES = product_tiling()
WIDE = _VECTORS * _LANES
"""Columns of a tile."""
_ROW_VECTORS = _ROWS * _VECTORS
"""Vectors of a tile of one row: as many sums as another has hide the time of each product."""
_ROW_WIDE = _ROW_VECTORS * _LANES
_MANY_CALLS = 16
"""Products with a row from which on a copy of the weights pays whose rows begin at lines of the
cache: vectors across two of them take the processor a third more time."""


class _DoubleTile(Tile):
    """A tile of float64."""

    def __init__(self, builder: Any, rows: int, vectors: int, lanes: int) -> None:
        super().__init__(builder, rows, vectors, lanes)
        self.vector, self.width = ir.VectorType(_F64, lanes), 8 * lanes

    def number(self, at: Any) -> Any:
        """The float at `at` in all lanes."""
        return self.spread(self.builder.load(self.builder.inttoptr(at, _F64.as_pointer())))

    def intrinsic(self, name: str, result: Any, kinds: list[Any], suffix: str = "") -> Any:
        """One of LLVM's functions for vectors."""
        full = f"{name}.v{self.lanes}f64{suffix}"
        module = self.builder.module
        return module.globals.get(full) or ir.Function(module, ir.FunctionType(result, kinds), full)


TILES: dict[int, type[Tile]] = {4: Tile, 8: _DoubleTile}
"""By the bytes of a number."""


@emits(4, *(types.intp,) * 12)
def product_tile(builder, size, rows, vectors, lanes, *operands):
    """Some rows and columns of a matrix product, added to what is there.

    y[q] = start[q] + sum over k below depth of x[q, k] * w[k], for rows q up to `last`

    Args:
        size: bytes of a number, 4 or 8; a literal.
        rows: a literal; those after `last` are copies of it.
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        x: address of the rows' numbers; may not lie in y.
        x_step: bytes from one row of x to the next.
        x_next: bytes from one number of a row of x to the next.
        w: address of the weights.
        w_step: bytes from one row of weights to the next.
        depth: numbers of a row of x, at least 1.
        start: address of the rows that sums start from; it may be y.
        start_step: bytes from one of them to the next.
        last: the last row that there is, at least 0.
        y: address of the results.
        y_step: bytes from one row of results to the next.
        count: how many numbers of a row there are in w, start and y.
    """
    tile = TILES[size](builder, rows, vectors, lanes)
    _write_tile(tile, operands, tile.masks(operands[-1]))


@emits(4, *(types.intp,) * 11)
def whole_product_tile(builder, size, rows, vectors, lanes, *operands):
    """As `product_tile`, where all columns of the tile are there: no masks take up registers."""
    _write_tile(TILES[size](builder, rows, vectors, lanes), operands, None)


@emits(5, *(types.intp,) * 17, *(types.float32,) * 2)
def block_tile(builder, size, rows, vectors, lanes, kind, *operands):
    """A tile of a block of a large product, and what follows the product.

    Args:
        size: bytes of a number; a literal.
        rows: a literal.
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        kind: `CUT` as `product_tile`; `WHOLE` as `whole_product_tile`, which asks for what lies
            `ahead` meanwhile; `FETCHING` as that with all rows, which asks for `following` results,
            too; `FETCHING_CUT` as that of fewer columns than the tile has; `PANEL` as that of rows
            whose numbers lie side by side as `turn_rows` lays them, and of weights without gaps;
            a literal.
        x: as for `product_tile`, and so are those up to count.
        x_step: bytes.
        x_next: bytes.
        w: address.
        w_step: bytes.
        depth: numbers.
        start: address.
        start_step: bytes.
        last: number of a row.
        y: address.
        y_step: bytes.
        count: numbers of a row.
        following: address of the results of the next tile, asked for meanwhile: writes that miss
            the caches would hold up all that comes behind them.
        ahead: address of what is asked for, too: `bytes_ahead`.
        factor: address of a row that results are multiplied by; with 0 `low` alone follows. Numbers
            of 8 bytes have nothing that follows them.
        shift: address of a row that is added to them.
        residual: address of rows that are added then, as far apart as those of y, which `FETCHING`
            and `PANEL` tiles ask for meanwhile; or 0.
        low: the smallest result.
        high: the largest one; NaN stays.
    """

    def write(builder, operands):
        tile = TILES[size](builder, rows, vectors, lanes)
        count, *fetched = operands[11:14]
        follows = _TileEpilogue(*operands[14:]) if size == 4 else None
        if kind == PANEL:
            _write_panel_tile(tile, operands[:11], *fetched, follows)
            return
        masks = tile.masks(count) if kind in (CUT, FETCHING_CUT) else None
        is_tall = kind in (FETCHING, FETCHING_CUT)
        following, ahead = fetched if is_tall else (None, fetched[1] if kind == WHOLE else None)
        _write_tile(tile, operands[:11], masks, following, ahead, follows, is_tall, in_strips=True)

    call_apart(builder, f"block_tile_{size}_{rows}_{vectors}_{lanes}_{kind}", operands, write)


@inlined
def bytes_ahead(in_panels, rows, width, depth):
    """How much of what lies ahead `block_tile` asks for: in a panel, once it has for results.

    Args:
        in_panels: whether that is a `PANEL` tile.
        rows: of the tile.
        width: bytes of a row of it.
        depth: numbers of a row of x.
    """
    return max(0, depth // UNROLLED - rows) * width if in_panels else depth * CACHE_LINE


@emits(3, *(types.intp,) * 5)
def turn_rows(builder, lanes, rows, cut, x, x_step, last, count, target):
    """Lay numbers of the rows of a tile side by side: all rows' first numbers, then the second.

    Vectors have more lanes than there are rows, so each is written over the end of the one before,
    and what is written last goes beyond the tile.

    Args:
        lanes: numbers of a vector, and of each row that are laid; a literal.
        rows: of a tile, `lanes` at most; a literal.
        cut: whether only `count` numbers of a row are there, zeros stand for the others; a literal.
        x: address of the first row's numbers.
        x_step: bytes from one row to the next.
        last: the last row that may be read, at least 0.
        count: numbers of a row that are there.
        target: address of the numbers side by side.
    """
    tile = Tile(builder, 1, 1, lanes)
    masks = tile.masks(count) if cut else None
    vectors = []
    for q in map(tile.word, range(lanes)):
        row = builder.select(builder.icmp_signed("<", q, last), q, last)
        at = tile.plus(x, builder.mul(row, x_step))
        vectors.append((tile.masked_row(at, masks) if masks else tile.weights(at))[0])
    for k, vector in enumerate(tile.turned(vectors)):
        tile.store(vector, tile.plus(target, BYTES * rows * k))


class _TileEpilogue(NamedTuple):
    """The last arguments of `block_tile`, which see."""

    factor: Any
    shift: Any
    residual: Any
    low: Any
    high: Any


def _write_tile(
    tile, arguments, masks, following=None, ahead=None, follows=None, is_tall=False, in_strips=False
):
    """Emit the code of a tile.

    Args:
        tile: its sizes.
        arguments: those of `product_tile`.
        masks: which columns there are, `None` for all.
        following: as that of `block_tile`, `None` for none.
        ahead: the same.
        follows: what may follow, an `_TileEpilogue`, or `None`.
        is_tall: whether all rows are there.
        in_strips: whether weights may be read beyond the last column: masks take up registers that
            sums need.
    """
    builder = tile.builder
    x, x_step, x_next, w, w_step, depth, start, start_step, last, y, y_step = arguments[:11]

    def row_at(at):
        return tile.weights(at) if masks is None else tile.masked_row(at, masks)

    numbered = list(map(tile.word, range(tile.rows)))
    if not is_tall:
        numbered = [builder.select(builder.icmp_signed("<", q, last), q, last) for q in numbered]
    sums = []
    for q in numbered:
        sums += row_at(tile.plus(start, builder.mul(q, start_step)))
    apart = [builder.mul(q, x_step) for q in numbered]
    if following and follows:
        _fetch_residual(tile, follows, numbered, y_step)
    nowhere = tile.word(0)
    loop = Loop(builder, depth, [x, w, following or nowhere, ahead or nowhere, *sums])
    at, weight, line, far_line, *sums = loop.values
    if following:
        for v in range(tile.vectors):
            # the line of a vector's end: that of its start came with the tile before
            tile.fetch_line(tile.plus(line, (v + 1) * tile.width - BYTES))
    if ahead:
        tile.fetch_line(far_line)
    row = tile.weights(weight) if in_strips else row_at(weight)
    numbers = [[tile.number(tile.plus(at, a))] * tile.vectors for a in apart]
    sums = tile.add_products(sums, numbers, row)
    if following:
        is_row = builder.icmp_signed("<", loop.index, tile.word(tile.rows - 1))
        line = tile.plus(line, builder.select(is_row, y_step, tile.word(0)))
    if ahead:
        far_line = tile.plus(far_line, CACHE_LINE)
    next_numbers = tile.plus(at, x_next), tile.plus(weight, w_step)
    _, _, _, _, *sums = loop.close([*next_numbers, line, far_line, *sums])
    apart = [builder.mul(q, y_step) for q in numbered]
    _write_results(tile, sums, y, apart, masks, follows)


def _write_panel_tile(tile, arguments, following, ahead, follows):
    """Emit the code of a tile of a panel, all of whose addresses are a constant from one.

    Args:
        tile: its sizes.
        arguments: those of `product_tile`.
        following: as that of `block_tile`.
        ahead: the same.
        follows: as that of `_write_tile`.
    """
    builder = tile.builder
    x, _, _, w, _, depth, start, start_step, _, y, y_step = arguments
    numbered = list(map(tile.word, range(tile.rows)))
    sums = []
    for q in numbered:
        sums += tile.weights(tile.plus(start, builder.mul(q, start_step)))
    if follows:
        _fetch_residual(tile, follows, numbered, y_step)
    number = tile.width // tile.lanes
    x_next, w_step = number * tile.rows, tile.width * tile.vectors

    def round_of(at, weight, sums):
        row = tile.weights(weight)
        steps = range(0, x_next, number)
        numbers = [[tile.number(tile.plus(at, step))] * tile.vectors for step in steps]
        return tile.add_products(sums, numbers, row)

    rounds = builder.sdiv(depth, tile.word(UNROLLED))
    loop = CountedLoop(builder, rounds, [x, w, following, *sums])
    at, weight, line, *sums = loop.values
    for v in range(tile.vectors):
        # the line of a vector's end: that of its start came with the tile before
        tile.fetch_line(tile.plus(line, (v + 1) * tile.width - BYTES))
    for k in range(UNROLLED):
        sums = round_of(tile.plus(at, k * x_next), tile.plus(weight, k * w_step), sums)
    # After the results' lines the same requests are for what lies ahead: with more of them in a
    # round, LLVM keeps sums in memory.
    last_row = tile.word(tile.rows - 1)
    is_row = builder.icmp_signed("<", loop.index, last_row)
    line = tile.plus(line, builder.select(is_row, y_step, tile.word(w_step)))
    line = builder.select(builder.icmp_signed("==", loop.index, last_row), ahead, line)
    ends = tile.plus(at, UNROLLED * x_next), tile.plus(weight, UNROLLED * w_step)
    at, weight, _, *sums = loop.close([*ends, line, *sums])
    remainder = builder.srem(depth, tile.word(UNROLLED))
    loop = CountedLoop(builder, remainder, [at, weight, *sums])
    at, weight, *sums = loop.values
    sums = round_of(at, weight, sums)
    _, _, *sums = loop.close([tile.plus(at, x_next), tile.plus(weight, w_step), *sums])
    apart = [builder.mul(q, y_step) for q in numbered]
    _write_results(tile, sums, y, apart, None, follows)


def _fetch_residual(tile, follows, numbered, y_step):
    """Emit requests for the rows that are added after the product, if there are any."""
    builder = tile.builder
    # at once and not in the rounds of products, which more requests would make a third longer
    with builder.if_then(builder.icmp_signed("!=", follows.residual, tile.word(0))):
        for q in numbered:
            for v in range(tile.vectors):
                beside = tile.plus(follows.residual, builder.mul(q, y_step), v * tile.width)
                tile.fetch_line(beside)


def _write_results(tile, sums, y, apart, masks, follows):
    """Emit what follows the sums, if that is to be, and their stores."""
    builder = tile.builder
    if follows is None:
        _write_sums(tile, sums, y, apart, masks)
        return
    with builder.if_else(builder.icmp_signed("!=", follows.factor, tile.word(0))) as (then, other):
        with (
            then,
            builder.if_else(builder.icmp_signed("!=", follows.residual, tile.word(0))) as (
                beside_residual,
                alone,
            ),
        ):
            with beside_residual:
                _write_finished(tile, sums, y, apart, masks, follows, is_added=True)
            with alone:
                _write_finished(tile, sums, y, apart, masks, follows, is_added=False)
        with other:
            is_limited = builder.fcmp_ordered(">", follows.low, ir.Constant(F32, float("-inf")))
            with builder.if_else(is_limited) as (bounded, free):
                with bounded:
                    low = tile.spread(follows.low)
                    # -0 and NaN stay
                    sums_above = [
                        builder.select(builder.fcmp_ordered("<", x, low), low, x) for x in sums
                    ]
                    _write_sums(tile, sums_above, y, apart, masks)
                with free:
                    _write_sums(tile, sums, y, apart, masks)


def _write_sums(tile, sums, y, apart, masks):
    """Emit the stores of a tile, whose rows are `apart` bytes from y."""
    steps = [v * tile.width for v in range(tile.vectors)]
    addresses = [tile.plus(y, distance, step) for distance in apart for step in steps]
    tile.store_rows(sums, addresses, masks)


def _write_finished(tile, sums, y, apart, masks, follows, is_added):
    """The same of what follows the sums: each step is rounded by itself."""
    builder = tile.builder
    low, high = tile.spread(follows.low), tile.spread(follows.high)

    def read(v, *terms):
        at = tile.plus(*terms, v * tile.width)
        return tile.vector_at(at) if masks is None else tile.masked_load(at, masks[v])

    finished = list(sums)
    for v in range(tile.vectors):
        factor, shift = read(v, follows.factor), read(v, follows.shift)
        for row, distance in enumerate(apart):
            i = row * tile.vectors + v
            value = builder.fadd(builder.fmul(sums[i], factor), shift)
            if is_added:
                value = builder.fadd(value, read(v, follows.residual, distance))
            finished[i] = tile.between(value, low, high)
    _write_sums(tile, finished, y, apart, masks)


@compiled(parallel=False)
def add_row(x, x_next, w, w_step, depth, start, y, width):
    """`add_product` of one row, whose tiles are as wide as it takes to keep the processor busy."""
    wide_end = width // _ROW_WIDE * _ROW_WIDE
    for f in range(0, wide_end, _ROW_WIDE):
        whole_product_tile(
            4, 1, _ROW_VECTORS, _LANES,
            x, 0, x_next, w + 4 * f, w_step, depth, start + 4 * f, 0, 0, y + 4 * f, 0,
        )  # fmt: skip
    for f in range(wide_end, width, WIDE):
        product_tile(
            4, 1, _VECTORS, _LANES,
            x, 0, x_next, w + 4 * f, w_step, depth, start + 4 * f, 0, 0, y + 4 * f, 0, width - f,
        )  # fmt: skip


@compiled(parallel=False)
def add_strips(
    x, x_step, x_next, w, w_step, w_strip, depth, start, start_step, rows, y, y_step, width
):
    """`add_product` of weights whose strips of `WIDE` columns lie `w_strip` bytes apart."""
    if rows == 1 and w_strip == 4 * WIDE:  # a tile of several rows would work out copies of it
        add_row(x, x_next, w, w_step, depth, start, y, width)
        return
    for f in range(0, width, WIDE):
        strip = w + f // WIDE * w_strip
        for q in range(0, rows, _ROWS):
            x_row, first, to = (
                x + q * x_step,
                start + q * start_step + 4 * f,
                y + q * y_step + 4 * f,
            )
            if width - f >= WIDE:
                whole_product_tile(
                    4, _ROWS, _VECTORS, _LANES,
                    x_row, x_step, x_next, strip, w_step,
                    depth, first, start_step, rows - 1 - q, to, y_step,
                )  # fmt: skip
            else:
                product_tile(
                    4, _ROWS, _VECTORS, _LANES,
                    x_row, x_step, x_next, strip, w_step,
                    depth, first, start_step, rows - 1 - q, to, y_step, width - f,
                )  # fmt: skip


@compiled(parallel=False)
def add_product(x, x_step, x_next, w, w_step, depth, start, start_step, rows, y, y_step, width):
    """Write start + x @ w to y, all given by addresses and the bytes from row to row.

    `x_next` are the bytes from one number of a row of x to the next. `start` has as many rows as
    y; it may be y itself, or with a step of 0 one row for all.
    """
    add_strips(
        x, x_step, x_next, w, w_step, 4 * WIDE, depth, start, start_step, rows, y, y_step, width
    )


@compiled(parallel=False)
def pack_strips(w, w_step, depth, width, packed):
    """Copy weights so that the rows of each strip of `WIDE` columns lie side by side.

    Rows that are far apart make the processor wait: it fetches ahead what lies in a row.
    """
    for f in range(0, width, WIDE):
        count = min(WIDE, width - f)
        for k in range(depth):
            copy_floats(packed + 4 * (f * depth + k * WIDE), w + k * w_step + 4 * f, count)


@compiled(parallel=False)
def packed_size(depth, width, rows, calls):
    """How many numbers of room `packed_weights` takes."""
    if rows > 1:
        return (width + WIDE - 1) // WIDE * WIDE * depth + LINE_FLOATS
    if calls >= _MANY_CALLS:
        return (width + LINE_FLOATS - 1) // LINE_FLOATS * LINE_FLOATS * depth + LINE_FLOATS
    return 1


@inlined
def packed_weights(w, depth, width, rows, calls, room):
    """What `add_rows` takes as weights, for `rows` rows at most.

    Args:
        w: a pair of their address and the numbers from row to row.
        depth: rows of the weights.
        width: their columns.
        rows: with one, weights are read as they lie, or from rows that begin at lines of a cache.
        calls: how often they are read.
        room: address of `packed_size` numbers.
    """
    at, step = w
    first = (room + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
    if rows > 1:
        pack_strips(at, 4 * step, depth, width, first)
        return first, WIDE, WIDE * depth
    is_aligned = at % CACHE_LINE == 0 and step % LINE_FLOATS == 0
    if calls >= _MANY_CALLS and not is_aligned:
        row = (width + LINE_FLOATS - 1) // LINE_FLOATS * LINE_FLOATS
        for k in range(depth):
            copy_floats(first + 4 * row * k, at + 4 * step * k, width)
        return first, row, WIDE
    return at, step, WIDE


@inlined
def add_rows(x, w, start, y, rows, depth, width):
    """Write start + x @ w to y.

    All but w are pairs of an address and the numbers from row to row; w is what `packed_weights`
    gave. Numbers of a row lie side by side.
    """
    (x_at, x_row), (w_at, w_row, w_strip), (start_at, start_row), (y_at, y_row) = x, w, start, y
    add_strips(
        x_at, 4 * x_row, 4, w_at, 4 * w_row, 4 * w_strip,
        depth, start_at, 4 * start_row, rows, y_at, 4 * y_row, width,
    )  # fmt: skip


@inlined
def behind(matrix, count):
    """A pair of an address and a step that begins so many numbers later."""
    return matrix[0] + 4 * count, matrix[1]
