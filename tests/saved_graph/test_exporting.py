"""Models as folders: `Model.export`, `ExportArchive`, `TFSMLayer`, and saving models as objects."""

import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.saved_graph import standalone

layers = keras.layers


def rows(*shape):
    return np.random.default_rng(0).random(shape).astype("float32")


def sequential():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(4, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(2),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(rows(8, 3), rows(8, 2), verbose=0)
    return model, rows(5, 3)


def two_inputs():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return keras.Model([a, b], [layers.Dense(2)(a), layers.Add()([a, b])]), [rows(4, 3), rows(4, 3)]


def dicts():
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    model = keras.Model({"b": b, "a": a}, {"z": layers.Dense(2)(a), "c": layers.Dropout(0.5)(b)})
    return model, {"a": rows(4, 3), "b": rows(4, 2)}


def recurrent():
    inner = [layers.Embedding(9, 4, mask_zero=True), layers.LSTM(5), layers.Dense(2)]
    model = keras.Sequential([keras.Input((7,), dtype="int32"), *inner])
    return model, np.random.default_rng(1).integers(0, 9, (3, 7)).astype("int32")


def subclassed():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = layers.Dense(2)
            self.dropout = layers.Dropout(0.5)

        def call(self, x, training=None):
            return {"y": self.dropout(self.inner(x), training=training)}

    model = Own()
    model(rows(2, 3))
    return model, rows(6, 3)


def tokens():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = layers.Embedding(5, 2)

        def call(self, x):
            return self.table(x)

    model = Own()
    model(np.zeros((2, 3), "int32"))
    return model, np.array([[1, 2, 4]], "int32")


def custom_layer():
    class Scaled(layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=shape[-1:], initializer="ones", name="scale")

        def call(self, x):
            return x * self.scale + keras.ops.mean(x, axis=0, keepdims=True)

    return keras.Sequential([keras.Input((3,)), Scaled(), layers.Dense(1)]), rows(4, 3)


def mixed():
    inner = [layers.Dense(4, dtype="mixed_float16"), layers.Dense(2, dtype="float32")]
    return keras.Sequential([keras.Input((3,)), *inner]), rows(4, 3)


def preprocessed():
    normalization = layers.Normalization()
    normalization.adapt(rows(20, 3))
    return keras.Sequential([keras.Input((3,)), normalization, layers.Dense(1)]), rows(4, 3)


MAKERS = [
    sequential, two_inputs, dicts, recurrent, subclassed, tokens, custom_layer, mixed, preprocessed,
]  # fmt: skip


def same(a, b):
    a, b = tk.nest.flatten(a), tk.nest.flatten(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6, atol=1e-7)


def head(data, count):
    return tk.nest.map_structure(lambda x: x[:count], data)


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_an_exported_model_is_served(make, tmp_path):
    model, data = make()
    model.export(tmp_path / "m", verbose=False)
    again = tk.saved_model.load(tmp_path / "m")
    assert list(again.signatures) == ["serve", "serving_default"]
    for count in (len(tk.nest.flatten(data)[0]), 1):
        same(model(head(data, count)), again.serve(head(data, count)))
        same(model(head(data, count)), layers.TFSMLayer(tmp_path / "m")(head(data, count)))
    assert len(again.variables) == len(model.variables)
    assert len(again.trainable_variables) == len(model.trainable_variables)


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_a_model_is_saved_as_an_object(make, tmp_path):
    model, data = make()
    tk.saved_model.save(model, tmp_path / "m")
    again = tk.saved_model.load(tmp_path / "m")
    serve = again.signatures["serving_default"]
    names = list(serve.structured_input_signature[1])
    if make is dicts:
        assert names == ["a", "b"]
        found = serve(**data)
    elif make is two_inputs:
        assert names == ["inputs", "inputs_1"]
        found = serve(inputs=data[0], inputs_1=data[1])
    else:
        assert names == ["inputs"]
        found = serve(tk.constant(data))
    same(model(data), found)
    names = [v.name.removesuffix(":0") for v in again.variables]
    assert names == [v.name.removesuffix(":0") for v in model.variables]
    assert not hasattr(again, "optimizer")
    assert not callable(again)


def masked_loops():
    inputs = keras.Input((None, 3))
    x = layers.Masking()(inputs)
    x = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    x = layers.SimpleRNN(5, return_sequences=True)(x)
    x = layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)])(x)
    data = np.random.default_rng(2).normal(size=(3, 6, 3)).astype("float32")
    data[1, 2:4] = data[2, 3:] = 0
    return keras.Model(inputs, x), data


