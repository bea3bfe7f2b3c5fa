"""Branches, loops and maps on symbols of a model: they stand in it whole, run, save and load."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops
from trainkit.keras import Input, KerasTensor, Model, layers

X = np.arange(6, dtype="float32").reshape(2, 3)


@keras.saving.register_keras_serializable("one_node")
def twice(x, *more):
    return x * 2


@keras.saving.register_keras_serializable("one_node")
def shifted(x, *more):
    return x + 1


@keras.saving.register_keras_serializable("one_node")
def both(x):
    return {"b": x * 2, "a": x + 1}


@keras.saving.register_keras_serializable("one_node")
def body(i, value):
    return value + 1


@keras.saving.register_keras_serializable("one_node")
def next_round(i, value):
    return i + 1, value * 2


@keras.saving.register_keras_serializable("one_node")
def below_three(i, value):
    return i < 3


@keras.saving.register_keras_serializable("one_node")
def carried(carry, x):
    return carry + x, carry * x


@keras.saving.register_keras_serializable("one_node")
def doubled(carry, nothing):
    return carry * 2, carry


@keras.saving.register_keras_serializable("one_node")
def added(a, b):
    return a + b


@keras.saving.register_keras_serializable("one_node")
def ones():
    return ops.ones((2, 3))


@keras.saving.register_keras_serializable("one_node")
def zeros():
    return ops.zeros((2, 3))


CALLS = {
    "cond": (lambda x: ops.cond(ops.sum(x) > 3, ones, zeros), np.ones_like(X)),
    "switch": (lambda x: ops.switch(ops.cast(ops.sum(x), "int32"), [twice, shifted], x), X + 1),
    "while_loop": (lambda x: ops.while_loop(below_three, next_round, (0, x))[1], X * 8),
    "while_loop of a symbol": (
        lambda x: ops.while_loop(below_three, next_round, [0, x], maximum_iterations=2)[1],
        X * 4,
    ),
    "fori_loop": (lambda x: ops.fori_loop(1, 4, body, x), X + 3),
    "map": (lambda x: ops.map(both, x)["b"], X * 2),
    "vectorized_map": (lambda x: ops.vectorized_map(both, x)["a"], X + 1),
    "scan": (lambda x: ops.scan(carried, ops.zeros((3,)), x)[0], X.sum(0)),
    "scan of nothing": (lambda x: ops.scan(doubled, x, length=3)[1], np.stack([X, X * 2, X * 4])),
    "scan backwards": (
        lambda x: ops.scan(carried, ops.ones((3,)), x, reverse=True)[1],
        np.stack([(1 + X[1]) * X[0], X[1]]),
    ),
    "associative_scan": (lambda x: ops.associative_scan(added, x), X.cumsum(0)),
    "associative_scan back": (
        lambda x: ops.associative_scan(added, x, reverse=True, axis=1),
        X[:, ::-1].cumsum(1)[:, ::-1],
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_model_runs_saves_and_loads(case, tmp_path):
    call, wanted = CALLS[case]
    x = Input((3,))
    model = Model(x, call(x))
    assert np.allclose(model(X), wanted)
    assert np.allclose(tk.function(model)(X), wanted)
    again = Model.from_config(model.get_config())
    assert np.allclose(again(X), wanted)
    model.save(tmp_path / "model.keras")
    assert np.allclose(keras.models.load_model(tmp_path / "model.keras")(X), wanted)
    if case not in ("cond", "scan of nothing"):  # whose results are no batches
        assert np.allclose(model.predict(X, verbose=0), wanted)


@pytest.mark.parametrize("case", CALLS)
def test_a_layer_does_the_same_in_its_call(case):
    call, wanted = CALLS[case]

    class Inside(layers.Layer):
        def call(self, x):
            return call(x)

    x = Input((3,))
    assert np.allclose(Model(x, Inside()(x))(X), wanted)


def test_shapes_and_dtypes_of_symbols():
    x, n = KerasTensor((None, 5), "float16"), KerasTensor((), "int32")
    found = ops.map(lambda row: {"b": row[:2], "a": ops.sum(row)}, x)
    assert {k: (v.shape, v.dtype) for k, v in found.items()} == {
        "a": ((None,), "float16"),
        "b": ((None, 2), "float16"),
    }
    carry, rows = ops.scan(lambda c, r: (c + r, r[:2]), KerasTensor((5,), "float16"), x)
    assert (carry.shape, rows.shape) == ((5,), (None, 2))
    pair = ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (n, x))
    assert [v.shape for v in pair] == [(), (None, 5)]
    assert ops.switch(n, [lambda v: v, lambda v: v * 2], x).shape == (None, 5)
    one, two = ops.vectorized_map(lambda r: (r[0] + r[1], r[0]), (x, x))
    assert (one.shape, two.dtype) == ((None, 5), "float16")


def test_a_whole_call_is_one_operation_of_the_model():
    x = Input((3,))
    model = Model(x, ops.fori_loop(0, 3, body, x))
    assert [op.name.partition("_loop")[0] for op in model._graph.operations][1:] == ["fori"]


def test_branches_must_agree_and_functions_must_not_take_symbols_from_outside():
    pred, x = KerasTensor((), "bool"), KerasTensor((2, 3))
    with pytest.raises(ValueError, match="other shapes"):
        ops.cond(pred, lambda: ops.ones((3,)), lambda: ops.zeros((4,)))
    with pytest.raises(ValueError, match="from outside"):
        ops.cond(pred, lambda: x * 2, lambda: x + 1)
    with pytest.raises(ValueError, match="from outside"):
        ops.map(lambda row: x, x)


def test_lambdas_are_refused_when_a_model_is_read():
    x = Input((3,))
    with pytest.warns(UserWarning, match="lambda"):
        config = Model(x, ops.map(lambda row: row * 2, x)).get_config()
    with pytest.raises((ValueError, TypeError), match=r"lambda|safe_mode"):
        Model.from_config(config)


def test_sizes_along_the_axis_of_a_scan_must_agree():
    for a, b in (
        (ops.ones((3,)), ops.ones((4,))),
        (KerasTensor((None, 5)), KerasTensor((None, 4))),
    ):
        with pytest.raises(ValueError, match="one size"):
            ops.associative_scan(lambda p, q: (p[0] + q[0], p[1] + q[1]), (a, b), axis=-1)
    for unroll in (-1, 0, 1.5):
        with pytest.raises(ValueError, match="unroll"):
            ops.scan(carried, ops.zeros(()), ops.ones((3,)), unroll=unroll)
