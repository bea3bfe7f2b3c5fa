"""What tests of products of both types of 16-bit floats share."""

import numpy as np

ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
SMALLEST_HALF = {"bfloat16": 0.0, "float16": 2.0**-25}
"""Half of the smallest subnormal number, where a sum may be as small."""


def matrix_of(rng, rows, columns, layout, dtype):
    """A matrix that lies by rows, by columns, or is a part of another."""
    if layout == "part":
        return rng.normal(size=(rows + 3, columns + 5)).astype(dtype)[2:-1, 4:-1]
    numbers = rng.normal(size=(rows, columns) if layout == "rows" else (columns, rows))
    return numbers.astype(dtype) if layout == "rows" else numbers.astype(dtype).T


def assert_is_product(y, x, w, shift=0.0):
    """Within what roundings of sums of float32 and one to 16 bits may change."""
    exact = np.matmul(x.astype("float64"), w.astype("float64")) + shift
    sizes = np.matmul(np.abs(x).astype("float64"), np.abs(w).astype("float64")) + np.abs(shift)
    of_sums = sizes * x.shape[-1] * 2.0**-23
    assert x.dtype == w.dtype
    assert (y.dtype, y.shape) == (x.dtype, exact.shape)
    limits = of_sums + (np.abs(exact) + of_sums) * ROUNDING[y.dtype.name]
    limits += SMALLEST_HALF[y.dtype.name]
    assert (np.abs(y.astype("float64") - exact) <= limits).all()
