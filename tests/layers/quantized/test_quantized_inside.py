"""Models whose layers make others themselves, which are quantized or frozen: files and copies."""

import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import layers, models

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 8, 16)).astype("float32")


@tk.keras.saving.register_keras_serializable("quantized inside")
class Block(layers.Layer):
    """Attention and a stack, none of which its config tells of."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(2, 8)
        self.project = layers.Dense(16)
        self.stack = tk.Sequential([layers.Dense(8, "relu"), layers.Dense(16)])

    def build(self, input_shape):
        self.attention.build(input_shape, input_shape)
        self.project.build(input_shape)
        self.stack.build(input_shape)

    def call(self, x):
        return self.stack(self.project(x + self.attention(x, x)))


@tk.keras.saving.register_keras_serializable("quantized inside")
class Reader(models.Model):
    """A model that is no graph of layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.block = Block()
        self.score = layers.Dense(2)

    def call(self, x):
        return self.score(self.block(x))


def _attention():
    inputs = tk.Input((8, 16))
    attended = layers.MultiHeadAttention(2, 8)(inputs, inputs)
    return models.Model(inputs, layers.Dense(4)(attended))


MODELS = {
    "attention": _attention,
    "grouped": lambda: tk.Sequential(
        [tk.Input((8, 16)), layers.TimeDistributed(layers.Dense(16)), Block()]
    ),
    "block": lambda: tk.Sequential([tk.Input((8, 16)), Block(), layers.Dense(3)]),
    "subclass": Reader,
}


