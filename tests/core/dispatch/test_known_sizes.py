"""Sizes that are known while a function is traced stay known through what is computed of them."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch.known_sizes import known_results
from trainkit.core.tensor import PRIMITIVES


def split_sizes(x):
    batch, steps, width = tk.unstack(tk.shape(x))
    return tk.reshape(x, [batch, steps, width // 2, 2])


def causal(x):
    batch, n = tk.shape(x)[0], tk.shape(x)[1]
    mask = tk.cast(tk.range(n)[:, None] >= tk.range(n), "int32")
    times = tk.concat([tk.expand_dims(batch, -1), tk.constant([1, 1])], 0)
    return tk.tile(tk.reshape(mask, (1, n, n)), times)


# The static shapes are those that TensorFlow 2.21 knows for an input of shape (None, 6, 4).
CASES = {
    "list": (lambda x: tk.reshape(x, [tk.shape(x)[0], tk.shape(x)[1] * tk.shape(x)[2]]), (24,)),
    "rest": (lambda x: tk.reshape(x, (-1, tk.shape(x)[1], 2, 2)), (6, 2, 2)),
    "stack": (lambda x: tk.reshape(x, tk.stack([tk.shape(x)[0], 24])), (24,)),
    "concat": (lambda x: tk.reshape(x, tk.concat([tk.shape(x)[:-1], [2, 2]], 0)), (6, 2, 2)),
    "zeros": (lambda x: tk.zeros(tk.shape(x)), (6, 4)),
    "int64": (lambda x: tk.zeros(tk.shape(x, out_type="int64")), (6, 4)),
    "broadcast": (lambda x: tk.broadcast_to(tk.ones((1, 4)), tk.shape(x)), (6, 4)),
    "tile": (lambda x: tk.tile(x, [1, tk.shape(x)[1], 1]), (36, 4)),
    "unstack": (split_sizes, (6, 2, 2)),
    "slice": (lambda x: x[:, : tk.shape(x)[1] - 1], (5, 4)),
    "fill": (lambda x: tk.fill(tk.shape(x)[:2], 1.0), (6,)),
    "normal": (lambda x: tk.random.normal(tk.shape(x)), (6, 4)),
    "one_hot": (lambda x: tk.one_hot(tk.zeros(tk.shape(x)[:1], "int32"), tk.shape(x)[1]), (6,)),
    "half": (lambda x: tk.reshape(x, [tk.shape(x)[0], tk.shape(x)[1] // 2, 8]), (3, 8)),
    "split": (lambda x: tk.split(x, [tk.shape(x)[1] - 2, 2], axis=1)[0], (4, 4)),
    "pad": (lambda x: tk.pad(x, [[0, 0], [0, tk.shape(x)[1]], [0, 0]]), (12, 4)),
    "gather": (lambda x: tk.reshape(x, tk.gather(tk.shape(x), [0, 2, 1])), (4, 6)),
    "twice": (lambda x: tk.zeros(tk.maximum(tk.shape(x) * 2, 1) - [0, 1, 2]), (11, 6)),
    "reshaped": (lambda x: tk.zeros(tk.reshape(tk.shape(x)[None], [-1])), (6, 4)),
    "causal": (causal, (6, 6)),
}


@pytest.mark.parametrize("case", CASES)
def test_shapes_made_of_sizes_are_known(case, rng):
    f, expected = CASES[case]
    x = rng.normal(size=(3, 6, 4)).astype("float32")

    class Inside(tk.layers.Layer):
        def call(self, inputs):
            return f(inputs)

    i = tk.keras.Input((6, 4))
    y = Inside()(i)
    assert y.shape == (None, *expected)
    traced = tk.function(f, input_signature=[tk.TensorSpec([None, 6, 4])])
    assert traced.get_concrete_function().outputs[0].shape == (None, *expected)
    found, wanted = (tk.keras.Model(i, y)(x), traced(x)), f(tk.constant(x))
    assert all(each.shape == wanted.shape for each in found)
    if case != "normal":
        assert all(np.array_equal(each, wanted) for each in found)


def test_what_is_made_of_known_sizes_alone_is_a_constant():
    seen = []

    @tk.function(input_signature=[tk.TensorSpec([None, 6, 4])])
    def f(x):
        n = tk.shape(x)[1]
        seen.append((n.numpy(), tk.range(n).shape, tk.eye(n).shape, tk.size(x[0]).numpy()))
        assert not hasattr(tk.shape(x)[0], "numpy")
        assert not hasattr(tk.shape(x)[0] * n, "numpy")
        assert tk.shape(x)[:2].shape == (2,)
        return tk.shape(x)[0] * n

    assert f(np.ones((2, 6, 4), "float32")) == 12
    assert seen == [(6, (6,), (6, 6), 24)]


def test_a_layer_after_such_a_shape_is_built():
    class Heads(tk.layers.Layer):
        def call(self, x):
            size = tk.shape(x)
            return tk.reshape(x, [size[0], size[1] * size[2]])

    i = tk.keras.Input((6, 4))
    model = tk.keras.Model(i, tk.layers.Dense(2)(Heads()(i)))
    assert model.layers[-1].kernel.shape == (24, 2)
    assert model.predict(np.ones((5, 6, 4)), verbose=0).shape == (5, 2)


def test_loops_over_a_known_number_of_rows_are_not_unrolled():
    @tk.function(input_signature=[tk.TensorSpec([None, 300])])
    def f(x):
        total, i = tk.zeros([tk.shape(x)[0]]), tk.constant(0)
        for t in tk.range(tk.shape(x)[1]):
            total += x[:, t]
        while i < tk.shape(x)[1]:
            total += x[:, i]
            i += 1
        rows = tk.TensorArray(tk.float32, size=tk.shape(x)[1])
        for t in tk.range(tk.shape(x)[1]):
            rows = rows.write(t, x[0, t])
        return total, rows.stack()

    assert len(f.get_concrete_function().graph.get_operations()) < 40
    total, rows = f(np.ones((2, 300), "float32"))
    np.testing.assert_array_equal(total, [600.0, 600.0])
    np.testing.assert_array_equal(rows, np.ones(300))


def test_what_can_not_be_computed_is_left_to_the_operation():
    @tk.function(input_signature=[tk.TensorSpec([None, 6])])
    def f(x):
        return tk.shape(x)[2]

    with pytest.raises(IndexError, match=r"index 2 of dimension 0 out of bounds|out of range"):
        f(np.ones((2, 6), "float32"))


def test_nothing_is_known_of_data():
    seen = []

    @tk.function(input_signature=[tk.TensorSpec([4], "int32"), tk.TensorSpec([], "int32")])
    def f(x, n):
        seen.append(known_results(PRIMITIVES["add"], (x, n), {}))
        seen.append(known_results(PRIMITIVES["stack"], (n, n), {"axis": 0}))
        return tk.stack([n, 3]) + x[:2]

    np.testing.assert_array_equal(f(np.arange(4, dtype="int32"), 5), [5, 4])
    assert seen == [None, None]
