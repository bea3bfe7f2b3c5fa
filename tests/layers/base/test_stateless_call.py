"""Calls with values of the variables from outside: what comes back, and that nothing changes."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import NotBuiltError


def network():
    return tk.Sequential(
        [
            tk.layers.Input((4,)),
            tk.layers.Dense(3, kernel_regularizer="l2"),
            tk.layers.Dropout(0.5, seed=3),
            tk.layers.BatchNormalization(momentum=0.5),
        ]
    )


def values(variables):
    return [variable.value() for variable in variables]


def arrays(variables):
    return [variable.numpy() for variable in variables]


def same(some, others):
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


def test_a_call_equals_one_of_a_layer_that_has_these_values():
    model, other = network(), network()
    x = tk.random.normal((6, 4))
    before = arrays(model.variables)
    out, after, losses = model.stateless_call(
        values(other.trainable_variables),
        values(other.non_trainable_variables),
        x,
        training=True,
        return_losses=True,
    )
    assert same(arrays(model.variables), before)
    np.testing.assert_array_equal(out, other(x, training=True))
    assert same([a.numpy() for a in after], arrays(other.non_trainable_variables))
    assert not same([a.numpy() for a in after], arrays(model.non_trainable_variables))
    np.testing.assert_array_equal(losses, other.losses)


def test_losses_are_left_out_unless_asked_for_and_none_stay_behind():
    class Noting(tk.layers.Layer):
        def build(self, input_shape):
            self.w = self.add_weight((1,), initializer="ones")

        def call(self, x):
            self.add_loss(tk.reduce_sum(x * self.w))
            return x

    layer = Noting()
    x = tk.constant([1.0, 2.0])
    layer(x)
    assert len(layer.stateless_call([tk.constant([2.0])], [], x)) == 2
    *_, losses = layer.stateless_call([tk.constant([2.0])], [], x, return_losses=True)
    assert [float(loss) for loss in losses] == [6.0]
    assert layer.losses == []


def test_a_call_that_fails_leaves_the_layer_as_it_was():
    model = network()
    before = arrays(model.variables)
    given = values(model.trainable_variables), values(model.non_trainable_variables)
    with pytest.raises(ValueError, match="dense"):
        model.stateless_call(*given, tk.ones((2, 5)), training=True)
    assert same(arrays(model.variables), before)
    model(tk.ones((2, 4)), training=True)
    assert not same(arrays(model.variables), before)


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_of_a_loop_without_state_train(compiled):
    model = network()
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
    y = x[:, :3]
    before = arrays(model.variables)

    def step(weights, state, metrics):
        with tk.GradientTape() as tape:
            tape.watch(weights)
            y_pred, state = model.stateless_call(weights, state, x, training=True)
            loss, (_, state, metrics) = model.stateless_compute_loss(
                weights, state, metrics, x=x, y=y, y_pred=y_pred
            )
        grads = tape.gradient(loss, weights)
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)], state, metrics, loss

    step = tk.function(step) if compiled else step
    given = [
        values(model.trainable_variables),
        values(model.non_trainable_variables),
        values(model.metrics_variables),
    ]
    losses = []
    for _ in range(30):
        *given, loss = step(*given)
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert same(arrays(model.variables), before)


def test_the_loss_counts_regularization_of_the_values_given():
    model = tk.Sequential([tk.layers.Dense(1, kernel_regularizer="l2", input_shape=(2,))])
    model.compile("sgd", "mse")
    weights = [tk.ones((2, 1)) * 10.0, tk.zeros(1)]
    loss, after = model.stateless_compute_loss(
        weights, [], values(model.metrics_variables), y=tk.ones((1, 1)), y_pred=tk.zeros((1, 1))
    )
    assert float(loss) == pytest.approx(1.0 + 0.01 * 200)
    assert after[0] is weights
    assert after[1] == []
    assert len(after[2]) == len(model.metrics_variables)


def test_what_does_not_fit_is_refused():
    model = network()
    weights, state = values(model.trainable_variables), values(model.non_trainable_variables)
    x = tk.ones((1, 4))
    with pytest.raises(ValueError, match=r"trainable_variables has 0 values, the layer has 4"):
        model.stateless_call([], state, x)
    with pytest.raises(ValueError, match=r"non_trainable_variables has 1 values, the layer has 3"):
        model.stateless_call(weights, state[:1], x)
    with pytest.raises(ValueError, match=r"kernel' has \(4, 3\), its value \(3,\)"):
        model.stateless_call(weights[::-1], state, x)
    with pytest.raises(NotBuiltError, match=r"stateless_call: the layer must be built"):
        tk.layers.Dense(2).stateless_call([], [], x)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"metrics_variables has 0 values, the layer has 2"):
        model.stateless_compute_loss(weights, state, [], y=x, y_pred=x)
