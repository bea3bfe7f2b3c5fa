"""Calls that programs written for TensorFlow make; values are TensorFlow 2.21's."""

import operator
import sys

import numpy as np
import pytest

import trainkit as tk

X = np.zeros(5, "float32")

WITH_LISTS = {
    "tensor_scatter_nd_update": lambda i: tk.tensor_scatter_nd_update(X, [[i], [i + 1]], [9.0, 8]),
    "tensor_scatter_nd_add": lambda i: tk.tensor_scatter_nd_add(X, [[i]], [tk.cast(i, "float32")]),
    "scatter_nd": lambda i: tk.scatter_nd([[i], [i + 1]], [1.0, 2.0], [5]),
    "unsorted_segment_sum": lambda i: tk.math.unsorted_segment_sum([1.0, 2.0], [i, i + 1], 4),
    "unsorted_segment_mean": lambda i: tk.math.unsorted_segment_mean([1.0, 2.0], [i, i], 4),
    "segment_max": lambda i: tk.ops.segment_max([1.0, 2.0], [i, i + 1], 4),
    "take": lambda i: tk.ops.take(np.arange(5), [[i, 0], [1, i]]),
    "take_along_axis": lambda i: tk.ops.take_along_axis(np.arange(5), [i, i + 1], axis=0),
    "scatter": lambda i: tk.ops.scatter([[i], [i + 1]], [1.0, 2.0], (5,)),
    "scatter_update": lambda i: tk.ops.scatter_update(X, [[i], [i + 1]], [1.0, 2.0]),
    "in_top_k": lambda i: tk.math.in_top_k([i, 0], [[1.0, 2.0], [3.0, 1.0]], 1),
}


@pytest.mark.parametrize("call", WITH_LISTS.values(), ids=WITH_LISTS)
def test_lists_of_graph_tensors_are_indices(call):
    i = tk.constant(1)
    np.testing.assert_array_equal(tk.function(call)(i), call(1))


def test_an_empty_list_of_indices_is_one_of_ints():
    assert tk.ops.take(X, []).shape == (0,)
    assert tk.function(lambda x: tk.ops.take(x, [[], []]))(X).shape == (2, 0)
    assert tk.ops.take(X, [np.zeros(0)]).shape == (1, 0)


def test_add_n_takes_what_gives_tensors():
    assert float(tk.add_n(tk.constant(float(i)) for i in range(3))) == 3.0
    assert float(tk.add_n({1: tk.constant(2.0), 2: tk.constant(3.0)}.values())) == 5.0
    with pytest.raises(ValueError, match="empty"):
        tk.add_n(iter([]))


def test_maps_of_nothing_have_the_shape_of_their_results():
    nothing = tk.zeros([0, 3])
    maps = (tk.map_fn, tk.function(tk.map_fn), tk.vectorized_map, tk.ops.map)
    for mapped in maps:
        rows, (sums, more) = mapped(lambda x: (x * 2, (tk.reduce_sum(x), x[0])), nothing)
        assert (rows.shape, sums.shape, more.shape) == ((0, 3), (0,), (0,))
        assert mapped(lambda x: tk.cast(x, tk.int32), nothing).dtype == tk.int32
    texts = tk.constant([], tk.string)
    assert tk.map_fn(tk.strings.length, texts, fn_output_signature=tk.int32).shape == (0,)
    assert tk.map_fn(lambda x: x, texts).dtype == tk.string
    carry, ys = tk.ops.scan(lambda c, x: (c + x[0], x), tk.constant(1.0), nothing)
    assert float(carry) == 1.0
    assert ys.shape == (0, 3)


def test_tensor_arrays_take_arrays_in_their_own_dtype():
    pair = np.array([1.0, 2.0])
    for dtype in (tk.float32, tk.float64):
        array = tk.TensorArray(dtype, 1).write(0, pair)
        assert array.stack().dtype == array.unstack(pair).stack().dtype == dtype
    assert tk.TensorArray(tk.int32, 1).write(0, np.int64(3)).read(0).dtype == tk.int32

    @tk.function
    def rows(n):
        array = tk.TensorArray(tk.float32, 0, dynamic_size=True)
        for i in tk.range(n):
            array = array.write(i, np.array([1.0, 2.0]))
        return array.stack()

    np.testing.assert_array_equal(rows(tk.constant(3)), [[1, 2]] * 3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="holds float32, the value is float64"):
        tk.TensorArray(tk.float32, 1).write(0, tk.constant(pair))
    with pytest.raises(tk.errors.InvalidArgumentError, match="holds string, the value is float64"):
        tk.TensorArray(tk.string, 1).write(0, pair)


