"""Vectors of float32 in LLVM's language, for code that Numba compiles, and loops over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

F32, I64, I32 = ir.FloatType(), ir.IntType(64), ir.IntType(32)
BYTES = 4  # of a float32
_MASKED_WIDTH = 64
"""Bytes of the vectors whose masks have registers of their own."""


class Tile:
    """Emits code for `rows` times `vectors` vectors of `lanes` float32."""

    def __init__(self, builder: Any, rows: int, vectors: int, lanes: int) -> None:
        self.builder, self.rows, self.vectors, self.lanes = builder, rows, vectors, lanes
        self.vector = ir.VectorType(F32, lanes)
        self.width = lanes * BYTES

    def word(self, value: int) -> Any:
        return ir.Constant(I64, value)

    def plus(self, *terms: Any) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, self.word(term) if isinstance(term, int) else term)
        return total

    def table(self, base: Any, index: int) -> Any:
        """Entry `index` of a table of int64 at `base`."""
        at = self.plus(base, 8 * index)
        return self.builder.load(self.builder.inttoptr(at, I64.as_pointer()))

    def weights(self, base: Any) -> list[Any]:
        """A row of vectors from `base` on."""
        return [self.vector_at(self.plus(base, v * self.width)) for v in range(self.vectors)]

    def vector_at(self, at: Any) -> Any:
        """The vector at an address."""
        load = self.builder.load(self.builder.inttoptr(at, self.vector.as_pointer()))
        # Rows of an array start at any float, where LLVM would assume the alignment of a vector.
        load.align = BYTES
        return load

    def between(self, value: Any, low: Any, high: Any) -> Any:
        """`value` held between two vectors; NaN stays, and -0 becomes a limit of 0."""
        is_above = self.builder.fcmp_unordered(">", value, low)
        value = self.builder.select(is_above, value, low)
        return self.builder.select(self.builder.fcmp_ordered(">", value, high), high, value)

    def store(self, value: Any, at: Any) -> None:
        """Write a vector."""
        store = self.builder.store(value, self.builder.inttoptr(at, self.vector.as_pointer()))
        store.align = BYTES

    def fetch_line(self, at: Any) -> None:
        """Ask for a line of memory to be in the second cache; there may be nothing at `at`."""
        byte = ir.IntType(8).as_pointer()
        name, kinds = "llvm.prefetch.p0", [byte, I32, I32, I32]
        module = self.builder.module
        declared = module.globals.get(name)
        fetch = declared or ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        hints = [ir.Constant(I32, n) for n in (0, 2, 1)]  # to read, as data
        self.builder.call(fetch, [self.builder.inttoptr(at, byte), *hints])

    def turned(self, rows: list[Any]) -> list[Any]:
        """The transpose of a square: blocks beside the diagonal change places, ever larger ones."""
        # log2(lanes) rounds of exchanges instead of lanes times lanes loads of single numbers.
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
        return ir.Constant(ir.VectorType(I32, self.lanes), lanes)

    def spread(self, scalar: Any) -> Any:
        """A vector of one number."""
        first = ir.Constant(I32, 0)
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, first)
        zeros = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        # An insertion and a shuffle by zeros, in which LLVM sees one instruction of the processor.
        return self.builder.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), zeros)

    def number(self, at: Any) -> Any:
        """The float at `at` in all lanes."""
        return self.spread(self.builder.load(self.builder.inttoptr(at, F32.as_pointer())))

    def add_products(self, sums: list[Any], numbers: list[Any], weights: list[Any]) -> list[Any]:
        """Sums plus numbers, a row of vectors for each row of sums, times the row of weights."""
        # Rounded once on every processor, where `fmul` and `fadd` would be fused or not as LLVM
        # likes.
        fused = self.intrinsic("llvm.fma", self.vector, [self.vector] * 3)
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

    def intrinsic(self, name: str, result: Any, kinds: list[Any], suffix: str = "") -> Any:
        full = f"{name}.v{self.lanes}f32{suffix}"
        module = self.builder.module
        return module.globals.get(full) or ir.Function(module, ir.FunctionType(result, kinds), full)

    # ------------------------------------------------------------------ rows whose end may be cut

    def masks(self, count: Any) -> list[Any]:
        """For each vector of a row, which of its lanes lie among the first `count` numbers."""
        masks = []
        for v in range(self.vectors):
            lanes = [ir.Constant(I64, v * self.lanes + i) for i in range(self.lanes)]
            index = ir.Constant(ir.VectorType(I64, self.lanes), lanes)
            masks.append(self.builder.icmp_signed("<", index, self._spread_word(count)))
        return masks

    def _spread_word(self, value: Any) -> Any:
        kind = ir.VectorType(I64, self.lanes)
        first = ir.Constant(I32, 0)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, first)
        zeros = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def masked_load(self, at: Any, mask: Any) -> Any:
        """A vector, 0 in lanes that are masked out, whose memory is not touched."""
        pointer = self.builder.inttoptr(at, self.vector.as_pointer())
        zeros = ir.Constant(self.vector, [0.0] * self.lanes)
        operands = [pointer, ir.Constant(I32, BYTES), mask, zeros]
        kinds = [value.type for value in operands]
        return self.builder.call(
            self.intrinsic("llvm.masked.load", self.vector, kinds, ".p0"), operands
        )

    def masked_store(self, value: Any, at: Any, mask: Any) -> None:
        """Write the lanes that are not masked out."""
        pointer = self.builder.inttoptr(at, self.vector.as_pointer())
        operands = [value, pointer, ir.Constant(I32, BYTES), mask]
        kinds = [value.type for value in operands]
        store = self.intrinsic("llvm.masked.store", ir.VoidType(), kinds, ".p0")
        self.builder.call(store, operands)

    def store_rows(self, values: list[Any], addresses: list[Any], masks: list[Any] | None) -> None:
        """Write rows of vectors, one after the other, each up to where masks cut it off.

        Without registers for masks a masked store is slow: it takes a Zen 3 as long as two dozen
        products. So vectors that are there as a whole are written as such, and what lies wholly
        behind the end is left out.

        Args:
            values: `vectors` for each row.
            addresses: as many.
            masks: for each vector of a row its first lanes, as `masks` makes them; or `None`.
        """
        pairs = list(zip(values, addresses, strict=True))
        if masks is None:
            self._store_each(pairs)
        elif self.width >= _MASKED_WIDTH:
            for i, pair in enumerate(pairs):
                self._store_each([pair], masks[i % self.vectors])
        else:
            # row after row: what lies side by side goes to a line of the cache together
            is_complete = self._lane(masks[-1], self.lanes - 1)
            with self.builder.if_else(is_complete) as (if_complete, otherwise):
                with if_complete:
                    self._store_each(pairs)
                with otherwise:
                    self._store_cut(pairs, masks)

    def _store_cut(self, pairs: list[tuple[Any, Any]], masks: list[Any]) -> None:
        """Write rows whose last vector is cut off, and maybe further ones."""
        builder = self.builder
        for v, mask in enumerate(masks):
            with builder.if_else(self._lane(mask, self.lanes - 1)) as (if_complete, otherwise):
                with if_complete:
                    self._store_each(pairs[v :: self.vectors])
                with otherwise, builder.if_then(self._lane(mask, 0)):
                    self._store_each(pairs[v :: self.vectors], mask)

    def _lane(self, vector: Any, number: int) -> Any:
        return self.builder.extract_element(vector, ir.Constant(I32, number))

    def _store_each(self, pairs: list[tuple[Any, Any]], mask: Any = None) -> None:
        """Write vectors to their addresses."""
        for value, at in pairs:
            if mask is None:
                self.store(value, at)
            else:
                self.masked_store(value, at, mask)


class Loop:
    """A loop of at least one round over `count`, with values that each round replaces."""

    def __init__(self, builder: Any, count: Any, values: list[Any]) -> None:
        self.builder, self.count = builder, count
        before = builder.block
        self.body = builder.append_basic_block("loop")
        builder.branch(self.body)
        builder.position_at_end(self.body)
        self.index = builder.phi(I64)
        self.index.add_incoming(ir.Constant(I64, 0), before)
        self.values = []
        # Values of the loop are phis, not variables in memory: that is what keeps sums in registers
        # whatever LLVM's passes do.
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            self.values.append(phi)

    def close(self, values: list[Any]) -> list[Any]:
        """End the round with new values; they are those after the loop, too."""
        builder, last = self.builder, self.builder.block
        following = builder.add(self.index, ir.Constant(I64, 1))
        self.index.add_incoming(following, last)
        for phi, value in zip(self.values, values, strict=True):
            phi.add_incoming(value, last)
        after = builder.append_basic_block("after")
        # Tested at the end, since all counts are at least 1: one branch in each round.
        builder.cbranch(builder.icmp_signed("<", following, self.count), self.body, after)
        builder.position_at_end(after)
        return values


class CountedLoop(Loop):
    """The same of a count that may be 0."""

    def __init__(self, builder: Any, count: Any, values: list[Any]) -> None:
        self._before, self._initial = builder.block, values
        self._after = builder.append_basic_block("after")
        first = builder.append_basic_block("rounds")
        builder.cbranch(builder.icmp_signed(">", count, ir.Constant(I64, 0)), first, self._after)
        builder.position_at_end(first)
        super().__init__(builder, count, values)

    def close(self, values: list[Any]) -> list[Any]:
        """End the round with new values, and give those that are there after the loop."""
        builder = self.builder
        last = super().close(values)
        end = builder.block
        builder.branch(self._after)
        builder.position_at_end(self._after)
        results = []
        for initial, value in zip(self._initial, last, strict=True):
            phi = builder.phi(value.type)
            phi.add_incoming(initial, self._before)
            phi.add_incoming(value, end)
            results.append(phi)
        return results


def call_apart(builder: Any, name: str, arguments: Any, write: Callable[[Any, Any], None]) -> None:
    """Call a function of its own, which the first call with this name in a module makes.

    For a loop that takes all registers: as a part of another function it is left without some, and
    then some of its values lie in memory.

    Args:
        builder: of the function that calls.
        name: stands for all that `write` depends on.
        arguments: what is given.
        write: emits the code by a builder and the arguments inside.
    """
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        kinds = [argument.type for argument in arguments]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        write(inside, function.args)
        inside.ret_void()
    builder.call(function, arguments)


def literal(kind: Any) -> int:
    """The number that is the literal argument of an intrinsic."""
    return int(kind.literal_value)
