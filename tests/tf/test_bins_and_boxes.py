"""`tk.math.bincount` by rows, and boxes that are no numbers."""

import numpy as np
import pytest

import trainkit as tk

ROWS = tk.constant([[1, 1], [3, 1]])
NAN = float("nan")


@pytest.mark.parametrize("axis", [None, 0])
def test_all_elements_count_together(axis):
    assert tk.math.bincount(ROWS, axis=axis).numpy().tolist() == [0, 3, 0, 1]


def test_each_row_counts_by_itself():
    assert tk.math.bincount(ROWS, axis=-1).numpy().tolist() == [[0, 2, 0, 0], [0, 1, 0, 1]]
    sums = tk.math.bincount(ROWS, tk.constant([[1.0, 2], [3, 4]]), axis=-1)
    assert sums.numpy().tolist() == [[0, 3, 0, 0], [0, 4, 0, 3]]
    found = tk.math.bincount(
        ROWS, axis=-1, binary_output=True, minlength=2, maxlength=3, dtype=tk.int64
    )
    assert found.numpy().tolist() == [[0, 1, 0], [0, 1, 0]]
    assert found.dtype == tk.int64
    compiled = tk.function(lambda x: tk.math.bincount(x, axis=-1))
    assert compiled(ROWS).shape == (2, 4)
    for wrong in ({"axis": 1}, {"axis": -2}):
        with pytest.raises(ValueError, match="axis"):
            tk.math.bincount(ROWS, **wrong)
    with pytest.raises(ValueError, match="two axes"):
        tk.math.bincount(ROWS[None], axis=-1)


@pytest.mark.parametrize("corner", [NAN, float("inf")])
def test_corners_that_are_no_numbers_are_refused_or_not_drawn(corner):
    boxes = tk.constant([[corner, 0.0, 1.0, 1.0]])
    with pytest.raises(tk.errors.InvalidArgumentError, match="finite"):
        tk.image.crop_and_resize(tk.ones((1, 8, 8, 3)), boxes, [0], (2, 2))
    image = tk.zeros((1, 8, 8, 3))
    drawn = tk.image.draw_bounding_boxes(image, boxes[None], tk.constant([[1.0, 0, 0]]))
    assert np.array_equal(drawn, image)
