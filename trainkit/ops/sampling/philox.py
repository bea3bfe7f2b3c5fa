"""Draws as pure functions of a generator's state: the primitives under all random functions.

A state is three uint64 words, (counter low, counter high, key). Each primitive gives the values and
the state after them, so that it means the same in a traced graph as at once. The bits are those of
Philox4x64-10 (`core.rng`). On a GPU one kernel runs the same rounds, so words, uniform floats,
integers and masks have the same bits. Normal draws come from the same uniform floats, and differ
from the CPU's in their last places, by how log, cos and sin are rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core import dtypes, rng, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.eager import with_tuned
from trainkit.core.dispatch.facets import RANDOM, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.kernels.random import draws_tuned, random_tuned
from trainkit.ops.arrays.shaping import filled

random_gpu = DeferredModule("trainkit.kernels.random.random_gpu")

_LOW = 0xFFFFFFFF
_WORD = (1 << 64) - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def _multiply_wide(xp: ArrayModule, a: Array, b: int) -> tuple[Array, Array]:
    """High and low words of the 128-bit products of uint64 `a` and the constant `b`."""
    word = xp.uint64
    a_low, a_high = a & word(_LOW), a >> word(32)
    b_low, b_high = word(b & _LOW), word(b >> 32)
    cross = (a_low * b_low) >> word(32)
    middle = a_high * b_low + cross
    other = a_low * b_high + (middle & word(_LOW))
    high = a_high * b_high + (middle >> word(32)) + (other >> word(32))
    return high, a * word(b)


def words_by_arithmetic(xp: ArrayModule, state: Array, count: int) -> Array:
    """`count` words of the stream by ten rounds of array arithmetic, equal to `core.rng.bits`."""
    blocks = -(-count // rng.WORDS_PER_BLOCK)
    steps = xp.arange(blocks, dtype=xp.uint64)
    c0 = state[0] + steps
    c1 = state[1] + (c0 < steps).astype(xp.uint64)
    c2, c3 = xp.zeros_like(c0), xp.zeros_like(c0)
    k0, k1 = state[2:3].copy(), xp.zeros(1, xp.uint64)
    for _ in range(10):
        high0, low0 = _multiply_wide(xp, c0, _MULTIPLIERS[0])
        high1, low1 = _multiply_wide(xp, c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + xp.uint64(_KEY_STEPS[0]), k1 + xp.uint64(_KEY_STEPS[1])
    return xp.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:count]


def _words(xp: ArrayModule, state: Array, count: int) -> Array:
    if xp is not np:
        return words_by_arithmetic(xp, state, count)
    low, high, key = state.tolist()
    return rng.bits(key, low + (high << 64), count)


def _compiled_words(state: Array, count: int) -> Array | None:
    low, high, key = state.tolist()
    return random_tuned.words(key, low + (high << 64), count)


words = with_tuned(_words, Tuned(_compiled_words, exact=True))
"""`(xp, state, count)`: so many words of 64 random bits from where `state` stands.

