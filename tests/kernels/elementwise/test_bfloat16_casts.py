"""float32 as bfloat16 or float16 and back by kernels, which have the bits of NumPy's casts."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.attention import attention_tuned
from trainkit.kernels.elementwise import elementwise_tuned
from trainkit.kernels.elementwise import half_casts_tuned as casts
from trainkit.ops.neural import gated_activations
from trainkit.ops.neural.fused_attention import attend
from trainkit.ops.neural.gated_activations import gelu_erf_gradient

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")

BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
LARGE = 1 << 14  # enough for every kernel
SIZES = [LARGE, LARGE + 1, 3 * LARGE + 77]


def assert_same_bits(y, expected):
    assert (y.dtype, y.shape, y.strides) == (expected.dtype, expected.shape, expected.strides)
    bits = f"u{expected.itemsize}"
    np.testing.assert_array_equal(y.view(bits), expected.view(bits))


def test_every_bfloat16_is_widened():
    x = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    y = casts.cast_array(x, F32)
    np.testing.assert_array_equal(y.view(np.uint32), np.arange(1 << 16, dtype=np.uint32) << 16)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, about NaN
def test_floats_of_all_kinds_are_rounded(rng, size):
    x = rng.integers(0, 1 << 32, size, dtype=np.uint64).astype(np.uint32)
    x[::5] = (x[::5] & 0xFFFF0000) | 0x8000  # as near to one as to the other
    x[:6] = [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0xFF800000, 1, 0x80008000]
    x = x.view(F32)
    assert_same_bits(casts.cast_array(x, BF16), x.astype(BF16))


F16 = np.dtype(np.float16)


def assert_same_numbers(y, expected):
    """The same bits, but for those of NaN, which NumPy keeps and processors make quiet ones."""
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    assert_same_bits(np.nan_to_num(y, nan=0.0), np.nan_to_num(expected, nan=0.0))


def test_every_float16_is_widened():
    x = np.arange(1 << 16, dtype=np.uint16).view(F16)
    kernel = casts._by_kernel(x, F32)
    assert_same_numbers(kernel, x.astype(F32))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore:(invalid|overflow):RuntimeWarning")  # NumPy's
def test_floats_of_all_kinds_are_rounded_to_float16(rng, size):
    bits = rng.integers(0, 1 << 32, size, dtype=np.uint64).astype(np.uint32)
    # Most of all bits are out of float16's range: half of them get an exponent within it.
    bits[::2] = (bits[::2] & 0x807FFFFF) | (rng.integers(100, 145, len(bits[::2])) << 23)
    bits[::6] = (bits[::6] & 0xFFFFE000) | 0x1000  # as near to one as to the other
    bits[1:7] = [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0xFF800000, 1, 0x80008000]
    x = bits.view(F32)
    assert_same_numbers(casts._by_kernel(x, F16), x.astype(F16))


def test_without_an_instruction_float16_is_left_to_numpy(rng, monkeypatch):
    monkeypatch.setattr(casts.target, "converts_float16", lambda: False)
    x = rng.normal(size=SIZES[0]).astype(F32)
    assert casts._by_kernel(x, F16) is None
    assert_same_bits(casts.cast_array(x, F16), x.astype(F16))


def layouts(x):
    square = x[: 128 * 128].reshape(128, 128)
    return {
        "rows": square,
        "columns": square.T,
        "gaps": x[: 2 * LARGE : 2],
        "turned round": x[::-1],
        "cube": x[: 32 * 32 * 16].reshape(32, 32, 16).transpose(0, 2, 1),
        "repeated": np.broadcast_to(x[:1], (LARGE,)),
        "empty": x[:0],
        "number": x[0].reshape(()),
    }


@pytest.mark.parametrize(
    ("dtype", "target"), [(F32, BF16), (BF16, F32), (F32, F16), (F16, F32)], ids=str
)
@pytest.mark.parametrize("layout", layouts(np.zeros(4 * LARGE)))
def test_layouts_are_those_of_numpy(rng, dtype, target, layout):
    x = layouts(rng.normal(size=4 * LARGE).astype(dtype))[layout]
    assert_same_bits(casts.cast_array(x, target), x.astype(target))
    assert casts.cast_array(x, dtype) is x
    np.testing.assert_array_equal(casts.cast_array(x, np.float64), x.astype(np.float64))


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_parts_are_cut_without_a_trace(rng, monkeypatch, dtype):
    x = rng.normal(size=SIZES[-1]).astype(F32)
    expected = x.astype(dtype)
    monkeypatch.setattr(casts, "shared", lambda _: (0, 7))
    assert_same_bits(casts.cast_array(x, dtype), expected)
    assert_same_bits(casts.cast_array(expected, F32), expected.astype(F32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_function_of_float32_serves_shorter_floats(dtype):
    dtypes = []

    def pair(x, mask, y, *, scale):
        dtypes.extend((x.dtype, y.dtype))
        return x * np.float32(scale), np.where(mask, y, np.float32(0))

    dtype = np.dtype(BF16 if dtype == "bfloat16" else dtype)
    x, y = np.array([1.5, 2.0], dtype), np.array([3.0, 4.0], dtype)
    one, two = casts.run_in_float32(pair, x, np.array([True, False]), y, scale=2)
    assert dtypes == [F32, F32]
    assert one.dtype == two.dtype == dtype
    np.testing.assert_array_equal(one.astype(F32), [3, 4])
    np.testing.assert_array_equal(two.astype(F32), [3, 0])
    assert casts.run_in_float32(lambda x, none: none, x, None) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_of_short_floats_is_the_kernels(rng, dtype):
    q, k, v, g = (tk.cast(rng.normal(size=(2, 70, 3, 16)), dtype) for _ in range(4))
    visible = rng.random((2, 1, 70, 70)) < 0.7

    def both(q, k, v):
        with tk.GradientTape() as tape:
            tape.watch([q, k, v])
            y = attend(q, k, v, tk.constant(visible), scale=0.25, causal=True)
        return y, *tape.gradient(y, [q, k, v], g)

    wide = [x.numpy().astype(F32) for x in (q, k, v)]
    expected = [attention_tuned.attention(*wide, visible, 0.25, True)]
    expected += attention_tuned.attention_gradient(
        g.numpy().astype(F32), *wide, visible, 0.25, True
    )
    for results in (both(q, k, v), tk.function(both)(q, k, v)):
        for y, wide_y in zip(results, expected, strict=True):
            assert y.dtype.name == dtype
            np.testing.assert_array_equal(y.numpy(), wide_y.astype(q.dtype.dtype))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_slope_of_gelu_is_the_kernels(rng, monkeypatch, compiled):
    monkeypatch.setattr(gated_activations, "normal_tail", lambda *a: pytest.fail("NumPy's steps"))
    g, x = (tk.cast(rng.normal(size=(300, 70)) * 3, "bfloat16") for _ in range(2))
    slope = tk.function(gelu_erf_gradient) if compiled else gelu_erf_gradient
    wide = elementwise_tuned.gelu_erf_gradient(*(a.numpy().astype(F32) for a in (g, x)))
    np.testing.assert_array_equal(slope(g, x).numpy(), wide.astype(BF16))


@pytest.mark.parametrize(("short", "fewest"), [(F16, 1 << 11), (BF16, 1 << 14)])
def test_few_numbers_are_left_to_numpy(rng, short, fewest):
    x = rng.normal(size=fewest).astype("float32")
    assert casts._by_kernel(x, short) is not None
    assert casts._by_kernel(x.astype(short), F32) is not None
    assert casts._by_kernel(x[1:], short) is None
    assert casts._by_kernel(x[1:].astype(short), F32) is None
