"""Arguments that contradict one another, which TensorFlow refuses."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops


@pytest.mark.parametrize("sizes", [[2, 4], tk.constant([2, 4])])
def test_a_number_of_pieces_that_is_not_that_of_the_sizes_is_refused(sizes):
    with pytest.raises(tk.errors.InvalidArgumentError, match="num=3, but there are 2 sizes"):
        tk.split(tk.range(6), sizes, num=3)
    assert [len(x) for x in tk.split(tk.range(6), sizes, num=2)] == [2, 4]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"on_value": 1.5, "dtype": tk.int32}, "on_value is float32, dtype is int32"),
        ({"off_value": 1.5, "dtype": tk.int32}, "off_value is float32, dtype is int32"),
        ({"on_value": tk.constant(5), "dtype": tk.float32}, "on_value is int32, dtype is float32"),
        ({"on_value": 5, "off_value": 1.0}, "off_value is float32, on_value is int32"),
        ({"on_value": 5.0, "off_value": 1}, "off_value is int32, on_value is float32"),
    ],
)
def test_values_of_one_hot_have_its_dtype(values, text):
    with pytest.raises(TypeError, match=text):
        tk.one_hot([0, 1], 2, **values)


@pytest.mark.parametrize(
    ("values", "dtype", "on"),
    [
        ({"on_value": 5, "off_value": 1, "dtype": tk.float32}, "float32", 5),
        ({"on_value": 5, "off_value": 1}, "int32", 5),
        ({"on_value": True, "dtype": tk.int32}, "int32", 1),
        ({"on_value": True, "off_value": False}, "bool", True),
        ({"on_value": 300, "dtype": tk.uint8}, "uint8", 44),
    ],
)
def test_values_of_one_hot_that_fit(values, dtype, on):
    found = tk.one_hot([0, 1], 2, **values).numpy()
    assert found.dtype == np.dtype(dtype)
    assert found[0, 0] == on


def doubled(x, **options):
    """`x` joined with itself three times, in a loop of a graph."""

    def body(i, y):
        return i + 1, tk.concat([y, y], 0)

    begin = tk.constant(0), x
    return tk.while_loop(lambda i, _: i < 3, body, begin, **options)[1]


@pytest.mark.parametrize(
    ("invariants", "kind", "text"),
    [
        (None, ValueError, r"1 has shape \(2, 3\) before the loop and \(None, 3\) after some"),
        ([(), (2, None)], ValueError, r"its invariant is \(2, None\)\. Give shape_invariants"),
        ([(), (None, 4)], ValueError, r"\(2, 3\) before the loop, its invariant is \(None, 4\)"),
        ([()], ValueError, "1 shapes for 2 loop variables"),
    ],
)
def test_shapes_that_change_in_a_loop_are_refused(invariants, kind, text):
    if invariants is not None:
        invariants = [tk.TensorShape(shape) for shape in invariants]
    traced = tk.function(lambda x: doubled(x, shape_invariants=invariants))
    with pytest.raises(kind, match=text):
        traced(tk.ones([2, 3]))


@pytest.mark.parametrize(
    "invariant", [tk.TensorShape([None, 3]), tk.TensorShape(None), tk.TensorSpec([None, None])]
)
def test_shapes_change_in_a_loop_as_the_invariants_say(invariant):
    traced = tk.function(lambda x: doubled(x, shape_invariants=[tk.TensorShape([]), invariant]))
    assert traced(tk.ones([2, 3])).shape == doubled(tk.ones([2, 3])).shape == (16, 3)


def test_shapes_that_are_unknown_before_a_loop_may_change():
    traced = tk.function(doubled, input_signature=[tk.TensorSpec([None, 3])])
    assert traced(tk.ones([2, 3])).shape == (16, 3)


@pytest.mark.parametrize("number", [1.7, 1.0, np.float32(1), "1", tk.constant(1.0)])
@pytest.mark.parametrize(
    ("name", "call"),
    {
        "expand_dims: axis": lambda x, n: tk.expand_dims(x, n),
        "squeeze: axis": lambda x, n: ops.squeeze(x[:, None], n),
        "boolean_mask: axis": lambda x, n: tk.boolean_mask(x, [True, False], n),
        "cumsum: axis": lambda x, n: ops.cumsum(x, n),
        "cumprod: axis": lambda x, n: ops.cumprod(x, n),
        "cumulative_logsumexp: axis": lambda x, n: tk.math.cumulative_logsumexp(x, n),
        "sparsemax: axis": lambda x, n: ops.sparsemax(x, n),
        "one_hot: axis": lambda x, n: ops.one_hot([0], 2, n),
        "linspace: axis": lambda x, n: ops.linspace(x, x, 2, axis=n),
        "split: the number of pieces": lambda x, n: ops.split(x, n),
        "eye: k": lambda x, n: ops.eye(2, k=n),
        "tri: k": lambda x, n: ops.tri(2, k=n),
        "tril: k": lambda x, n: ops.tril(x, n),
        "triu: k": lambda x, n: ops.triu(x, n),
        "diag: k": lambda x, n: ops.diag(x[0], n),
        "diagflat: k": lambda x, n: ops.diagflat(x, n),
        "diagonal: offset": lambda x, n: ops.diagonal(x, n),
        "rot90: k": lambda x, n: ops.rot90(x, n),
        "bincount: minlength": lambda x, n: ops.bincount([1], minlength=n),
        "vander: N": lambda x, n: ops.vander(x[0], n),
        "in_top_k: k": lambda x, n: ops.in_top_k([0, 1], x, n),
    }.items(),
)
def test_a_number_that_would_be_cut_off_is_refused(name, call, number):
    x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    whole = np.int64(1)
    tk.nest.map_structure(np.testing.assert_array_equal, call(x, whole), call(x, 1))
    with pytest.raises(tk.errors.InvalidArgumentError, match=f"{name} must be a whole number"):
        call(x, number)
    with pytest.raises(tk.errors.InvalidArgumentError, match="must be a whole number"):
        tk.function(lambda x: call(x, number))(x)


def test_an_axis_that_a_graph_has_later_must_be_whole_too():
    x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    for call in (
        lambda n: tk.expand_dims(x, n),
        lambda n: tk.boolean_mask(x, [True, False], n),
        lambda n: ops.vander(x[0], n),
        lambda n: ops.tril(x, n),
    ):
        later = tk.function(call)
        np.testing.assert_array_equal(later(tk.constant(1)), call(1))
        with pytest.raises(tk.errors.InvalidArgumentError, match="must be a whole number"):
            later(tk.constant(1.0))
