"""`v[key].assign(x)`: eagerly, in graphs, in loops, and what is refused."""

import numpy as np
import pytest

import trainkit as tk

START = np.arange(12.0).reshape(3, 4)

KEYS = {
    "int": (1, np.full(4, -1.0)),
    "negative": (-1, np.full(4, -1.0)),
    "slice": (slice(0, 2), np.full((2, 4), -1.0)),
    "step": ((slice(None), slice(None, None, 2)), np.full((3, 2), -1.0)),
    "element": ((1, 2), -1.0),
    "dots": ((..., 3), [1.0, 2.0, 3.0]),
    "mask": (START[:, 0] > 3.0, np.full((2, 4), -1.0)),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("how", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize("name", KEYS)
def test_elements_are_replaced_as_numpy_does(name, how, traced):
    key, value = KEYS[name]
    expected = START.copy()
    if how == "assign":
        expected[key] = value
    else:
        expected[key] += np.asarray(value) * (1 if how == "assign_add" else -1)
    v = tk.Variable(START)

    def change(x):
        return getattr(v[key], how)(x)

    (tk.function(change) if traced else change)(tk.constant(value, tk.float64))
    np.testing.assert_array_equal(v.numpy(), expected)


def test_the_variable_is_given_back_and_other_tensors_stay():
    v = tk.Variable([1.0, 2.0, 3.0])
    whole, part = v.value(), v[1:]
    assert v[1:].assign([5.0, 6.0]) is v
    assert whole.numpy().tolist() == [1.0, 2.0, 3.0]
    assert part.numpy().tolist() == [2.0, 3.0]
    assert v.numpy().tolist() == [1.0, 5.0, 6.0]


def test_a_loop_fills_a_variable():
    v = tk.Variable(tk.zeros([4]))

    @tk.function
    def fill(n):
        for i in tk.range(n):
            v[i].assign(tk.cast(i * i, tk.float32))
            v[0].assign_add(1.0)
        return v[2] + 0.0

    assert float(fill(tk.constant(4))) == 4.0
    assert v.numpy().tolist() == [4.0, 1.0, 4.0, 9.0]


def test_what_does_not_fit_is_refused_and_changes_nothing():
    v = tk.Variable(START, name="table")
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"'table:0'.*\(4,\).*\(3,\)"):
        v[0].assign([1.0, 2.0, 3.0])
    with pytest.raises(tk.errors.InvalidArgumentError, match="int32"):
        v[0].assign(tk.constant([1, 2, 3, 4]))
    with pytest.raises(tk.errors.InvalidArgumentError, match="scatter_nd_update"):
        v[tk.constant([0, 0])].assign(tk.zeros([2, 4], tk.float64))
    np.testing.assert_array_equal(v.numpy(), START)


def test_a_tensor_itself_can_not_be_assigned():
    x = tk.constant([1.0, 2.0])
    assert not hasattr(x, "assign")
    with pytest.raises(AttributeError, match=r"a tensor never changes.*tk\.Variable"):
        x[0].assign(3.0)
    with pytest.raises(AttributeError, match="a tensor never changes"):
        (tk.Variable([1.0])[0] * 1.0).assign_add(3.0)
