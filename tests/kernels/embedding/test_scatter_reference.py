"""`scatter_at` against the `at` of NumPy's ufuncs: the same to the last bit."""

import numpy as np
import pytest

from trainkit.kernels.embedding import scatter_reference
from trainkit.kernels.embedding.scatter_reference import scatter_at

ROWS, COLUMNS = np.array([0, -1, 2, 0]), np.array([[1], [-3], [1]])
CASES = {
    "rows": ((4, 3), ROWS),
    "rows of numbers": ((4,), ROWS),
    "rows of matrices": ((4, 3, 2), ROWS),
    "no rows": ((4, 3), ROWS[:0]),
    "a row": ((4, 3), 1),
    "elements": ((4, 3), (ROWS, COLUMNS)),
    "elements below unsigned": ((4, 3), (ROWS.astype("uint8") % 4, COLUMNS)),
    "rows of two axes": ((4, 3, 5), (ROWS, COLUMNS)),
    "a position for all": ((4, 3), (ROWS, 0)),
    "a slice": ((4, 3), (slice(None), np.array([2, 0, 2]))),
    "a mask": ((4, 3), np.array([True, False, True, False])),
    "nothing": ((0, 3), ROWS[:0]),
}


@pytest.mark.parametrize("name", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("shape", "index"), CASES.values(), ids=CASES)
def test_scattering_is_that_of_numpy(monkeypatch, rng, name, dtype, shape, index):
    monkeypatch.setattr(scatter_reference, "CALL_FLOATS", 0)
    out = (9 * rng.normal(size=shape)).astype(dtype)
    values = (9 * rng.normal(size=out[index].shape)).astype(dtype)
    for updates in (values, values[..., :1], values.dtype.type(2)):
        for order in "CF":
            result, expected = out.copy(order), out.copy(order)
            scatter_at(np, name, result, index, updates)
            getattr(np, name).at(expected, index, updates)
            np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize(
    "index", [np.array([0, 4]), np.array([-5]), (np.array([0]), np.array([3]))]
)
def test_positions_outside_are_errors_and_nothing_is_changed(monkeypatch, index):
    monkeypatch.setattr(scatter_reference, "CALL_FLOATS", 0)
    out = np.zeros((4, 3), "float32")
    with pytest.raises(IndexError, match="out of bounds"):
        scatter_at(np, "add", out, index, np.float32(1))
    assert not out.any()