It is a part of the operations below, which get its tuned kernel with it.
"""


def drawn_words(xp: ArrayModule, state: Array, count: int) -> tuple[Array, Array]:
    """`count` words of 64 random bits, and the next state."""
    gpu_words = None if xp is np else random_gpu.words(xp, state, count)
    return gpu_words or (words(xp, state, count), advanced(xp, state, count))


class Part(NamedTuple):
    """Which elements of a draw are wanted: all of them, or those of some rows of a batch.

    Attributes:
        first: number of the first one.
        size: how many.
        total: how many the whole draw has, after which the state stands.
        blocks: the whole draw is of so many batches, one after the other, each of which has a share
            of these elements, `first` counting in each.
    """

    first: int
    size: int
    total: int
    blocks: int = 1


class InBlocks(NamedTuple):
    """Rows for `part_of`: an array with twice as many has two batches, one after the other.

    So has what is drawn for the shape of real and made images that were concatenated.

    Attributes:
        rows: first row, how many, and how many the global batch has; some three numbers.
    """

    rows: Any

    @property
    def moves(self) -> bool:
        """Whether the rows are others in each replica that runs a graph."""
        return getattr(self.rows, "moves", False)


def whole(count: int) -> Part:
    """All elements of a draw."""
    return Part(0, count, count)


def part_of(dims: tuple[int, ...], rows: tuple[int, int, int] | None) -> Part:
    """The elements that an array with the sizes `dims` has of the draw for a global batch.

    Args:
        dims: the sizes; the first one is that of the rows, or a multiple, with the rows outermost.
        rows: first row, how many, and how many the global batch has. Where the sizes are no
            multiple of these, and for `None`, the array is the whole draw.
    """
    count = count_of(dims)
    in_blocks = isinstance(rows, InBlocks)
    rows = rows.rows if isinstance(rows, InBlocks) else rows
    if rows is None or not dims or (rows[1] and dims[0] % rows[1]):
        return whole(count)
    start, size, total = rows
    blocks = dims[0] // max(size, 1) if in_blocks else 1
    if blocks > 1:
        each = math.prod(dims[1:])
        first = min(start, total - max(size, 1))  # a row that stands in for none is any row
        return Part(first * each, count, blocks * total * each, blocks)
    each = count // size if size else math.prod(dims[1:])
    return Part(start * each, count, total * each)


def cut(values: Array, part: Part) -> Array:
    """The elements of `part` of a whole flat draw."""
    if part.blocks == 1:
        return values[part.first : part.first + part.size]
    blocks = values.reshape(part.blocks, -1)
    return blocks[:, part.first : part.first + part.size // part.blocks].reshape(-1)


def _of_whole(draw: Any) -> Any:
    """Draws for several blocks by cutting them out of the draw for all."""

    @functools.wraps(draw)
    def drawn_part(
        xp: ArrayModule, state: Array, part: Part, kind: Any, *settings: Any
    ) -> tuple[Array, Array]:
        if part.blocks == 1:
            draws: tuple[Array, Array] = draw(xp, state, part, kind, *settings)
            return draws
        values, new = draw(xp, state, whole(part.total), kind, *settings)
        return cut(values, part), new

    return drawn_part


def _advance(xp: ArrayModule, state: Array, count: int) -> Array:
    """The state `count` blocks further on."""
    if (
        xp is np
    ):  # as Python's numbers: five operations of arrays of one word take as long as a draw
        low, high, key = state.tolist()
        counter = low + (high << 64) + count
        return np.array([counter & _WORD, counter >> 64 & _WORD, key], np.uint64)
    blocks = xp.uint64(count)
    new = state.copy()
    new[0:1] += blocks
    new[1:2] += (new[0:1] < blocks).astype(xp.uint64)
    return new


def advanced(xp: ArrayModule, state: Array, word_count: int) -> Array:
    """The state after `word_count` words were drawn."""
    return _advance(xp, state, max(1, -(-word_count // rng.WORDS_PER_BLOCK)))


def _words_from(xp: ArrayModule, state: Array, first: int, count: int) -> Array:
    """`count` words, from word `first` after the state on."""
    block, inside = divmod(first, rng.WORDS_PER_BLOCK)
    if block:
        state = _advance(xp, state, block)
    word_count = inside + count
    raw = words(xp, state, word_count) if xp is np else drawn_words(xp, state, word_count)[0]
    return raw[inside:]


def _small_words_from(xp: ArrayModule, state: Array, first: int, count: int, kind: Any) -> Array:
    per_word = 8 // np.dtype(kind).itemsize
    start, inside = divmod(first, per_word)
    raw = _words_from(xp, state, start, -(-(inside + count) // per_word))
    return raw.view(kind)[inside : inside + count]


@_of_whole
def small_words(xp: ArrayModule, state: Array, part: Part, kind: Any) -> tuple[Array, Array]:
    """Integers of the whole range of the unsigned type `kind`, and the next state."""
    per_word = 8 // np.dtype(kind).itemsize
    needed = -(-part.total // per_word)
    if part.size == part.total:
        raw, new = drawn_words(xp, state, needed)
        return raw.view(kind)[: part.size], new
    integers = _small_words_from(xp, state, part.first, part.size, kind)
    return integers, advanced(xp, state, needed)


def _scaled_singles(
    xp: ArrayModule, state: Array, first: int, count: int, scale: float, offset: float
) -> Array:
    halves = _small_words_from(xp, state, first, count, np.uint32)
    floats = (halves >> xp.uint32(8)).astype(xp.float32)
    floats *= xp.float32(1.0 / (1 << 24))
    return _rescale(floats, scale, offset)


def _compiled_singles(
    state: Array, first: int, count: int, scale: float, offset: float
) -> Array | None:
    low, high, key = state.tolist()
    return random_tuned.scaled_floats(key, low + (high << 64), first, count, scale, offset)


scaled_singles = with_tuned(_scaled_singles, Tuned(_compiled_singles, exact=True))
"""`(xp, state, first, count, scale, offset)`: float32 in [0, 1) times `scale` plus `offset`."""


def _rescale(floats: Array, scale: float, offset: float) -> Array:
    """`floats`, which nobody else holds, times `scale` plus `offset`."""
    if scale != 1:
        floats *= floats.dtype.type(scale)
    if offset != 0:
        floats += floats.dtype.type(offset)
    return floats


def _unit_floats_from(
    xp: ArrayModule,
    state: Array,
    first: int,
    count: int,
    dtype: Any,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Array:
    if np.dtype(dtype) == np.float64:
        words = _words_from(xp, state, first, count)
        return _rescale((words >> xp.uint64(11)) * (1.0 / (1 << 53)), scale, offset)
    return scaled_singles(xp, state, first, count, scale, offset)


def _after_floats(xp: ArrayModule, state: Array, total: int, dtype: Any) -> Array:
    return advanced(xp, state, total if np.dtype(dtype) == np.float64 else (total + 1) // 2)


@_of_whole
def unit_floats(
    xp: ArrayModule, state: Array, part: Part, dtype: Any, scale: float = 1.0, offset: float = 0.0
) -> tuple[Array, Array]:
    """Floats in [0, 1), multiples of 2**-24 (2**-53 for float64), and the next state.

    They are multiplied by `scale`, and `offset` is added, each rounded.
    """
    if xp is not np and part.size == part.total:
        draws: tuple[Array, Array] | None
        draws = random_gpu.uniform(xp, state, part.size, np.dtype(dtype))
        if draws is not None:
            return _rescale(draws[0], scale, offset), draws[1]
    floats = _unit_floats_from(xp, state, part.first, part.size, dtype, scale, offset)
    return floats, _after_floats(xp, state, part.total, dtype)


@_of_whole
def normal_floats(xp: ArrayModule, state: Array, part: Part, dtype: Any) -> tuple[Array, Array]:
    """Draws of the standard normal distribution, and the next state.

    Source: Box and Muller 1958, "A note on the generation of random normal deviates".
    """
    half = (part.total + 1) // 2
    if xp is not np:
        # the whole for a part too: array arithmetic has other last bits than the kernel
        drawn: tuple[Array, Array] | None
        drawn = random_gpu.normal(xp, state, part.total, np.dtype(dtype))
        if drawn is not None:
            return drawn[0][part.first : part.first + part.size], drawn[1]
    if part.size == part.total:
        flat = _unit_floats_from(xp, state, 0, 2 * half, dtype)
        radius, angle = _polar(xp, flat[:half], flat[half:])
        normals = xp.concatenate([radius * xp.cos(angle), radius * xp.sin(angle)])[: part.total]
    else:
        end = part.first + part.size
        pieces = []
        for first, last, offset, wave in (
            (part.first, min(end, half), 0, xp.cos),
            (max(part.first, half), end, half, xp.sin),
        ):
            size = max(0, last - first)
            pairs = (
                _unit_floats_from(xp, state, first - offset + start, size, dtype)
                for start in (0, half)
            )
            radius, angle = _polar(xp, *pairs)
            pieces.append(radius * wave(angle))
        normals = xp.concatenate(pieces)
    return normals, _after_floats(xp, state, 2 * half, dtype)


def _polar(xp: ArrayModule, one: Array, two: Array) -> tuple[Array, Array]:
    """Radius and angle of the pairs of normal numbers that pairs of uniform ones stand for."""
    unit, turn = one.dtype.type(1), one.dtype.type(2 * np.pi)
    return xp.sqrt(-2 * xp.log(unit - one)), turn * two


def working(dtype: str) -> Any:
    """The NumPy type in which floats for `dtype` are drawn: float64 for float64, else float32."""
    return np.float64 if dtype == "float64" else np.float32


@functools.lru_cache(maxsize=1024)
def count_of(shape: tuple[int, ...]) -> int:
    """The number of elements.

    Raises:
        ShapeError: there are more than an array can have.
    """
    shapes.bounded("random numbers", *shape)
    return math.prod(shape)


def drawn(
    state: Spec, *sizes: Any, shape: tuple[int | None, ...], dtype: str, **settings: Any
) -> Any:
    """Shape rule: values of `shape` and `dtype`, and the next state."""
    return Spec(shape, dtype), Spec(state.shape, state.dtype)


def _shape(draws: Any, dims: tuple[int, ...]) -> Any:
    return None if draws is None else (draws[0].reshape(dims), draws[1])


def _in_shape(flat: Array, dims: tuple[int, ...]) -> Array:
    """New draws in their shape; where they own their memory, so does the result.

    A variable's value has to, or its first update would move it to other memory.
    """
    if type(flat) is np.ndarray and flat.base is None and flat.size and dims:
        flat.resize(dims, refcheck=False)
        return flat
    return flat.reshape(dims)


def _of_all(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of a GPU that draws for whole batches alone."""

    @functools.wraps(kernel)
    def tuned(*args: Any, rows: Any = None, **settings: Any) -> Any:
        return kernel(*args, **settings) if rows is None else None

    return tuned


