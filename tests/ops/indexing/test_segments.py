import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor

FOLDS = {
    "segment_sum": (np.add, 0),
    "segment_prod": (np.multiply, 1),
    "segment_max": (np.maximum, np.iinfo("int32").min),
    "segment_min": (np.minimum, np.iinfo("int32").max),
}


@pytest.mark.parametrize("name", FOLDS)
@given(st.data())
def test_segments_fold_their_elements(name, data):
    n = data.draw(st.integers(0, 6))
    inner = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    x = data.draw(hnp.arrays("int32", (n, *inner), elements=st.integers(-4, 4)))
    ids = data.draw(hnp.arrays("int32", (n,), elements=st.integers(-1, 4)))
    ufunc, start = FOLDS[name]
    expected = np.full((5, *inner), start, "int32")
    ufunc.at(expected, ids[ids >= 0], x[ids >= 0])
    assert_same(getattr(ops, name)(x, ids, 5), expected)


def test_the_number_of_segments_is_inferred():
    assert ops.segment_sum([1, 2, 10, 20], [0, 0, 2, 2]).tolist() == [3, 0, 30]


def test_numbers_may_have_more_axes():
    assert ops.segment_sum([[1, 2], [3, 4]], [[0, 1], [1, 0]], 2).tolist() == [5, 5]


def test_empty_segments_have_the_least_float():
    assert ops.segment_max(np.float32([1]), [1], 2).tolist()[0] == np.finfo("float32").min


def test_equal_greatest_elements_share_the_gradient():
    x = convert_to_tensor([2.0, 2.0, 1.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = ops.segment_max(x, [0, 0, 0], 1)
    assert tape.gradient(y, x).tolist() == [0.5, 0.5, 0.0]


def test_a_single_zero_keeps_its_gradient_in_a_product():
    x = convert_to_tensor([0.0, 3.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = ops.segment_prod(x, [0, 0, 0], 1)
    assert tape.gradient(y, x).tolist() == [6.0, 0.0, 0.0]


@pytest.mark.usefixtures("on_cpu")
def test_errors_say_what_is_wrong():
    with pytest.raises(InvalidArgumentError, match=r"segment_ids\[1\] = 5 is not in \[0, 3\)"):
        ops.segment_sum([1.0, 2.0], [0, 5], 3)
    with pytest.raises(InvalidArgumentError, match="are not increasing"):
        ops.segment_sum([1.0, 2.0], [1, 0], sorted=True)
    with pytest.raises(ShapeError, match=r"segment_ids of shape \(3,\) must be the first axes"):
        ops.segment_sum([1.0, 2.0], [0, 0, 1])
    with pytest.raises(InvalidArgumentError, match="positions are integers"):
        ops.segment_sum([1.0], [0.5])
