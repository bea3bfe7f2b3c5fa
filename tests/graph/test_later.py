"""Calls that need values: in a graph each is a node that has them once the graph runs."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError, NoValueError
from trainkit.core.shapes import Spec
from trainkit.ops.core.dynamic_shapes import Call, needs_values, with_values

X = np.arange(12, dtype=np.float64).reshape(3, 4) + 0.5
IDS = np.array([0, 0, 2], np.int32)
BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]], np.float32)
SCORES = np.array([0.9, 0.8, 0.7], np.float32)
WORD = np.array([[1, 2, 3, -1]])
BY_VALUE = {
    "unique": (tk.unique, np.array([3, 1, 3])),
    "unique_with_counts": (tk.unique_with_counts, np.array([3, 1, 3])),
    "sequence_mask": (tk.sequence_mask, np.array([1, 3])),
    "repeat": (tk.repeat, X[0], np.array([1, 0, 2, 1])),
    "repeat along an axis": (lambda x, r: tk.repeat(x, r, axis=1), X, np.array([1, 0, 2, 1])),
    "slice": (tk.slice, X, np.array([1, 0]), np.array([2, -1])),
    "slice from tensors": (lambda x, n: tk.slice(x, [n, 0], [1, n]), X, np.array(2)),
    "pad": (tk.pad, X, np.array([[1, 0], [0, 2]])),
    "roll": (lambda x, n: tk.roll(x, n, 1), X, np.array(3)),
    "reverse": (tk.reverse, X, np.array([1])),
    "transpose": (tk.transpose, X, np.array([1, 0])),
    "split": (lambda x, n: tk.split(x, n, 1), X, np.array([1, 3])),
    "one_hot": (tk.one_hot, IDS, np.array(4)),
    "one_hot in front": (lambda i, n: tk.one_hot(i, n, 2.0, -1.0, axis=0), IDS, np.array(4)),
    "eye": (lambda n: tk.eye(n, n + 1, batch_shape=[2]), np.array(3)),
    "linspace": (lambda n: tk.linspace(0.0, 1.0, n), np.array(5)),
    "top_k": (tk.math.top_k, X, np.array(2)),
    "segment_sum": (tk.math.segment_sum, X, IDS),
    "segment_mean": (tk.math.segment_mean, X, IDS),
    "segment_max": (tk.math.segment_max, X, IDS),
    "segment_min": (tk.math.segment_min, X, IDS),
    "segment_prod": (tk.math.segment_prod, X, IDS),
    "confusion_matrix": (tk.math.confusion_matrix, IDS, IDS[::-1].copy()),
    "dynamic_partition": (lambda x, p: tk.dynamic_partition(x, p, 3), X, IDS),
    "dynamic_stitch": (lambda i, x: tk.dynamic_stitch([i, [1]], [x, x[:1]]), IDS, X),
    "edit_distance": (tk.edit_distance, WORD, WORD[:, ::-1].copy()),
    "histogram": (lambda r: tk.histogram_fixed_width([0.1, 0.4], r, 3), np.array([0.0, 1.0])),
    "histogram_bins": (
        lambda r, n: tk.histogram_fixed_width_bins(X, r, n),
        np.array([0.0, 9.0]),
        np.array(3),
    ),
    "broadcast_dynamic_shape": (tk.broadcast_dynamic_shape, np.array([3, 1]), np.array([4])),
    "space_to_batch": (tk.required_space_to_batch_paddings, np.array([5, 6]), np.array([2, 3])),
    "collapse_repeated": (
        tk.nn.collapse_repeated,
        np.array([[1, 1, 2], [3, 4, 4]]),
        np.array([3, 2]),
    ),
    "draw_bounding_boxes": (
        lambda x, b: tk.image.draw_bounding_boxes(x, b, None),
        np.zeros((1, 5, 5, 3), np.float32),
        BOXES[None],
    ),
    "suppression": (lambda b, s: tk.image.non_max_suppression(b, s, 2), BOXES, SCORES),
    "suppression with scores": (
        lambda b, s: tk.image.non_max_suppression_with_scores(b, s, 2),
        BOXES,
        SCORES,
    ),
    "suppression, padded": (
        lambda b, s: tk.image.non_max_suppression_padded(b, s, 2),
        BOXES,
        SCORES,
    ),
    "suppression by overlap": (
        lambda o, s: tk.image.non_max_suppression_overlaps(o, s, 2),
        np.eye(3, dtype=np.float32),
        SCORES,
    ),
}


@pytest.mark.parametrize("case", BY_VALUE.values(), ids=BY_VALUE)
def test_a_function_gives_what_eager_execution_gives(case):
    f, *values = case
    args = [tk.constant(v) for v in values]
    eager, graph = tk.nest.flatten(f(*args)), tk.nest.flatten(tk.function(f)(*args))
    assert len(eager) == len(graph)
    for a, b in zip(eager, graph, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a.numpy(), b.numpy())


SMOOTH = ["repeat", "slice", "pad", "roll", "top_k", "segment_mean", "segment_max", "split"]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_go_through_twice(name):
    f, x, *rest = BY_VALUE[name]
    rest = [tk.constant(v) for v in rest]

    def loss(x):
        parts = [y for y in tk.nest.flatten(f(x, *rest)) if y.dtype.is_floating]
        return tk.add_n([tk.reduce_sum(y * y * y) for y in parts])

    def second(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = loss(x)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    x = tk.constant(x)
    for a, b in zip(second(x), tk.function(second)(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_node_keeps_what_is_known_of_the_shape():
    traced = tk.function(lambda x, i: tk.math.segment_sum(x, i)).get_concrete_function(
        tk.TensorSpec([None, 4], tk.float32), tk.TensorSpec([None], tk.int32)
    )
    assert traced.output_shapes.as_list() == [None, 4]
    assert "WithValues" in str(traced.graph)


def test_one_trace_serves_all_values():
    f = tk.function(lambda x, n: tk.slice(x, [0], [n]))
    x = tk.constant([1.0, 2.0, 3.0])
    assert [f(x, tk.constant(n)).shape[0] for n in (1, 2, 3)] == [1, 2, 3]
    assert f.experimental_get_tracing_count() == 1


def test_an_error_of_the_values_names_the_operation_and_the_line():
    f = tk.function(lambda x, n: tk.split(x, n))
    with pytest.raises(
        InvalidArgumentError, match=r"split: sizes \[1, 2\] do not add up to 2"
    ) as e:
        f(tk.constant([1.0, 2.0]), tk.constant([1, 2]))
    assert "test_later.py" in str(e.value)
    assert str(e.value).endswith("in <lambda>")


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda n: tk.split([1.0, 2.0], n), "split: the number of pieces must be known"),
        (lambda n: tk.dynamic_partition([1.0], [0], n), "num_partitions must be known"),
        (lambda n: tk.eye(2, batch_shape=tk.reshape(n, [1])), "eye: batch_shape must be known"),
    ],
)
def test_how_many_results_there_are_must_be_known(f, words):
    with pytest.raises((InvalidArgumentError, NoValueError), match=words):
        tk.function(f)(tk.constant(2))


def test_a_wrong_spec_is_told():
    @needs_values("x", gives=lambda a: Spec((2,), tk.float32))
    def three(x):
        return tk.stack([x, x, x])

    with pytest.raises(InvalidArgumentError, match=r"three: gave \(3,\) float32, the graph was"):
        tk.function(three)(tk.constant(1.0))


def test_a_call_shows_its_name():
    assert repr(Call("one", lambda: (), ())) == "one"
    assert with_values.primitive.name == "with_values"


def test_a_variable_may_hold_the_value():
    depth = tk.Variable(3)
    f = tk.function(lambda i: tk.one_hot(i, depth))
    assert f(tk.constant([1])).shape == (1, 3)
    depth.assign(5)
    assert f(tk.constant([1])).shape == (1, 5)


def test_a_variable_inside_of_a_list_has_the_value_of_its_place():
    size = tk.Variable(1)

    @tk.function
    def f(x):
        size.assign(2)
        pieces = tk.slice(x, [0], [size])
        size.assign(3)
        return pieces

    assert f(tk.constant([1.0, 2.0, 3.0])).shape == (2,)
    assert int(size) == 3


# ------------------------------------------------------------------ what a shape rule refuses


def test_shapes_that_do_not_fit_name_the_operation():
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"^add: shapes \(2,\), \(3,\)"):
        tk.function(lambda a, b: a + b)(tk.ones(2), tk.ones(3))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("f", [tk.sign, lambda b: b - b], ids=["sign", "subtract"])
def test_types_that_numpy_has_nothing_for_are_named_as_in_eager_execution(f):
    flags = tk.constant([True, False])
    for call in (f, tk.function(f)):
        with pytest.raises(
            InvalidArgumentError, match=r"(sign|subtract): .*\n  input 0  \(2,\) bool"
        ):
            call(flags)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda n: tk.ops.transpose(tk.ones((2, 2)), n), "transpose: the axes must be known"),
        (lambda n: tk.ops.scatter([[0]], [1.0], n), "scatter: the shape must be known"),
    ],
)
def test_operations_of_keras_ask_for_python_numbers(f, words):
    with pytest.raises(InvalidArgumentError, match=words):
        tk.function(f)(tk.constant([1, 0]))


def test_a_scalar_tensor_is_a_shape_of_one_axis():
    for f in (tk.zeros, tk.ones, lambda n: tk.reshape(tk.ones((3, 1)), n)):
        assert tk.function(f)(tk.constant(3)).shape == f(tk.constant(3)).shape == (3,)