def quantized(name, mode):
    tk.random.set_seed(3)
    model = MODELS[name]()
    model(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers that have no weights
        model.quantize(mode, verbose=False)
    return model


def policies(model):
    return [part.dtype_policy.name for part in model._flatten_layers()]


@pytest.mark.parametrize("ending", [".keras", ".h5"])
@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
@pytest.mark.parametrize("name", MODELS)
def test_a_file_brings_back_what_layers_inside_were_quantized_to(name, mode, ending, tmp_path):
    model = quantized(name, mode)
    assert any(part.quantization_mode == mode for part in model.layers[1]._flatten_layers())
    model.save(tmp_path / f"model{ending}")
    loaded = models.load_model(tmp_path / f"model{ending}", compile=False)
    assert policies(loaded) == policies(model)
    np.testing.assert_array_equal(loaded(X), model(X))
    loaded.save(tmp_path / f"again{ending}")  # what was read can be written and read
    again = models.load_model(tmp_path / f"again{ending}", compile=False)
    np.testing.assert_array_equal(again(X), model(X))


@pytest.mark.parametrize("name", ["attention", "block"])
def test_a_clone_has_weights_of_the_same_forms(name):
    model = quantized(name, "int8")
    clone = models.clone_model(model)
    assert policies(clone) == policies(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(X), model(X))


@pytest.mark.parametrize("ending", [".keras", ".h5"])
@pytest.mark.parametrize("mode", [None, "int8"])
@pytest.mark.parametrize("name", ["attention", "grouped", "subclass"])
def test_lora_inside_is_trained_saved_and_trained_on(name, mode, ending, tmp_path):
    model = quantized(name, mode) if mode else MODELS[name]()
    y = np.zeros(model(X).shape, "float32")
    for part in model._flatten_layers():
        if isinstance(part, layers.Dense | layers.EinsumDense):
            part.enable_lora(2, 3)
    model.compile("sgd", "mse")
    model.fit(X, y, shuffle=False, verbose=0)
    model.save(tmp_path / f"model{ending}")
    loaded = models.load_model(tmp_path / f"model{ending}")
    np.testing.assert_array_equal(loaded(X), model(X))
    assert [w.shape for w in loaded.trainable_weights] == [w.shape for w in model.trainable_weights]
    if ending == ".keras":  # the other format keeps the sums, in which Keras reads them
        for each in (model, loaded):
            each.fit(X, y, shuffle=False, verbose=0)
        np.testing.assert_array_equal(loaded(X), model(X))


def test_the_class_of_a_quantized_layer_reads_its_config():
    layer = layers.Dense(4)
    layer.build((None, 8))
    layer.quantize("int8")
    other = type(layer).from_config(layer.get_config())
    other.build((None, 8))
    assert [w.shape for w in other.weights] == [w.shape for w in layer.weights]


def freeze_inside(model):
    block = model.block if isinstance(model, Reader) else model.layers[0]
    block.attention.trainable = block.stack.layers[0].trainable = False
    return block


@pytest.mark.parametrize("ending", [".keras", ".h5"])
@pytest.mark.parametrize("name", ["block", "subclass"])
def test_layers_frozen_inside_stay_frozen_and_training_goes_on(name, ending, tmp_path):
    tk.random.set_seed(4)
    model = MODELS[name]()
    y = np.zeros(model(X).shape, "float32")
    freeze_inside(model)
    model.compile("adam", "mse")
    model.fit(X, y, shuffle=False, verbose=0)
    model.save(tmp_path / f"model{ending}")
    loaded = models.load_model(tmp_path / f"model{ending}")
    assert len(loaded.trainable_weights) == len(model.trainable_weights) < len(model.weights) - 9
    for each in (model, loaded):
        each.fit(X, y, shuffle=False, verbose=0)
    np.testing.assert_array_equal(loaded(X), model(X))
    assert len(models.clone_model(model).trainable_weights) == len(model.trainable_weights)


def test_one_direction_is_frozen_and_the_other_is_not(tmp_path):
    model = tk.Sequential([tk.Input((8, 16)), layers.Bidirectional(layers.LSTM(4))])
    model.layers[0].forward_layer.trainable = False
    model.save(tmp_path / "model.keras")
    for loaded in models.load_model(tmp_path / "model.keras"), models.clone_model(model):
        assert len(loaded.trainable_weights) == 3
        assert loaded.layers[0].backward_layer.trainable


def test_what_is_frozen_as_a_whole_thaws_as_a_whole(tmp_path):
    model = MODELS["block"]()
    model.layers[0].trainable = False
    model.save(tmp_path / "model.keras")
    loaded = models.load_model(tmp_path / "model.keras")
    assert not loaded.layers[0].trainable_weights
    loaded.layers[0].trainable = model.layers[0].trainable = True
    assert len(loaded.trainable_weights) == len(model.trainable_weights) > 2


@tk.keras.saving.register_keras_serializable("quantized inside")
class Early(layers.Layer):
    """Builds what it makes in its constructor, or by a build_from_config of its own."""

    def __init__(self, early=True, **kwargs):
        super().__init__(**kwargs)
        self.early, self.project = early, layers.Dense(16)
        if early:
            self.project.build((None, 16))
            self.built = True

    def build(self, input_shape):
        if not self.early:
            self.project.build(input_shape)
        super().build(input_shape)

    def build_from_config(self, config):
        self.build(tuple(config["input_shape"]))

    def call(self, x):
        return self.project(x)

    def get_config(self):
        return {**super().get_config(), "early": self.early}


@pytest.mark.parametrize("early", [True, False])
def test_whatever_builds_a_layer_forms_inside_come_back(early, tmp_path):
    model = tk.Sequential([tk.Input((8, 16)), Early(early), layers.Dense(2)])
    model.layers[0].project.trainable = False
    model.layers[0].project.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = models.load_model(tmp_path / "model.keras")
    assert policies(loaded) == policies(model)
    assert not loaded.layers[0].project.trainable
    np.testing.assert_array_equal(loaded(X), model(X))


def test_a_frozen_bias_inside_stays_frozen(tmp_path):
    model = quantized("block", "int8")
    model.layers[0].project.bias.trainable = False
    model.save(tmp_path / "model.keras")
    loaded = models.load_model(tmp_path / "model.keras")
    assert not loaded.layers[0].project.bias.trainable
    assert len(loaded.trainable_weights) == len(model.trainable_weights)


@pytest.mark.parametrize(
    ("forms", "message"),
    [
        ([0], "must name layers inside of it by numbers below 6, got \\[0\\]"),
        ({"9": {}}, "must name layers inside of it by numbers below 6, got {'9'"),
        ({"0": {}}, "'query' inside of it can't have the form that layer_forms says"),
        (
            {"0": {"dtype": "int8_from_float32"}},
            "'query' inside .*: 'quantization_config'. It says",
        ),
        ({"4": {"dtype": "int8_from_float32", "quantization_config": None}}, "can't be quantized"),
        ({"0": {"lora_rank": 0, "lora_alpha": 1}}, "the rank of LoRA must be an int above 0"),
        ({"4": {"lora_rank": 2, "lora_alpha": 2}}, "has no attribute 'enable_lora'"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(forms, message):
    layer = layers.MultiHeadAttention(2, 8)
    shapes = {"query_shape": (None, 8, 16), "value_shape": (None, 8, 16)}
    with pytest.raises(tk.errors.ConfigError, match=message):
        layer.build_from_config({"shapes_dict": shapes, "layer_forms": forms})
