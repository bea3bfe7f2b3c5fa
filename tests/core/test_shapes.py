"""Shapes, with sizes that are not known yet, and the rules made of them."""

import operator

import pytest

import trainkit as tk
from trainkit.core import shapes
from trainkit.core.shapes import ShapeError, Spec, TensorShape


def test_a_shape_is_a_tuple():
    shape = TensorShape([2, 3])
    assert shape == (2, 3)
    assert shape == [2, 3]
    assert shape != (2, 4)
    assert hash(shape) == hash((2, 3))
    assert (shape.rank, shape.ndims, shape.dims, shape.as_list()) == (2, 2, [2, 3], [2, 3])
    assert (shape[0], shape[-1], len(shape)) == (2, 3, 2)
    assert isinstance(shape[:1], TensorShape)
    assert isinstance(operator.add(shape, [4]), TensorShape)
    assert TensorShape([1]).concatenate(shape) == (1, 2, 3)
    assert isinstance(operator.add((), shape), TensorShape)


def test_texts_are_tensorflows():
    shape = TensorShape([None, 3])
    assert repr(shape) == "TensorShape([None, 3])"
    assert str(shape) == f"{shape}" == "(None, 3)"
    assert str(TensorShape([])) == "()"


def test_unknown_sizes():
    shape = TensorShape([None, 3])
    assert not shape.is_fully_defined()
    assert shape.num_elements() is None
    assert TensorShape([2, 3]).num_elements() == 6
    assert TensorShape([]).num_elements() == 1
    assert shape.is_compatible_with([7, 3])
    assert not shape.is_compatible_with([7, 4])
    assert not shape.is_compatible_with([3])
    with pytest.raises(ShapeError, match=r"\(None, 3\) and \(7, 4\) are not compatible"):
        shape.assert_is_compatible_with([7, 4])


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ([(2, 1), (3,)], (2, 3)),
        ([(), (4,)], (4,)),
        ([(None, 3), (1, 3)], (None, 3)),
        ([(None,), (5,)], (5,)),
        ([(None,), (None,)], (None,)),
        ([(1, 2), (3, 1), (2,)], (3, 2)),
        ([(0,), (1,)], (0,)),
        ([], ()),
    ],
)
def test_broadcasting(given, result):
    assert shapes.broadcast_dims(*given) == result


def test_what_does_not_broadcast_shows_the_shapes():
    with pytest.raises(ShapeError, match=r"^add: shapes \(2,\), \(3,\) do not broadcast$"):
        tk.add([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(("axis", "result"), [(0, 0), (-1, 2), (2, 2), (-3, 0)])
def test_axes_count_from_both_ends(axis, result):
    assert shapes.canonical_axis(axis, 3) == result


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_out_of_range_lists_the_valid_ones(axis):
    with pytest.raises(ShapeError, match=rf"sum: axis {axis} is out of range .* are -3 to 2"):
        tk.ops.sum(tk.ones([1, 1, 1]), axis=axis)


def test_several_axes():
    assert shapes.canonical_axes(None, 2) == (0, 1)
    assert shapes.canonical_axes(-1, 2) == (1,)
    assert shapes.canonical_axes([0, -1], 3) == (0, 2)
    with pytest.raises(ShapeError, match="names an axis twice"):
        shapes.canonical_axes((0, -2), 2)


def test_reduced_shapes():
    assert shapes.reduced_dims((2, 3, 4), 1, False) == (2, 4)
    assert shapes.reduced_dims((2, 3, 4), (0, 2), True) == (1, 3, 1)
    assert shapes.reduced_dims((2, 3), None, False) == ()


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((2, 3), (3, 4), (2, 4)),
        ((3,), (3, 4), (4,)),
        ((2, 3), (3,), (2,)),
        ((3,), (3,), ()),
        ((5, 2, 3), (3, 4), (5, 2, 4)),
        ((None, 3), (3, None), (None, None)),
        ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
    ],
)
def test_matrix_products(a, b, result):
    assert shapes.matmul_dims(a, b) == result


def test_matrix_products_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"the inner sizes differ, 3 and 2\.\n  a  \(2, 3\)"):
        tk.matmul(tk.ones([2, 3]), tk.ones([2, 3]))
    with pytest.raises(ShapeError, match="both inputs need at least one axis"):
        tk.matmul(1.0, tk.ones([2]))


def test_specs():
    spec = Spec((None, 2), "int32")
    assert spec == Spec([None, 2], tk.int32)
    assert spec != Spec((None, 2), "float32")
    assert spec != (None, 2)
    assert len({spec, Spec((None, 2), "int32")}) == 1
    assert repr(spec) == "Spec((None, 2), int32)"
    assert shapes.floating(spec) == Spec((None, 2), "float32")
    assert shapes.float_dtype(tk.complex64) is tk.complex64
    assert shapes.broadcast_bool(spec, 1.0).dtype is tk.bool
    assert shapes.floating_broadcast(spec, Spec((), "float16")).dtype is tk.float16


def test_a_tensor_spec_knows_what_fits():
    spec = tk.TensorSpec((None, 3), "float32", name="x")
    assert repr(spec) == "TensorSpec(shape=(None, 3), dtype=tf.float32, name='x')"
    assert spec.is_compatible_with(tk.ones([2, 3]))
    assert spec.is_compatible_with([[1.0, 2.0, 3.0]])
    assert not spec.is_compatible_with(tk.ones([3]))
    assert not spec.is_compatible_with([["a"]])
    assert not spec.is_compatible_with(tk.ones([2, 3], "float64"))
    assert spec.rank == 2
    wider = tk.TensorSpec((2, 3)).most_specific_compatible_type(tk.TensorSpec((4, 3)))
    assert wider == tk.TensorSpec((None, 3))
    assert tk.TensorSpec((2,)).most_specific_compatible_type(tk.TensorSpec((2, 3))) is None
    assert tk.TensorSpec.from_tensor(tk.ones([2])) == tk.TensorSpec((2,))
    assert tk.TensorSpec.from_spec(spec).name == "x"
    assert len({spec, tk.TensorSpec((None, 3), "float32", name="x")}) == 1


@pytest.mark.parametrize("axis", [None, 1.0, "last"])
def test_an_axis_that_is_no_integer_is_a_type_error_of_the_operation(axis):
    with pytest.raises(TypeError, match=f"diff: axis must be an integer, got {axis!r}"):
        tk.ops.diff([1.0, 2.0], axis=axis)
