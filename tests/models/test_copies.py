"""Copies and pickles of models and optimizers: they go on by themselves, where the first stood."""

import copy
import pickle

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

X = np.random.default_rng(0).random((12, 4), np.float32)
Y = np.arange(12) % 2


def drawn():
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2),
        ]
    )


class Written(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


@pytest.fixture(params=[drawn, Written])
def model(request):
    made = request.param()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
    made.fit(X, Y, epochs=2, batch_size=4, verbose=0)
    return made


def pickled(x):
    return pickle.loads(pickle.dumps(x))


def weights(model):
    return [np.array(w) for w in model.get_weights()]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_a_fitted_model_trains_by_itself(model, copied):
    twin = copied(model)
    before = weights(model)
    assert before
    assert same(before, weights(twin))
    assert int(twin.optimizer.iterations) == 6
    twin.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    assert same(before, weights(model))
    assert int(model.optimizer.iterations) == 6
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    assert same(weights(model), weights(twin))


def test_a_copy_of_a_drawn_model_has_layers_of_its_own():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    twin = copy.deepcopy(model)
    twin.layers[-1].kernel.assign(np.zeros((4, 3)))
    assert np.abs(model(X).numpy()).max() > 0
    assert np.abs(twin(X).numpy()).max() == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1, use_ema=True),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
    ],
)
def test_an_optimizer_is_copied_with_its_weights_and_slots(make, copied):
    optimizer, weight = make(), tk.Variable([1.0, -2.0])
    slope = tk.constant([0.5, 0.25])
    optimizer.apply_gradients([(slope, weight)])
    twin, other = copied((optimizer, weight))
    optimizer.apply_gradients([(slope, weight)])
    assert int(twin.iterations) == 1
    twin.apply_gradients([(slope, other)])
    assert other.numpy().tolist() == weight.numpy().tolist()
    assert len(twin.variables) == len(optimizer.variables)
    twin.learning_rate = 0.0
    assert float(optimizer.learning_rate) == pytest.approx(0.1)


def test_a_copy_remembers_weights_without_decay():
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    decayed, plain = tk.Variable(1.0, name="decayed"), tk.Variable(1.0, name="plain")
    optimizer.exclude_from_weight_decay(var_list=[plain])
    optimizer.build([decayed, plain])
    twin, one, two = copy.deepcopy((optimizer, decayed, plain))
    twin.apply_gradients([(tk.constant(0.0), one), (tk.constant(0.0), two)])
    assert (float(one), float(two)) == (pytest.approx(0.95), 1.0)


def from_a_symbol():
    inputs = keras.Input((4,))
    return keras.Model(inputs, [keras.layers.Dense(3)(inputs)])


def deep():
    x = inputs = keras.Input((4,), name="a")
    for _ in range(400):
        x = x + 1.0
    return keras.Model({"a": inputs}, {"y": x, "x": inputs})


class Drawn(keras.Model):
    pass


def subclass_of_drawn():
    inputs = keras.Input((4,), name="a")
    model = Drawn(inputs, keras.layers.Dense(2)(inputs))
    model.head = keras.layers.Dense(5)
    return model


def with_lambda():
    return keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: np.float32(2) * x)])


def unbuilt():
    return keras.Sequential([keras.layers.Dense(2)])


MAKERS = [from_a_symbol, subclass_of_drawn, with_lambda, drawn, Written, unbuilt]


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("make", MAKERS)
def test_every_kind_of_model_is_copied_trained_or_not(make, compiled, copied):
    model = make()
    if compiled:
        model.compile("adam", "mse", metrics=["mae"])
    twin = copied(model)
    assert type(twin) is type(model)
    assert twin.compiled is compiled
    assert twin.built is model.built
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]
    y = model(X)
    if model.built and twin.weights:
        twin(X)
        twin.set_weights(model.get_weights())
    assert twin(X).shape == y.shape
    if make is not unbuilt and make is not Written:
        np.testing.assert_array_equal(twin(X).numpy(), y.numpy())


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_long_chain_and_its_names_are_copied(copied):
    twin = copied(deep())
    found = twin({"a": X})
    np.testing.assert_allclose(found["y"].numpy(), X + 400.0, rtol=1e-5)
    np.testing.assert_array_equal(found["x"].numpy(), X)
    assert twin.layers[0].output is twin.input["a"]
    assert len(twin.operations) == 401
