"""Picking and writing elements, sorting, segments."""

import numpy as np

from tests.conformance.table import away_from, case, complex_normal, distinct, normal, positive
from trainkit import ops
from trainkit.ops.indexing import dynamic_slice, gathering, get_item, scattering
from trainkit.ops.indexing.item_assignment import with_items

ROWS = np.array([2, 0, 2, -1])
CELLS = np.array([[1, 2], [0, 0], [1, 2]])
APART = np.array([[1, 2], [0, 0], [2, 1]])
MASK = np.array([[True, False, True, False], [False] * 4, [True, True, False, True]])
SEGMENTS = np.array([0, 2, -1, 2, 0])
FULL = np.array([0, 1, -1, 1, 0])  # an empty segment's extreme would drown all differences
COLUMNS = np.array([[3, 0], [1, 1], [2, -1]])
ONE = np.array(1)
KEY = ((1, None, None), "...", (None, None, -1))
ZEROS = np.array([[0.5, 0.0], [0.0, 1.2], [1.5, 2.0], [-0.7, 0.0], [1.1, 0.0]])


def picked(x, *parts, key):
    return get_item.get_item_at(x, *parts, key=key)


CASES = [
    case("get_item", ops.get_item, normal(3, 4), key=1),
    case("get_item", ops.get_item, normal(3, 4), key=(slice(None, None, 2), None, -1)),
    case("get_item", ops.get_item, complex_normal(3, 4), key=(Ellipsis, slice(1, 3))),
    case("put_item", get_item.put_item, normal(2, 4), normal(3, 4), key=KEY),
    case("with_items", with_items, normal(3, 4), normal(2, 4), key=((None, 2, None),)),
    case("with_items", with_items, normal(3, 4), normal(4), ONE, key=("@0",)),
    case("get_item_at", picked, normal(3, 4), ROWS, key=("@0",)),
    case("get_item_at", picked, normal(3, 4), ROWS, ROWS, key=("@0", "@1")),
    case("get_item_at", picked, normal(3, 4), ONE, key=(("@0", None, None),)),
    case("get_item_at", picked, normal(3, 4), MASK, key=("@0",)),
    case("put_item_at", get_item.put_item_at, normal(4, 4), normal(3, 4), ROWS, key=("@0",)),
    case("put_item_at", get_item.put_item_at, normal(5), normal(3, 4), MASK, key=("@0",)),
    case("slice", ops.slice, normal(3, 4), start_indices=(1, 0), shape=(2, -1)),
    case("slice", dynamic_slice._slice, normal(3, 4), ONE, start=(None, 1), sizes=(2, 3)),
    case("slice_like", dynamic_slice.slice_like, normal(3, 4), normal(2, 2), ONE, start=(None, 1)),
    case("slice_update", dynamic_slice._slice_update, normal(3, 4), normal(2, 2), start=(1, 0)),
    case(
        "slice_update",
        dynamic_slice._slice_update,
        normal(3, 4),
        normal(2, 2),
        ONE,
        start=(None, 0),
    ),
    case("take", ops.take, normal(3, 4), ROWS, axis=0),
    case("take", ops.take, complex_normal(2, 3, 2), np.array([[0, 2], [1, 1]]), axis=1),
    case("take", ops.take, normal(3, 4), ROWS),
    case("take_sum", gathering.take_sum, normal(2, 4), ROWS, normal(2, 3), axis=1),
    case("take_along_axis", ops.take_along_axis, normal(3, 4), COLUMNS, axis=1),
    case(
        "take_along_axis_sum",
        gathering.take_along_axis_sum,
        normal(3, 2),
        COLUMNS,
        normal(3, 4),
        axis=-1,
    ),
    case("gather_nd", gathering.gather_nd, normal(3, 4), CELLS),
    case("gather_nd", gathering.gather_nd, normal(3, 4), np.array([[2], [2]])),
    case("gather_nd_sum", gathering.gather_nd_sum, normal(3), CELLS, normal(3, 4)),
    case("scatter_nd_add", scattering.scatter_nd_add, normal(3, 4), CELLS, normal(3)),
    case("scatter_nd_add", scattering.scatter_nd_add, normal(3, 4), CELLS, normal(1)),
    case("scatter_update", ops.scatter_update, normal(3, 4), APART, normal(3)),
    case("scatter_max", scattering.scatter_max, distinct(3, 4), CELLS, distinct(3)),
    case("scatter_min", scattering.scatter_min, distinct(3, 4), CELLS, distinct(3)),
    case("scatter_multiply", scattering.scatter_multiply, normal(3, 4), CELLS, positive(3)),
    case("sort", ops.sort, distinct(3, 4), axis=0),
    case("sort", ops.sort, distinct(3, 4), axis=None),
    case("top_k", ops.top_k, distinct(3, 4), k=2),
    case("segment_sum", ops.segment_sum, normal(5, 2), SEGMENTS, num_segments=4),
    case("segment_sum", ops.segment_sum, complex_normal(5), SEGMENTS, num_segments=3),
    case("segment_max", ops.segment_max, distinct(5, 2), FULL, num_segments=2),
    case("segment_min", ops.segment_min, distinct(5, 2), FULL, num_segments=2),
    case("segment_prod", ops.segment_prod, away_from([0], 5, 2), SEGMENTS, num_segments=4),
    case("segment_prod", ops.segment_prod, ZEROS, SEGMENTS, num_segments=3, order=1),
]
