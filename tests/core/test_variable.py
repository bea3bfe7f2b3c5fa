"""Variables: snapshots, assignment in place, errors, copies."""

import copy
import pickle

import numpy as np
import pytest

import trainkit as tk


def address(variable):
    return variable._value._array.__array_interface__["data"][0]


def test_text_is_tensorflows():
    assert repr(tk.Variable([1.0], name="w")) == (
        "<tf.Variable 'w:0' shape=(1,) dtype=float32, numpy=array([1.], dtype=float32)>"
    )
    assert str(tk.Variable(1)) == "<tf.Variable 'Variable:0' shape=() dtype=int32, numpy=1>"


def test_facts():
    v = tk.Variable(np.ones((2, 3)), trainable=False, name="count")
    assert (v.name, v.path, v.shape, v.dtype, v.ndim, v.size) == (
        "count:0",
        "count",
        (2, 3),
        tk.float64,
        2,
        6,
    )
    assert v.get_shape().as_list() == [2, 3]
    assert v.trainable is False
    assert v.device == tk.constant(1.0).device
    assert v.ref().deref() is v


def test_initial_values():
    assert tk.Variable(lambda: tk.zeros([2])).shape == (2,)
    assert tk.Variable(1, dtype="float64").dtype == tk.float64
    assert tk.Variable(tk.constant([1.7]), dtype="int32").numpy().tolist() == [1]
    with pytest.raises(ValueError, match="needs an initial value"):
        tk.Variable()
    with pytest.raises(ValueError, match=r"has shape \(2,\), shape=\(3,\) was asked for"):
        tk.Variable([1.0, 2.0], shape=[3])


# ------------------------------------------------------------------ reading


def test_a_reading_is_a_snapshot():
    v = tk.Variable([1.0, 2.0])
    before, array = v.value(), v.numpy()
    v.assign([3.0, 4.0])
    assert before.tolist() == array.tolist() == [1.0, 2.0]
    assert v.read_value().tolist() == [3.0, 4.0]


def test_value_reads_with_and_without_a_call():
    v = tk.Variable([1.0, 2.0])
    reading = v.value
    assert reading().tolist() == reading.numpy().tolist() == reading.value().tolist() == [1, 2]
    assert tk.is_tensor(reading)
    assert (reading + 1).tolist() == [2, 3]
    assert (np.ones(2, np.float32) - reading).tolist() == [0, -1]
    assert (reading[0].item(), len(reading), [float(x) for x in reading]) == (1, 2, [1, 2])
    assert tk.reduce_sum(reading).numpy() == np.sum(reading) == 3
    assert repr(reading) == str(reading) == repr(v.value())
    scalar = tk.Variable(2).value
    assert (bool(scalar), int(scalar), float(scalar), "abc"[scalar]) == (True, 2, 2.0, "c")
    assert f"{scalar:03d}" == "002"
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = reading.nothing_like_it


def test_a_reading_is_seen_by_tapes():
    v = tk.Variable([1.0, 2.0])
    with tk.GradientTape() as tape:
        y = tk.reduce_sum(v.value * v.value())
    assert tape.gradient(y, v).tolist() == [2.0, 4.0]


@pytest.mark.usefixtures("on_cpu")
def test_variables_are_numbers_and_arrays():
    v = tk.Variable(2)
    assert (bool(v), int(v), float(v), "abc"[v], f"{v:d}") == (True, 2, 2.0, "c", "2")
    assert f"{v}" == str(v)
    w = tk.Variable([1.0, 2.0])
    assert (len(w), [float(x) for x in w], w[1].item()) == (2, [1.0, 2.0], 2.0)
    assert np.asarray(w).tolist() == np.from_dlpack(w).tolist() == [1.0, 2.0]
    assert (w + 1).tolist() == [2.0, 3.0]
    assert (w == w).tolist() == [True, True]
    assert len({v, w, v}) == 2


# ------------------------------------------------------------------ assigning


