"""Register tiles: the innermost loops of convolutions, written in LLVM's vectors.

A tile is a few rows of `vectors * lanes` sums that stay in registers while products are added to
them: each step loads one row of weights, which serves all rows of the tile, and one number for each
row, which serves the whole row. Written as scalar loops it would be up to LLVM's vectorizer whether
the sums stay in registers. Addresses and distances are in bytes.
Source: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Dukhan
2019, "The indirect convolution algorithm", arXiv:1907.02129.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_F32, _I64, _I32 = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_BYTES = 4  # of a float32


class _Tile:
    """Emits code for `rows` times `vectors` vectors of `lanes` float32."""

    def __init__(self, builder: Any, rows: int, vectors: int, lanes: int) -> None:
        self.builder, self.rows, self.vectors, self.lanes = builder, rows, vectors, lanes
        self.vector = ir.VectorType(_F32, lanes)
        self.width = lanes * _BYTES

    def word(self, value: int) -> Any:
        return ir.Constant(_I64, value)

    def plus(self, *terms: Any) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, self.word(term) if isinstance(term, int) else term)
        return total

    def table(self, base: Any, index: int) -> Any:
        """Entry `index` of a table of int64 at `base`."""
        at = self.plus(base, 8 * index)
        return self.builder.load(self.builder.inttoptr(at, _I64.as_pointer()))

    def weights(self, base: Any) -> list[Any]:
        """A row of vectors from `base` on."""
        return [self._load(self.plus(base, v * self.width)) for v in range(self.vectors)]

    def _load(self, at: Any) -> Any:
        load = self.builder.load(self.builder.inttoptr(at, self.vector.as_pointer()))
        load.align = _BYTES
        return load

    def store(self, value: Any, at: Any) -> None:
        """Write a vector."""
        store = self.builder.store(value, self.builder.inttoptr(at, self.vector.as_pointer()))
        store.align = _BYTES

    def turned(self, rows: list[Any]) -> list[Any]:
        """The transpose of a square: blocks beside the diagonal change places, ever larger ones."""
        size = 1
        while size < self.lanes:
            left = [i if not i & size else i + self.lanes - size for i in range(self.lanes)]
            right = [i + size if not i & size else i + self.lanes for i in range(self.lanes)]
            for i in range(self.lanes):
                if not i & size:
                    pair = rows[i], rows[i + size]
                    rows[i], rows[i + size] = (
                        self.builder.shuffle_vector(*pair, self._order(order))
                        for order in (left, right)
                    )
            size *= 2
        return rows

    def _order(self, lanes: list[int]) -> Any:
        return ir.Constant(ir.VectorType(_I32, self.lanes), lanes)

    def spread(self, scalar: Any) -> Any:
        """A vector of one number."""
        first = ir.Constant(_I32, 0)
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, first)
        zeros = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), zeros)

    def number(self, at: Any) -> Any:
        """The float at `at` in all lanes."""
        return self.spread(self.builder.load(self.builder.inttoptr(at, _F32.as_pointer())))

    def add_products(self, sums: list[Any], numbers: list[Any], weights: list[Any]) -> list[Any]:
        """Sums plus numbers, a row of vectors for each row of sums, times the row of weights."""
        fused = self._intrinsic("llvm.fma", self.vector, [self.vector] * 3)
        return [
            self.builder.call(fused, [numbers[row][v], weights[v], sums[row * self.vectors + v]])
            for row in range(self.rows)
            for v in range(self.vectors)
        ]

    def seen(self, at: Any, masks: list[Any] | None) -> list[Any]:
        """A row of vectors of the input: one number in all lanes, or with masks what lies there."""
        if masks is None:
            return [self.number(at)] * self.vectors
        return self.masked_row(at, masks)

    def masked_row(self, at: Any, masks: list[Any]) -> list[Any]:
        """A row of vectors, 0 in lanes that are masked out."""
        return [self.masked_load(self.plus(at, v * self.width), m) for v, m in enumerate(masks)]

    def _intrinsic(self, name: str, result: Any, kinds: list[Any], suffix: str = "") -> Any:
        full = f"{name}.v{self.lanes}f32{suffix}"
        module = self.builder.module
        return module.globals.get(full) or ir.Function(module, ir.FunctionType(result, kinds), full)

    # ------------------------------------------------------------------ rows whose end may be cut

    def masks(self, count: Any) -> list[Any]:
        """For each vector of a row, which of its lanes lie among the first `count` numbers."""
        found = []
        for v in range(self.vectors):
            lanes = [ir.Constant(_I64, v * self.lanes + i) for i in range(self.lanes)]
            index = ir.Constant(ir.VectorType(_I64, self.lanes), lanes)
            found.append(self.builder.icmp_signed("<", index, self._spread_word(count)))
        return found

    def _spread_word(self, value: Any) -> Any:
        kind = ir.VectorType(_I64, self.lanes)
        first = ir.Constant(_I32, 0)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, first)
        zeros = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def masked_load(self, at: Any, mask: Any) -> Any:
        """A vector, 0 in lanes that are masked out, whose memory is not touched."""
        pointer = self.builder.inttoptr(at, self.vector.as_pointer())
        zeros = ir.Constant(self.vector, [0.0] * self.lanes)
        given = [pointer, ir.Constant(_I32, _BYTES), mask, zeros]
        kinds = [value.type for value in given]
        return self.builder.call(
            self._intrinsic("llvm.masked.load", self.vector, kinds, ".p0"), given
        )

    def masked_store(self, value: Any, at: Any, mask: Any) -> None:
        """Write the lanes that are not masked out."""
        pointer = self.builder.inttoptr(at, self.vector.as_pointer())
        given = [value, pointer, ir.Constant(_I32, _BYTES), mask]
        kinds = [value.type for value in given]
        store = self._intrinsic("llvm.masked.store", ir.VoidType(), kinds, ".p0")
        self.builder.call(store, given)


class _Loop:
    """A loop of at least one round over `count`, with values that each round replaces."""

    def __init__(self, builder: Any, count: Any, values: list[Any]) -> None:
        self.builder, self.count = builder, count
        before = builder.block
        self.body = builder.append_basic_block("loop")
        builder.branch(self.body)
        builder.position_at_end(self.body)
        self.index = builder.phi(_I64)
        self.index.add_incoming(ir.Constant(_I64, 0), before)
        self.values = []
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            self.values.append(phi)

    def close(self, values: list[Any]) -> list[Any]:
        """End the round with new values; they are those after the loop, too."""
        builder, last = self.builder, self.builder.block
        following = builder.add(self.index, ir.Constant(_I64, 1))
        self.index.add_incoming(following, last)
        for phi, value in zip(self.values, values, strict=True):
            phi.add_incoming(value, last)
        after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", following, self.count), self.body, after)
        builder.position_at_end(after)
        return values


@lru_cache
def tiling(sixteens: int) -> tuple[int, int, int]:
    """(rows, vectors, lanes) of a tile for rows of 16, 32, 48 or 64 numbers.

    As many sums as registers allow, with some left for weights: with fewer than 8 vectors of sums
    the processor would wait for each product before it can add the next. Where the registers do
    not suffice for wider rows these are cut to 16 numbers.
    """
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return {1: 12, 2: 12, 3: 8, 4: 6}[sixteens], sixteens, 16
    if features.get("avx"):
        return 6, 2, 8  # 16 registers
    return 6, 4, 4


@lru_cache
def product_tiling() -> tuple[int, int, int]:
    """(rows, vectors, lanes) of a tile of `product_tile`; its rows divide 8."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 8, 2, 16
    return (4, 3, 8) if features.get("avx") else (4, 2, 4)


