"""Draws as pure functions of a generator's state: the primitives under all random functions.

A state is three uint64 words, (counter low, counter high, key). Each primitive gives the values and
the state after them, so that it means the same in a traced graph as at once. The bits are those of
Philox4x64-10 (`core.rng`). On a GPU one kernel runs the same rounds, so words, uniform floats,
integers and masks have the same bits. Normal draws come from the same uniform floats, and differ
from the CPU's in their last places, by how log, cos and sin are rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, rng, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.eager import with_tuned
from trainkit.core.dispatch.facets import RANDOM, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.kernels.random import random_gpu, random_tuned
from trainkit.ops.arrays.shaping import filled

_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def _times(xp: ArrayModule, a: Array, b: int) -> tuple[Array, Array]:
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
        high0, low0 = _times(xp, c0, _MULTIPLIERS[0])
        high1, low1 = _times(xp, c2, _MULTIPLIERS[1])
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
    found = None if xp is np else random_gpu.words(xp, state, count)
    return found or (words(xp, state, count), advanced(xp, state, count))


def advanced(xp: ArrayModule, state: Array, word_count: int) -> Array:
    """The state after `word_count` words were drawn."""
    blocks = xp.uint64(max(1, -(-word_count // rng.WORDS_PER_BLOCK)))
    new = state.copy()
    new[0:1] += blocks
    new[1:2] += (new[0:1] < blocks).astype(xp.uint64)
    return new


def small_words(xp: ArrayModule, state: Array, count: int, kind: Any) -> tuple[Array, Array]:
    """`count` integers of the whole range of the unsigned type `kind`, and the next state."""
    per_word = 8 // np.dtype(kind).itemsize
    needed = -(-count // per_word)
    raw, new = drawn_words(xp, state, needed)
    return raw.view(kind)[:count], new


def unit_floats(xp: ArrayModule, state: Array, count: int, dtype: Any) -> tuple[Array, Array]:
    """`count` floats in [0, 1), multiples of 2**-24 (2**-53 for float64), and the next state."""
    found = None if xp is np else random_gpu.uniform(xp, state, count, np.dtype(dtype))
    if found is not None:
        return found
    if np.dtype(dtype) == np.float64:
        raw = words(xp, state, count)
        return (raw >> xp.uint64(11)) * (1.0 / (1 << 53)), advanced(xp, state, count)
    halves, new = small_words(xp, state, count, np.uint32)
    floats = (halves >> xp.uint32(8)).astype(xp.float32)
    floats *= xp.float32(1.0 / (1 << 24))
    return floats, new


def normal_floats(xp: ArrayModule, state: Array, count: int, dtype: Any) -> tuple[Array, Array]:
    """`count` draws of the standard normal distribution, and the next state.

    Source: Box and Muller 1958, "A note on the generation of random normal deviates".
    """
    found = None if xp is np else random_gpu.normal(xp, state, count, np.dtype(dtype))
    if found is not None:
        return found
    half = (count + 1) // 2
    flat, new = unit_floats(xp, state, 2 * half, dtype)
    one, turn = flat.dtype.type(1), flat.dtype.type(2 * np.pi)
    radius = xp.sqrt(-2 * xp.log(one - flat[:half]))
    angle = turn * flat[half:]
    return xp.concatenate([radius * xp.cos(angle), radius * xp.sin(angle)])[:count], new


def working(dtype: str) -> Any:
    """The NumPy type in which floats for `dtype` are drawn: float64 for float64, else float32."""
    return np.float64 if dtype == "float64" else np.float32


def count_of(shape: tuple[int, ...]) -> int:
    """The number of elements."""
    shapes.bounded("random numbers", *shape)
    return math.prod(shape)


def drawn(
    state: Spec, *sizes: Any, shape: tuple[int | None, ...], dtype: str, **settings: Any
) -> Any:
    """Shape rule: values of `shape` and `dtype`, and the next state."""
    return Spec(shape, dtype), Spec(state.shape, state.dtype)


def _shaped(found: Any, dims: tuple[int, ...]) -> Any:
    return None if found is None else (found[0].reshape(dims), found[1])


def _uniform_on_gpu(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    return _shaped(random_gpu.uniform(xp, state, count_of(dims), kind), dims)


@primitive(drawn, semantics=RANDOM, tuned=Tuned(on_gpu=(_uniform_on_gpu,)))
def philox_uniform(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str) -> Any:
    """Floats in [0, 1), and the next state."""
    dims = filled(shape, sizes)
    flat, new = unit_floats(xp, state, count_of(dims), working(dtype))
    if dtype in ("float16", "bfloat16"):  # rounding up to 1 would leave the interval
        flat = xp.minimum(flat, np.float32(1 - 2.0 ** (-9 if dtype == "bfloat16" else -12)))
        step = np.float32(2.0 ** (8 if dtype == "bfloat16" else 11))
        flat = xp.floor(flat * step) / step
    return flat.reshape(dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new


def _normal_on_gpu(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    return _shaped(random_gpu.normal(xp, state, count_of(dims), kind), dims)


@primitive(drawn, semantics=RANDOM, tuned=Tuned(on_gpu=(_normal_on_gpu,)))
def philox_normal(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str) -> Any:
    """Draws of the standard normal distribution, and the next state."""
    dims = filled(shape, sizes)
    flat, new = normal_floats(xp, state, count_of(dims), working(dtype))
    return flat.reshape(dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new


def _integers_on_gpu(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    low: int,
    high: int,
) -> Any:
    dims = filled(shape, sizes)
    kind = dtypes.as_dtype(dtype).dtype
    return _shaped(random_gpu.integers(xp, state, count_of(dims), low, high, kind), dims)


@primitive(drawn, semantics=RANDOM, tuned=Tuned(on_gpu=(_integers_on_gpu,)))
def philox_integers(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    low: int,
    high: int,
) -> Any:
    """Integers in [low, high), and the next state.

    A 64-bit word times the width of the range, divided by 2**64: no value is likelier than another
    by more than width / 2**64.
    Source: Lemire 2019, arXiv:1805.10941, without its rejection step.
    """
    dims = filled(shape, sizes)
    count = count_of(dims)
    raw, new = drawn_words(xp, state, count)
    width = high - low
    offsets = raw if width == 1 << 64 else _times(xp, raw, width)[0]
    shifted = offsets + xp.uint64(low % (1 << 64))
    return shifted.astype(dtypes.as_dtype(dtype).dtype).reshape(dims), new


@primitive(
    lambda state, low, high, *sizes, shape, dtype: drawn(state, *sizes, shape=shape, dtype=dtype),
    semantics=RANDOM,
)
def philox_integers_between(
    xp: ArrayModule,
    state: Array,
    low: Array,
    high: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
) -> Any:
    """`philox_integers` between bounds that are tensors, and the next state."""
    bounds = {"low": int(low), "high": int(high)}
    check_range(**bounds, dtype=dtypes.as_dtype(dtype))
    return philox_integers.primitive.kernel(xp, state, *sizes, shape=shape, dtype=dtype, **bounds)


def check_range(low: int, high: int, dtype: dtypes.DType) -> None:
    """Raise `InvalidArgumentError` unless `dtype` holds all whole numbers in [low, high)."""
    least, greatest = dtype.limits
    if not least <= low < high <= greatest + 1:
        raise InvalidArgumentError(
            f"random integers: [{low}, {high}) is no range of {dtype.name}, which holds {least} "
            f"to {greatest}; minval must be below maxval"
        )


def _limit(rate: float) -> int:
    """Below which 16 random bits are no element of the mask."""
    return min(max(round(rate * 65536), 0), 65536)


def _mask_on_gpu(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rate: float,
    scale: float,
) -> Any:
    dims = filled(shape, sizes)
    wanted = dtypes.as_dtype(dtype).dtype
    off, on = np.multiply([False, True], wanted.type(scale), dtype=wanted)
    return _shaped(random_gpu.mask(xp, state, count_of(dims), _limit(rate), off, on), dims)


@primitive(drawn, semantics=RANDOM, tuned=Tuned(on_gpu=(_mask_on_gpu,)))
def philox_mask(
    xp: ArrayModule,
    state: Array,
    *sizes: Array,
    shape: Any,
    dtype: str,
    rate: float,
    scale: float,
) -> Any:
    """0 with probability `rate`, else `scale`, and the next state.

    Sixteen bits decide an element, so `rate` counts to the nearest multiple of 2**-16.
    """
    kept, new = _kept(xp, state, filled(shape, sizes), rate)
    wanted = dtypes.as_dtype(dtype).dtype
    return xp.multiply(kept, wanted.type(scale), dtype=wanted), new


def _kept(xp: ArrayModule, state: Array, dims: Any, rate: float) -> tuple[Array, Array]:
    raw, new = small_words(xp, state, count_of(dims), np.uint16)
    limit = _limit(rate)
    kept = raw >= limit if limit < 65536 else xp.zeros(raw.shape, bool)
    return kept.reshape(dims), new


def _kept_rule(state: Spec, *sizes: Any, shape: tuple[int | None, ...], rate: float) -> Any:
    return Spec(shape, "bool"), Spec(state.shape, state.dtype)


def _kept_on_gpu(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, rate: float) -> Any:
    dims = filled(shape, sizes)
    found = random_gpu.mask(xp, state, count_of(dims), _limit(rate), np.False_, np.True_)
    return _shaped(found, dims)


@primitive(_kept_rule, semantics=RANDOM, tuned=Tuned(on_gpu=(_kept_on_gpu,)))
def philox_kept(xp: ArrayModule, state: Array, *sizes: Array, shape: Any, rate: float) -> Any:
    """False with probability `rate`, by the bits of `philox_mask`, and the next state."""
    return _kept(xp, state, filled(shape, sizes), rate)


@primitive(
    lambda seed: Spec((3,), "uint64"),
    semantics=RANDOM,
    tuned=Tuned(on_gpu=(random_gpu.seeded,)),
)
def philox_state(xp: ArrayModule, seed: Array) -> Array:
    """The state of the stream that two integers of a stateless call name."""
    first, second = (int(n) for n in seed)
    key = rng.bits(first % (1 << 64), second % (1 << 64), 1)[0]
    return xp.asarray(np.array([0, 0, key], np.uint64))


@primitive(drawn, semantics=RANDOM)
def philox_truncated_normal(
    xp: ArrayModule, state: Array, *sizes: Array, shape: Any, dtype: str
) -> Any:
    """Standard normal draws within [-2, 2], others being drawn again, and the next state."""
    dims = filled(shape, sizes)
    found = None
    if xp is not np:
        found = random_gpu.truncated_normal(xp, state, count_of(dims), np.dtype(working(dtype)))
    flat, new = found or normal_floats(xp, state, count_of(dims), working(dtype))
    while found is None:
        outside = xp.abs(flat) > 2
        count = int(outside.sum())
        if not count:
            break
        flat[outside], new = normal_floats(xp, new, count, working(dtype))
    return flat.reshape(dims).astype(dtypes.as_dtype(dtype).dtype, copy=False), new