def test_assign_returns_the_variable():
    v = tk.Variable([1.0, 2.0])
    assert v.assign([0.0, 1.0]) is v
    assert v.assign_add([1.0, 1.0]) is v
    assert v.assign_sub(0.5).numpy().tolist() == [0.5, 1.5]


@pytest.mark.usefixtures("on_cpu")
def test_assign_writes_in_place_when_nothing_else_holds_the_buffer():
    v = tk.Variable(np.zeros(8, np.float32))
    before = address(v)
    v.assign(np.ones(8, np.float32))
    v.assign_add(tk.constant(np.ones(8, np.float32)))
    v.assign_sub(0.5)
    v.assign_add(tk.constant(0.5))
    assert address(v) == before
    assert v.numpy().tolist() == [2.0] * 8


@pytest.mark.parametrize(
    ("start", "delta", "wanted"),
    [
        (np.ones(2, np.int32), 1, [2, 2]),
        (np.ones(2, np.int32), 1.5, None),
        (np.ones(2, np.float16), tk.constant([1.0, 2.0], tk.float16), [2, 3]),
        (np.ones(2, np.float32), [1.0, 2.0], [2, 3]),
        (np.ones((2, 2), np.float32), tk.constant([1.0, 2.0]), [[2, 3], [2, 3]]),
        (np.ones(2, np.float32), tk.constant([[1.0, 2.0]]), None),
        (np.ones(2, np.float32), tk.constant([1.0, 2.0], tk.float64), None),
    ],
)
def test_assign_add_takes_what_broadcasts_to_the_value(start, delta, wanted):
    v = tk.Variable(start)
    if wanted is None:
        with pytest.raises(ValueError, match="the value to assign has"):
            v.assign_add(delta)
        assert v.numpy().tolist() == start.tolist()
    else:
        assert v.assign_add(delta).numpy().tolist() == wanted
    assert v.dtype == start.dtype


def test_a_sum_with_itself_reads_before_it_writes():
    v = tk.Variable([1.0, 2.0])
    v.assign_add(v)
    v.assign_add(v[::-1])
    assert v.numpy().tolist() == [6.0, 6.0]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    "hold",
    [lambda v: v.value(), lambda v: v.numpy(), lambda v: v[2:], lambda v: np.from_dlpack(v)],
    ids=["tensor", "array", "slice", "dlpack"],
)
def test_a_held_buffer_is_left_alone(hold):
    v = tk.Variable(np.zeros(8, np.float32))
    held = hold(v)
    v.assign(np.ones(8, np.float32))
    v.assign_add(np.ones(8, np.float32))
    assert not np.asarray(held).any()
    assert v.numpy().tolist() == [2.0] * 8


def test_two_variables_from_one_tensor_do_not_share():
    x = tk.constant(np.zeros(4, np.float32))
    v, w = tk.Variable(x), tk.Variable(x)
    v.assign_add(1.0)
    w._writable()[...] = 5
    assert (x.tolist(), v.numpy().tolist(), w.numpy().tolist()) == ([0] * 4, [1] * 4, [5] * 4)


@pytest.mark.usefixtures("on_cpu")
def test_writable_is_the_buffer_only_when_it_is_free():
    v = tk.Variable(np.zeros(4, np.float32))
    before = address(v)
    v._writable()[...] = 1
    assert address(v) == before
    snapshot = v.value()
    v._writable()[...] = 2
    assert snapshot.tolist() == [1] * 4
    assert v.numpy().tolist() == [2] * 4


def test_a_scalar_is_written_in_place_too():
    v = tk.Variable(1.0)
    seen = v.value()
    v.assign_add(1.0)
    assert (float(seen), float(v)) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0], r"variable 'w:0' has shape \(2,\), the value to assign has shape \(1,\)"),
        (np.ones(2, np.int64), None),
        (tk.constant([1, 2]), r"variable 'w:0' has dtype float32, .* has int32"),
        ([[1.0], [1.0, 2.0]], r"variable 'w:0': can't make a tensor"),
    ],
)
def test_a_wrong_value_leaves_the_variable(value, words):
    v = tk.Variable([1.0, 2.0], name="w")
    if words is None:  # arrays are cast
        assert v.assign(value).dtype == tk.float32
        return
    with pytest.raises(ValueError, match=words):
        v.assign(value)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_open_shapes_may_change():
    v = tk.Variable([1.0], shape=[None])
    v.assign([1.0, 2.0, 3.0])
    assert v.shape == (None,)
    assert v.numpy().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="has shape"):
        v.assign([[1.0]])


