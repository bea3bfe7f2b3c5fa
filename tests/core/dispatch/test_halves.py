"""Small and large arrays of 16-bit floats have the bits of NumPy's loops and of the bodies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.core.dispatch.test_direct_indexing import assert_alike
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

HALVES = ["float16", "bfloat16"]
SIZES = st.lists(st.integers(0, 6), max_size=3)
BINARY = [
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
]
UNARY = [
    *("negative", "absolute", "square", "sqrt", "exp", "log", "tanh", "sin", "floor", "sign"),
    *("isnan", "isfinite", "reciprocal", "expm1", "log1p"),
]
FLOATS_ONLY = [
    "sigmoid",
    "softmax",
    "log_softmax",
    "gelu_erf",
    "gelu_tanh",
    "silu",
    "softplus",
    "erf",
    "rsqrt",
]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 6e-8, 65504.0, 3e38, 1.0, -2.5]


def tensor(rng, dims, dtype, many_special=False):
    x = rng.standard_normal(dims) * 3
    x = np.where(rng.random(dims) < (0.8 if many_special else 0.1), rng.choice(SPECIAL, dims), x)
    with np.errstate(all="ignore"):
        return tk.core.tensor.wrap(x.astype("float32").astype(tk.as_dtype(dtype).dtype))


def every(dtype):
    """All numbers of a type of 16 bits but for NaN that signal, which processors make quiet."""
    x = np.arange(1 << 16, dtype="uint16").view(tk.as_dtype(dtype).dtype)
    exponent, quiet = (0x7C00, 0x200) if dtype == "float16" else (0x7F80, 0x40)
    bits = x.view("uint16")
    signals = (bits & 0x7FFF > exponent) & (bits & quiet == 0)
    return tk.core.tensor.wrap(x[~signals])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_every_number_have_the_bits_of_numpy(name, dtype):
    op = PRIMITIVES[name].op
    assert_alike(lambda: op(every(dtype)))


@given(SIZES, st.sampled_from(UNARY), st.sampled_from(HALVES), st.integers(0, 2**16))
def test_functions_of_small_arrays(dims, name, dtype, seed):
    x = tensor(np.random.default_rng(seed), dims, dtype, many_special=True)
    assert_alike(lambda: PRIMITIVES[name].op(x))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_has_the_bits_of_numpy(name, dtype):
    op, rng = PRIMITIVES[name].op, np.random.default_rng(0)
    for dims in ((1,), (3, 5), (1025,), (3, 2000), (5000,)):
        x, y = tensor(rng, dims, dtype), tensor(rng, dims, dtype)
        row = tensor(rng, dims[-1:], dtype)
        assert_alike(lambda x=x, y=y: op(x, y))
        assert_alike(lambda x=x, row=row: op(x, row))
        assert_alike(lambda x=x, row=row: op(row, x))
        assert_alike(lambda x=x: op(x, x[..., :1]))


@given(
    st.sampled_from(BINARY),
    st.sampled_from(HALVES),
    st.sampled_from([0, 1, -3, 0.1, 1.0009765625, 257, 1e-5, 7e4, 1e39, np.inf, np.nan])
    | st.floats(-100, 100),
    st.booleans(),
    st.integers(0, 2**16),
)
def test_numbers_beside_halves_are_rounded_as_numpy_does(name, dtype, number, first, seed):
    x = tensor(np.random.default_rng(seed), (3, 4), dtype, many_special=True)
    op = PRIMITIVES[name].op
    assert_alike((lambda: op(number, x)) if first else (lambda: op(x, number)))


def test_numbers_that_would_be_rounded_twice_are_rounded_once():
    number = 1 + 2**-11 + 2**-30  # in float32 it lies in the middle of two numbers of float16
    x = tk.zeros(3, "float16")
    np.testing.assert_array_equal(x + number, np.full(3, 1 + 2**-10, "float16"))
    assert_alike(lambda: x + number)


@given(SIZES, st.sampled_from(FLOATS_ONLY), st.sampled_from(HALVES), st.integers(0, 2**16))
def test_formulas_are_computed_in_float32_and_rounded_once(dims, name, dtype, seed):
    x = tensor(np.random.default_rng(seed), [*dims, 3], dtype)
    assert_alike(lambda: PRIMITIVES[name].op(x))


def test_transposed_halves_and_two_types_are_left_to_numpy():
    x = tensor(np.random.default_rng(0), (4, 3), "bfloat16")
    turned = tk.core.tensor.wrap(x._array.T)
    for other in (turned, tk.ones((3, 4)), tk.ones((3, 4), "float16"), tk.ones((3, 4), "int32")):
        assert_alike(lambda other=other: turned + other)
        assert_alike(lambda other=other: other / turned)
    assert_alike(lambda: tk.sigmoid(turned))


@pytest.mark.parametrize("dtype", HALVES)
def test_tapes_hear_of_halves(dtype):
    def gradient():
        x = tk.constant([1.0, 2.0, -3.0], dtype)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.exp(x) * x / (x + 5.0) + tk.sigmoid(x)
        return tape.gradient(y, x)

    assert gradient().dtype == dtype
    assert_alike(gradient)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.sampled_from(["sum", "mean", "cumsum", "cumprod", "max", "argmax", "argmin"]),
    st.sampled_from(HALVES),
    st.data(),
)
def test_sums_of_halves_have_the_bits_of_the_bodies(dims, name, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    dims = dims[:2] if np.prod(dims) > 4096 else dims
    x = tensor(rng, dims, dtype) if data.draw(st.booleans()) else tk.ones(dims, dtype) * 0.1
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    if name.startswith("cum"):
        settings = {"exclusive": False, "reverse": data.draw(st.booleans())}
    else:
        settings = {"keepdims": data.draw(st.booleans())}
        axis = data.draw(st.sampled_from([axis, None]))
    if name == "max":
        settings["initial"] = None
    if name.startswith("arg"):
        settings["dtype"] = data.draw(st.sampled_from(["int32", "int64"]))
    assert_alike(lambda: PRIMITIVES[name].op(x, axis=axis, **settings))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("dims", [(0, 4), (5,), (9, 1), (7, 3, 11), (40, 50), (130, 150)])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_reductions_have_the_bits_of_the_bodies_in_any_order(dtype, dims, special, transposed):
    x = tensor(np.random.default_rng(0), dims, dtype, special)
    finite = tk.where(tk.math.is_finite(x), x, 0)  # of which no sum is a NaN of either sign
    x, finite = (tk.transpose(v) if transposed else v for v in (x, finite / 100))
    axes = [None, 0, -1, *([(0, 1), (1, -2)] if len(dims) > 1 else [])]
    for name in ("sum", "mean", "max", "min"):
        for axis in axes:
            for keepdims in (False, True):
                settings = {"axis": axis, "keepdims": keepdims}
                of = x if name in ("max", "min") else finite
                assert_alike(lambda name=name, of=of, s=settings: getattr(tk.ops, name)(of, **s))
    for axis in (0, -1):
        assert_alike(lambda axis=axis: tk.argmax(x, axis))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "selu", "hard_sigmoid", "softmax"])
@pytest.mark.parametrize("dims", [(0, 4), (2, 5), (7, 3, 11), (130, 150)])
def test_activations_of_transposed_arrays_have_the_bits_of_the_bodies(dtype, name, dims):
    x = tk.transpose(tensor(np.random.default_rng(1), dims, dtype))
    assert_alike(lambda: getattr(tk.ops, name)(x))
