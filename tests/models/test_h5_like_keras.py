"""Whole models in HDF5 files by Keras read here, and the reverse; skipped without Keras.

With `tf_keras` installed the files of Keras 2 are compared as well.
"""

import os

import h5py
import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras", minversion="3")

import trainkit as tk  # noqa: E402  after the skip

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of Keras and its backend are not ours
    pytest.mark.slow,
]


def sequential(lib):
    return lib.Sequential(
        [
            lib.layers.InputLayer((5,)),
            lib.layers.Dense(4, activation="relu", kernel_regularizer="l2"),
            lib.layers.BatchNormalization(),
            lib.layers.Dropout(0.2),
            lib.layers.LeakyReLU(),
            lib.layers.Dense(3, kernel_initializer="he_normal"),
        ]
    )


def unnamed_input(lib):
    return lib.Sequential([lib.layers.Dense(4, input_shape=(5,)), lib.layers.Dense(3)])


def convolutional(lib):
    return lib.Sequential(
        [
            lib.layers.InputLayer((8, 8, 2)),
            lib.layers.Conv2D(3, 3, activation="relu"),
            lib.layers.BatchNormalization(),
            lib.layers.DepthwiseConv2D(3),
            lib.layers.SeparableConv2D(4, 2),
            lib.layers.Conv2DTranspose(2, 2),
            lib.layers.LayerNormalization(),
            lib.layers.MaxPooling2D(2),
            lib.layers.Flatten(),
            lib.layers.Dense(3, use_bias=False),
        ]
    )


def recurrent(lib):
    return lib.Sequential(
        [
            lib.layers.InputLayer((6, 4)),
            lib.layers.LSTM(3, return_sequences=True),
            lib.layers.Bidirectional(lib.layers.GRU(2, return_sequences=True)),
            lib.layers.TimeDistributed(lib.layers.Dense(3)),
            lib.layers.SimpleRNN(3),
            lib.layers.Dense(3),
        ]
    )


def shared(lib):
    """Shared layers, a model and a stack called twice, and layers that come after later ones."""
    x = lib.layers.Input((5,))
    both = lib.layers.Dense(5, name="both")
    inner_x = lib.layers.Input((5,))
    inner = lib.Model(inner_x, lib.layers.Dense(5)(lib.layers.Dense(5)(inner_x)), name="inner")
    stack = lib.Sequential([lib.layers.InputLayer((5,)), lib.layers.Dense(5)], name="stack")
    y = both(x)
    z = inner(both(y))
    y = lib.layers.Add()([stack(inner(y)), z, stack(x)])
    return lib.Model(x, lib.layers.Dense(3)(lib.layers.Concatenate()([y, z])))


def model_at_the_end(lib):
    x = lib.layers.Input((5,))
    inner_x = lib.layers.Input((5,))
    inner = lib.Model(inner_x, lib.layers.Dense(3)(inner_x), name="inner")
    return lib.Model(x, inner(lib.layers.Dense(5)(x)))


def frozen(lib):
    """Non-trainable layers inside of a model inside."""
    inner = lib.Sequential(
        [
            lib.layers.InputLayer((5,)),
            lib.layers.BatchNormalization(),
            lib.layers.Dense(4),
            lib.layers.BatchNormalization(),
        ]
    )
    inner.layers[1].trainable = False
    x = lib.layers.Input((5,))
    return lib.Model(x, lib.layers.Dense(3)(inner(x)))


def attention(lib):
    x = lib.layers.Input((6, 4))
    y = lib.layers.MultiHeadAttention(2, 3)(x, x)
    y = lib.layers.GlobalAveragePooling1D()(y)
    return lib.Model(x, lib.layers.Dense(3)(y))


def embedding(lib):
    return lib.Sequential(
        [
            lib.layers.InputLayer((6,), dtype="int32"),
            lib.layers.Embedding(7, 4, mask_zero=True),
            lib.layers.LSTM(3),
            lib.layers.Dense(3),
        ]
    )