def test_scatter_updates():
    v = tk.Variable([0.0, 0.0, 0.0])
    v.scatter_nd_update([[0], [2]], [1.0, 2.0])
    v.scatter_nd_add([[0], [0]], [1.0, 1.0])
    v.scatter_nd_sub([[2]], [0.5])
    assert v.numpy().tolist() == [3.0, 0.0, 1.5]


def test_assigning_inside_a_tape_does_not_change_what_was_recorded():
    v = tk.Variable(3.0)
    with tk.GradientTape() as tape:
        y = v * v
        v.assign(100.0)
    assert float(tape.gradient(y, v)) == 6.0


# ------------------------------------------------------------------ copies


def test_copies_are_variables_of_their_own():
    v = tk.Variable([1.0, 2.0], trainable=False, name="w")
    v.path = "model/w"
    for twin in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        assert (twin.name, twin.path, twin.trainable) == ("w:0", "model/w", False)
        twin.assign([0.0, 0.0])
    assert v.numpy().tolist() == [1.0, 2.0]
    both = copy.deepcopy([v, v])
    assert both[0] is both[1]


COLUMNS = np.arange(6.0, dtype="float32").reshape(2, 3).T
BROADCAST = np.broadcast_to(np.float32(1.5), (3, 2))


@pytest.mark.parametrize("value", [COLUMNS, BROADCAST], ids=["columns", "broadcast"])
@pytest.mark.parametrize("way", ["initial", "assign", "assign while held", "graph", "take"])
def test_values_lie_by_rows(value, way):
    v = tk.Variable(value if way == "initial" else np.zeros((3, 2), "float32"))
    held = v.read_value() if way == "assign while held" else None
    if way.startswith("assign"):
        v.assign(tk.constant(value))
    elif way == "graph":
        tk.function(lambda x: v.assign(tk.transpose(x)))(tk.constant(value.T))
    elif way == "take":
        v._take(value)
    assert v._value._array.flags.c_contiguous
    np.testing.assert_array_equal(v, value)
    assert held is None or not held.numpy().any()


def test_a_run_that_is_resumed_multiplies_as_before():
    """BLAS adds up otherwise where a matrix lies by columns, as orthogonal ones were made."""
    weights = tk.initializers.Orthogonal(seed=1)((8, 32))
    made, loaded = tk.Variable(weights), tk.Variable(np.ascontiguousarray(weights))
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(1, 8)).astype("float32")
        np.testing.assert_array_equal(x @ made, x @ loaded)


def test_a_variable_of_unknown_shape_shows_its_value():
    v = tk.Variable(1.0, shape=tk.TensorShape(None))
    v.assign([[2.0]])
    assert "shape=<unknown> dtype=float32, numpy=array([[2.]]" in repr(v)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("delta", [np.array([2.0, 3.0]), np.array([2, 3]), np.float32([2, 3])])
def test_sums_take_arrays_of_numpy_as_assign_does(dtype, delta):
    v = tk.Variable([1, 2], dtype=dtype)
    if dtype == "int32" and delta.dtype.kind == "f":
        with pytest.raises(tk.errors.InvalidArgumentError, match="has dtype int32"):
            v.assign_add(delta)
        return
    assert v.assign_add(delta).numpy().tolist() == [3, 5]
    assert v.assign_sub(delta).numpy().tolist() == [1, 2]
    assert v.dtype == dtype


def test_sums_of_integers_take_no_array_that_does_not_fit():
    v = tk.Variable([1, 2])
    with pytest.raises(tk.errors.InvalidArgumentError, match="fit int32"):
        v.assign_add(np.array([2**40, 1]))
    assert v.numpy().tolist() == [1, 2]
