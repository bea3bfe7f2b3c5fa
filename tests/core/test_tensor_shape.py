"""`TensorShape` and `TensorSpec`, of unknown rank too; what TensorFlow 2.21 gives."""

import copy
import pickle

import pytest

import trainkit as tk
from trainkit.core import nest
from trainkit.core.shapes import ShapeError, TensorShape

UNKNOWN = TensorShape(None)


def test_a_shape_of_unknown_rank():
    assert repr(UNKNOWN) == "TensorShape(None)"
    assert str(UNKNOWN) == "<unknown>"
    assert (UNKNOWN.rank, UNKNOWN.ndims, UNKNOWN.dims, UNKNOWN.num_elements()) == (None,) * 4
    assert not UNKNOWN
    assert not UNKNOWN.is_fully_defined()
    assert TensorShape(None) == UNKNOWN
    assert TensorShape(UNKNOWN) == UNKNOWN
    for other in ((), [None], TensorShape([]), TensorShape([1])):
        assert other != UNKNOWN
        assert UNKNOWN != other
    assert len({UNKNOWN, TensorShape(None), TensorShape([])}) == 2
    for same in (copy.deepcopy(UNKNOWN), pickle.loads(pickle.dumps(UNKNOWN))):
        assert same == UNKNOWN


@pytest.mark.parametrize("use", [len, list, tuple, TensorShape.as_list, lambda s: 1 in s])
def test_an_unknown_rank_has_no_sizes(use):
    with pytest.raises(ValueError, match="unknown rank"):
        use(UNKNOWN)


def test_parts_of_a_shape_of_unknown_rank():
    assert UNKNOWN[0] is None
    assert UNKNOWN[1:3] == [None, None]
    assert UNKNOWN[:2] == [None, None]
    assert UNKNOWN[1:] == UNKNOWN
    assert UNKNOWN[-2:] == UNKNOWN
    assert UNKNOWN.concatenate([1]) == TensorShape([1]).concatenate(None) == UNKNOWN


def test_two_shapes_together():
    assert TensorShape([None, 2]).merge_with([3, None]) == [3, 2]
    assert UNKNOWN.merge_with([1]) == TensorShape([1]).merge_with(None) == [1]
    with pytest.raises(ShapeError, match=r"\(1,\) and \(2,\) are not compatible"):
        TensorShape([1]).merge_with([2])
    assert TensorShape([1, 2]).most_specific_compatible_shape([1, 3]) == [1, None]
    assert TensorShape([1]).most_specific_compatible_shape([1, 2]) == UNKNOWN
    assert TensorShape([1, 2]).most_specific_common_supertype([[1, 3], [2, 3]]) == [None, None]
    assert TensorShape([1, 2]).is_subtype_of([None, 2])
    assert not TensorShape([None]).is_subtype_of([1])
    assert TensorShape([1]).is_subtype_of(None)
    assert not UNKNOWN.is_subtype_of([None])
    assert UNKNOWN.is_compatible_with([1, 2])
    assert TensorShape([1, 2]).is_compatible_with(None)


def test_ranks_are_checked():
    shape = TensorShape([1, 2])
    assert shape.with_rank(2) == shape.with_rank_at_least(1) == shape.with_rank_at_most(3) == shape
    assert UNKNOWN.with_rank(2) == [None, None]
    shape.assert_same_rank([3, 4])
    shape.assert_same_rank(None)
    for wrong in (
        lambda: shape.with_rank(3),
        lambda: shape.with_rank_at_least(3),
        lambda: shape.with_rank_at_most(1),
        lambda: shape.assert_has_rank(1),
        lambda: shape.assert_same_rank([1]),
        lambda: TensorShape([None]).assert_is_fully_defined(),
    ):
        with pytest.raises(ShapeError, match="shape"):
            wrong()


def test_a_shape_is_made_of_whole_numbers():
    assert TensorShape(3) == [3]
    for wrong in ("3", [2.5], [2.0]):
        with pytest.raises(TypeError):
            TensorShape(wrong)
    with pytest.raises(ValueError, match="0 or more"):
        TensorShape([-1])


def test_a_shape_is_one_value_in_a_nest():
    shape = TensorShape([1, 2])
    assert nest.flatten({"b": shape, "a": UNKNOWN}) == [UNKNOWN, shape]