@pytest.mark.parametrize(
    "make", [sequential, two_inputs, recurrent, masked_loops], ids=lambda m: m.__name__
)
def test_numpy_and_h5py_alone_serve_it(make, tmp_path):
    model, data = make()
    model.export(tmp_path / "m", verbose=False)
    run = standalone.load(tmp_path / "m")
    found = run(*tk.nest.flatten(data))
    wanted = tk.nest.flatten(model(data))
    assert list(found) == [f"output_{i}" for i in range(len(wanted))]
    for x, y in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=2e-5, atol=2e-6)


def test_a_layer_of_a_folder_is_trained_saved_and_frozen(tmp_path):
    model, data = sequential()
    model.export(tmp_path / "m", verbose=False)
    layer = layers.TFSMLayer(tmp_path / "m")
    assert len(layer.trainable_variables) == 6
    assert len(layer.non_trainable_variables) == 2
    x = keras.Input((3,))
    whole = keras.Model(x, layers.Dense(1)(layer(x)))
    assert whole.output_shape == (None, 1)
    before = layer.trainable_variables[0].numpy().copy()
    whole.compile("sgd", "mse")
    whole.fit(data, rows(5, 1), verbose=0)
    assert np.abs(layer.trainable_variables[0].numpy() - before).max() > 0
    whole.save(tmp_path / "whole.keras")
    again = keras.models.load_model(tmp_path / "whole.keras", safe_mode=False)
    same(again(data), whole(data))
    same(keras.models.clone_model(whole)(data).shape, whole(data).shape)
    layer.trainable = False
    assert not layer.trainable_variables


def test_endpoints_of_a_layer(tmp_path):
    model, data = sequential()
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = [layers.InputSpec(shape=(None, 3), dtype="float32")]
    archive.add_endpoint("serve", model.call, spec)
    archive.add_endpoint("train", lambda x: model(x, training=True), spec)
    archive.add_variable_collection("slots", model.optimizer.variables)
    archive.write_out(tmp_path / "m", verbose=False)
    again = tk.saved_model.load(tmp_path / "m")
    assert list(again.signatures) == ["serve", "train", "serving_default"]
    assert len(again.slots) == len(model.optimizer.variables)
    layer = layers.TFSMLayer(tmp_path / "m", "serve", call_training_endpoint="train")
    same(layer(data), model(data))
    assert np.abs(np.asarray(layer(data, training=True)) - np.asarray(model(data))).max() > 1e-3
    named = layers.TFSMLayer(tmp_path / "m", "serving_default")
    same(named(data), {"output_0": model(data)})
    with pytest.raises(ValueError, match="serve, train, serving_default"):
        layers.TFSMLayer(tmp_path / "m", "other")
    with pytest.raises(ValueError, match="neither"):
        layers.TFSMLayer(tmp_path / "m", "slots")


def test_a_traced_function_needs_no_input_signature(tmp_path):
    model, data = sequential()
    serve = tk.function(lambda x: {"p": tk.nn.softmax(model(x))})
    archive = keras.export.ExportArchive()
    archive.track(model)
    with pytest.raises(ValueError, match="input_signature"):
        archive.add_endpoint("serve", serve)
    serve(tk.constant(data))
    archive.add_endpoint("serve", serve)
    archive.write_out(tmp_path / "m", verbose=False)
    same(tk.saved_model.load(tmp_path / "m").serve(data), serve(tk.constant(data)))


def test_several_arguments_need_an_input_signature(tmp_path):
    class Two(keras.Model):
        def call(self, x, y):
            return x + y

    model = Two()
    model(rows(2, 3), rows(2, 3))
    with pytest.raises(ValueError, match="takes x, y"):
        model.export(tmp_path / "m")
    spec = [layers.InputSpec(shape=(None, 3), dtype="float32"), tk.TensorSpec((None, 3), name="y")]
    model.export(tmp_path / "m", verbose=False, input_signature=spec)
    same(tk.saved_model.load(tmp_path / "m").serve(rows(5, 3), rows(5, 3)), rows(5, 3) * 2)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda a, m: a.track(3), "can't be tracked"),
        (lambda a, m: a.track(layers.Dense(2)), "has not been built"),
        (lambda a, m: a.write_out("nowhere"), "add_endpoint"),
        (lambda a, m: a.add_endpoint("variables", m.call, []), "taken"),
        (lambda a, m: a.add_endpoint("a b", m.call, []), "identifier"),
        (lambda a, m: a.add_endpoint("f", m.call, [layers.InputSpec(ndim=2)]), "shape and a dtype"),
        (lambda a, m: a.add_variable_collection("v", 3), "no list"),
        (lambda a, m: a.add_variable_collection("v", [3]), "no variable"),
    ],
)
def test_what_an_archive_refuses(act, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=why):
        act(keras.export.ExportArchive(), sequential()[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["openvino", "litert", "tf", "h5"])
def test_other_formats_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="tf_saved_model"):
        sequential()[0].export(tmp_path / "m", format=name)
    with pytest.raises(TypeError, match="is_static"):
        sequential()[0].export(tmp_path / "m", is_static=True)
    assert not list(tmp_path.iterdir())


