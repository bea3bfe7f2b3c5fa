"""A module of Flax as a layer of trainkit."""

import copy

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.registry import register_keras_serializable

jax = pytest.importorskip("jax")
nn = pytest.importorskip("flax.linen")
jnp = jax.numpy

RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.tanh(X.sum(1, keepdims=True))


class Plain(nn.Module):
    units: int = 1

    @nn.compact
    def __call__(self, inputs):
        return nn.Dense(self.units)(nn.tanh(nn.Dense(8)(inputs)))

    @nn.compact
    def doubled(self, inputs):
        return 2 * nn.Dense(self.units)(inputs)


class Normed(nn.Module):
    @nn.compact
    def __call__(self, inputs, training=False):
        x = nn.BatchNorm(use_running_average=not training, momentum=0.5)(inputs)
        self.sow("intermediates", "x", x)
        return nn.Dropout(0.5, deterministic=not training)(x)


@register_keras_serializable("tests")
class Stored(Plain):
    def get_config(self):
        return {"units": self.units}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@pytest.mark.parametrize("in_graph", [False, True])
def test_values_and_gradients_are_those_of_flax(in_graph):
    module = Plain()
    variables = module.init(jax.random.key(1), X)
    layer = tk.layers.FlaxLayer(module, variables=variables)
    names = ["Dense_0.bias", "Dense_0.kernel", "Dense_1.bias", "Dense_1.kernel"]
    assert [v.name for v in layer.trainable_variables] == names
    np.testing.assert_allclose(layer(X).numpy(), module.apply(variables, X), rtol=1e-6)

    def gradients(x):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((layer(x) - Y) ** 2)
        return tape.gradient(loss, layer.trainable_variables)

    values = (tk.function(gradients) if in_graph else gradients)(tk.constant(X))
    expected = jax.grad(lambda v: ((module.apply(v, X) - Y) ** 2).mean())(variables)
    leaves = jax.tree_util.tree_leaves(expected)
    for value, array in zip(values, leaves, strict=True):
        np.testing.assert_allclose(value.numpy(), array, atol=1e-6)


@pytest.mark.parametrize("in_graph", [False, True])
def test_other_collections_follow_the_calls_and_dropout_draws(in_graph):
    layer = tk.layers.FlaxLayer(Normed(), seed=1)
    layer.build((None, 4))
    assert [v.name for v in layer.non_trainable_variables][:2] == [
        "batch_stats.BatchNorm_0.mean",
        "batch_stats.BatchNorm_0.var",
    ]
    run = tk.function(layer) if in_graph else layer
    first, second = run(X, training=True).numpy(), run(X, training=True).numpy()
    assert 0.2 < np.mean(first == 0) < 0.8
    assert not np.array_equal(first == 0, second == 0)
    mean = layer.jax_state["batch_stats.BatchNorm_0.mean"].numpy()
    np.testing.assert_allclose(mean, 0.75 * X.mean(0), atol=1e-6)
    module, state = Normed(), {k: v.numpy() for k, v in layer.jax_state.items()}
    variables = {
        "params": {"BatchNorm_0": {"scale": np.ones(4), "bias": np.zeros(4)}},
        "batch_stats": {"BatchNorm_0": {k.split(".")[-1]: v for k, v in state.items()}},
    }
    np.testing.assert_allclose(run(X).numpy(), module.apply(variables, X), rtol=1e-5)
    np.testing.assert_array_equal(layer.jax_state["batch_stats.BatchNorm_0.mean"].numpy(), mean)


def test_fit_moves_the_parameters_and_weights_come_back(tmp_path):
    def network():
        return tk.Sequential([tk.Input((4,)), tk.layers.FlaxLayer(Plain())])

    model = network()
    assert model.output_shape == (None, 1)
    model.compile(tk.optimizers.Adam(0.05), "mse")
    history = model.fit(X, Y, epochs=15, batch_size=6, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    model.save_weights(str(tmp_path / "w.weights.h5"))
    other = network()
    other.load_weights(str(tmp_path / "w.weights.h5"))
    np.testing.assert_array_equal(model.predict(X, verbose=0), other.predict(X, verbose=0))
    twin = copy.deepcopy(model)
    twin.set_weights([w * 0 for w in twin.get_weights()])
    np.testing.assert_array_equal(model.predict(X, verbose=0), other.predict(X, verbose=0))


@pytest.mark.parametrize("method", ["doubled", Plain.doubled])
def test_another_method_is_called(method):
    layer = tk.layers.FlaxLayer(Plain(units=3), method)
    y = layer(X)
    kernel, bias = layer.jax_params["Dense_0.kernel"], layer.jax_params["Dense_0.bias"]
    np.testing.assert_allclose(y.numpy(), 2 * (X @ kernel.numpy() + bias.numpy()), rtol=1e-5)


def test_a_bound_method_and_a_function_are_methods_too():
    module = Plain(units=3)
    layer = tk.layers.FlaxLayer(module, module.doubled)
    assert layer.method == "doubled"
    assert layer(X).shape == (16, 3)
    layer = tk.layers.FlaxLayer(module, lambda module, inputs: -module(inputs))
    assert layer(X).shape == (16, 3)


@pytest.mark.parametrize("method", [None, "doubled"])
def test_a_model_is_saved_where_the_module_is_registered(tmp_path, method):
    model = tk.Sequential([tk.Input((4,)), tk.layers.FlaxLayer(Stored(2), method, name="mine")])
    model.save(str(tmp_path / "m.keras"))
    again = tk.keras.models.load_model(str(tmp_path / "m.keras"))
    assert again.layers[-1].module == Stored(2)
    assert again.layers[-1].method == method
    np.testing.assert_array_equal(model.predict(X, verbose=0), again.predict(X, verbose=0))


def test_a_module_without_variables_is_a_layer():
    class Twice(nn.Module):
        def __call__(self, inputs):
            return 2 * inputs

    layer = tk.layers.FlaxLayer(Twice())
    np.testing.assert_array_equal(layer(X).numpy(), 2 * X)
    assert not layer.trainable_variables


class Wrong(nn.Module):
    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3,), TypeError, r"module must be a flax\.linen\.Module, got int"),
        ((Plain,), TypeError, r"module must be a flax\.linen\.Module, got"),
        ((Plain(), "trebled"), ValueError, "Plain has no method 'trebled'"),
        ((Wrong(),), ValueError, "the method has the arguments x; it must have inputs"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(arguments, error, message):
    with pytest.raises(error, match=message):
        tk.layers.FlaxLayer(*arguments)
