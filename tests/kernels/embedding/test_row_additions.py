"""Rows that are picked or named repeatedly add up in their order, compiled as in NumPy."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.tensor import convert_to_tensor

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
