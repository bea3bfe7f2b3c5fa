"""Picks, greatest elements and log_softmax of small arrays have the bits of the bodies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.indexing.gathering import _take

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

top_k, log_softmax = (PRIMITIVES[name].op for name in ("top_k", "log_softmax"))
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3)
NUMBERS = ["float32", "float64", "int32", "int64", "bool", "int8", "bfloat16", "float16"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1e-40, 3.0, np.nan]


def both(call):
    results = []
    for compiled in (True, False):
        before = native.switch(compiled)
        try:
            with np.errstate(all="ignore"):
                y = call()
            results.append([np.asarray(t) for t in (y if isinstance(y, tuple) else (y,))])
        except tk.errors.InvalidArgumentError as error:
            results.append(str(error))
        finally:
            native.switch(before)
    return results


def assert_alike(call):
    a, b = both(call)
    if isinstance(b, str):
        assert a == b
        return
    for x, y in zip(a, b, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.tobytes() == y.tobytes()


@given(SIZES, SIZES | st.just([]), st.sampled_from(NUMBERS), st.data())
def test_picks_are_those_of_the_body(dims, index_dims, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = tk.constant(rng.integers(-9, 9, dims).astype("float64").astype(tk.as_dtype(dtype).dtype))
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    n, wide = dims[axis], data.draw(st.integers(0, 1))
    kind = data.draw(st.sampled_from(["int32", "int64", "uint8"]))
    low = 0 if kind == "uint8" else -n - wide
    indices = tk.constant(rng.integers(low, n + wide, index_dims).astype(kind))
    wrap = data.draw(st.booleans())
    assert_alike(lambda: _take(x, indices, axis=axis, wrap=wrap))


@pytest.mark.parametrize("rows", [1, 7, 3000])
@pytest.mark.parametrize("width", [1, 2, 16, 100])
def test_rows_of_tables_of_any_size_are_picked(rows, width):
    table = tk.constant(np.random.default_rng(0).standard_normal((rows, width)).astype("float32"))
    for count in (0, 1, 50, 2000):
        ids = tk.constant(np.random.default_rng(1).integers(0, rows, count).astype("int32"))
        assert_alike(lambda ids=ids: _take(table, ids, axis=0, wrap=False))


def test_texts_and_transposed_arrays_are_picked():
    assert tk.gather(tk.constant(["a", "b", "c"]), [2, 0]).numpy().tolist() == [b"c", b"a"]
    x = tk.core.tensor.wrap(np.arange(12.0).reshape(3, 4).T)
    assert_alike(lambda: _take(x, tk.constant([3, 0]), axis=0))
    assert_alike(lambda: _take(tk.constant(x), tk.core.tensor.wrap(np.arange(6)[::2] % 3), axis=1))


def test_picks_are_new_arrays_whose_gradients_add_up():
    x = tk.constant([1.0, 2.0, 3.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.gather(x, [0, 0, 2])
    assert not np.shares_memory(y._array, x._array)
    np.testing.assert_array_equal(tape.gradient(y, x), [2.0, 0.0, 1.0])


@given(SIZES, st.sampled_from(NUMBERS[:4] + NUMBERS[5:]), st.integers(0, 2**16), st.data())
def test_the_greatest_are_those_of_the_body(dims, dtype, seed, data):
    rng = np.random.default_rng(seed)
    dims = [*dims[:-1], dims[-1] * data.draw(st.sampled_from([1, 9, 40]))]
    x = rng.integers(-4, 5, dims).astype("float64")
    if dtype.startswith("float"):
        specials = SPECIAL[: data.draw(st.integers(1, len(SPECIAL)))]
        x = np.where(rng.random(dims) < 0.2, rng.choice(specials, dims), x)
    x = tk.constant(x.astype(tk.as_dtype(dtype).dtype))
    k = data.draw(st.integers(0, dims[-1] + 1))
    assert_alike(lambda: top_k(x, k=k, sorted=True))


@given(SIZES, st.sampled_from(["float32", "float64"]), st.integers(0, 2**16), st.data())
def test_log_softmax_has_the_bits_of_the_body(dims, dtype, seed, data):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(dims) * 9).astype(dtype)
    if data.draw(st.booleans()):
        x[rng.random(dims) < 0.2] = rng.choice(SPECIAL[:-1])
    axis = data.draw(st.sampled_from([*range(-len(dims), len(dims)), None]))
    a, b = (r[0] for r in both(lambda: log_softmax(tk.constant(x), axis=axis)))
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    assert np.nan_to_num(a).tobytes() == np.nan_to_num(b).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
def test_counts_of_what_is_not_zero(dtype):
    x = np.array([[0.0, 1.0, 2.0], [0.0, -0.0, 3.0]]).astype(dtype)
    for counted in (tk.constant(x), x.tolist()):
        for kind in ("int64", "int32", "float32"):
            count = tk.math.count_nonzero(counted, dtype=kind)
            assert (count.dtype, count.shape, int(count)) == (kind, (), 3)
        np.testing.assert_array_equal(tk.math.count_nonzero(counted, 0), [0, 1, 2])
    assert int(tk.function(tk.math.count_nonzero)(tk.constant(x))) == 3
    assert int(tk.math.count_nonzero(tk.constant([np.nan, 0.0]))) == 1
    assert int(tk.math.count_nonzero(tk.ones(300), dtype="int8")) == 300 - 256


@given(SIZES, st.integers(1, 7), st.sampled_from(["float32", "float64"]), st.data())
def test_losses_of_labels_have_the_bits_of_the_body(dims, classes, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    logits = (rng.standard_normal([*dims, classes]) * 9).astype(dtype)
    if data.draw(st.booleans()):
        logits[rng.random(logits.shape) < 0.2] = rng.choice(SPECIAL[:-1])
    wrong = data.draw(st.integers(-1, 1))
    low, high = min(wrong, 0), classes + max(wrong, 0)
    labels = rng.integers(low, high, dims).astype(data.draw(st.sampled_from(["int32", "int64"])))
    op = PRIMITIVES["sparse_softmax_cross_entropy_with_logits"].op
    a, b = both(lambda: op(tk.constant(labels), tk.constant(logits)))
    if isinstance(b, str):
        assert a == b
        return
    assert (a[0].dtype, a[0].shape) == (b[0].dtype, b[0].shape)
    np.testing.assert_array_equal(np.isnan(a[0]), np.isnan(b[0]))
    assert np.nan_to_num(a[0]).tobytes() == np.nan_to_num(b[0]).tobytes()


@given(SIZES, st.integers(1, 7), st.sampled_from(["float32", "float64"]), st.data())
def test_losses_of_chances_have_the_bits_of_the_body(dims, classes, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    logits = (rng.standard_normal([*dims, classes]) * 9).astype(dtype)
    labels = rng.choice([0.0, -0.0, 0.25, 1.0, -2.0], logits.shape).astype(dtype)
    if data.draw(st.booleans()):
        logits[rng.random(logits.shape) < 0.2] = rng.choice(SPECIAL[:-1])
        labels[rng.random(logits.shape) < 0.1] = rng.choice(SPECIAL)
    op = PRIMITIVES["softmax_cross_entropy_with_logits"].op
    a, b = (r[0] for r in both(lambda: op(tk.constant(labels), tk.constant(logits))))
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    assert np.nan_to_num(a).tobytes() == np.nan_to_num(b).tobytes()


def test_labels_that_do_not_fit_are_explained():
    op = PRIMITIVES["sparse_softmax_cross_entropy_with_logits"].op
    with pytest.raises(tk.errors.ShapeError, match="shape of the logits"):
        op(tk.constant([1, 0, 1]), tk.zeros((2, 2)))
    with pytest.raises(tk.errors.ShapeError, match="shape of the logits"):
        op(tk.constant([[1], [0]]), tk.zeros((2, 2)))


@given(SIZES, st.sampled_from(NUMBERS), st.data())
def test_sums_of_segments_are_those_of_the_body(dims, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    dims = [dims[0] * data.draw(st.sampled_from([1, 9])), *dims[1:]]
    kind = "int32" if dtype == "bool" else dtype
    if kind.startswith("int"):  # whose sums wrap around
        x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, dims, kind)
    else:
        x = rng.choice([-0.0, 1e-3, 1.0, -3e3], dims).astype(tk.as_dtype(kind).dtype)
    x = tk.constant(x)
    rank, count = data.draw(st.integers(1, len(dims))), data.draw(st.integers(1, 6) | st.none())
    ids = rng.integers(-1, 5, dims[:rank]).astype(data.draw(st.sampled_from(["int32", "int64"])))
    op = PRIMITIVES["segment_sum"].op
    assert_alike(lambda: op(x, tk.constant(ids), num_segments=count))


def test_sums_of_segments_have_gradients():
    x = tk.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.math.unsorted_segment_sum(x, [1, -1, 1], 2)
    np.testing.assert_array_equal(y, [[0, 0], [6, 8]])
    np.testing.assert_array_equal(tape.gradient(y, x), [[1, 1], [0, 0], [1, 1]])


@given(SIZES, st.sampled_from(NUMBERS), st.data())
def test_zeros_around_arrays_are_those_of_the_body(dims, dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = tk.constant(rng.integers(-9, 9, dims).astype("float64").astype(tk.as_dtype(dtype).dtype))
    widths = data.draw(
        st.lists(st.tuples(*[st.integers(0, 4)] * 2), min_size=len(dims), max_size=len(dims))
    )
    mode = data.draw(st.sampled_from(["constant", "constant", "edge"]))
    value = data.draw(st.sampled_from([0, 0, 0, 0.0, 1, False]))
    op = PRIMITIVES["pad"].op
    assert_alike(lambda: op(x, pad_width=tuple(widths), mode=mode, value=value))


@pytest.mark.parametrize("widths", [((1, -1), (0, 0)), ((1, 1),), ((2**40, 0), (0, 0))])
def test_widths_that_do_not_fit_are_explained(widths):
    with pytest.raises((tk.errors.ShapeError, MemoryError, tk.errors.ResourceExhaustedError)):
        PRIMITIVES["pad"].op(tk.zeros((2**20, 1))[:2], pad_width=widths, mode="constant", value=0)
