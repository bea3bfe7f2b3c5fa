"""Files of weights written by Keras and read here, and the reverse; skipped without Keras."""

import os

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras", minversion="3")

import trainkit as tk  # noqa: E402  after the skip

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of Keras and its backend are not ours
    pytest.mark.slow,
]
CLASSES = 3


def sequential(lib):
    return lib.Sequential(
        [
            lib.Input((5,)),
            lib.layers.Dense(4, activation="relu"),
            lib.layers.BatchNormalization(),
            lib.layers.Dropout(0.2),
            lib.layers.Dense(CLASSES),
        ]
    )


def convolutional(lib):
    return lib.Sequential(
        [
            lib.Input((8, 8, 2)),
            lib.layers.Conv2D(3, 3),
            lib.layers.DepthwiseConv2D(3),
            lib.layers.SeparableConv2D(4, 2),
            lib.layers.Conv2DTranspose(2, 2),
            lib.layers.LayerNormalization(),
            lib.layers.GlobalAveragePooling2D(),
            lib.layers.Dense(CLASSES, use_bias=False),
        ]
    )


def functional(lib):
    x = lib.Input((5,))
    left = lib.layers.Dense(4, name="left")(x)
    right = lib.layers.Dense(4, name="right")(x)
    y = lib.layers.Add()([left, right])
    return lib.Model(x, lib.layers.Dense(CLASSES, name="out")(y))


def nested(lib):
    inner = lib.Sequential([lib.Input((4,)), lib.layers.Dense(4), lib.layers.Dense(4)])
    x = lib.Input((5,))
    y = lib.layers.Dense(4)(x)
    y = inner(y)
    y = lib.Model(z := lib.Input((4,)), lib.layers.Dense(4)(z))(y)
    return lib.Model(x, lib.layers.Dense(CLASSES)(y))


def embedding(lib):
    return lib.Sequential(
        [
            lib.Input((6,), dtype="int32"),
            lib.layers.Embedding(7, 4),
            lib.layers.Flatten(),
            lib.layers.Dense(CLASSES),
        ]
    )


def recurrent(lib):
    return lib.Sequential(
        [
            lib.Input((6, 4)),
            lib.layers.LSTM(3, return_sequences=True),
            lib.layers.Bidirectional(lib.layers.GRU(2, return_sequences=True)),
            lib.layers.SimpleRNN(3),
            lib.layers.Dense(CLASSES),
        ]
    )


def attention(lib):
    x = lib.Input((6, 4))
    y = lib.layers.MultiHeadAttention(2, 3)(x, x)
    y = lib.layers.GlobalAveragePooling1D()(y)
    return lib.Model(x, lib.layers.Dense(CLASSES)(y))


def subclassed(lib):
    class Block(lib.layers.Layer):
        def __init__(self, units):
            super().__init__()
            self.zeta = lib.layers.Dense(units)
            self.alpha = lib.layers.Dense(units)
            self._hidden = lib.layers.Dense(units)
            self.many = [lib.layers.Dense(units), lib.layers.Dense(units)]

        def build(self, shape):
            self.shift = self.add_weight(shape=(1,), name="shift", initializer="ones")
            self.scale = self.add_weight(
                shape=(1,), name="scale", initializer="ones", trainable=False
            )
            for layer in (self.zeta, self.alpha, self._hidden, *self.many):
                layer.build(shape)
            self.built = True

        def call(self, x):
            y = self.alpha(x) + self.zeta(x) * self.scale + self.shift + self._hidden(x)
            return y + self.many[0](x) - self.many[1](x)

    class Mine(lib.Model):
        def __init__(self):
            super().__init__()
            self.second = Block(4)
            self.first = lib.layers.Dense(4)
            self.out = {"b": lib.layers.Dense(4), "a": lib.layers.Dense(CLASSES)}

        def call(self, x):
            return self.out["a"](self.out["b"](self.second(self.first(x))))

    return Mine()


MODELS = {
    sequential: (5,),
    convolutional: (8, 8, 2),
    functional: (5,),
    nested: (5,),
    embedding: (6,),
    recurrent: (6, 4),
    attention: (6, 4),
    subclassed: (5,),
}