def test_tensor_arrays_hold_texts():
    def texts(n):
        array = tk.TensorArray(tk.string, n + 1)
        for i in tk.range(n):
            array = array.write(i, tk.strings.as_string(i))
        return array.stack(), array.read(0), array.gather([1, 0]), array.size()

    for f in (texts, tk.function(texts)):
        stacked, first, picked, size = f(tk.constant(2))
        assert stacked.numpy().tolist() == [b"0", b"1", b""]
        assert (first.numpy(), picked.numpy().tolist(), int(size)) == (b"0", [b"1", b"0"], 3)
    pairs = tk.TensorArray(tk.string, 1).write(0, ["a", b"b"])
    assert pairs.unstack(pairs.stack()).read(0).numpy().tolist() == [b"a", b"b"]


def test_watched_variables_are_in_the_order_of_their_creation():
    made = [tk.Variable(float(i), name=f"v{i}") for i in range(4)]
    with tk.GradientTape() as tape:
        tape.watch(made[2])
        y = made[3] * made[1] + made[0]
    assert [v.name for v in tape.watched_variables()] == ["v0:0", "v1:0", "v2:0", "v3:0"]
    assert [float(g) for g in tape.gradient(y, tape.watched_variables()[:2])] == [1.0, 3.0]


def test_a_batch_size_beside_a_data_set_changes_nothing():
    model = tk.Sequential([tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    batches = tk.data.Dataset.from_tensor_slices((x, y)).batch(2)
    sizes = []
    size = tk.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: sizes.append(batch))
    model.fit(batches, batch_size=8, validation_data=batches, callbacks=[size], verbose=0)
    assert sizes == [0, 1, 2, 3]
    assert model.evaluate(batches, batch_size=8, verbose=0) > 0
    assert model.predict(batches, batch_size=8, verbose=0).shape == (8, 1)


def test_gather_of_sizes_that_are_not_known():
    table, rows = np.arange(12.0).reshape(2, 3, 2), np.array([[0, 2], [2, 1]])
    for shape, index in ((None, None), ([None] * 3, [None] * 2), ([2, None, None], [None, 2])):
        specs = [tk.TensorSpec(shape, tk.float64), tk.TensorSpec(index, tk.int64)]
        for axis in (1, -1, None):
            if axis == -1 and shape == [2, None, None]:
                continue
            f = tk.function(
                lambda x, i, axis=axis: tk.gather(x, i % 2, axis=axis, batch_dims=1),
                input_signature=specs,
            )
            wanted = tk.gather(table, rows % 2, axis=axis, batch_dims=1)
            np.testing.assert_array_equal(f(tk.constant(table), tk.constant(rows)), wanted)


def test_texts_are_formatted_when_a_function_runs():
    @tk.function
    def text(x):
        return tk.strings.format("{} and {}", (x, [1, 2]), summarize=2)

    assert text(tk.range(10)).numpy() == b"[0 1 ... 8 9] and [1 2]"
    assert text(tk.range(2)).numpy() == b"[0 1] and [1 2]"
    words = tk.function(lambda x: tk.strings.format("x=@@", x, placeholder="@@"))
    assert words(tk.constant(["a", "b"])).numpy() == b'x=["a" "b"]'


NAN = float("nan")


def test_numbers_come_before_nan():
    for x, best in (([1.0, NAN, 3.0], 2), ([NAN, 1.0, 3.0], 2), ([3.0, NAN, 1.0], 0)):
        for top_k in (tk.math.top_k, tk.function(tk.math.top_k)):
            values, places = top_k(tk.constant(x), 3)
            assert int(places[0]) == best == int(tk.argmax(x))
            np.testing.assert_array_equal(values, [3.0, 1.0, NAN])
            np.testing.assert_array_equal(np.array(x)[places], [3.0, 1.0, NAN])
    with tk.GradientTape() as tape:
        x = tk.Variable([1.0, NAN, 3.0])
        y = tk.reduce_sum(tk.math.top_k(x, 2).values)
    np.testing.assert_array_equal(tk.convert_to_tensor(tape.gradient(y, x)), [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tk.optimizers.Adafactor(0.1),
        lambda: tk.optimizers.LossScaleOptimizer(tk.optimizers.Adam(0.1)),
        lambda: tk.optimizers.LossScaleOptimizer(tk.optimizers.Adafactor(0.1)),
    ],
)
def test_h5_files_hold_the_state_of_every_optimizer(optimizer, tmp_path):
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(4), tk.layers.Dense(1)])
    model.compile(optimizer(), "mse")
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "x.h5")
    again = tk.models.load_model(tmp_path / "x.h5")
    assert type(again.optimizer) is type(model.optimizer)
    for one in (model, again):
        one.fit(x, y, verbose=0)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_trace_without_a_profile_needs_no_folder_for_one(tmp_path):
    with tk.summary.create_file_writer(tmp_path).as_default():
        tk.summary.trace_on()
        tk.function(lambda x: x + 1.0)(tk.constant(1.0))
        tk.summary.trace_export("step", step=0, profiler_outdir=tmp_path / "profile")
    assert [p.is_file() for p in tmp_path.iterdir()] == [True]


