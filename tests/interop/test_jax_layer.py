"""A function of JAX as a layer of trainkit."""

import copy

import numpy as np
import pytest

import trainkit as tk
from tests.interop.derivatives import second_derivative

jax = pytest.importorskip("jax")
jnp = jax.numpy

RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.tanh(X.sum(1, keepdims=True))


def dense(params, inputs):
    return jnp.tanh(inputs @ params["dense"]["kernel"]) + params["bias"]


def dense_params(rng, inputs):
    kernel = jax.random.normal(rng, (inputs.shape[-1], 1))
    return {"dense": {"kernel": kernel}, "bias": jnp.zeros(1)}


def noisy(params, state, rng, inputs, training):
    noise = jax.random.normal(rng, inputs.shape) if training else 0.0
    return (inputs + noise) * params["scale"], {"calls": state["calls"] + 1}


def noisy_params(rng, inputs, training):
    return {"scale": jnp.ones(())}, {"calls": jnp.array(0)}


def gradients(layer, x):
    with tk.GradientTape() as tape:
        tape.watch(x)
        loss = tk.reduce_mean((layer(x) - Y) ** 2)
    return tape.gradient(loss, [x, *layer.trainable_variables])


@pytest.mark.parametrize("in_graph", [False, True])
def test_gradients_are_those_of_jax(in_graph):
    params = dense_params(jax.random.key(0), X)
    layer = tk.layers.JaxLayer(dense, params=params)
    assert [v.name for v in layer.trainable_variables] == ["bias", "dense.kernel"]
    loss = lambda x, p: ((dense(p, x) - Y) ** 2).mean()  # noqa: E731
    gx, gp = jax.grad(loss, (0, 1))(X, params)
    found = (tk.function(gradients) if in_graph else gradients)(layer, tk.constant(X))
    for g, e in zip(found, [gx, gp["bias"], gp["dense"]["kernel"]], strict=True):
        np.testing.assert_allclose(g.numpy(), e, atol=1e-6)


