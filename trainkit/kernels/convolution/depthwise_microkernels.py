"""Register tiles of depthwise convolutions: some pixels of a line, a vector of filters of each.

All elements of a kernel's row that see a pixel are used while it is in a register, so a pixel is
read once for a row and not once for each element. What remains is reading memory: a tile asks
for what the tile below it will need, which keeps more reads under way than the processor's own
guesses do. Addresses and distances are in bytes. Images may be bfloat16, which is read as float32
and written rounded; weights and their gradients are float32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.half_vectors import HalfTile
from trainkit.kernels.jit.simd import I32, Loop, Tile

Seen = list[tuple[int, int, int]]
_TO_READ, _TO_WRITE = range(2)
FREE, EDGE, CUT = range(3)
"""Tiles that test nothing, those at the edge of a line, and those with too many lanes, too."""


def seen_by(pixels: int, window: int, stride: int, dilation: int, back: int) -> Seen:
    """What some results of a line see of the source's line.

    Args:
        pixels: results, side by side.
        window: elements of a row of the kernel.
        stride: positions between windows.
        dilation: positions between elements.
        back: 0 where results are windows; 1 where they are positions under windows, of which the
            first lies under offset 0 of window 0.

    Returns:
        Triples (position or window of the source, result, offset), in ascending order.
    """
    triples = []
    for q in range(pixels):
        for b in range(window):
            position = q - b * dilation
            if not back:
                triples.append((q * stride + b * dilation, q, b))
            # Between windows no window begins, so an offset is under none of them there.
            elif position % stride == 0:
                triples.append((position // stride, q, b))
    # By position, so that each pixel is loaded once and used by all that see it right after.
    return sorted(triples)


class _Line(HalfTile):
    """Emits code for vectors of filters, `each` of which share a channel.

    Args:
        builder: LLVM's.
        lanes: filters of a vector.
        each: filters of a channel.
        size: bytes of a number of an image: 4, or 2 of bfloat16.
        count: filters that there are; `None` for all lanes.
    """

    def __init__(self, builder: Any, lanes: int, each: int, size: int, count: Any) -> None:
        super().__init__(builder, 1, 1, lanes)
        self.each, self.is_half = each, size == 2
        self.few = HalfTile(builder, 1, 1, lanes // each)
        self.masks_of: dict[Tile, Any] = {}
        if count is not None:
            # Filters of a channel lie side by side, so whole channels are cut off with them.
            channels = builder.sdiv(count, self.word(each))
            self.masks_of = {self.few: self.few.masks(channels)[0], self: self.masks(count)[0]}

    def read(self, at: Any, tile: Tile | None = None) -> Any:
        """A vector of filters, or of as many numbers as `tile` has lanes."""
        tile = tile or self
        mask = self.masks_of.get(tile)
        return tile.weights(at)[0] if mask is None else tile.masked_load(at, mask)

    def read_image(self, at: Any, tile: HalfTile | None = None) -> Any:
        """The same of an image."""
        tile = tile or self
        if not self.is_half:
            return self.read(at, tile)
        halves = tile.read_halves(at, self.masks_of.get(tile))
        return tile.widen(self.builder.zext(halves, tile.words))

    def read_channels(self, at: Any) -> Any:
        """The vector in which each filter finds its channel."""
        channels = self.read_image(at, self.few)
        if self.each == 1:
            return channels
        order = self._lanes([i // self.each for i in range(self.lanes)])
        return self.builder.shuffle_vector(
            channels, ir.Constant(channels.type, ir.Undefined), order
        )

    def write(self, value: Any, at: Any) -> None:
        """A vector of filters, or of channels."""
        tile = self if value.type == self.vector else self.few
        mask = self.masks_of.get(tile)
        if mask is None:
            tile.store(value, at)
        else:
            tile.masked_store(value, at, mask)

    def write_image(self, value: Any, at: Any) -> None:
        """The same into an image."""
        if not self.is_half:
            self.write(value, at)
            return
        tile = self if value.type == self.vector else self.few
        tile.write_halves(tile.round_to_halves(value), at, self.masks_of.get(tile))

    def channels(self, value: Any) -> Any:
        """Sums over the filters of each channel."""
        # Neighbours are added in pairs: half as many lanes in each round, log2 of `each` rounds.
        while value.type.count > self.few.lanes:
            nothing, half = ir.Constant(value.type, ir.Undefined), value.type.count // 2
            even, odd = (
                self.builder.shuffle_vector(value, nothing, self._lanes(order))
                for order in ([2 * i for i in range(half)], [2 * i + 1 for i in range(half)])
            )
            value = self.builder.fadd(even, odd)
        return value

    def _lanes(self, numbers: list[int]) -> Any:
        constants = [ir.Constant(I32, n) for n in numbers]
        return ir.Constant(ir.VectorType(I32, len(numbers)), constants)

    def along(self, base: Any, step: Any, number: int) -> Any:
        """Address of an item of a row whose items are `step` bytes apart."""
        return self.builder.add(base, self.builder.mul(step, self.word(number)))

    def inside(self, position: Any, number: int, size: Any) -> Any:
        """Whether item `number` from `position` on is one of `size`."""
        return self.builder.icmp_unsigned("<", self.plus(position, number), size)

    def least(self, value: Any, low: Any) -> Any:
        """`value`, with `low` in place of what is less; NaN stays."""
        below = self.builder.fcmp_ordered("<", value, low)
        return self.builder.select(below, low, value)

    def product(self, one: Any, two: Any, total: Any = None) -> Any:
        """A product of vectors, added to `total` if there is one."""
        if total is None:
            return self.builder.fmul(one, two)
        fused = self.intrinsic("llvm.fma", self.vector, [self.vector] * 3)
        return self.builder.call(fused, [one, two, total])

    def fetch(self, base: Any, step: Any, items: int, use: int) -> None:
        """Bring the cache lines of some items of a row near the processor, without waiting."""
        byte = ir.IntType(8).as_pointer()
        name, kinds = "llvm.prefetch.p0", [byte, I32, I32, I32]
        module = self.builder.module
        declared = module.globals.get(name)
        fetch = declared or ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        hints = [ir.Constant(I32, n) for n in (use, 3, 1)]  # to all caches, as data
        for number in range(items):
            at = self.builder.inttoptr(self.along(base, step, number), byte)
            self.builder.call(fetch, [at, *hints])


class _Source:
    """Reads pixels of a line, each once; zeros for those outside."""

    def __init__(self, line: _Line, triples: Seen, step: Any) -> None:
        self.line = line
        self.offsets = {j: line.along(line.word(0), step, j) for j, _, _ in triples}
        self.valid: dict[int, Any] = {}

    def check(self, position: Any, width: Any) -> None:
        """Let pixels be outside of a line of `width`; the first is at `position`."""
        # Worked out before the loop over rows, as it is the same for all of them.
        self.valid = {j: self.line.inside(position, j, width) for j in self.offsets}

    def pixel(self, row: Any, j: int, zeros: Any) -> Any:
        """Address of a pixel, or of zeros."""
        at = self.line.plus(row, self.offsets[j])
        return self.line.builder.select(self.valid[j], at, zeros) if self.valid else at


class _LineResults:
    """Writes results of a line, some side by side.

    Args:
        line: emits code.
        step: bytes from one to the next.
        among: position of the first and how many a line has; `None` where all are inside.
        zeros: address of a vector of zeros.
    """

    def __init__(self, line: _Line, step: Any, among: Any, zeros: Any) -> None:
        self.line, self.step, self.among, self.zeros = line, step, among, zeros

    def write(self, values: list[Any], y: Any) -> None:
        """Those that are inside."""
        line = self.line
        for q, value in enumerate(values):
            at = line.along(y, self.step, q)
            if self.among is None:
                line.write_image(value, at)
                continue
            position, width = self.among
            with line.builder.if_then(line.inside(position, q, width)):
                line.write_image(value, at)

    def write_finished(
        self, values: list[Any], y: Any, factor: Any, shift: Any, residual: Any, low: Any, high: Any
    ) -> None:
        """Those that are inside, with what follows them if there is a factor."""
        builder, zero = self.line.builder, self.line.word(0)
        with builder.if_else(builder.icmp_signed("!=", factor, zero)) as (follows, nothing):
            with follows:
                factor, shift = self.line.read(factor), self.line.read(shift)
                scaled = [builder.fadd(builder.fmul(v, factor), shift) for v in values]
                limits = self.line.spread(low), self.line.spread(high)
                is_there = builder.icmp_signed("!=", residual, zero)
                with builder.if_else(is_there) as (adding, alone):
                    with adding:
                        sums = [
                            builder.fadd(v, self._beside(residual, q)) for q, v in enumerate(scaled)
                        ]
                        self.write([self.line.between(v, *limits) for v in sums], y)
                    with alone:
                        self.write([self.line.between(v, *limits) for v in scaled], y)
            with nothing:
                self.write(values, y)

    def _beside(self, residual: Any, q: int) -> Any:
        """What is added to a result, zeros to one outside."""
        at = self.line.along(residual, self.step, q)
        if self.among is not None:
            position, width = self.among
            is_inside = self.line.inside(position, q, width)
            at = self.line.builder.select(is_inside, at, self.zeros)
        return self.line.read(at)


@emits(9, *(types.intp,) * 18, types.float32, *(types.intp,) * 3, *(types.float32,) * 2)
def line_tile(
    builder, pixels, window, stride, dilation, back, each, lanes, size, careful, x, x_row,
    x_step, position, width, x_ahead, w, w_row, w_offset, rows, start, y, y_step, y_position,
    y_width, y_ahead, count, zeros, low, factor, shift, residual, least, most,
):  # fmt: skip
    """A vector of sums for each of `pixels` results of a line; `seen_by` says what they see.

    s[q] = start + sum over rows r and (j, q, b) of seen_by of x[r, j] * w[r, b], no less than low
    y[q] = s[q], or s[q] * factor + shift + residual[q] between two limits, step by step

    Going back, sums start from 0 and are added up over the filters of each channel; nothing follows
    them, nor results of bfloat16.

    Args:
        pixels: a literal.
        window: elements of a row; a literal.
        stride: a literal.
        dilation: a literal.
        back: 1 or 0; a literal.
        each: filters of a channel, a power of two that is at most lanes; a literal.
        lanes: filters of a vector; a literal.
        size: bytes of a number of x and y: 4, or 2 of bfloat16; a literal.
        careful: `FREE`, `EDGE` where pixels may be outside, or `CUT` where lanes may be too many,
            too; a literal.
        x: address of the first row of the source, at item 0 of seen_by.
        x_row: from one row to the next.
        x_step: from one pixel to the next.
        position: of item 0 in its line.
        width: pixels of a line of the source.
        x_ahead: from x to the first row that will be read later.
        w: address of the weights of the first row.
        w_row: from one row to the next.
        w_offset: from one offset to the next.
        rows: at least 1.
        start: address of the vector that sums start from.
        y: address of the first result.
        y_step: from one result to the next.
        y_position: of the first result in its line.
        y_width: results of a line.
        y_ahead: from y to what will be written later.
        count: filters that there are.
        zeros: address of a vector of zeros.
        low: a number.
        factor: address of a vector; with 0 nothing follows.
        shift: address of a vector.
        residual: address of what is added to the first result, as far from the next as results
            are; with 0 nothing is.
        least: the smallest result of what follows.
        most: the largest one.
    """
    line = _Line(builder, lanes, each, size, count if careful == CUT else None)
    triples = seen_by(pixels, window, stride, dilation, back)
    source = _Source(line, triples, x_step)
    if careful:
        source.check(position, width)
    for number in range(1 if back else stride):
        row = line.plus(line.along(x, x_row, number), x_ahead)
        line.fetch(row, x_step, pixels // stride if back else pixels * stride, _TO_READ)
    # A store needs its cache line as well, which comes while the sums are made.
    line.fetch(line.plus(y, y_ahead), y_step, pixels, _TO_WRITE)
    first = ir.Constant(line.vector, [0.0] * lanes) if back else line.read(start)
    loop = Loop(builder, rows, [x, w, *[first] * pixels])
    row, weights, *sums = loop.values
    kernel = [line.read(line.along(weights, w_offset, b)) for b in range(window)]
    inputs = {}
    for j, q, b in triples:
        if j not in inputs:
            at = source.pixel(row, j, zeros)
            inputs[j] = line.read_image(at) if back else line.read_channels(at)
        sums[q] = line.product(inputs[j], kernel[b], sums[q])
    loop.close([line.plus(row, x_row), line.plus(weights, w_row), *sums])
    lowest = line.spread(low)
    values = [line.channels(s) if back else line.least(s, lowest) for s in sums]
    results = _LineResults(line, y_step, (y_position, y_width) if careful else None, zeros)
    if back or line.is_half:
        results.write(values, y)
    else:
        results.write_finished(values, y, factor, shift, residual, least, most)


@emits(8, *(types.intp,) * 17)
def kernel_gradient_tile(
    builder, pixels, window, stride, dilation, each, lanes, size, careful, x, x_row, x_step,
    position, width, x_ahead, g, g_step, g_position, g_width, g_ahead, y, y_row, y_offset, rows,
    count, zeros,
):  # fmt: skip
    """Add to the gradients of a kernel what `pixels` windows of a line give them.

    y[r, b] += sum over (j, q, b) of seen_by of x[r, j] * g[q]

    Args:
        pixels: windows; a literal.
        window: elements of a row; a literal.
        stride: a literal.
        dilation: a literal.
        each: filters of a channel, a power of two that is at most lanes; a literal.
        lanes: filters of a vector; a literal.
        size: bytes of a number of x and g: 4, or 2 of bfloat16; a literal.
        careful: 1 where pixels may be outside, or lanes too many; a literal.
        x: address of the first row of the source, at offset 0 of the first window.
        x_row: from one row to the next.
        x_step: from one pixel to the next.
        position: of offset 0 of the first window in its line.
        width: pixels of a line that any window sees.
        x_ahead: from x to the first row that will be read later.
        g: address of the first window's gradients.
        g_step: from one window to the next.
        g_position: of the first window in its line.
        g_width: windows of a line.
        g_ahead: from g to what will be read later.
        y: address of the first row of the kernel.
        y_row: from one row to the next.
        y_offset: from one offset to the next.
        rows: at least 1.
        count: filters that there are.
        zeros: address of a vector of zeros.
    """
    line = _Line(builder, lanes, each, size, count if careful else None)
    triples = seen_by(pixels, window, stride, dilation, 0)
    source = _Source(line, triples, x_step)
    if careful:
        source.check(position, width)
    for number in range(stride):
        row = line.plus(line.along(x, x_row, number), x_ahead)
        line.fetch(row, x_step, pixels * stride, _TO_READ)
    line.fetch(line.plus(g, g_ahead), g_step, pixels, _TO_READ)
    # Loaded once, and kept in registers for all rows of the kernel.
    grads = []
    for q in range(pixels):
        at = line.along(g, g_step, q)
        if careful:
            at = builder.select(line.inside(g_position, q, g_width), at, zeros)
        grads.append(line.read_image(at))
    loop = Loop(builder, rows, [x, y])
    row, target = loop.values
    inputs, sums = {}, {}
    for j, q, b in triples:
        if j not in inputs:
            inputs[j] = line.read_channels(source.pixel(row, j, zeros))
        sums[b] = line.product(inputs[j], grads[q], sums.get(b))
    for b, total in sums.items():
        at = line.along(target, y_offset, b)
        line.write(builder.fadd(line.read(at), total), at)
    loop.close([line.plus(row, x_row), line.plus(target, y_row)])
