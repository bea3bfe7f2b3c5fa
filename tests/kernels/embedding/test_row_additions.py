"""Rows that are picked or named repeatedly are folded in their order, compiled as in NumPy."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.indexing.scattering import scatter_max, scatter_min, scatter_multiply
from trainkit.ops.indexing.segments import segment_prod

SHAPES = [((6,), (9,)), ((6, 3), (40,)), ((6, 2, 5), (4, 5)), ((1, 17), (0,)), ((3, 0), (4,))]


def _rows(shape, ids_shape, rng):
    """(ids, what is added, their sums in order)."""
    ids = rng.integers(0, shape[0], ids_shape).astype("int32")
    rows = rng.normal(size=(*ids_shape, *shape[1:])).astype("float32")
    sums = np.zeros(shape, "float32")
    np.add.at(sums, ids, rows)
    return ids, rows, sums


PICKS = {
    "take": lambda x, ids: ops.take(x, ids, axis=0),
    "take from the end": lambda x, ids: ops.take(x, ids - x.shape[0], axis=0),
    "take along the last axis": lambda x, ids: ops.moveaxis(
        ops.take(ops.moveaxis(x, 0, -1), ids, axis=-1),
        range(-len(ids.shape), 0),
        range(len(ids.shape)),
    ),
    "item": lambda x, ids: x[ids],
    "item from the end": lambda x, ids: x[ids - x.shape[0]],
    "gather_nd": lambda x, ids: ops.gather_nd(x, ops.expand_dims(ids, -1)),
}


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize(("shape", "ids_shape"), SHAPES)
@pytest.mark.usefixtures("mode")
def test_gradients_of_picked_rows_add_up_in_order(pick, shape, ids_shape):
    ids, rows, sums = _rows(shape, ids_shape, np.random.default_rng(3))
    x = convert_to_tensor(np.zeros(shape, "float32"))
    with GradientTape() as tape:
        tape.watch(x)
        y = PICKS[pick](x, convert_to_tensor(ids))
    result = tape.gradient(y, x, output_gradients=convert_to_tensor(rows))
    np.testing.assert_array_equal(result.numpy(), sums, strict=True)


@pytest.mark.parametrize(("shape", "ids_shape"), SHAPES)
@pytest.mark.usefixtures("mode")
def test_segments_add_up_in_order(shape, ids_shape):
    ids, rows, sums = _rows(shape, ids_shape, np.random.default_rng(4))
    result = ops.segment_sum(rows, ids, num_segments=shape[0])
    np.testing.assert_array_equal(result.numpy(), sums, strict=True)


FOLDS = {
    "maximum": (ops.segment_max, scatter_max, np.finfo("float32").min),
    "minimum": (ops.segment_min, scatter_min, np.finfo("float32").max),
    "multiply": (segment_prod, scatter_multiply, 1.0),
}
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5], "float32")


def _folded(ufunc, start, ids, rows):
    """What the ufunc's `at` gives, row after row."""
    out = np.array(start)
    with np.errstate(invalid="ignore"):
        getattr(np, ufunc).at(out, ids, rows)
    return out


@pytest.mark.parametrize("ufunc", FOLDS)
@pytest.mark.parametrize(("shape", "ids_shape"), SHAPES)
@pytest.mark.usefixtures("mode")
def test_segments_are_folded_as_by_numpy(ufunc, shape, ids_shape):
    ids, rows, _ = _rows(shape, ids_shape, np.random.default_rng(5))
    segments, _, first = FOLDS[ufunc]
    expected = _folded(ufunc, np.full(shape, first, "float32"), ids, rows)
    result = segments(rows, ids, num_segments=shape[0])
    np.testing.assert_array_equal(result.numpy(), expected, strict=True)
    compiled = tk.function(lambda x, i: segments(x, i, num_segments=shape[0]))
    np.testing.assert_array_equal(compiled(rows, ids).numpy(), expected, strict=True)


@pytest.mark.parametrize("ufunc", FOLDS)
@pytest.mark.parametrize(("shape", "ids_shape"), SHAPES)
@pytest.mark.usefixtures("mode")
def test_scattered_rows_are_folded_as_by_numpy(ufunc, shape, ids_shape):
    generator = np.random.default_rng(6)
    ids, rows, _ = _rows(shape, ids_shape, generator)
    x = generator.normal(size=shape).astype("float32")
    expected = _folded(ufunc, x, ids, rows)
    for named in (ids, ids - shape[0]):  # from the start, and from the end
        result = FOLDS[ufunc][1](x, named[..., None], rows)
        np.testing.assert_array_equal(result.numpy(), expected, strict=True)


@pytest.mark.parametrize("ufunc", FOLDS)
@pytest.mark.parametrize("width", [1, 3, 16, 37])
@pytest.mark.usefixtures("mode")
def test_zeros_of_either_sign_and_nan_are_folded_to_the_bit(ufunc, width):
    pairs = np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2)
    x = np.repeat(pairs[:, :1], width, 1)
    rows = np.repeat(pairs[:, 1:], width, 1)
    ids = np.arange(len(pairs))
    result = FOLDS[ufunc][1](x, ids[:, None], rows).numpy()
    expected = _folded(ufunc, x, ids, rows)
    zeros = expected == 0
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("ufunc", FOLDS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8"])
@pytest.mark.usefixtures("mode")
def test_other_numbers_and_turned_rows_are_folded_too(ufunc, dtype):
    generator = np.random.default_rng(7)
    ids = generator.integers(0, 4, 30)
    rows = generator.integers(1, 3, (6, 30)).astype(dtype).T
    start = generator.integers(1, 3, (5, 6)).astype(dtype)
    expected = _folded(ufunc, start, ids, rows)
    result = FOLDS[ufunc][1](start, ids[:, None], rows)
    np.testing.assert_array_equal(result.numpy(), expected, strict=True)


@pytest.mark.parametrize("ufunc", FOLDS)
@pytest.mark.usefixtures("mode")
def test_segments_leave_out_negative_numbers_and_refuse_those_beyond(ufunc):
    segments, _, first = FOLDS[ufunc]
    rows = np.array([[2.0, 3.0], [5.0, 7.0], [11.0, 13.0]], "float32")
    result = segments(rows, [1, -1, 0], num_segments=3).numpy()
    expected = np.full((3, 2), first, "float32")
    expected[[1, 0]] = rows[[0, 2]]
    np.testing.assert_array_equal(result, expected)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"segment_ids\[1\] = 3 is not in"):
        segments(rows, [1, 3, 0], num_segments=3)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"indices\[1\] = \[3\]"):
        FOLDS[ufunc][1](rows, [[1], [3], [0]], rows)