def test_a_spec_of_unknown_rank():
    spec = tk.TensorSpec(None, "int32", name="x")
    assert repr(spec) == "TensorSpec(shape=<unknown>, dtype=tf.int32, name='x')"
    assert spec.rank is None
    assert spec.is_compatible_with(tk.constant([1]))
    assert tk.TensorSpec([1], "int32").is_compatible_with(spec)
    assert tk.TensorSpec([1]).is_subtype_of(tk.TensorSpec(None))
    assert not tk.TensorSpec(None).is_subtype_of(tk.TensorSpec([1]))
    wide = tk.TensorSpec([1, 2]).most_specific_common_supertype([tk.TensorSpec([1, 3])])
    assert wide == tk.TensorSpec([1, None])
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.value_type is tk.Tensor


def test_a_function_of_tensors_of_any_rank():
    spec = tk.TensorSpec(None)
    f = tk.function(
        lambda x, y: (tk.rank(x), tk.reduce_sum(x * 2.0) + y), input_signature=[spec, spec]
    )
    y = tk.constant(1.0)
    for x in (tk.constant(1.0), tk.ones((2,)), tk.ones((2, 3)), tk.ones((4, 3))):
        rank, total = f(x, y)
        assert int(rank) == len(x.shape)
        assert float(total) == 2.0 * x.numpy().size + 1.0
    assert f.experimental_get_tracing_count() == 3
    concrete = f.get_concrete_function()
    assert [int(n) for n in concrete(tk.ones((2, 3)), y)] == [2, 13]
    assert f.experimental_get_tracing_count() == 3
    with pytest.raises(TypeError, match="dtype"):
        f(tk.constant(1), y)


ANY = tk.TensorSpec([None, None])


@pytest.mark.parametrize("narrow", ["set_shape", "ensure_shape"])
def test_a_shape_is_narrowed_while_tracing_and_compared_when_run(narrow):
    seen = []

    @tk.function(input_signature=[ANY])
    def f(x):
        y = x * 1.0
        if narrow == "set_shape":
            y.set_shape([None, 3])
            y.set_shape([2, None])
        else:
            y = tk.ensure_shape(tk.ensure_shape(y, [None, 3]), [2, None])
        seen.append(y.shape)
        return y * 2.0

    assert f(tk.ones((2, 3))).numpy().tolist() == [[2.0] * 3] * 2
    assert seen == [[2, 3]]
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"\(2, 3\)|\(None, 3\)"):
        f(tk.ones((4, 3)) if narrow == "set_shape" else tk.ones((2, 4)))


def test_set_shape_of_a_tensor_with_values_is_a_comparison():
    x = tk.ones((2, 3))
    x.set_shape([None, 3])
    x.set_shape(None)
    assert x.shape == [2, 3]
    for wrong in ([None, 4], [2]):
        with pytest.raises(ShapeError, match="does not fit"):
            x.set_shape(wrong)
        with pytest.raises(tk.errors.InvalidArgumentError, match="is needed"):
            tk.ensure_shape(x, wrong)


def test_set_shape_of_an_argument():
    f = tk.function(lambda x: (x.set_shape([2, 3]), tk.constant(x.shape.as_list()))[1])
    assert f.get_concrete_function(ANY)(tk.ones((2, 3))).numpy().tolist() == [2, 3]


@pytest.mark.parametrize("empty", [[], (), [[], []], [[[]]]])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "float32", "complex64"])
def test_empty_lists_have_any_dtype(empty, dtype):
    for x in (tk.constant(empty, dtype=dtype), tk.Variable(empty, dtype=dtype)):
        assert x.dtype == tk.as_dtype(dtype)
        assert x.numpy().tolist() == (list(empty) if empty == () else empty)
    assert tk.convert_to_tensor([], dtype_hint="int32").dtype == tk.int32


def test_a_shape_is_true_where_its_rank_is_known():
    """As TensorFlow has it: that of a scalar is true too, which a tuple is not."""
    assert TensorShape([])
    assert tk.constant(1.0).shape
    assert tk.Variable(1.0).shape
    assert TensorShape([None])
    assert not TensorShape(None)
    assert len(TensorShape([])) == 0


def test_a_shape_of_plain_sizes_is_its_own_shape():
    sizes = TensorShape([2, None])
    assert TensorShape(sizes) is sizes
    assert TensorShape(TensorShape(None)).rank is None


def test_sizes_of_another_kind_become_plain_ones():
    class Size(int):
        pass

    sizes = tuple.__new__(TensorShape, (Size(2), None))
    assert [type(n) for n in TensorShape(sizes)] == [int, type(None)]
