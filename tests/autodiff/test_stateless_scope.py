"""`keras.StatelessScope`: reads and assignments inside go to its mapping."""

import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops


def pair():
    return keras.Variable(np.zeros(2), dtype="float32"), tk.Variable([1.0, 2.0])


def test_values_inside_are_those_of_the_mapping():
    a, b = pair()
    with keras.StatelessScope([(a, [3, 4])]) as scope:
        total = a + b
        b.assign(total)
        a.assign_add([1.0, 1.0])
        b.assign_sub([1.0, 1.0])
        np.testing.assert_allclose((a + b).numpy(), [7, 10])
        np.testing.assert_allclose(a.numpy(), [4, 5])
        np.testing.assert_allclose(np.asarray(b), [3, 5])
        with keras.StatelessScope():
            np.testing.assert_allclose(b.numpy(), [3, 5])
    np.testing.assert_allclose(a.numpy(), [0, 0])
    np.testing.assert_allclose(b.numpy(), [1, 2])
    np.testing.assert_allclose(scope.get_current_value(a).numpy(), [4, 5])
    np.testing.assert_allclose(scope.get_current_value(b).numpy(), [3, 5])
    assert scope.get_current_value(tk.Variable(1.0)) is None


def test_a_scope_inside_another_begins_with_its_values():
    a, _ = pair()
    with keras.StatelessScope([(a, [1, 1])]) as outer:
        with keras.StatelessScope() as inner:
            a.assign_add([1.0, 1.0])
        np.testing.assert_allclose((a + 0).numpy(), [1, 1])
    np.testing.assert_allclose(inner.get_current_value(a).numpy(), [2, 2])
    np.testing.assert_allclose(outer.get_current_value(a).numpy(), [1, 1])


def test_an_error_inside_leaves_all_as_it_was():
    a, _ = pair()

    def fail():
        with keras.StatelessScope([(a, [1, 1])]):
            a.assign([5, 5])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    np.testing.assert_allclose((a + 0).numpy(), [0, 0])
    assert tk.executing_eagerly()


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_and_gradients_see_the_values(compiled):
    _, b = pair()

    def step(x):
        b.assign_add(x)
        return ops.sum(b * b)

    called = tk.function(step) if compiled else step
    called(tk.zeros(2))
    called(tk.zeros(2))
    with keras.StatelessScope([(b, [3.0, 4.0])]) as scope:
        assert float(called(tk.ones(2))) == 41
        assert float(called(tk.zeros(2))) == 41
        with tk.GradientTape() as tape:
            loss = ops.sum(b * b)
        np.testing.assert_allclose(tape.gradient(loss, b).numpy(), [8, 10])
    np.testing.assert_allclose(b.numpy(), [1, 2])
    np.testing.assert_allclose(scope.get_current_value(b).numpy(), [4, 5])
    assert float(called(tk.zeros(2))) == 5


def test_inside_a_traced_function():
    _, b = pair()

    @tk.function
    def f(x):
        with keras.StatelessScope([(b, x)]) as scope:
            b.assign_add(x)
            y = ops.sum(b * b)
        return y, scope.get_current_value(b), b + 0.0

    for _ in range(2):
        y, new, own = f(tk.constant([1.0, 2.0]))
        assert float(y) == 20
        np.testing.assert_allclose(new.numpy(), [2, 4])
        np.testing.assert_allclose(own.numpy(), [1, 2])


def test_layers_metrics_optimizers_and_seeds_do_not_change():
    layer = keras.layers.BatchNormalization()
    layer.build((None, 3))
    metric = keras.metrics.Mean()
    optimizer = keras.optimizers.Adam(0.1)
    weight = keras.Variable(np.ones(2), dtype="float32")
    optimizer.build([weight])
    dropout = keras.layers.Dropout(0.5, seed=1)
    dropout(tk.ones((2, 2)), training=True)
    owned = [*layer.variables, *metric.variables, *optimizer.variables, weight, *dropout.variables]
    before = [v.numpy().copy() for v in owned]
    with keras.StatelessScope() as scope:
        layer(np.arange(6.0).reshape(2, 3), training=True)
        metric.update_state([1.0, 3.0])
        metric.update_state(5.0)
        assert float(metric.result()) == 3
        optimizer.apply_gradients([(tk.ones(2), weight)])
        dropout(tk.ones((2, 2)), training=True)
    for v, value in zip(owned, before, strict=True):
        np.testing.assert_array_equal(v.numpy(), value)
    np.testing.assert_allclose(scope.get_current_value(weight).numpy(), [0.9, 0.9], atol=1e-5)
    assert scope.get_current_value(layer.moving_mean) is not None
    assert scope.get_current_value(metric.total) is not None


def test_what_does_not_fit_is_refused():
    a, _ = pair()
    with pytest.raises(ValueError, match="must be Variable"):
        keras.StatelessScope([("a", 1.0)])
    with pytest.raises(ValueError, match=r"\(2,\), its value \(3,\)"):
        keras.StatelessScope([(a, np.ones(3))])
    with pytest.raises(tk.errors.UnimplementedError, match="initialize_variables"):
        keras.StatelessScope(initialize_variables=False)


def _calls_beside_operations(x, table):
    tk.print("x is", x, output_stream=sys.stdout)
    table.insert(["seen"], [1])
    doubled = tk.py_function(lambda value: value * 2.0, [x], tk.float32)
    halved = tk.numpy_function(lambda array: array * np.float32(0.5), [x], tk.float32)
    first = next(iter(tk.data.Dataset.range(5, 8)))
    assert tk.executing_eagerly()
    assert not tk.inside_function()
    assert float(tk.timestamp()) > 0
    assert int(table.lookup(["seen"])[0]) == 1
    return doubled + halved + tk.cast(first, "float32")


def test_outside_of_graphs_a_scope_runs_prints_host_calls_tables_and_iterators_at_once(capsys):
    table = tk.lookup.experimental.MutableHashTable(tk.string, tk.int64, -1)
    with tk.keras.StatelessScope():
        assert float(_calls_beside_operations(tk.constant(4.0), table)) == 15.0
    again = tk.recompute_grad(lambda x: x * _calls_beside_operations(x, table))
    with tk.GradientTape() as tape:
        x = tk.constant(4.0)
        tape.watch(x)
        y = again(x)
    assert float(y) == 60.0
    # 15 for the factor x, and x times the 2 of the call whose gradient is known
    assert float(tape.gradient(y, x)) == 23.0
    assert capsys.readouterr().out == "x is 4\n" * 3
