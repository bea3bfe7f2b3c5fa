"""Loops over `range(n)` take rows and write rows without a search or a copy in each round."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.passes import optimised

XS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
V = tk.Variable(XS * 0.5)


def taken(x):
    h = x[0]
    for i in tk.range(4):
        h = tk.tanh(h * x[i] + tk.gather(x, i) + V[i])
    return h


def of_a_longer_tensor(x):
    h = x[0]
    for i in tk.range(2):
        h = h * x[i]
    return h


def of_a_constant(x):
    constant = tk.constant(XS)
    h = x[0]
    for i in tk.range(4):
        h = h + constant[i] * x[i]
    return h


def written(x):
    array = tk.TensorArray(tk.float64, size=4)
    h = x[0]
    for i in tk.range(4):
        h = tk.sin(h) + x[i]
        array = array.write(i, h * h)
    return array.stack() * h


def two_written(x):
    one = tk.TensorArray(tk.float64, size=4, element_shape=[3])
    two = tk.TensorArray(tk.float64, size=4)
    count = tk.constant(0)
    for i in tk.range(4):
        one = one.write(i, x[i] * 2.0)
        count += 1
        two = two.write(i, tk.reduce_sum(x[i]) * tk.cast(count, tk.float64))
    return one.stack() * two.stack()[:, None]


def written_and_read(x):
    array = tk.TensorArray(tk.float64, size=4, element_shape=[3])
    total = x[0] * 0.0
    for i in tk.range(4):
        array = array.write(i, x[i])
        total = total + array.read(0)
    return total * array.stack()


def written_elsewhere(x):
    array = tk.TensorArray(tk.float64, size=5, element_shape=[3])
    for i in tk.range(4):
        array = array.write(i + 1, x[i] * x[i])
    return array.stack()


def counted_from_one(x):
    h = x[0]
    for i in tk.range(1, 4):
        h = h * 0.5 + x[i]
    return h


def assigned_variable(x):
    v = V.value() * 0.0
    for i in tk.range(4):
        v = v + x[i] * tk.cast(i, tk.float64)
    return v


ALL = [
    taken,
    of_a_longer_tensor,
    of_a_constant,
    written,
    two_written,
    written_and_read,
    written_elsewhere,
    counted_from_one,
    assigned_variable,
]


def two_gradients(f, x):
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
            loss = tk.reduce_sum(y**2)
        first = inner.gradient(loss, [x, V], unconnected_gradients="zero")
        length = tk.reduce_sum(first[0] ** 2) + tk.reduce_sum(first[1] ** 2)
    return (y, *first, *outer.gradient(length, [x, V], unconnected_gradients="zero"))


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_values_and_gradients_are_the_eager_ones(f):
    x = tk.constant(XS)
    expected = two_gradients(f, x)
    traced = tk.function(f)
    np.testing.assert_array_equal(traced(x).numpy(), expected[0].numpy())
    inside = tk.function(lambda x: two_gradients(f, x))(x)
    for a, b, c in zip(expected, inside, two_gradients(traced, x), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-10, atol=1e-12)


def body_of(f):
    graph = optimised(tk.function(f).get_concrete_function(tk.constant(XS)).graph)
    (loop,) = [node for node in graph.nodes if node.kind == "op" and node.type == "Scan"]
    names = [n.primitive.name for n in loop.settings["body"].nodes if n.kind == "op"]
    return loop, names


@pytest.mark.parametrize("f", [taken, of_a_longer_tensor, of_a_constant])
def test_rows_are_fed(f):
    loop, names = body_of(f)
    assert not {"get_item_at", "take"} & set(names)
    assert loop.settings["fed"] > 1


@pytest.mark.parametrize("f", [written, two_written])
def test_rows_are_stacked(f):
    _, names = body_of(f)
    assert "tensor_array_write" not in names


@pytest.mark.parametrize("f", [written_and_read, written_elsewhere])
def test_an_array_that_is_read_or_written_elsewhere_stays(f):
    _, names = body_of(f)
    assert "tensor_array_write" in names


def test_a_row_that_is_not_there_is_still_an_error():
    @tk.function
    def f(x):
        h = x[0]
        for i in tk.range(5):
            h = h + x[i]
        return h

    with pytest.raises(tk.errors.InvalidArgumentError, match=r"4.*out of bounds|range"):
        f(tk.constant(XS))
