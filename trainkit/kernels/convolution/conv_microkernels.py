"""Register tiles: the innermost loops of convolutions, written in LLVM's vectors.

A tile is a few rows of `vectors * lanes` sums that stay in registers while products are added to
them: each step loads one row of weights, which serves all rows of the tile, and one number for each
row, which serves the whole row. Written as scalar loops it would be up to LLVM's vectorizer whether
the sums stay in registers. Addresses and distances are in bytes.
Source: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Dukhan
2019, "The indirect convolution algorithm", arXiv:1907.02129.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.core.values.docstrings import describe_arguments
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.simd import BYTES, I64, Loop, Tile


@emits(
    4, *(types.intp,) * 10, types.boolean, types.intp, types.float32, *(types.intp,) * 3,
    types.float32, types.float32,
)  # fmt: skip
def pixel_tile(
    builder, rows, vectors, lanes, by_channel, x, at, runs, run_count, length, w, ahead, start,
    y, to, first, count, low, factor, shift, residual, least, most,
):  # fmt: skip
    """One row of sums for each of `rows` pixels: products of runs of the input with weights.

    sums[q] = start + sum over runs r and l below `length` of x[at[q] + runs[r] + 4 * l] * w[r, l]
    y[q] = sums[q], no less than low, or that * factor + shift + residual[q] between two limits

    By channel, each number of a row is multiplied with a number of its own, from there on.

    Args:
        rows: pixels; a literal.
        by_channel: 1 or 0; a literal.
        x: address of the input.
        at: address of int64: for each pixel, where it starts in x.
        runs: address of int64: for each run, where it starts from a pixel.
        run_count: at least 1.
        length: numbers of a run, at least 1.
        w: address of the weights, rows of vectors * lanes.
        ahead: address of lines that are asked for meanwhile, as many as each pixel has numbers.
        start: address of the row that sums start from where `first`; else they start from y.
        to: address of int64: for each pixel, where its row starts in y.
        first: whether sums start from `start`.
        count: numbers of a row that are in y.
        low: sums below it are replaced by it.
        factor: address of a row; with 0 nothing follows.
        shift: address of a row.
        residual: address of what is added, where `to` says as in y; with 0 nothing is.
        least: the smallest result of what follows.
        most: the largest one.
    """
    tile = Tile(builder, rows, vectors, lanes)
    bases = [tile.plus(x, tile.table(at, q)) for q in range(tile.rows)]
    targets = [tile.plus(y, tile.table(to, q)) for q in range(tile.rows)]
    masks = tile.masks(count)
    sums = []
    for target in targets:
        # The first chunk starts from the bias, later ones from what stands in the result. The
        # choice is one of addresses, so it costs no branch.
        sums += tile.masked_row(builder.select(first, start, target), masks)
    # Sums are values of the loops and not variables in memory, so they stay in registers.
    outer = Loop(builder, run_count, [runs, w, ahead, *sums])
    run, weight, line, *sums = outer.values
    offset = builder.load(builder.inttoptr(run, I64.as_pointer()))
    inner = Loop(builder, length, [offset, weight, line, *sums])
    offset, weight, line, *sums = inner.values
    tile.fetch_line(line)
    row = tile.weights(weight)
    # By channel each lane has its own input, and beyond the last channel there is nothing to
    # read.
    own = masks if by_channel else None
    numbers = [tile.seen(tile.plus(base, offset), own) for base in bases]
    sums = tile.add_products(sums, numbers, row)
    step = tile.vectors * tile.width
    # Weights of the next run lie behind those of this one, so the inner loop's address goes on.
    following = tile.plus(offset, BYTES), tile.plus(weight, step), tile.plus(line, CACHE_LINE)
    _, weight, line, *sums = inner.close([*following, *sums])
    _, _, _, *sums = outer.close([tile.plus(run, 8), weight, line, *sums])
    lowest = tile.spread(low)
    # Ordered, so that NaN is not less than the bound and stays NaN, as with a rectifier by
    # itself.
    values = [builder.select(builder.fcmp_ordered("<", s, lowest), lowest, s) for s in sums]
    distances = [tile.table(to, q) for q in range(tile.rows)]
    _write_finished(tile, values, y, distances, masks, (factor, shift, residual, least, most))


def _write_finished(tile, values, y, distances, masks, follows):
    """Emit the writing of rows of values, with what follows them if there is a factor."""
    builder, zero = tile.builder, tile.word(0)
    factor, shift, residual, low, high = follows

    def rows_at(base):
        return [tile.plus(base, d, v * tile.width) for d in distances for v in range(tile.vectors)]

    def write(results):
        tile.store_rows(results, rows_at(y), masks)

    with builder.if_else(builder.icmp_signed("!=", factor, zero)) as (following, nothing):
        with following:
            factors, shifts = tile.masked_row(factor, masks), tile.masked_row(shift, masks)
            scaled = [
                builder.fadd(builder.fmul(v, factors[i % tile.vectors]), shifts[i % tile.vectors])
                for i, v in enumerate(values)
            ]
            limits = tile.spread(low), tile.spread(high)
            with builder.if_else(builder.icmp_signed("!=", residual, zero)) as (adding, alone):
                with adding:
                    beside = [
                        tile.masked_load(at, masks[i % tile.vectors])
                        for i, at in enumerate(rows_at(residual))
                    ]
                    sums = map(builder.fadd, scaled, beside)
                    write([tile.between(v, *limits) for v in sums])
                with alone:
                    write([tile.between(v, *limits) for v in scaled])
        with nothing:
            write(values)


@emits(5, *(types.intp,) * 9, types.boolean, types.intp)
def weight_tile(
    builder, rows, vectors, lanes, by_channel, side_by_side, x, at, g, images, lines, points, steps,
    y, to, first, count,
):  # fmt: skip
    """One row of sums for each of `rows` weights: products of the input with rows of gradients.

    sums[q] = sum over n below images, i below lines and j below points of
    x[at[q] + n * steps[0] + i * steps[1] + j * steps[2]]
    * g[n * steps[3] + i * steps[4] + j * steps[5]]

    By channel, each number of a row is multiplied with a number of its own, from there on.

    Args:
        rows: weights; a literal.
        by_channel: 1 or 0; a literal.
        side_by_side: whether each weight starts one number behind the last, 1 or 0; a literal.
        x: address of the input.
        at: address of int64: for each weight, where it starts in x. Side by side it is not read.
        g: address of the gradients; by channel, of `count` numbers a row.
        images: at least 1.
        lines: of an image, at least 1.
        points: of a line, at least 1.
        steps: address of six int64.
        to: address of int64: for each weight, where its row starts in y.
        first: whether sums start from 0; else from y.
        count: numbers of a row that are in y.
    """
    tile = Tile(builder, rows, vectors, lanes)
    if side_by_side:
        # Distances are part of the instructions: twelve addresses would be more than registers.
        bases = [tile.plus(x, 4 * q) for q in range(tile.rows)]
    else:
        bases = [tile.plus(x, tile.table(at, q)) for q in range(tile.rows)]
    targets = [tile.plus(y, tile.table(to, q)) for q in range(tile.rows)]
    by_x = [tile.table(steps, i) for i in range(3)]
    by_g = [tile.table(steps, 3 + i) for i in range(3)]
    masks = tile.masks(count)
    sums = []
    zeros = ir.Constant(tile.vector, [0.0] * tile.lanes)
    for target in targets:
        for old in tile.masked_row(target, masks):
            sums.append(builder.select(first, zeros, old))
    loops = []
    # One offset serves all rows: each adds it to its own base, which saves as many counters.
    offset, grad = tile.word(0), g
    # Three loops in one another rather than a table of points: here both operands advance by
    # fixed steps.
    for rounds in (images, lines, points):
        loops.append(Loop(builder, rounds, [offset, grad, *sums]))
        offset, grad, *sums = loops[-1].values
    row = tile.masked_row(grad, masks) if by_channel else tile.weights(grad)
    channel_masks = masks if by_channel else None
    numbers = [tile.seen(tile.plus(base, offset), channel_masks) for base in bases]
    sums = tile.add_products(sums, numbers, row)
    # Loops end from the inside out. Each goes on from its own first addresses, as the inner
    # ones have moved theirs to the end of a line.
    for loop, x_step, g_step in zip(reversed(loops), reversed(by_x), reversed(by_g), strict=True):
        offset, grad = loop.values[:2]
        _, _, *sums = loop.close([tile.plus(offset, x_step), tile.plus(grad, g_step), *sums])
    steps = [v * tile.width for v in range(tile.vectors)]
    tile.store_rows(sums, [tile.plus(t, step) for t in targets for step in steps], masks)


def _pack(tile, source, source_step, count, points, target, target_step):
    """Emit a loop that copies rows of `count` numbers, each with zeros up to whole vectors."""
    masks = tile.masks(count)
    loop = Loop(tile.builder, points, [source, target])
    at, to = loop.values
    for v, value in enumerate(tile.masked_row(at, masks)):
        tile.store(value, tile.plus(to, v * tile.width))
    loop.close([tile.plus(at, source_step), tile.plus(to, target_step)])


@emits(2, *(types.intp,) * 5)
def pack_gradients(builder, vectors, lanes, source, source_step, count, points, target):
    """Copy `count` numbers of each of `points` rows, with zeros up to vectors * lanes.

    Args:
        source: address of the first row.
        source_step: bytes from one row to the next.
        count: numbers of a row, at most vectors * lanes.
        points: rows, at least 1.
        target: address of the result, whose rows lie side by side.
    """
    tile = Tile(builder, 1, vectors, lanes)
    step = tile.word(tile.vectors * tile.width)
    _pack(tile, source, source_step, count, points, target, step)


@emits(2, *(types.intp,) * 4)
def pack_inputs(builder, rows, lanes, source, source_step, points, target):
    """Copy `rows` numbers, side by side, of each of `points` places.

    Whole vectors are written: zeros after each row, whose place the next one takes. The last one
    needs room for them.

    Args:
        rows: numbers; a literal.
        source: address of the first number of the first place.
        source_step: bytes from one place to the next.
        points: places, at least 1.
        target: address of the result, (points, rows) numbers.
    """
    tile = Tile(builder, 1, -(-rows // lanes), lanes)
    step = tile.word(BYTES * rows)
    _pack(tile, source, source_step, tile.word(rows), points, target, step)


@emits(2, *(types.intp,) * 6)
def copy_rows(builder, vectors, lanes, source, source_step, count, points, target, target_step):
    """Copy `count` numbers of each of `points` rows, with zeros up to vectors * lanes.

    Args:
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        source: address of the first row.
        source_step: bytes from one row to the next.
        count: numbers of a row, at most vectors * lanes.
        points: rows, at least 1.
        target: address of the result; whole vectors are written.
        target_step: bytes from one of its rows to the next.
    """
    tile = Tile(builder, 1, vectors, lanes)
    _pack(tile, source, source_step, count, points, target, target_step)


@emits(0, *(types.intp,) * 3)
def copy_floats(builder, target, source, count):
    """Copy `count` numbers between addresses that do not overlap."""
    byte = ir.IntType(8).as_pointer()
    to, at = builder.inttoptr(target, byte), builder.inttoptr(source, byte)
    cgutils.raw_memcpy(builder, to, at, count, BYTES)


@emits(0, types.intp, types.intp)
def clear_floats(builder, target, count):
    """Set `count` numbers to 0."""
    size = builder.mul(count, ir.Constant(I64, BYTES))
    cgutils.memset(builder, builder.inttoptr(target, ir.IntType(8).as_pointer()), size, 0)


@emits(1, *(types.intp,) * 4)
def turn_square(builder, lanes, source, source_step, target, target_step):
    """Write the transpose of a square of `lanes` rows of `lanes` numbers.

    Args:
        lanes: a power of two; a literal.
        source: address of the first row.
        source_step: bytes from one row to the next.
        target: address of the result.
        target_step: bytes from one of its rows to the next.
    """
    tile = Tile(builder, 1, 1, lanes)
    rows = []
    for _ in range(lanes):
        rows.append(tile.weights(source)[0])
        source = builder.add(source, source_step)
    for row in tile.turned(rows):
        tile.store(row, target)
        target = builder.add(target, target_step)


describe_arguments(
    globals(),
    """
    vectors: of a row; a literal.
    lanes: numbers of a vector; a literal.
    y: address of the results.
    """,
)
