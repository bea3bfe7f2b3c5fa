"""Small arrays that are padded, cut and looked at along diagonals have the bits of the bodies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.core.dispatch.test_direct_indexing import NUMBERS, SIZES, assert_alike
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES, wrap

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

pad, squeeze, diagonal, tril, triu = (
    PRIMITIVES[name].op for name in ("pad", "squeeze", "diagonal", "tril", "triu")
)


def tensor(rng, dims, dtype):
    x = rng.choice([-0.0, 1.0, -7.0, 3.0], dims)
    return wrap(x.astype(tk.as_dtype(dtype).dtype))


@given(
    SIZES,
    st.sampled_from(NUMBERS),
    st.sampled_from(["constant", "reflect", "symmetric", "edge", "wrap"]),
    st.sampled_from([0, -0.0, 1, -3, 2.5, 1e39, 1 << 40, True, np.nan, np.inf]),
    st.data(),
)
def test_pads_are_those_of_the_body(dims, dtype, mode, value, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    widths = st.tuples(st.integers(0, 4), st.integers(-1, 4)) | st.just((0, 0))
    pad_width = tuple(data.draw(widths) for _ in dims)
    if value == 1 << 40 and not dtype.startswith("float"):
        value = 1 << 20  # NumPy refuses what a dtype does not hold in its own words
    if dtype == "int8":
        value = min(value, 100)
    if not dtype.startswith(("float", "bfloat")) and value != value:
        value = 0
    if not dtype.startswith(("float", "bfloat", "bool")):
        value = int(min(value, 1 << 20))
    x = tensor(rng, dims, dtype)
    assert_alike(lambda: pad(x, pad_width=pad_width, mode=mode, value=value))


@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric", "edge"])
def test_large_results_are_padded_by_the_body(mode):
    x = tensor(np.random.default_rng(0), (40, 50), "float32")
    for width in (3, 60, 5000):
        if mode not in ("reflect", "symmetric") or width < 40:
            widths = ((width, 1), (0, width))
            assert_alike(lambda w=widths: pad(x, pad_width=w, mode=mode, value=1.5))


@given(SIZES, st.sampled_from(NUMBERS), st.integers(-9, 9), st.booleans(), st.integers(0, 2**16))
def test_triangles_are_those_of_the_body(dims, dtype, k, upper, seed):
    x = tensor(np.random.default_rng(seed), [*dims, 5], dtype)
    assert_alike(lambda: (triu if upper else tril)(x, k=k))


@pytest.mark.parametrize("k", [0, 3, -700, 1 << 40])
def test_triangles_of_large_and_empty_matrices(k):
    for dims in ((600, 500), (3, 0), (0, 3), (2, 3, 0)):
        x = tensor(np.random.default_rng(0), dims, "float32")
        if abs(k) < 1 << 30:
            assert_alike(lambda x=x: triu(x, k=k))
            assert_alike(lambda x=x: tril(x, k=k))


@pytest.mark.parametrize("dims", [(3, 3), (2, 5), (5, 2), (1, 4), (4, 1), (0, 3), (2, 3, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "float16"])
def test_diagonals_are_views_that_are_read_only(dims, dtype):
    x = tensor(np.random.default_rng(0), dims, dtype)
    for offset in (0, 1, -1):
        for axes in ((0, 1), (1, 0), (-2, -1)):
            settings = {"offset": offset, "axis1": axes[0], "axis2": axes[1]}
            assert_alike(lambda s=settings: diagonal(x, **s))
            y = diagonal(x, **settings)._array
            assert not y.flags.writeable
            assert not y.size or np.shares_memory(y, x._array)


@given(st.lists(st.sampled_from([1, 1, 2]), max_size=5), st.data())
def test_axes_of_size_1_go_away_as_in_the_body(dims, data):
    x = tensor(np.random.default_rng(0), dims, "float32")
    axes = data.draw(st.lists(st.integers(-len(dims) - 1, len(dims)), max_size=3))
    assert_alike(lambda: squeeze(x, axis=tuple(axes)))


@given(SIZES, st.sampled_from(NUMBERS), st.data())
def test_choices_are_those_of_the_body(dims, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    mask = wrap(rng.random(dims) < 0.5)
    shapes = st.sampled_from([dims, [], [1], dims[-1:]])
    x, y = (tensor(rng, data.draw(shapes), dtype) for _ in range(2))
    assert_alike(lambda: PRIMITIVES["where"].op(mask, x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("number", [0, -0.0, 1.5, 1e39, float("nan")])
def test_a_number_beside_an_array_has_its_dtype_in_a_choice(dtype, number):
    mask, x = tk.constant([True, False]), tk.constant([1, 2], dtype)
    expected_dtype = "float32" if dtype == "int32" and type(number) is float else dtype
    number_tensor = tk.cast(tk.constant(number, "float64"), expected_dtype)
    for y, expected in (
        (tk.where(mask, x, number), [1, number_tensor]),
        (tk.where(mask, number, x), [number_tensor, 2]),
    ):
        assert y.dtype == expected_dtype
        wide = [float(tk.cast(v, "float64")) for v in expected]
        np.testing.assert_array_equal(tk.cast(y, "float64"), wide)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(wide))


def test_gradients_of_choices_beside_numbers():
    x = tk.constant([1.0, -2.0])
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = tk.where(x > 0, x, 7.0), tk.where(x > 0, 7.0, x)
    np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(z, x), [0.0, 1.0])


transpose, flip, roll = (PRIMITIVES[name].op for name in ("transpose", "flip", "roll"))


@given(SIZES, st.sampled_from(NUMBERS), st.data())
def test_axes_in_another_order_are_those_of_the_body(dims, dtype, data):
    x = tensor(np.random.default_rng(0), dims, dtype)
    axes = tuple(data.draw(st.permutations(range(len(dims)))))
    signed = tuple(k - len(dims) if data.draw(st.booleans()) else k for k in axes)
    assert_alike(lambda: transpose(x, axes=signed))
    assert_alike(lambda: transpose(x))
    assert_alike(lambda: transpose(transpose(x, axes=axes), axes=axes))
    assert transpose(x, axes=axes)._array.base is not None
    with pytest.raises(ValueError, match="transpose"):
        transpose(x, axes=(*axes[:-1], axes[0], 1))


@given(SIZES, st.sampled_from(NUMBERS), st.data())
def test_reversed_elements_are_those_of_the_body(dims, dtype, data):
    x = tensor(np.random.default_rng(0), dims, dtype)
    numbers = st.integers(-len(dims), len(dims) - 1)
    axis = data.draw(st.none() | numbers | st.sets(numbers.filter(lambda k: k >= 0)).map(tuple))
    assert_alike(lambda: flip(x, axis=axis))
    assert_alike(lambda: flip(flip(x, axis=axis), axis=axis))
    with pytest.raises(ValueError, match="flip"):
        flip(x, axis=len(dims))


@given(SIZES, st.sampled_from(NUMBERS), st.integers(-9, 9) | st.just(1 << 70), st.data())
def test_moved_elements_are_those_of_the_body(dims, dtype, shift, data):
    x = tensor(np.random.default_rng(0), dims, dtype)
    axis = data.draw(st.none() | st.integers(-len(dims), len(dims) - 1))
    if shift == 1 << 70 and axis is None:
        shift = 7
    assert_alike(lambda: roll(x, shift=shift, axis=axis))
    with pytest.raises(ValueError, match="roll"):
        roll(x, shift=1, axis=len(dims))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("size", [1, 40, 5000])
def test_chosen_elements_are_those_of_the_body(size, dtype):
    rng = np.random.default_rng(0)
    mask, x, y = (
        wrap(rng.random(size) < 0.5),
        tensor(rng, [size], dtype),
        tensor(rng, [size], dtype),
    )
    number = wrap(x._array[:1].reshape(()))
    for a, b in ((x, y), (number, y), (x, number), (number, number)):
        assert_alike(lambda a=a, b=b: PRIMITIVES["where"].op(mask, a, b))
