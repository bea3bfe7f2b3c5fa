"""The scatter family of variables, its readers, and TensorFlow's further arguments."""

import numpy as np
import pytest

import trainkit as tk

ROWS = tk.IndexedSlices(tk.constant([[10.0, 20.0], [30.0, 40.0]]), tk.constant([0, 0]))
# TensorFlow 2.21: the first row of [[1, 2], [3, 4], [5, 6]] after two changes of it
FIRST_ROWS = {
    "scatter_add": [41, 62],
    "scatter_sub": [-39, -58],
    "scatter_mul": [300, 1600],
    "scatter_div": [1 / 300, 2 / 800],
    "scatter_min": [1, 2],
    "scatter_max": [30, 40],
    "scatter_update": [30, 40],
}


def matrix(**settings):
    return tk.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], **settings)


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize("name", FIRST_ROWS)
def test_rows_are_changed(name, wrap):
    v = matrix()
    before = v.value()

    def change():
        return getattr(v, name)(ROWS).read_value()

    expected = [FIRST_ROWS[name], [3, 4], [5, 6]]
    np.testing.assert_allclose(wrap(change)(), expected, rtol=1e-6)
    np.testing.assert_allclose(v, expected, rtol=1e-6)
    assert before.numpy().tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scatter_nd_add", [1, 12, 3, 6]),
        ("scatter_nd_sub", [1, -8, 3, 2]),
        ("scatter_nd_update", [1, 10, 3, 2]),
        ("scatter_nd_max", [1, 10, 3, 4]),
        ("scatter_nd_min", [1, 2, 3, 2]),
    ],
)
def test_entries_are_changed(name, expected):
    v = tk.Variable([1.0, 2.0, 3.0, 4.0])
    assert getattr(v, name)([[1], [3]], [10.0, 2.0]) is v
    assert v.numpy().tolist() == expected


@pytest.mark.parametrize("dtype", ["int32", "float64", "float16"])
def test_rows_of_other_dtypes(dtype):
    v = tk.Variable(np.arange(4), dtype=dtype)
    v.scatter_add(tk.IndexedSlices(tk.constant([5, 7], dtype=dtype), tk.constant([1, 1], "int64")))
    assert v.numpy().tolist() == [0, 13, 2, 3]


@pytest.mark.usefixtures("on_cpu")
def test_what_is_refused():
    with pytest.raises(TypeError, match="IndexedSlices"):
        matrix().scatter_add([[1.0]])
    with pytest.raises(tk.errors.InvalidArgumentError, match="must hold floats"):
        tk.Variable([1]).scatter_div(tk.IndexedSlices([2], [0]))
    with pytest.raises(tk.errors.InvalidArgumentError):
        matrix().scatter_add(tk.IndexedSlices([[1.0, 1.0]], [7]))


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_rows_are_read_with_gradients(wrap):
    v = matrix()

    def slope():
        with tk.GradientTape() as tape:
            y = tk.reduce_sum(v.sparse_read([[0, 2]]) ** 2) + v.gather_nd([[1, 1]])[0]
        return tape.gradient(y, v)

    assert tk.convert_to_tensor(wrap(slope)()).numpy().tolist() == [[2, 4], [0, 1], [10, 12]]


def test_slices_make_a_whole_tensor():
    whole = tk.convert_to_tensor(tk.IndexedSlices([[1.0], [2.0]], [2, 2], dense_shape=[3, 1]))
    assert whole.numpy().tolist() == [[0], [0], [3]]
    with pytest.raises(ValueError, match="dense_shape"):
        tk.convert_to_tensor(tk.IndexedSlices([1.0], [0]))


def test_a_constraint_is_kept_and_applied_by_optimizers():
    v = tk.Variable([1.0], constraint=lambda x: tk.clip_by_value(x, 0.0, 1.5))
    tk.optimizers.SGD(1.0).apply_gradients([(tk.constant([-3.0]), v)])
    assert v.numpy().tolist() == [1.5]
    with pytest.raises(ValueError, match="must be a function"):
        tk.Variable([1.0], constraint=3)


def test_further_arguments_of_variables():
    v = tk.Variable([1.0], validate_shape=False, aggregation=tk.VariableAggregation.MEAN)
    assert v.aggregation is tk.VariableAggregation.MEAN
    v.assign([1.0, 2.0])
    assert v.shape == [None]
    v.set_shape([2])
    assert v.shape == [2]
    with pytest.raises(ValueError, match="not supported"):
        tk.Variable(1.0, caching_device="/cpu:0")


@pytest.mark.parametrize("wrong", ["most", "SUM", 1, tk.VariableSynchronization.AUTO, ["sum"]])
def test_an_aggregation_that_there_is_not_is_refused(wrong):
    with pytest.raises(ValueError, match="one of 'none', 'sum', 'mean', 'only_first_replica' or a"):
        tk.Variable(1.0, aggregation=wrong)