class Answering:
    """Has a method for each operator that has it on the right."""


OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor".split()
for _name in OPERATORS:
    setattr(Answering, f"__r{_name}__", lambda self, other, name=_name: (name, type(other)))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_leave_to_foreign_objects_what_these_do(name):
    apply = getattr(operator, {"and": "and_", "or": "or_"}.get(name, name))
    dtype = tk.bool if name in ("and", "or", "xor") else tk.float32
    x = tk.constant(np.array([1, 0]), dtype)
    for value in (x, tk.Variable(x), tk.Input((2,), dtype=dtype)):
        assert apply(value, Answering()) == (name, type(value))
        with pytest.raises((TypeError, ValueError), match="object"):
            apply(value, object())
    seen = []
    tk.function(lambda x: seen.append(apply(x, Answering())[0]))(x)
    assert seen == [name]
    with pytest.raises((TypeError, ValueError)):
        tk.add(x, Answering())


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_matrix", "csc_array"])
def test_models_take_sparse_matrices_of_scipy(kind):
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.eye(6, 4) * np.arange(1.0, 5.0)
    x, y = getattr(sparse, kind)(dense), sparse.csr_matrix(np.ones((6, 1)))
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    twin = tk.models.clone_model(model)
    twin.set_weights(model.get_weights())
    twin.compile("sgd", "mse")
    options = {"batch_size": 2, "verbose": 0, "shuffle": False, "validation_split": 0.34}
    history = model.fit(x, y, **options).history
    assert history == twin.fit(dense, np.ones((6, 1)), **options).history
    np.testing.assert_array_equal(model.predict(x, verbose=0), twin.predict(dense, verbose=0))
    assert model.evaluate(x, y, verbose=0) == twin.evaluate(dense, np.ones((6, 1)), verbose=0)
    assert model.train_on_batch(x, y) == twin.train_on_batch(dense, np.ones((6, 1)))
    np.testing.assert_array_equal(tk.constant(x), dense)


def test_jax_takes_tensors(monkeypatch):
    numbers = type("numbers", (), {"asarray": staticmethod(lambda x: ("of jax", x))})
    monkeypatch.setitem(sys.modules, "jax.numpy", numbers)
    for x in (tk.constant([1.0, 2.0]), tk.Variable([1.0, 2.0])):
        kind, array = x.__jax_array__()
        assert kind == "of jax"
        assert type(array) is np.ndarray
        assert array.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("call", [tk.numpy_function, tk.py_function])
def test_python_functions_give_any_shape_by_their_dtype_alone(call):
    counts = []

    def twice(x):
        counts.append(1)
        return x * 2

    @tk.function
    def plain(x):
        return call(twice, [x], tk.float32) + 1.0

    @tk.function
    def several(x):
        a, b = call(lambda x: (x[None] * 2, x[0]), [x], [tk.float32, tk.float32])
        c = call(lambda x: x + 1, [a], tk.float32)
        return tk.reduce_sum(c), b, tk.shape(c)

    @tk.function
    def shaped(x):
        return tk.reshape(call(lambda x: x[None] * 2, [x], tk.float32), [2, 1])[1]

    @tk.function
    def outer(x):
        total = x
        for _ in tk.range(3):
            shape = tk.TensorShape([None])
            tk.autograph.experimental.set_loop_options(shape_invariants=[(total, shape)])
            total = plain(total)
        return total

    x = tk.constant([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_array_equal(plain(x), [3.0, 5.0])
        assert [float(y) for y in several(x)[:2]] == [8.0, 1.0]
        assert several(x)[2].numpy().tolist() == [1, 2]
        np.testing.assert_array_equal(shaped(x), [4.0])
        np.testing.assert_array_equal(outer(x), [15.0, 23.0])
    assert len(counts) == 2 * (1 + 3)
    assert plain(tk.ones([5])).shape == (5,)
    assert float(plain(tk.constant(1.0))) == 3.0

    if call is tk.py_function:
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = plain(x)
        np.testing.assert_array_equal(tape.gradient(y, x), [2.0, 2.0])
    wrong = tk.function(lambda x: call(lambda x: x + [][0], [x], tk.float32))
    with pytest.raises(IndexError):
        wrong(x)


def test_a_first_run_of_another_rank_assigns_and_calls_once():
    calls, total = iter(range(10)), tk.Variable(0.0)

    @tk.function
    def step(x):
        total.assign_add(1.0)
        first = tk.numpy_function(lambda: np.full(2, next(calls), "float32"), [], tk.float32)
        second = tk.numpy_function(lambda a: np.outer(a, [1, next(calls)]), [first], tk.float64)
        return first, second

    assert [y.numpy().tolist() for y in step(1)] == [[0, 0], [[0, 0], [0, 0]]]
    assert [y.numpy().tolist() for y in step(1)] == [[2, 2], [[2, 6], [2, 6]]]
    assert float(total) == 2.0