def test_a_model_that_was_never_called(tmp_path):
    model = keras.Sequential([layers.Dense(2)])
    with pytest.raises(ValueError, match="has not been built"):
        model.export(tmp_path / "m")
    with pytest.warns(UserWarning, match="without a signature"):
        tk.saved_model.save(model, tmp_path / "m")
    assert len(tk.saved_model.load(tmp_path / "m").signatures) == 0


def test_text_is_refused_and_writes_nothing(tmp_path):
    table = layers.StringLookup(vocabulary=["a", "b"])
    model = keras.Sequential([keras.Input((1,), dtype="string"), table, layers.Embedding(4, 2)])
    with pytest.raises(NotImplementedError, match="StringLookup"):
        model.export(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_it_says_what_it_wrote(tmp_path, capsys):
    model = sequential()[0]
    model.export(tmp_path / "m")
    assert "Endpoint 'serve'" in capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.export(tmp_path / "m", verbose=False)
    assert not capsys.readouterr().out


class Counting(layers.Layer):
    def __init__(self):
        super().__init__()
        self.counter = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False
        )

    def call(self, x):
        self.counter.assign_add(1)
        return x, keras.ops.array(self.counter.value)


class Noisy(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator()

    def call(self, x):
        return x + keras.random.uniform(keras.ops.shape(x), seed=self.seeds)


@pytest.mark.parametrize("kind", ["stack", "subclass"])
def test_state_goes_on_where_it_was(kind, tmp_path):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = Counting()

        def call(self, x):
            return self.inner(x)

    model = keras.Sequential([keras.Input((3,)), Counting()]) if kind == "stack" else Own()
    model(rows(2, 3))
    model.export(tmp_path / "m", verbose=False)
    again = tk.saved_model.load(tmp_path / "m")
    assert [int(again.serve(rows(5, 3))[1]) for _ in range(3)] == [2, 3, 4]
    assert int(model(rows(2, 3))[1]) == 2


def test_each_call_draws_other_numbers(tmp_path):
    model = keras.Sequential([keras.Input((3,)), Noisy()])
    model.export(tmp_path / "m", verbose=False)
    serve = tk.saved_model.load(tmp_path / "m").serve
    assert np.abs(np.asarray(serve(rows(5, 3))) - np.asarray(serve(rows(5, 3)))).max() > 0.01


@keras.saving.register_keras_serializable("test_exporting")
class Pairs(keras.Model):
    def call(self, inputs):
        x, y = inputs.values() if isinstance(inputs, dict) else inputs
        return x + y


@pytest.mark.parametrize("nest", [tuple, list, lambda xs: dict(zip("xy", xs, strict=True))])
def test_nested_inputs_of_a_model_that_was_loaded(nest, tmp_path):
    model, data = Pairs(), nest([rows(3, 4), rows(3, 4)])
    model(data)
    model.save(tmp_path / "m.keras")
    for kept in (model, keras.models.load_model(tmp_path / "m.keras")):
        kept.export(tmp_path / "m", verbose=False)
        same(tk.saved_model.load(tmp_path / "m").serve(data), model(data))


def test_arguments_come_in_the_order_of_the_call(tmp_path):
    class Two(keras.Model):
        def build(self, y_shape, x_shape):
            self.built = True

        def call(self, x, y):
            return keras.ops.concatenate([x, y], -1)

    model = Two()
    model(rows(2, 3), rows(2, 5))
    model.export(tmp_path / "m", verbose=False)
    again = tk.saved_model.load(tmp_path / "m")
    assert list(again.signatures["serve"].structured_input_signature[1]) == ["x", "y"]
    same(again.serve(rows(4, 3), rows(4, 5)), model(rows(4, 3), rows(4, 5)))


@pytest.mark.parametrize("safe_mode", [None, True])
def test_a_config_does_not_choose_a_folder(safe_mode, tmp_path):
    model, _ = sequential()
    model.export(tmp_path / "m", verbose=False)
    config = layers.TFSMLayer(tmp_path / "m").get_config()
    with pytest.raises(tk.errors.ConfigError, match="safe_mode=False"):
        layers.TFSMLayer.from_config(config, safe_mode=safe_mode)
    with pytest.raises(tk.errors.ConfigError, match="safe_mode=False"):
        layers.deserialize({"class_name": "TFSMLayer", "config": config})


def test_a_layer_of_a_folder_comes_from_its_config(tmp_path):
    model, data = sequential()
    model.export(tmp_path / "m", verbose=False)
    layer = layers.TFSMLayer(tmp_path / "m")
    again = layers.TFSMLayer.from_config(layer.get_config(), safe_mode=False)
    same(again(data), layer(data))
    assert len(again.weights) == len(layer.weights)
