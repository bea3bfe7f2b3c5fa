"""Slices at rows of positions, counts and searches of small arrays have the bits of the bodies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.core.dispatch.test_direct_indexing import NUMBERS, SPECIAL, assert_alike
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES, wrap
from trainkit.ops.math.statistics import _bincount

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

add, update, gather_nd, positions, search = (
    PRIMITIVES[name].op
    for name in (
        *("scatter_nd_add", "scatter_update", "gather_nd", "positions_from_start"),
        "searchsorted",
    )
)
DIMS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@st.composite
def picks(draw):
    """An array, rows of positions of which some may be outside, and slices for them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dims, lead = draw(DIMS), draw(st.lists(st.integers(0, 4), max_size=2))
    depth, outside = draw(st.integers(0, len(dims))), draw(st.integers(0, 1))
    ends = np.array(dims[:depth], "int64")
    low = draw(st.sampled_from([0 * ends, -ends - outside]))
    kind = draw(st.sampled_from(["int32", "int64", "int16"]))
    indices = rng.integers(low, ends + outside, [*lead, depth]).astype(kind)
    dtype = tk.as_dtype(draw(st.sampled_from(NUMBERS))).dtype
    x = rng.integers(-9, 9, dims).astype("float64").astype(dtype)
    inner = dims[depth:]
    shape = draw(st.sampled_from([[*lead, *inner], inner, [*lead, *[1] * len(inner)]]))
    updates = rng.choice([-0.0, 0.1, 1.0, -3e3, 100], shape).astype(dtype)
    return tuple(map(wrap, (x, indices, updates)))


@given(picks())
def test_slices_at_rows_of_positions_are_those_of_the_body(arrays):
    x, indices, updates = arrays
    assert_alike(lambda: gather_nd(x, indices))
    assert_alike(lambda: add(x, indices, updates))
    assert_alike(lambda: update(x, indices, updates))
    assert_alike(lambda: positions(indices, x, operation="gather_nd"))
    for axis in range(len(x.shape)):
        for rows in (True, False):
            settings = {"operation": "gather", "axis": axis, "rows": rows}
            assert_alike(lambda s=settings: positions(indices, x, **s))


def test_integers_that_are_added_wrap_around():
    for dtype in ("int32", "int64"):
        most = np.iinfo(dtype).max
        x = tk.constant([most, 1], dtype)
        indices, more = tk.constant([[0], [0]]), tk.constant([most, 2], dtype)
        assert_alike(lambda x=x, more=more: add(x, indices, more))  # noqa: B023


@pytest.mark.parametrize("rows", [1, 40, 3000])
def test_many_slices(rows):
    rng = np.random.default_rng(0)
    x = wrap(rng.standard_normal((50, 7), dtype="float32"))
    indices = wrap(rng.integers(0, 50, (rows, 1), "int32"))
    updates = wrap(rng.standard_normal((rows, 7), dtype="float32"))
    for op in (add, update):
        assert_alike(lambda op=op: op(x, indices, updates))
    assert_alike(lambda: gather_nd(x, indices))


def test_gradients_of_scattered_slices():
    def gradients():
        x, v = tk.zeros((3, 2)), tk.constant([[1.0, 2.0], [3.0, 4.0]])
        with tk.GradientTape() as tape:
            tape.watch([x, v])
            y = tk.tensor_scatter_nd_add(x, [[2], [2]], v) * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        return tuple(tape.gradient(y, [x, v]))

    assert_alike(gradients)
    np.testing.assert_array_equal(gradients()[1], [[5, 6], [5, 6]])


@given(
    st.lists(st.integers(-1, 6), max_size=9),
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from(["int32", "int64", "int8"]),
)
def test_counts_are_those_of_the_body(numbers, minlength, maxlength, dtype):
    x = wrap(np.array(numbers, dtype))
    assert_alike(lambda: _bincount(x, minlength=minlength, maxlength=maxlength))


def test_counts_of_many_numbers():
    x = wrap(np.random.default_rng(0).integers(0, 500, 20_000))
    assert_alike(lambda: _bincount(x, minlength=3))


@given(
    st.sampled_from(["float32", "float64", "int32", "int64", "bfloat16"]),
    st.integers(0, 20),
    st.sampled_from([[], [1], [4], [3, 2], [0]]),
    st.sampled_from(["left", "right"]),
    st.sampled_from(["int32", "int64"]),
    st.integers(0, 2**16),
)
def test_searches_are_those_of_the_body(dtype, n, dims, side, result, seed):
    rng = np.random.default_rng(seed)
    line, x = rng.integers(-5, 6, n).astype("float64"), rng.integers(-6, 7, dims).astype("float64")
    if dtype.startswith("float"):
        line = np.where(rng.random(n) < 0.2, rng.choice(SPECIAL, n), line)
        x = np.where(rng.random(dims) < 0.2, rng.choice(SPECIAL, dims), x)
    kind = tk.as_dtype(dtype).dtype
    with np.errstate(all="ignore"):
        tensors = wrap(np.sort(line.astype(kind))), wrap(x.astype(kind))
    if dtype == "bfloat16":  # whose sort NumPy does not have
        tensors = wrap(np.sort(line).astype(kind)), tensors[1]
    assert_alike(lambda: search(*tensors, side=side, dtype=result))


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(["bool", "float32"]), st.data())
def test_positions_of_what_is_true_are_those_of_the_body(dims, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    mask = wrap((rng.random(dims) < data.draw(st.sampled_from([0.0, 0.4, 1.0]))).astype(dtype))
    for kind in ("int32", "int64"):
        assert_alike(lambda kind=kind: PRIMITIVES["nonzero"].op(mask, dtype=kind))
    if dims:
        np.testing.assert_array_equal(tk.where(mask), np.argwhere(mask.numpy()))
