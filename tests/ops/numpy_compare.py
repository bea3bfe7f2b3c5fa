"""Hypothesis strategies and comparisons for operations that have a namesake in NumPy."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# Always the same examples, and no limit on the time of one: the machine may be busy.
example_settings = settings(max_examples=40, deadline=None, derandomize=True)

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint32")
NUMBERS = FLOATS + INTEGERS


def arrays(dtypes=NUMBERS, low=-50, high=50, shape=None, min_side=0, min_dims=0):
    """Arrays of one of `dtypes` with values in a range, of random shape unless one is given."""
    if shape is None:
        shape = hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=min_side, max_side=4)

    def of(dtype):
        lowest = max(low, 0) if dtype.startswith("u") else low
        if dtype.startswith("f"):
            elements = st.floats(lowest, high, width=32, allow_subnormal=False)
        else:
            elements = st.integers(int(np.ceil(lowest)), int(high))
        return hnp.arrays(dtype, shape, elements=elements)

    return st.sampled_from(dtypes).flatmap(of)


@st.composite
def broadcasting_pairs(draw, dtypes=NUMBERS, low=-50, high=50):
    """Two arrays of one dtype whose shapes broadcast."""
    shapes = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4, min_side=0)
    )
    dtype = draw(st.sampled_from(dtypes))
    return tuple(draw(arrays((dtype,), low, high, shape=shape)) for shape in shapes.input_shapes)


@st.composite
def reductions(draw, dtypes=NUMBERS, low=-20, high=20, min_side=1):
    """An array, an axis (an int, a tuple or `None`) and keepdims."""
    x = draw(arrays(dtypes, low, high, min_side=min_side))
    axes = list(range(-x.ndim, x.ndim))
    choices = [st.none()]
    if x.ndim:
        choices += [st.sampled_from(axes), hnp.valid_tuple_axes(x.ndim)]
    return x, draw(st.one_of(choices)), draw(st.booleans())


def assert_same(result, expected, rtol=1e-5, atol=1e-6):
    """Equal shapes, and values within the rounding of float32."""
    got, want = result.numpy(), np.asarray(expected)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol, atol)


def reference(function, result, *inputs):
    """NumPy's answer, computed in float64 where the result is a float: int8 is float16 to NumPy."""
    if result.dtype.is_floating:
        inputs = [x.astype(np.float64) for x in inputs]
    return function(*inputs)