def batch(shape, model):
    rng = np.random.default_rng(3)
    if model is embedding:
        return rng.integers(0, 7, (8, *shape)).astype("int32")
    return rng.standard_normal((8, *shape)).astype("float32")


def shaken(model, seed):
    """Weights that no initializer gives."""
    rng = np.random.default_rng(seed)
    model.set_weights([rng.uniform(0.1, 0.9, w.shape).astype(w.dtype) for w in model.get_weights()])
    return model


def made(build, lib, x, seed):
    if lib is tk.keras and build in (recurrent, attention):
        missing = {"LSTM", "Bidirectional", "MultiHeadAttention"} - set(dir(lib.layers))
        if missing:
            pytest.skip(f"no layers {missing} yet")
    model = build(lib)
    model(x)
    return shaken(model, seed)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_keras_reads_what_is_written_here(tmp_path, build):
    x = batch(MODELS[build], build)
    ours, theirs = made(build, tk.keras, x, 1), made(build, keras, x, 2)
    ours.save_weights(str(tmp_path / "m.weights.h5"))
    theirs.load_weights(str(tmp_path / "m.weights.h5"))
    np.testing.assert_allclose(np.asarray(theirs(x)), ours(x).numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_what_keras_writes_is_read_here(tmp_path, build):
    x = batch(MODELS[build], build)
    ours, theirs = made(build, tk.keras, x, 1), made(build, keras, x, 2)
    theirs.save_weights(str(tmp_path / "m.weights.h5"))
    ours.load_weights(str(tmp_path / "m.weights.h5"))
    np.testing.assert_allclose(np.asarray(theirs(x)), ours(x).numpy(), rtol=2e-4, atol=2e-5)


def test_the_weights_in_a_keras_archive_are_read_here(tmp_path):
    x = batch((5,), functional)
    ours, theirs = made(functional, tk.keras, x, 1), made(functional, keras, x, 2)
    theirs.save(str(tmp_path / "m.keras"))
    ours.load_weights(str(tmp_path / "m.keras"))
    np.testing.assert_allclose(np.asarray(theirs(x)), ours(x).numpy(), rtol=2e-4, atol=2e-5)


OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"use_ema": True}),
    ("AdamW", {}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("Nadam", {}),
    ("Ftrl", {}),
    ("Lion", {}),
    ("Adafactor", {}),
    ("Lamb", {}),
    ("Muon", {}),
]


def compiled(lib, name, settings, x, seed, steps):
    model = made(sequential, lib, x, seed)
    optimizer = getattr(lib.optimizers, name)(**settings)
    loss = lib.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss)
    y = np.arange(len(x)) % CLASSES
    for _ in range(steps):
        model.train_on_batch(x, y)
    return model


@pytest.mark.parametrize(
    ("name", "settings"), OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "-".join(v)
)
@pytest.mark.parametrize("writer", ["keras", "trainkit"])
def test_the_optimizer_goes_along(tmp_path, name, settings, writer):
    """Both train on alike from what one of them has written."""
    x = batch((5,), sequential)
    path = str(tmp_path / "m.weights.h5")
    source, target = (keras, tk.keras) if writer == "keras" else (tk.keras, keras)
    old = compiled(source, name, settings, x, 1, 3)
    old.save_weights(path)
    new = compiled(target, name, settings, x, 2, 1)
    new.load_weights(path)
    ours, theirs = (new, old) if writer == "keras" else (old, new)
    assert int(ours.optimizer.iterations) == int(np.asarray(theirs.optimizer.iterations)) == 3
    for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    y = np.arange(len(x)) % CLASSES
    before = [w.copy() for w in ours.get_weights()]
    for model in (ours, theirs):
        model.layers[-2].rate = 0.0
        model.compile(optimizer=model.optimizer, loss=model.loss)
        model.train_on_batch(x, y)
    for start, a, b in zip(before, ours.get_weights(), theirs.get_weights(), strict=True):
        step = np.abs(b - start).max()
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3 * step + 1e-7)
