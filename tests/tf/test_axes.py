"""Axes that are tensors, known and not: values, gradients, ranks, and what is refused."""

import functools

import numpy as np
import pytest

import trainkit as tk

X = np.random.default_rng(3).uniform(-2, 2, (2, 3, 4))
REDUCTIONS = {
    name: getattr(tk.math, name)
    for name in (
        "reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_logsumexp reduce_std "
        "reduce_variance reduce_euclidean_norm"
    ).split()
}
SMOOTH = {
    **REDUCTIONS,
    "concat": lambda x, a: tk.concat([x, tk.exp(x)], a),
    "cumsum": lambda x, a: tk.cumsum(x, a, reverse=True),
    "cumprod": lambda x, a: tk.math.cumprod(x, a),
    "cumulative_logsumexp": lambda x, a: tk.math.cumulative_logsumexp(x, a),
    "expand_dims": tk.expand_dims,
    "gather": lambda x, a: tk.gather(x, [1, 0, 1], axis=a),
    "split": lambda x, a: tk.split(x, 3, a),
    "split by sizes": lambda x, a: tk.split(x, [5, 7], a),
    "l2_normalize": tk.math.l2_normalize,
    "linspace": lambda x, a: tk.linspace(x, x + 1.0, 3, axis=a),
    "tensordot": lambda x, a: tk.tensordot(x, tk.ones([12, 2], tk.float64), [[a], [0]]),
    "crelu": lambda x, a: tk.nn.crelu(x, a),
}
CUT = ("split", "split by sizes", "tensordot")  # need one size along all axes
OTHERS = {
    "reduce_any": lambda x, a: tk.reduce_any(x > 0, a),
    "reduce_all": lambda x, a: tk.reduce_all(x > 0, a),
    "reduce_sum of integers": lambda x, a: tk.reduce_sum(tk.cast(x, tk.int8), a),
    "reduce_mean of integers": lambda x, a: tk.reduce_mean(tk.cast(x * 4, tk.int32), a),
    "count_nonzero": lambda x, a: tk.math.count_nonzero(x > 0, a),
    "argmax": lambda x, a: tk.argmax(x, a, output_type=tk.int32),
    "argmin": tk.argmin,
}


def given(name):
    return tk.tile(tk.constant(X), [6, 4, 3]) if name in CUT else tk.constant(X)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", [*SMOOTH, *OTHERS])
def test_the_result_is_that_of_the_number(name, axis):
    f = {**SMOOTH, **OTHERS}[name]
    x = given(name)
    graph = tk.function(f)
    expected = tk.nest.flatten(f(x, axis))
    assert_same(tk.nest.flatten(graph(x, tk.constant(axis))), expected)
    assert_same(tk.nest.flatten(f(x, tk.constant(axis))), expected)
    outputs = graph.get_concrete_function(x, tk.constant(axis)).outputs
    assert [len(y.shape) for y in outputs] == [len(y.shape) for y in expected]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_the_number(name):
    f = SMOOTH[name]

    def slope(x, axis):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.add_n([tk.reduce_sum(y * y) for y in tk.nest.flatten(f(x, axis))])
        return tape.gradient(y, x)

    x = given(name)
    found = tk.function(slope)(x, tk.constant(1))
    np.testing.assert_allclose(found.numpy(), slope(x, 1).numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [True, False])
def test_several_axes_as_a_list_with_a_tensor_or_as_one_tensor(name, keepdims):
    reduce = REDUCTIONS[name]
    expected = reduce(tk.constant(X), [0, 2], keepdims)
    for axes in (lambda a: [0, a], lambda a: tk.stack([0, a])):
        graph = tk.function(lambda x, a, axes=axes: reduce(x, axes(a), keepdims))
        assert_same([graph(tk.constant(X), tk.constant(2))], [expected])


def test_one_trace_serves_all_axes():
    f = tk.function(tk.reduce_sum)
    assert [f(tk.constant(X), tk.constant(a)).shape for a in range(3)] == [(3, 4), (2, 4), (2, 3)]
    assert f.experimental_get_tracing_count() == 1