MODELS = {
    sequential: (5,),
    unnamed_input: (5,),
    convolutional: (8, 8, 2),
    recurrent: (6, 4),
    shared: (5,),
    model_at_the_end: (5,),
    frozen: (5,),
    attention: (6, 4),
    embedding: (6,),
}
# Dropout draws; gradients of embeddings are sparse in TensorFlow; Adam blows up the rounding of
# gradients that are 0, as those of a bias before a normalization are.
NOT_TRAINED = (sequential, embedding, frozen)
OPTIMIZERS = {
    "adam": lambda lib: lib.optimizers.Adam(0.01),
    "amsgrad": lambda lib: lib.optimizers.Adam(0.01, amsgrad=True),
    "momentum": lambda lib: lib.optimizers.SGD(0.01, momentum=0.9),
    "rmsprop": lambda lib: lib.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda lib: lib.optimizers.Adagrad(0.01),
    "schedule": lambda lib: lib.optimizers.SGD(
        lib.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    ),
}


def other(name):
    """The library of this name, or a skip."""
    return keras if name == "keras" else pytest.importorskip(name)


def data(build, seed=0):
    rng = np.random.default_rng(seed)
    shape = (8, *MODELS[build])
    if build is embedding:
        return rng.integers(0, 7, shape).astype("int32"), rng.normal(size=(8, 3)).astype("f4")
    return rng.normal(size=shape).astype("f4"), rng.normal(size=(8, 3)).astype("f4")


def trained(lib, build, optimizer="adam"):
    model = build(lib)
    model.compile(OPTIMIZERS[optimizer](lib), loss="mse", metrics=["mae"])
    model.fit(*data(build), epochs=2, batch_size=4, shuffle=False, verbose=0)
    return model


def same(a, b, x):
    np.testing.assert_allclose(a.predict(x, verbose=0), b.predict(x, verbose=0), 1e-3, 1e-4)


def goes_on_as(a, b, build):
    """Trained on for an epoch both have the same weights: the optimizer's state is the same."""
    x, y = data(build, 1)
    for model in (a, b):
        model.fit(x, y, epochs=1, batch_size=4, shuffle=False, verbose=0)
    same(a, b, x)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_a_model_by_keras_is_read(tmp_path, name, build):
    lib = other(name)
    model = trained(lib, build)
    model.save(tmp_path / "m.h5")
    mine = tk.models.load_model(tmp_path / "m.h5")
    same(model, mine, data(build)[0])
    assert mine.optimizer.iterations == 4
    if build not in NOT_TRAINED:
        goes_on_as(model, mine, build)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_a_model_written_here_is_read_by_keras(tmp_path, build):
    model = trained(tk.keras, build)
    model.save(tmp_path / "m.h5")
    theirs = keras.models.load_model(tmp_path / "m.h5")
    same(model, theirs, data(build)[0])
    # Keras builds the optimizer of its own files for no weights, and can't train what it has read
    theirs.train_on_batch(*data(build))
    assert int(theirs.optimizer.iterations) == 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_the_state_of_optimizers_is_read(tmp_path, name, optimizer):
    lib = other(name)
    model = trained(lib, unnamed_input, optimizer)
    model.save(tmp_path / "m.h5")
    mine = tk.models.load_model(tmp_path / "m.h5")
    goes_on_as(model, mine, unnamed_input)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_of_optimizers_has_the_order_of_keras(tmp_path, optimizer):
    model = trained(tk.keras, unnamed_input, optimizer)
    model.save(tmp_path / "m.h5")
    theirs = unnamed_input(keras)
    theirs.compile(OPTIMIZERS[optimizer](keras), "mse", metrics=["mae"])
    theirs.load_weights(tmp_path / "m.h5")
    theirs.optimizer.build(theirs.trainable_variables)
    with h5py.File(tmp_path / "m.h5") as file:
        group = file["optimizer_state"]
        theirs.optimizer.set_weights([group[name][()] for name in group.attrs["weight_names"]])
    goes_on_as(model, theirs, unnamed_input)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_weights_by_keras_are_read(tmp_path, name, build):
    lib = other(name)
    model = trained(lib, build)
    path = tmp_path / "w.h5"
    model.save_weights(path) if name == "tf_keras" else model.save(path)
    mine = build(tk.keras)
    mine.load_weights(path)
    same(model, mine, data(build)[0])


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_weights_of_whole_models_are_read_by_keras(tmp_path, build):
    model = trained(tk.keras, build)
    model.save(tmp_path / "m.h5")
    theirs = build(keras)
    theirs.load_weights(tmp_path / "m.h5")
    same(model, theirs, data(build)[0])


