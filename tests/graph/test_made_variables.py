"""Variables that a traced function makes: once and kept, or refused."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

ONE = tk.constant(1.0)
ROW = tk.ones([1, 2])


def local(x):
    v = tk.Variable(0.0)
    v.assign_add(x)
    return v


def only_a_number(x):
    return x + tk.Variable(2.0).value()


def before_the_trace(x):
    with tk.init_scope():
        v = tk.Variable(0.0)
    return v + x


def layer(x):
    return keras.layers.Dense(2)(x)


def state_of_a_layer(x):
    return keras.layers.Dropout(0.5)(x, training=True)


def optimizer(x):
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.apply_gradients([(x, KEPT)])
    return KEPT.value()


def in_a_branch(x):
    if x > 0:
        v = tk.Variable(1.0)
        x = x + v.value()
    return x


def in_a_loop(x):
    for i in tk.range(3):
        x = x + tk.Variable(1.0).value() * tk.cast(i, "float32")
    return x


def by_nested_function(x):
    return tk.function(local)(x)


def by_object_of_each_call(x):
    kept = Once()
    return tk.function(kept.add)(x)


def put_in_a_list(x):
    MANY.append(tk.Variable(0.0))
    return MANY[-1].assign_add(x)


class Once:
    v = None

    def add(self, x):
        if self.v is None:
            self.v = tk.Variable(1.0)
        return self.v.assign_add(x)


class Anew:
    def __call__(self, x):
        self.v = tk.Variable(0.0)
        return self.v.assign_add(x)


KEPT = keras.Variable(1.0)
MANY = []


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (local, ONE),
        (only_a_number, ONE),
        (before_the_trace, ONE),
        (layer, ROW),
        (state_of_a_layer, ROW),
        (optimizer, ONE),
        (in_a_branch, ONE),
        (in_a_loop, ONE),
        (by_nested_function, ONE),
        (by_object_of_each_call, ONE),
        (put_in_a_list, ONE),
        (Anew(), ONE),
    ],
)
@pytest.mark.parametrize("get", [False, True], ids=["called", "concrete"])
def test_a_variable_of_each_call_is_refused(function, x, get):
    traced = tk.function(function)
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ValueError, match=r"variable|call"):
            (traced.get_concrete_function if get else traced)(x)
    assert not traced.concrete_functions()


def test_the_text_says_which_variable_where_and_what_to_do():
    with pytest.raises(
        ValueError, match=r"'local' makes the variable 'Variable' on each call"
    ) as e:
        tk.function(local)(ONE)
    assert "test_made_variables.py" in str(e.value)
    assert ", in local" in str(e.value)
    assert "if self.v is None" in str(e.value)


def test_a_variable_made_once_is_kept():
    eager, kept = Once(), Once()
    traced = tk.function(kept.add)
    for x in (1.0, 2.0, 4.0):
        assert float(traced(tk.constant(x))) == float(eager.add(tk.constant(x)))
    assert float(kept.v) == float(eager.v) == 8.0
    assert traced.experimental_get_tracing_count() == 1


def test_what_holds_only_while_variables_are_made_is_not_in_the_graph():
    holder = {}

    @tk.function
    def f(x):
        if "v" not in holder:
            holder["v"] = tk.Variable(10.0)
            x = x * 100.0
        return x + holder["v"]

    assert [float(f(ONE)), float(f(ONE))] == [11.0, 11.0]


def test_layers_build_themselves_inside():
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    traced = tk.function(lambda x: model(x, training=True))
    traced(ROW)
    assert len(model.weights) >= 2
    assert traced.experimental_get_tracing_count() == 1
    kernel = model.layers[0].kernel
    kernel.assign(tk.zeros([2, 3]))
    assert traced(ROW).numpy().tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_optimizers_build_themselves_inside(name):
    def losses(wrap):
        keras.utils.set_random_seed(3)
        layer = keras.layers.Dense(1)
        optimizer = getattr(keras.optimizers, name)(0.1)

        def step(x):
            with tk.GradientTape() as tape:
                loss = tk.reduce_mean(tk.square(layer(x) - 1.0))
            optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.weights)
            return loss

        step = wrap(step)
        return [float(step(ROW)) for _ in range(4)], int(optimizer.iterations)

    (eager, count), (traced, traced_count) = losses(lambda f: f), losses(tk.function)
    np.testing.assert_allclose(traced, eager, rtol=1e-5)
    assert count == traced_count == 4


def test_a_metric_builds_itself_inside():
    metric = keras.metrics.AUC()
    traced = tk.function(metric.update_state)
    for _ in range(2):
        traced(tk.constant([0.0, 1.0]), tk.constant([0.2, 0.7]))
    assert float(metric.result()) == 1.0


def test_a_nested_function_makes_its_variable_once():
    kept = Once()
    inner = tk.function(kept.add)
    outer = tk.function(lambda x: inner(x) + inner(x))
    assert float(outer(ONE)) == 5.0
    assert float(outer(ONE)) == 9.0
    assert float(kept.v) == 5.0


def test_a_variable_under_a_python_condition_is_made_when_that_holds():
    @tk.function
    def f(x, scaled):
        if scaled and not holder:
            holder.append(tk.Variable(3.0))
        return x * holder[0] if scaled else x

    holder = []
    assert float(f(ONE, True)) == 3.0
    holder[0].assign(4.0)
    assert [float(f(ONE, True)), float(f(ONE, False))] == [4.0, 1.0]


def test_layers_build_themselves_on_a_later_signature():
    first, second = keras.layers.Dense(2), keras.layers.Dense(3)
    traced = tk.function(lambda x, which: (first if which else second)(x))
    assert traced(ROW, True).shape == (1, 2)
    assert traced(ROW, False).shape == (1, 3)
    second.kernel.assign(tk.zeros([2, 3]))
    assert traced(ROW, False).numpy().tolist() == [[0.0, 0.0, 0.0]]


def test_a_local_layer_on_a_later_signature_is_refused():
    first = keras.layers.Dense(2)
    traced = tk.function(lambda x, which: (first if which else keras.layers.Dense(3))(x))
    traced(ROW, True)
    with pytest.raises(ValueError, match="on each call"):
        traced(ROW, False)
    assert traced(ROW, True).shape == (1, 2)


def test_variables_may_be_made_after_a_refusal():
    with pytest.raises(ValueError, match="on each call"):
        tk.function(local)(ONE)
    assert float(local(ONE)) == 1.0


def test_graphs_are_told_of_once_and_as_they_run():
    from trainkit.core.dispatch import trace_state

    heard = []
    trace_state.GRAPH_LISTENERS.append(heard.append)
    try:
        traced = tk.function(Once().add)
        traced(ONE)
    finally:
        trace_state.GRAPH_LISTENERS.remove(heard.append)
    assert heard == [traced.get_concrete_function(ONE).graph]