def _uniform_by_kernel(
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rows: Any = None,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Any:
    if rows is not None or dtype != "float32":
        return None
    return draws_tuned.uniform(state, filled(shape, sizes), scale, offset)


def _uniform_on_gpu(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    draws = random_gpu.uniform(xp, state, count_of(dims), kind)
    return _shape(draws and (_rescale(draws[0], scale, offset), draws[1]), dims)


@primitive(
    drawn,
    semantics=RANDOM,
    tuned=Tuned(_uniform_by_kernel, on_gpu=(_of_all(_uniform_on_gpu),), exact=True),
    direct=Direct("uniform"),
)
def philox_uniform(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rows: tuple[int, int, int] | None = None,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Any:
    """Floats in [0, 1), and the next state; with `rows` those of a part of a batch.

    Those of float32 and float64 may be multiplied by `scale`, and moved by `offset` after that.
    """
    dims = filled(shape, sizes)
    flat, new = unit_floats(xp, state, part_of(dims, rows), working(dtype), scale, offset)
    if dtype in ("float16", "bfloat16"):  # rounding up to 1 would leave the interval
        flat = xp.minimum(flat, np.float32(1 - 2.0 ** (-9 if dtype == "bfloat16" else -12)))
        step = np.float32(2.0 ** (8 if dtype == "bfloat16" else 11))
        flat = xp.floor(flat * step) / step
    return _in_shape(flat, dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new


def _normal_by_kernel(state: Array, *sizes: Array, shape: Any, dtype: str, rows: Any = None) -> Any:
    if rows is not None or dtype != "float32":
        return None
    return draws_tuned.normal(state, filled(shape, sizes))


def _normal_on_gpu(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    return _shape(random_gpu.normal(xp, state, count_of(dims), kind), dims)


@primitive(
    drawn,
    semantics=RANDOM,
    tuned=Tuned(_normal_by_kernel, on_gpu=(_of_all(_normal_on_gpu),), exact=True),
    direct=Direct("normal", (np.log, np.cos, np.sin)),
)
def philox_normal(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """Draws of the standard normal distribution, and the next state."""
    dims = filled(shape, sizes)
    flat, new = normal_floats(xp, state, part_of(dims, rows), working(dtype))
    return flat.reshape(dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new


def _integers_by_kernel(
    state: Array, *sizes: Array, shape: Any, dtype: str, low: int, high: int, rows: Any = None
) -> Any:
    if rows is not None:
        return None
    return draws_tuned.integers(
        state, filled(shape, sizes), low, high, dtypes.as_dtype(dtype).dtype
    )


def _integers_on_gpu(
    xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str, low: int, high: int
) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    return _shape(random_gpu.integers(xp, state, count_of(dims), low, high, kind), dims)


@primitive(
    drawn,
    semantics=RANDOM,
    tuned=Tuned(_integers_by_kernel, on_gpu=(_of_all(_integers_on_gpu),), exact=True),
    direct=Direct("integers"),
)
def philox_integers(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    low: int,
    high: int,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """Integers in [low, high), and the next state.

    A 64-bit word times the width of the range, divided by 2**64: no value is likelier than another
    by more than width / 2**64.
    Source: Lemire 2019, arXiv:1805.10941, without its rejection step.
    """
    dims = filled(shape, sizes)
    raw, new = small_words(xp, state, part_of(dims, rows), np.uint64)
    kind = dtypes.as_dtype(dtype).dtype
    if xp is not np:
        return _within(xp, raw, low, high).astype(kind).reshape(dims), new
    result = np.empty(raw.shape, kind)
    step = 1 << 14  # words at a time, so that what is in between stays in the cache
    for start in range(0, raw.size, step):
        part = slice(start, start + step)
        result[part] = _within(np, raw[part], low, high).astype(kind, copy=False)
    return result.reshape(dims), new


def _within(xp: ArrayModule, raw: Array, low: int, high: int) -> Array:
    """The integers, modulo 2**64, that words stand for."""
    width = high - low
    offsets = raw if width == 1 << 64 else _multiply_wide(xp, raw, width)[0]
    return offsets + xp.uint64(low % (1 << 64))


def _integers_between_on_gpu(
    xp: ArrayModule, state: Array, low: Array, high: Array, *sizes: Array, shape: Any, dtype: str
) -> Any:
    dims = filled(shape, sizes)
    bounds = [xp.asarray(bound) for bound in (low, high)]
    kind = dtypes.as_dtype(dtype).dtype
    return _shape(random_gpu.integers_between(xp, state, count_of(dims), *bounds, kind), dims)


@primitive(
    lambda state, low, high, *sizes, shape, dtype, rows=None: drawn(
        state, *sizes, shape=shape, dtype=dtype
    ),
    semantics=RANDOM,
    tuned=Tuned(on_gpu=(_of_all(_integers_between_on_gpu),)),
)
def philox_integers_between(
    xp: ArrayModule,
    state: Array,
    low: Array,
    high: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """`philox_integers` between bounds that are tensors, and the next state."""
    settings = {"low": int(low), "high": int(high)}
    check_range(**settings, dtype=dtypes.as_dtype(dtype))
    if rows is not None:
        settings["rows"] = rows  # type: ignore[assignment]
    return philox_integers.primitive.kernel(xp, state, *sizes, shape=shape, dtype=dtype, **settings)


def check_range(low: int, high: int, dtype: dtypes.DType) -> None:
    """Raise `InvalidArgumentError` unless `dtype` holds all whole numbers in [low, high)."""
    lowest, greatest = dtype.limits
    if not lowest <= low < high <= greatest + 1:
        raise InvalidArgumentError(
            f"random integers: [{low}, {high}) is no range of {dtype.name}, which holds {lowest} "
            f"to {greatest}; minval must be below maxval"
        )


def _limit(rate: float) -> int:
    """Below which 16 random bits are no element of the mask."""
    return min(max(round(rate * 65536), 0), 65536)


def _mask_on_gpu(
    xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str, rate: float, scale: float
) -> Any:
    dims = filled(shape, sizes)
    mask_dtype = dtypes.as_dtype(dtype).dtype
    off, on = np.multiply([False, True], mask_dtype.type(scale), dtype=mask_dtype)
    return _shape(random_gpu.mask(xp, state, count_of(dims), _limit(rate), off, on), dims)


@primitive(drawn, semantics=RANDOM, tuned=Tuned(on_gpu=(_of_all(_mask_on_gpu),)))
def philox_mask(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rate: float,
    scale: float,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """0 with probability `rate`, else `scale`, and the next state.

    Sixteen bits decide an element, so `rate` counts to the nearest multiple of 2**-16.
    """
    mask, new = _draw_kept(xp, state, filled(shape, sizes), rate, rows)
    mask_dtype = dtypes.as_dtype(dtype).dtype
    return xp.multiply(mask, mask_dtype.type(scale), dtype=mask_dtype), new


def _draw_kept(
    xp: ArrayModule, state: Array, dims: Any, rate: float, rows: Any
) -> tuple[Array, Array]:
    raw, new = small_words(xp, state, part_of(dims, rows), np.uint16)
    limit = _limit(rate)
    mask = raw >= limit if limit < 65536 else xp.zeros(raw.shape, bool)
    return mask.reshape(dims), new


def _kept_on_gpu(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, rate: float) -> Any:
    dims = filled(shape, sizes)
    draws = random_gpu.mask(xp, state, count_of(dims), _limit(rate), np.False_, np.True_)
    return _shape(draws, dims)


@primitive(
    lambda state, *sizes, shape, rate, rows=None: (
        Spec(shape, "bool"),
        Spec(state.shape, state.dtype),
    ),
    semantics=RANDOM,
    tuned=Tuned(on_gpu=(_of_all(_kept_on_gpu),)),
    direct=Direct("kept"),
)
def philox_kept(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    rate: float,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """False with probability `rate`, by the bits of `philox_mask`, and the next state."""
    return _draw_kept(xp, state, filled(shape, sizes), rate, rows)


@primitive(
    lambda seed: Spec((3,), "uint64"), semantics=RANDOM, tuned=Tuned(on_gpu=(random_gpu.seeded,))
)
def philox_state(xp: ArrayModule, seed: Array) -> Array:
    """The state of the stream that two integers of a stateless call name."""
    first, second = (int(n) % (1 << 64) for n in seed)
    key = words(np, np.array([second, 0, first], np.uint64), 1)[0]
    return xp.asarray(np.array([0, 0, key], np.uint64))


@primitive(drawn, semantics=RANDOM)
def philox_truncated_normal(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rows: tuple[int, int, int] | None = None,
) -> Any:
    """Standard normal draws within [-2, 2], others being drawn again, and the next state.

    Which ones are drawn again depends on all of them, so a part is cut out of the whole draw.
    """
    dims = filled(shape, sizes)
    part, kind = part_of(dims, rows), working(dtype)
    gpu_draws = None
    if xp is not np:
        gpu_draws = random_gpu.truncated_normal(xp, state, part.total, np.dtype(kind))
    flat, new = gpu_draws or normal_floats(xp, state, whole(part.total), kind)
    while gpu_draws is None:
        outside = xp.abs(flat) > 2
        count = int(outside.sum())
        if not count:
            break
        flat[outside], new = normal_floats(xp, new, whole(count), kind)
    flat = cut(flat, part)
    return flat.reshape(dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new


BY_ROWS = (
    philox_uniform,
    philox_normal,
    philox_integers,
    philox_mask,
    philox_kept,
    philox_truncated_normal,
)
"""The draws that know the setting `rows`."""