def several_ends(lib):
    a, b = lib.layers.Input((3,), name="a"), lib.layers.Input((2,), name="b")
    x = lib.layers.Concatenate()([a, b])
    one = lib.layers.Dense(1, name="one")(x)
    two = lib.layers.Dense(2, name="two")(lib.layers.Dense(4)(x))
    model = lib.Model({"a": a, "b": b}, {"one": one, "two": two})
    model.compile(
        "sgd",
        loss={"one": "mse", "two": lib.losses.Huber()},
        loss_weights={"one": 1.0, "two": 0.5},
        metrics={"one": ["mae"], "two": [lib.metrics.RootMeanSquaredError()]},
    )
    return model


def ends_data():
    rng = np.random.default_rng(0)
    x = {"a": rng.normal(size=(8, 3)).astype("f4"), "b": rng.normal(size=(8, 2)).astype("f4")}
    y = {"one": rng.normal(size=(8, 1)).astype("f4"), "two": rng.normal(size=(8, 2)).astype("f4")}
    return x, y


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_several_inputs_and_outputs_are_read(tmp_path, name):
    model = several_ends(other(name))
    x, y = ends_data()
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "m.h5")
    mine = tk.models.load_model(tmp_path / "m.h5")
    theirs = model.evaluate(x, y, verbose=0, return_dict=True)
    found = mine.evaluate(x, y, verbose=0, return_dict=True)
    assert {"loss", "one_mae", "two_root_mean_squared_error"} <= found.keys()
    for key in found.keys() & theirs.keys():
        np.testing.assert_allclose(found[key], theirs[key], 1e-4)


def test_several_inputs_and_outputs_are_read_by_keras(tmp_path):
    model = several_ends(tk.keras)
    x, y = ends_data()
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "m.h5")
    theirs = keras.models.load_model(tmp_path / "m.h5")
    found = theirs.evaluate(x, y, verbose=0, return_dict=True)
    mine = model.evaluate(x, y, verbose=0, return_dict=True)
    mine["one_mean_absolute_error"] = mine.pop("one_mae")  # Keras forgets the name
    assert found.keys() == mine.keys()
    for key, value in mine.items():
        np.testing.assert_allclose(found[key], value, 1e-4, err_msg=key)


def with_operations(lib):
    x = lib.Input((5,))
    y = lib.layers.Dense(3)(x)
    return lib.Model(x, lib.ops.relu(y) + lib.ops.mean(y, axis=-1, keepdims=True))


def test_operations_are_read(tmp_path):
    model = with_operations(keras)
    model.save(tmp_path / "m.h5")
    mine = tk.models.load_model(tmp_path / "m.h5", compile=False)
    same(model, mine, data(unnamed_input)[0])


def test_operations_are_read_by_keras(tmp_path):
    model = with_operations(tk.keras)
    model.save(tmp_path / "m.h5")
    theirs = keras.models.load_model(tmp_path / "m.h5", compile=False)
    same(model, theirs, data(unnamed_input)[0])


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_a_model_by_json(name):
    lib = other(name)
    model = shared(lib)
    mine = tk.models.model_from_json(model.to_json())
    mine.set_weights(model.get_weights())
    same(model, mine, data(shared)[0])


def test_by_name_as_keras(tmp_path):
    def build(lib, names):
        layers = [lib.layers.InputLayer((5,))]
        layers += [lib.layers.Dense(5, name=name) for name in names]
        return lib.Sequential(layers)

    source = build(keras, ["p", "q", "r"])
    source.compile("sgd", "mse")
    source.save(tmp_path / "m.h5")
    for names in (["r", "p", "x"], ["q"]):
        mine, theirs = build(tk.keras, names), build(keras, names)
        mine.set_weights(theirs.get_weights())
        mine.load_weights(tmp_path / "m.h5", by_name=True)
        theirs.load_weights(tmp_path / "m.h5", by_name=True)
        same(mine, theirs, data(unnamed_input)[0])