def test_the_number_of_axes_is_known_or_they_stay():
    f = tk.function(lambda x, n: tk.reduce_sum(x, tk.range(n)))
    with pytest.raises(
        tk.errors.InvalidArgumentError,
        match=r"sum: the number of axes must be known while a graph is traced, the axes are a "
        r"tensor of shape \(None,\); give a tensor of known length, or keepdims=True",
    ):
        f(tk.constant(X), tk.constant(2))
    f = tk.function(lambda x, n: tk.reduce_sum(x, tk.range(n), keepdims=True))
    assert f(tk.constant(X), tk.constant(2)).shape == (1, 1, 4)
    f = tk.function(lambda x, n: tk.tensordot(x, x, tk.reshape(tk.range(n), [2, -1])))
    with pytest.raises(
        tk.errors.InvalidArgumentError,
        match=r"tensordot: the number of axes must be known while a graph is traced, axes is a "
        r"tensor of shape \(2, None\); give a pair of lists, or a tensor \(2, n\) with n known",
    ):
        f(tk.constant(X), tk.constant(2))


def test_more_axes_than_there_are():
    f = tk.function(lambda x, a: tk.reduce_sum(x, [a, a]))
    with pytest.raises(
        tk.errors.InvalidArgumentError,
        match=r"sum: there are more axes to reduce than a tensor of shape \(3,\) has",
    ):
        f(tk.ones([3]), tk.constant(0))


def test_an_axis_out_of_range_is_told_when_the_graph_runs():
    f = tk.function(tk.reduce_sum)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"sum: axis 3 is out of range"):
        f(tk.constant(X), tk.constant(3))


def test_the_size_of_a_known_shape_is_a_number_while_tracing():
    f = tk.function(lambda x: tk.reduce_sum(x, tk.size(x) - 23))
    assert f.get_concrete_function(tk.constant(X)).output_shapes.as_list() == [2, 4]
    sizes = tk.function(lambda x: tk.size(x, tk.int64), input_signature=[tk.TensorSpec([None, 2])])
    assert int(sizes(tk.ones([3, 2]))) == 6
    assert sizes(tk.ones([3, 2])).dtype == tk.int64


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_truth_values_are_counted_in_every_dtype(dtype, axis):
    mask = np.arange(900).reshape(30, 30) % 3 > 0
    count = np.count_nonzero(mask, axis)
    counted = tk.math.count_nonzero(mask, axis, dtype=dtype)
    compiled = tk.function(lambda m: tk.math.count_nonzero(m, axis, dtype=dtype))(mask)
    for tensor in (counted, compiled):
        assert tensor.dtype.name == dtype
        np.testing.assert_array_equal(tensor.numpy(), np.asarray(count).astype(dtype))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 5)])
def test_the_sum_of_truth_values_is_int32(shape, keepdims):
    mask = np.ones(shape, bool)
    total = tk.ops.sum(mask, keepdims=keepdims)
    assert total.dtype.name == "int32"
    assert total.shape == ((1,) * len(shape) if keepdims else ())
    assert int(tk.reshape(total, ())) == mask.size


@pytest.mark.parametrize("index", [-1, 4])
def test_gather_of_batches_names_the_index_outside(index):
    rows = np.zeros((2, 3), np.int32)
    rows[1, 2] = index
    message = rf"indices\[1,2\] = {index} is not in \[0, 4\)"
    with pytest.raises(tk.errors.InvalidArgumentError, match=message):
        tk.gather(np.ones((2, 4)), rows, axis=1, batch_dims=1)
    assert tk.gather(np.ones((2, 4)), rows[:, :0], axis=1, batch_dims=1).shape == (2, 0)


@pytest.mark.parametrize(
    ("shape", "rows", "axis", "batch"),
    [
        ((2, 4, 3), (2, 3), 1, 1), ((2, 4, 3), (2, 3), 2, 1), ((2, 4, 3), (2,), 1, 1),
        ((2, 3, 4, 5), (2, 3, 6), 3, 2), ((2, 3, 4, 5), (2,), 3, 1), ((0, 4), (0, 3), 1, 1),
    ],
)  # fmt: skip
def test_gather_of_batches_takes_from_each_entry(shape, rows, axis, batch, rng):
    x, indices = rng.random(shape), rng.integers(0, shape[axis], rows).astype("int32")
    entries = [np.take(x[i], indices[i], axis - batch) for i in np.ndindex(*shape[:batch])]
    call = functools.partial(tk.gather, axis=axis, batch_dims=batch)
    source = tk.constant(x)
    with tk.GradientTape() as tape:
        tape.watch(source)
        picked = call(source, indices)
    np.testing.assert_array_equal(picked, np.reshape(entries, picked.shape))
    np.testing.assert_array_equal(tk.function(call)(source, tk.constant(indices)), picked)
    assert tape.gradient(picked, source).numpy().sum() == picked.numpy().size
