"""Register tiles of products of 16-bit floats, and how their operands are laid side by side.

A word is 32 bits of a packed operand: two neighbours along the sum where the processor multiplies
such pairs (bfloat16, by AVX512-BF16), else one number as float32. So a tile has one shape for all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import types

from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.half_vectors import HALF, Float16Tile, HalfTile
from trainkit.kernels.jit.simd import BYTES, F32, CountedLoop, call_apart
from trainkit.kernels.matmul.matmul_compiled import _write_tile

binding.initialize_native_asmparser()  # of the instruction that is written by its name


SINGLES, PAIRS, FLOAT16S = range(3)
"""Kinds of words: a bfloat16 as float32, two bfloat16 as they are, a float16 as float32."""


def half_tile_class(kind: int) -> type[HalfTile]:
    """What reads and writes the numbers that words of a kind are made of."""
    return Float16Tile if kind == FLOAT16S else HalfTile


class _WordTile(HalfTile):
    """Multiplies numbers that were made float32."""

    def number(self, at: Any) -> Any:
        """A word in all lanes; the first of a row may lie at any bfloat16."""
        word = self.builder.load(self.builder.inttoptr(at, F32.as_pointer()))
        word.align = HALF
        return self.spread(word)


class _PairTile(_WordTile):
    """Multiplies words of two bfloat16 each, and adds both products to a sum."""

    def add_products(self, sums: list[Any], numbers: list[Any], weights: list[Any]) -> list[Any]:
        """As for float32."""
        # Assembly and not LLVM's function of this name: that needs a target which has the
        # instruction, and the library is for processors with and without it.
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return [
            self.builder.asm(
                kind,
                "vdpbf16ps $2, $1, $0",
                "=v,v,v,0",
                [weights[v], numbers[row][v], sums[row * self.vectors + v]],
                side_effect=False,
            )
            for row in range(self.rows)
            for v in range(self.vectors)
        ]


class _Rounding(_WordTile):
    """Results of a tile are written as 16-bit floats.

    `width`, the bytes from one vector to the next, is that of results; words have their own.
    """

    def __init__(self, builder: Any, rows: int, vectors: int, lanes: int) -> None:
        super().__init__(builder, rows, vectors, lanes)
        self.width = HALF * lanes

    def weights(self, base: Any) -> list[Any]:
        """A row of vectors from `base` on."""
        return [
            self.vector_at(self.plus(base, v * BYTES * self.lanes)) for v in range(self.vectors)
        ]

    def masked_row(self, at: Any, masks: list[Any]) -> list[Any]:
        """A row of vectors, 0 in lanes that are masked out."""
        step = BYTES * self.lanes
        return [self.masked_load(self.plus(at, v * step), m) for v, m in enumerate(masks)]

    def store(self, value: Any, at: Any) -> None:
        """Write a vector, rounded."""
        self.write_halves(self.round_to_halves(value), at)

    def masked_store(self, value: Any, at: Any, mask: Any) -> None:
        """Write the lanes that are not masked out, rounded."""
        self.write_halves(self.round_to_halves(value), at, mask)


class _RoundedPairTile(_Rounding, _PairTile):
    pass


class _Float16Rounding(_Rounding, Float16Tile):
    pass


_TILES = {
    (SINGLES, 0): _WordTile,
    (SINGLES, 1): _Rounding,
    (PAIRS, 0): _PairTile,
    (PAIRS, 1): _RoundedPairTile,
    (FLOAT16S, 0): _WordTile,
    (FLOAT16S, 1): _Float16Rounding,
}
"""By the kind of words, and whether results are rounded."""


def _words_from(tile: HalfTile, at: Any, kind: int, count: Any) -> Any:
    """A vector of words of a row whose numbers are neighbours, as float32.

    Args:
        tile: a vector of as many lanes.
        at: address of the first number.
        kind: of words.
        count: how many numbers there are, `None` for all of the vector; 0 stands for others.
    """
    numbers = tile.lanes * (2 if kind == PAIRS else 1)
    mask = None if count is None else HalfTile(tile.builder, 1, 1, numbers).masks(count)[0]
    halves = tile.read_halves(at, mask, numbers)
    if kind == PAIRS:
        return tile.builder.bitcast(halves, tile.vector)
    return tile.widen(tile.builder.zext(halves, tile.words))


TILE_ROWS = 16
"""Rows of a tile of AMX, and pairs of a row, 64 bytes."""
_TWO_BY_TWO = """
tilezero %tmm0
tilezero %tmm1
tilezero %tmm2
tilezero %tmm3
1:
tileloadd ($0,$8,1), %tmm4
tileloadd ($2,$10,1), %tmm6
tileloadd 64($2,$10,1), %tmm7
tdpbf16ps %tmm6, %tmm4, %tmm0
tileloadd ($1,$9,1), %tmm5
tdpbf16ps %tmm7, %tmm4, %tmm1
tdpbf16ps %tmm6, %tmm5, %tmm2
tdpbf16ps %tmm7, %tmm5, %tmm3
add $$64, $0
add $$64, $1
add $$2048, $2
dec $3
jnz 1b
tilestored %tmm0, ($11,$10,1)
tilestored %tmm1, 64($11,$10,1)
tilestored %tmm2, 2048($11,$10,1)
tilestored %tmm3, 2112($11,$10,1)
"""
_ONE_BY_TWO = """
tilezero %tmm0
tilezero %tmm1
1:
tileloadd ($0,$8,1), %tmm4
tileloadd ($2,$10,1), %tmm6
tileloadd 64($2,$10,1), %tmm7
tdpbf16ps %tmm6, %tmm4, %tmm0
tdpbf16ps %tmm7, %tmm4, %tmm1
add $$64, $0
add $$2048, $2
dec $3
jnz 1b
tilestored %tmm0, ($11,$10,1)
tilestored %tmm1, 64($11,$10,1)
"""
"""Products of one or two tiles below each other by two beside each other."""


def _assembly(builder: Any, text: str, results: int, operands: list[Any]) -> None:
    """Instructions by their names, which change the first `results` operands and memory."""
    kinds = [operand.type for operand in operands]
    result = ir.LiteralStructType(kinds[:results]) if results else ir.VoidType()
    outputs = ["=&r"] * results + [str(i) for i in range(results)]
    inputs = ["r"] * (len(operands) - results)
    constraints = ",".join([*outputs, *inputs, "~{memory}", "~{flags}"])
    kind = ir.FunctionType(result, kinds)
    builder.asm(kind, text, constraints, operands, side_effect=True)


@emits(0, types.intp)
def begin_tiles(builder, settings):
    """Let the registers of this thread hold tiles.

    Args:
        settings: address of 64 bytes, as LDTILECFG takes them.
    """
    _assembly(builder, "ldtilecfg ($0)", 0, [settings])


@emits(0)
def end_tiles(builder):
    """Let them hold nothing: a switch to another thread saves them no more."""
    _assembly(builder, "tilerelease", 0, [])


@emits(1, *(types.intp,) * 7)
def multiply_tiles(builder, two, first, first_step, second, second_step, strip, depth, sums):
    """Products of 16 rows, or of twice as many, by the 32 columns of a strip.

    Args:
        two: 1 for twice as many rows; a literal.
        first: address of the first 16 rows' pairs.
        first_step: bytes from one of them to the next.
        second: address of the others.
        second_step: bytes from one of these to the next.
        strip: address of the columns, whose pairs lie side by side, 128 bytes in each row.
        depth: sixteens of pairs of a row, at least 1.
        sums: address of the results, rows of 128 bytes.
    """
    width = first.type(BYTES * 2 * TILE_ROWS)
    operands = [first, second, strip, depth, first_step, second_step, width, sums]
    _assembly(builder, _TWO_BY_TWO if two else _ONE_BY_TWO, 4, operands)


@emits(4, *(types.intp,) * 7)
def finish_rows(
    builder, rounds, masks, vectors, lanes, sums, start, start_step, rows, y, y_step, count
):
    """Write sums of a strip, added to what they start from.

    Args:
        rounds: as that of `half_tile`, and so are the other literals.
        masks: a literal.
        vectors: a literal.
        lanes: a literal.
        sums: address of their rows, which have no gaps.
        start: as that of `half_tile`, and so are those that follow.
        start_step: bytes.
        rows: how many there are.
        y: address.
        y_step: bytes.
        count: numbers of a row.
    """
    tile = _TILES[PAIRS, rounds](builder, 1, vectors, lanes)
    columns = tile.masks(count) if masks else None
    loop = CountedLoop(builder, rows, [sums, start, y])
    at, first, to = loop.values
    values = [tile.vector_at(tile.plus(at, v * BYTES * lanes)) for v in range(vectors)]
    starts = tile.weights(first) if columns is None else tile.masked_row(first, columns)
    values = [builder.fadd(a, b) for a, b in zip(starts, values, strict=True)]
    tile.store_rows(values, [tile.plus(to, v * tile.width) for v in range(vectors)], columns)
    row = BYTES * vectors * lanes
    loop.close([tile.plus(at, row), builder.add(first, start_step), builder.add(to, y_step)])


@emits(6, *(types.intp,) * 12)
def half_tile(builder, kind, rounds, masks, rows, vectors, lanes, *operands):
    """As `product_tile`, of words.

    Args:
        kind: of words; a literal.
        rounds: 1 where results are written as 16-bit floats, 0 for float32; a literal.
        masks: 0 where all columns of the tile are there; a literal.
        rows: a literal.
        vectors: of a row; a literal.
        lanes: words of a vector; a literal.
        x: address of the rows' words.
        x_step: bytes from one row of x to the next.
        x_next: bytes from one word of a row to the next.
        w: address of the weights' words.
        w_step: bytes from one row of weights to the next.
        depth: words of a row of x.
        start: address of the float32 that sums start from.
        start_step: bytes from one row of them to the next.
        last: the last row that there is.
        y: address of the results.
        y_step: bytes from one row of results to the next.
        count: how many numbers of a row there are in start and y.
    """

    def tile_of(is_tall):
        """The name and the code of a function for all rows of the tile, or for its first half."""

        def write(builder, operands):
            tile = _TILES[kind, rounds](builder, rows, vectors, lanes)
            columns = tile.masks(operands[-1]) if masks else None
            _write_tile(tile, operands, columns, is_tall=is_tall)

        sizes = kind, rounds, masks, rows, vectors, lanes, int(is_tall)
        return "_".join(map(str, ("half_tile", *sizes))), write

    (short, write_short), (tall, write_tall) = tile_of(is_tall=False), tile_of(is_tall=True)
    last = operands[8]
    is_tall = builder.icmp_signed("==", last, last.type(rows - 1))
    with builder.if_else(is_tall) as (all_rows, fewer):
        with all_rows:
            call_apart(builder, tall, operands, write_tall)
        with fewer:
            call_apart(builder, short, operands, write_short)


@emits(4, *(types.intp,) * 4)
def join_rows(builder, kind, masks, vectors, lanes, low, high, count, target):
    """Words of one or two rows: of each column what lies in `low`, and in pairs `high` behind it.

    Args:
        kind: of words; a literal.
        masks: 0 where there are numbers for whole vectors; a literal.
        vectors: of a row of words; a literal.
        lanes: words of a vector; a literal.
        low: address of a row.
        high: address of the next one.
        count: how many numbers a row has; the words of others are 0.
        target: address of the words; whole vectors are written.
    """
    tile = half_tile_class(kind)(builder, 1, vectors, lanes)
    masks = tile.masks(count) if masks else [None] * tile.vectors
    for v, mask in enumerate(masks):
        apart = 2 * v * tile.lanes

        def read(row, apart=apart, mask=mask):
            return builder.zext(tile.read_halves(tile.plus(row, apart), mask), tile.words)

        if kind == PAIRS:
            upper = builder.shl(read(high), tile.splat(16))
            word = builder.bitcast(builder.or_(read(low), upper), tile.vector)
        else:
            word = tile.widen(read(low))
        tile.store(word, tile.plus(target, v * tile.width))


@emits(3, *(types.intp,) * 3)
def copy_words(builder, kind, masks, lanes, source, count, target):
    """A vector of words of a row whose numbers are neighbours.

    Args:
        kind: of words; a literal.
        masks: 0 where there are numbers for the whole vector; a literal.
        lanes: words of a vector; a literal.
        source: address of the row.
        count: how many numbers there are; others are 0.
        target: address of the words.
    """
    tile = half_tile_class(kind)(builder, 1, 1, lanes)
    tile.store(_words_from(tile, source, kind, count if masks else None), target)


@emits(3, *(types.intp,) * 6)
def turn_words(builder, kind, masks, lanes, source, source_step, last, count, target, target_step):
    """The transpose of a square of words, whose rows are those of numbers that are neighbours.

    Args:
        kind: of words; a literal.
        masks: 0 where rows have numbers for the whole vector; a literal.
        lanes: words of a vector; a literal.
        source: address of the first row.
        source_step: bytes from one row to the next.
        last: the last row that there is; copies of it stand for those behind.
        count: how many numbers a row has; others are 0.
        target: address of the result.
        target_step: bytes from one of its rows to the next; all are written.
    """
    tile = half_tile_class(kind)(builder, 1, 1, lanes)
    rows = []
    for i in map(tile.word, range(lanes)):
        row = builder.select(builder.icmp_signed("<", i, last), i, last)
        at = tile.plus(source, builder.mul(row, source_step))
        rows.append(_words_from(tile, at, kind, count if masks else None))
    for row in tile.turned(rows):
        tile.store(row, target)
        target = builder.add(target, target_step)
