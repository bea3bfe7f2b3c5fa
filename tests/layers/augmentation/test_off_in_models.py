"""Augmentation is off in a model's call and in what it serves, unless training is asked for."""

import numpy as np
import pytest

import trainkit as tk

layers = tk.layers
X = np.random.default_rng(0).uniform(0, 255, (2, 8, 8, 3)).astype("float32")


def on(x):
    return np.abs(np.asarray(x) - X).max() > 1


def flips():
    return [layers.RandomFlip(seed=1), layers.RandomBrightness(0.9, seed=2)]


def functional(*inner):
    x = inputs = tk.Input((8, 8, 3))
    for layer in inner:
        x = layer(x)
    return tk.Model(inputs, x)


class Subclassed(tk.Model):
    def __init__(self):
        super().__init__()
        self.augment, self.rest = tk.Sequential(flips()), layers.Rescaling(1.0)
        self.unused = layers.Dense(1)

    def call(self, x):
        return self.rest(self.augment(x))


MODELS = {
    "stack": lambda: tk.Sequential([tk.Input((8, 8, 3)), *flips(), layers.Activation("relu")]),
    "functional": lambda: functional(*flips(), layers.Activation("relu")),
    "stack inside": lambda: functional(tk.Sequential(flips()), layers.Activation("relu")),
    "pipeline inside": lambda: functional(layers.Pipeline(flips()), layers.Activation("relu")),
    "subclass": Subclassed,
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_infers_unless_it_is_told_to_train(kind, tmp_path):
    model = MODELS[kind]()
    assert not on(model(X))
    assert not on(tk.function(lambda x: model(x))(X))
    assert not on(model.predict(X, verbose=0))
    assert not on(model(X, training=False))
    assert on(model(X, training=True))
    model.export(str(tmp_path), verbose=False)
    assert not on(tk.saved_model.load(str(tmp_path)).serve(X))


class Held(layers.Layer):
    """A layer of the user's that holds augmentation, without more."""

    def __init__(self):
        super().__init__()
        self.inner = flips()

    def call(self, x):
        for layer in self.inner:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    "augment",
    [
        layers.RandomBrightness(0.9, seed=2),
        tk.Sequential(flips()),
        tk.Sequential([tk.Input((8, 8, 3)), layers.Rescaling(1.0), *flips()]),
        functional(tk.Sequential(flips())),
        layers.Pipeline(flips()),
        Held(),
    ],
    ids=["layer", "stack", "stack with input", "functional", "pipeline", "layer of the user's"],
)
def test_what_only_prepares_data_is_called_for_that(augment):
    assert on(augment(X))
    data = tk.data.Dataset.from_tensor_slices(X).batch(2).map(augment)
    assert on(next(iter(data)))
    assert not on(augment(X, training=False))


def test_sizes_stay():
    model = tk.Sequential([tk.Input((8, 8, 3)), layers.RandomHeight(0.9, seed=1), layers.ReLU()])
    assert model(X).shape == X.shape


class Noisy(layers.Layer):
    def call(self, x, training=True):
        return x + 2.0 if training else x


def test_what_is_served_is_what_predict_gives_with_layers_of_the_users(tmp_path):
    model = tk.Sequential([tk.Input((8, 8, 3)), Noisy()])
    assert on(model(X))  # its own default holds in calls, as in Keras
    model.export(str(tmp_path), verbose=False)
    assert not on(tk.saved_model.load(str(tmp_path)).serve(X))
    assert on(model(X))


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_a_train_step_of_the_users_augments_unless_it_says_otherwise(run_eagerly):
    seen = []

    class Own(Subclassed):
        def train_step(self, data):
            y = self(data)
            change = tk.reduce_max(tk.abs(y - data))
            self.unused(tk.ones((1, 1)))
            return {
                "change": change,
                "none": tk.reduce_max(tk.abs(self(data, training=False) - data)),
            }

        def test_step(self, data):
            return {"change": tk.reduce_max(tk.abs(self(data) - data))}

    model = Own()
    model.compile(run_eagerly=run_eagerly)
    for _ in range(4):  # both before and after it is compiled
        logs = model.fit(X, verbose=0).history
        seen.append((logs["change"][0] > 1, logs["none"][0] == 0))
    assert seen == [(True, True)] * 4
    assert model.evaluate(X, verbose=0, return_dict=True)["change"] == 0
    assert not on(model(X))