def _literal(kind: Any) -> int:
    return int(kind.literal_value)


@intrinsic(prefer_literal=True)
def pixel_tile(
    typing,
    rows,
    vectors,
    lanes,
    by_channel,
    x,
    at,
    runs,
    run_count,
    length,
    w,
    start,
    y,
    to,
    first,
    count,
    low,
):
    """One row of sums for each of `rows` pixels: products of runs of the input with weights.

    sums[q] = start + sum over runs r and l below `length` of x[at[q] + runs[r] + 4 * l] * w[r, l]

    By channel, each number of a row is multiplied with a number of its own, from there on.

    Args:
        typing: Numba's.
        rows: pixels; a literal.
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        by_channel: 1 or 0; a literal.
        x: address of the input.
        at: address of int64: for each pixel, where it starts in x.
        runs: address of int64: for each run, where it starts from a pixel.
        run_count: at least 1.
        length: numbers of a run, at least 1.
        w: address of the weights, rows of vectors * lanes.
        start: address of the row that sums start from where `first`; else they start from y.
        y: address of the results.
        to: address of int64: for each pixel, where its row starts in y.
        first: whether sums start from `start`.
        count: numbers of a row that are in y.
        low: results below it are replaced by it.
    """
    literals = rows, vectors, lanes, by_channel
    *sizes, apart = (_literal(kind) for kind in literals)
    words = (types.intp,) * 9
    signature = types.void(*literals, *words, types.boolean, types.intp, types.float32)

    def codegen(context, builder, signature, arguments):
        x, at, runs, run_count, length, w, start, y, to, first, count, low = arguments[4:]
        tile = _Tile(builder, *sizes)
        bases = [tile.plus(x, tile.table(at, q)) for q in range(tile.rows)]
        targets = [tile.plus(y, tile.table(to, q)) for q in range(tile.rows)]
        masks = tile.masks(count)
        sums = []
        for target in targets:
            sums += tile.masked_row(builder.select(first, start, target), masks)
        outer = _Loop(builder, run_count, [runs, w, *sums])
        run, weight, *sums = outer.values
        offset = builder.load(builder.inttoptr(run, _I64.as_pointer()))
        inner = _Loop(builder, length, [offset, weight, *sums])
        offset, weight, *sums = inner.values
        row = tile.weights(weight)
        own = masks if apart else None
        numbers = [tile.seen(tile.plus(base, offset), own) for base in bases]
        sums = tile.add_products(sums, numbers, row)
        step = tile.vectors * tile.width
        _, weight, *sums = inner.close([tile.plus(offset, _BYTES), tile.plus(weight, step), *sums])
        _, _, *sums = outer.close([tile.plus(run, 8), weight, *sums])
        least = tile.spread(low)
        for i, total in enumerate(sums):
            value = builder.select(builder.fcmp_ordered("<", total, least), least, total)
            place = tile.plus(targets[i // tile.vectors], i % tile.vectors * tile.width)
            tile.masked_store(value, place, masks[i % tile.vectors])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic(prefer_literal=True)
def weight_tile(
    typing,
    rows,
    vectors,
    lanes,
    by_channel,
    x,
    at,
    g,
    images,
    lines,
    points,
    steps,
    y,
    to,
    first,
    count,
):
    """One row of sums for each of `rows` weights: products of inputs with rows of gradients.

    sums[q] = sum over n below images, i below lines and j below points of
    x[at[q] + n * steps[0] + i * steps[1] + j * steps[2]]
    * g[n * steps[3] + i * steps[4] + j * steps[5]]

    By channel, each number of a row is multiplied with a number of its own, from there on.

    Args:
        typing: Numba's.
        rows: weights; a literal.
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        by_channel: 1 or 0; a literal.
        x: address of the input.
        at: address of int64: for each weight, where it starts in x.
        g: address of the gradients.
        images: at least 1.
        lines: of an image, at least 1.
        points: of a line, at least 1.
        steps: address of six int64.
        y: address of the results.
        to: address of int64: for each weight, where its row starts in y.
        first: whether sums start from 0; else from y.
        count: numbers of a row that are in g and y.
    """
    literals = rows, vectors, lanes, by_channel
    *sizes, apart = (_literal(kind) for kind in literals)
    signature = types.void(*literals, *(types.intp,) * 9, types.boolean, types.intp)

    def codegen(context, builder, signature, arguments):
        x, at, g, images, lines, points, steps, y, to, first, count = arguments[4:]
        tile = _Tile(builder, *sizes)
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
        offset, slope = tile.word(0), g
        for rounds in (images, lines, points):
            loops.append(_Loop(builder, rounds, [offset, slope, *sums]))
            offset, slope, *sums = loops[-1].values
        row = tile.masked_row(slope, masks)
        own = masks if apart else None
        numbers = [tile.seen(tile.plus(base, offset), own) for base in bases]
        sums = tile.add_products(sums, numbers, row)
        for loop, x_step, g_step in zip(
            reversed(loops), reversed(by_x), reversed(by_g), strict=True
        ):
            offset, slope = loop.values[:2]
            _, _, *sums = loop.close([tile.plus(offset, x_step), tile.plus(slope, g_step), *sums])
        for i, total in enumerate(sums):
            place = tile.plus(targets[i // tile.vectors], i % tile.vectors * tile.width)
            tile.masked_store(total, place, masks[i % tile.vectors])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic(prefer_literal=True)
def product_tile(
    typing,
    rows,
    vectors,
    lanes,
    x,
    x_step,
    w,
    w_step,
    depth,
    start,
    start_step,
    last,
    y,
    y_step,
    count,
):
    """Some rows and columns of a matrix product, added to what is there.

    y[q] = start[min(q, last)] + sum over k below depth of x[q, k] * w[k]

    Args:
        typing: Numba's.
        rows: a literal.
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        x: address of the rows' numbers; may not lie in y.
        x_step: bytes from one row of x to the next.
        w: address of the weights.
        w_step: bytes from one row of weights to the next.
        depth: numbers of a row of x, at least 1.
        start: address of the rows that sums start from; it may be y.
        start_step: bytes from one of them to the next.
        last: the last of them that there is.
        y: address of the results.
        y_step: bytes from one row of results to the next.
        count: how many numbers of a row there are in w, start and y.
    """
    literals = rows, vectors, lanes
    sizes = [_literal(kind) for kind in literals]
    signature = types.void(*literals, *(types.intp,) * 11)

    def codegen(context, builder, signature, arguments):
        x, x_step, w, w_step, depth, start, start_step, last, y, y_step, count = arguments[3:]
        tile = _Tile(builder, *sizes)
        masks = tile.masks(count)
        numbered = [tile.word(q) for q in range(tile.rows)]
        sums = []
        for q in numbered:
            row = builder.select(builder.icmp_signed("<", q, last), q, last)
            sums += tile.masked_row(tile.plus(start, builder.mul(row, start_step)), masks)
        apart = [builder.mul(q, x_step) for q in numbered]
        loop = _Loop(builder, depth, [x, w, *sums])
        at, weight, *sums = loop.values
        row = tile.masked_row(weight, masks)
        numbers = [[tile.number(tile.plus(at, a))] * tile.vectors for a in apart]
        sums = tile.add_products(sums, numbers, row)
        following = [tile.plus(at, _BYTES), tile.plus(weight, w_step)]
        _, _, *sums = loop.close([*following, *sums])
        for i, total in enumerate(sums):
            row = builder.mul(numbered[i // tile.vectors], y_step)
            place = tile.plus(y, row, i % tile.vectors * tile.width)
            tile.masked_store(total, place, masks[i % tile.vectors])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def copy_floats(typing, target, source, count):
    """Copy `count` numbers between addresses that do not overlap."""

    def codegen(context, builder, signature, arguments):
        target, source, count = arguments
        byte = ir.IntType(8).as_pointer()
        to, at = builder.inttoptr(target, byte), builder.inttoptr(source, byte)
        cgutils.raw_memcpy(builder, to, at, count, _BYTES)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


@intrinsic
def clear_floats(typing, target, count):
    """Set `count` numbers to 0."""

    def codegen(context, builder, signature, arguments):
        target, count = arguments
        size = builder.mul(count, ir.Constant(_I64, _BYTES))
        cgutils.memset(builder, builder.inttoptr(target, ir.IntType(8).as_pointer()), size, 0)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@intrinsic(prefer_literal=True)
def turn_square(typing, lanes, source, source_step, target, target_step):
    """Write the transpose of a square of `lanes` rows of `lanes` numbers.

    Args:
        typing: Numba's.
        lanes: a power of two; a literal.
        source: address of the first row.
        source_step: bytes from one row to the next.
        target: address of the result.
        target_step: bytes from one of its rows to the next.
    """
    count = _literal(lanes)
    signature = types.void(lanes, *(types.intp,) * 4)

    def codegen(context, builder, signature, arguments):
        source, source_step, target, target_step = arguments[1:]
        tile = _Tile(builder, 1, 1, count)
        rows = []
        for _ in range(count):
            rows.append(tile.weights(source)[0])
            source = builder.add(source, source_step)
        for row in tile.turned(rows):
            tile.store(row, target)
            target = builder.add(target, target_step)
        return context.get_dummy_value()

    return signature, codegen