def test_fit_moves_the_parameters_and_lowers_the_loss(tmp_path):
    def made():
        return tk.Sequential(
            [tk.Input((4,)), tk.layers.Dense(4), tk.layers.JaxLayer(dense, dense_params)]
        )

    model = made()
    assert model.output_shape == (None, 1)
    before = model.get_weights()
    model.compile(tk.optimizers.Adam(0.05), "mse")
    history = model.fit(X, Y, epochs=15, batch_size=6, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    assert all(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    path = tk.train.Checkpoint(model=model).save(str(tmp_path / "c"))
    model.save_weights(str(tmp_path / "w.weights.h5"))
    one, two = made(), made()
    tk.train.Checkpoint(model=one).restore(path).expect_partial()
    two.load_weights(str(tmp_path / "w.weights.h5"))
    for other in (one, two):
        np.testing.assert_array_equal(model.predict(X, verbose=0), other.predict(X, verbose=0))


@pytest.mark.parametrize("in_graph", [False, True])
def test_state_keys_and_training(in_graph):
    layer = tk.layers.JaxLayer(noisy, noisy_params, seed=1)
    layer.build((None, 3))
    run = tk.function(layer) if in_graph else layer
    x = tk.ones((2, 3))
    np.testing.assert_array_equal(run(x, training=False).numpy(), np.ones((2, 3)))
    first, second = run(x, training=True).numpy(), run(x, training=True).numpy()
    assert not np.array_equal(first, second)
    assert int(layer.jax_state["calls"].numpy()) == 3
    again = tk.layers.JaxLayer(noisy, noisy_params, seed=1)
    again.build((None, 3))
    again(x, training=False)
    np.testing.assert_array_equal(again(x, training=True).numpy(), first)


def test_the_gradient_has_the_noise_of_the_call():
    layer = tk.layers.JaxLayer(noisy, noisy_params)
    layer.build((None, 3))
    with tk.GradientTape() as tape:
        y = layer(tk.zeros((2, 3)), training=True)
    (g,) = tape.gradient(y, layer.trainable_variables)
    np.testing.assert_allclose(g.numpy(), y.numpy().sum(), rtol=1e-5)


def test_nested_inputs_outputs_and_integers():
    def call(params, inputs):
        return {"y": inputs["a"] * params, "k": (inputs["k"] + 1, None)}

    layer = tk.layers.JaxLayer(call, params=np.float32(2.0))
    x = {"a": tk.constant([1.0, 2.0]), "k": tk.constant([1, 2])}
    for run in (layer, tk.function(layer)):
        y = run(x)
        assert y["y"].numpy().tolist() == [2.0, 4.0]
        assert y["k"][0].numpy().tolist() == [2, 3]
        assert y["k"][1] is None


def test_a_config_names_registered_functions(tmp_path):
    layer = tk.layers.JaxLayer(dense, dense_params, seed=4, name="mine")
    model = tk.Sequential([tk.Input((4,)), layer])
    model.save(str(tmp_path / "m.keras"))
    names = {"dense": dense, "dense_params": dense_params}
    again = tk.keras.models.load_model(str(tmp_path / "m.keras"), custom_objects=names)
    np.testing.assert_array_equal(model.predict(X, verbose=0), again.predict(X, verbose=0))
    assert again.layers[-1].name == "mine"
    assert again.layers[-1].seed == 4
    given = tk.layers.JaxLayer(dense, params=dense_params(jax.random.key(0), X))
    with pytest.raises(tk.errors.ConfigError, match="give init_fn as well"):
        given.get_config()


def test_copies_have_weights_of_their_own():
    layer = tk.layers.JaxLayer(dense, dense_params)
    expected = layer(X).numpy()
    twin = copy.deepcopy(layer)
    np.testing.assert_array_equal(twin(X).numpy(), expected)
    twin.set_weights([w * 0 for w in twin.get_weights()])
    np.testing.assert_array_equal(layer(X).numpy(), expected)
    assert not np.any(twin(X).numpy())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"call_fn": lambda p, inputs: 0}, "must have params and inputs, and may have state, rng"),
        ({"call_fn": dense, "init_fn": lambda x: 0}, "init_fn has the arguments x; it must have"),
        ({"call_fn": dense}, "give init_fn, or params to start from"),
        ({"call_fn": noisy, "params": {}}, "give init_fn, or state, which call_fn has"),
        ({"call_fn": dense, "params": {}, "state": {}}, "call_fn has no argument `state`"),
        ({"call_fn": noisy, "init_fn": noisy_params, "state": {}}, "state is given without params"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(arguments, text):
    with pytest.raises(ValueError, match=text):
        tk.layers.JaxLayer(**arguments)


def test_faults_of_the_functions():
    with pytest.raises(TypeError, match="call_fn must be a function, got 3"):
        tk.layers.JaxLayer(3)
    layer = tk.layers.JaxLayer(noisy, dense_params)
    with pytest.raises(TypeError, match=r"init_fn must return \(params, state\), it returned dict"):
        layer(X)
    assert not layer.built
    assert not layer.weights

    def grows(params, state, inputs):
        return inputs, jnp.concatenate([state, state])

    layer = tk.layers.JaxLayer(grows, params={}, state=np.ones(2, "float32"))
    with pytest.raises(tk.errors.InvalidArgumentError, match="another state than it got"):
        layer(X)
    layer = tk.layers.JaxLayer(lambda params, state, inputs: inputs, params={}, state={})
    with pytest.raises(TypeError, match="it must return"):
        layer(X)
    layer = tk.layers.JaxLayer(lambda params, inputs: inputs, params={}, dtype="float64")
    with pytest.raises(tk.errors.InvalidArgumentError, match="float64 switched off"):
        layer(X)


@pytest.mark.parametrize("in_graph", [False, True])
def test_second_derivatives_are_refused(in_graph):
    layer = tk.layers.JaxLayer(lambda params, inputs: inputs**3, params={})
    with pytest.raises(tk.errors.UnimplementedError, match="second derivative"):
        second_derivative(layer, in_graph)


def test_a_function_that_needs_certain_sizes_tells_what_was_tried():
    layer = tk.layers.JaxLayer(lambda params, inputs: inputs.reshape(-1, 8), params={})
    with pytest.raises(TypeError, match="reshape") as raised:
        tk.Sequential([tk.Input((4,)), layer])
    assert any("tried as 2 and 3" in note for note in raised.value.__notes__)
    assert tuple(layer(X).shape) == (8, 8)
