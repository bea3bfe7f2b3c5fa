"""LoRA: the sum, what trains, files, and layers of 8 and 4 bits."""

import copy
import pickle

import numpy as np
import pytest

import trainkit as tk
from trainkit import quantizers
from trainkit.keras import layers, models

RNG = np.random.default_rng(8)
IDS = tk.constant(RNG.integers(0, 9, (4, 3)), "int32")


def floats(*shape):
    return tk.constant(RNG.normal(size=shape).astype("float32"))


LAYERS = {
    "dense": (lambda **k: layers.Dense(6, "relu", **k), floats(4, 10)),
    "dense gelu": (lambda **k: layers.Dense(6, "gelu", **k), floats(4, 10)),
    "dense no bias": (lambda **k: layers.Dense(6, use_bias=False, **k), floats(4, 10)),
    "einsum": (
        lambda **k: layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de", **k),
        floats(4, 5, 10),
    ),
    "conv": (lambda **k: layers.Conv2D(6, 3, activation="relu", **k), floats(2, 7, 7, 3)),
    "causal": (lambda **k: layers.Conv1D(6, 3, padding="causal", **k), floats(2, 7, 3)),
    "embedding": (lambda **k: layers.Embedding(9, 6, **k), IDS),
}
EACH = pytest.mark.parametrize("name", LAYERS)
MODES = {
    "none": None,
    "int8": quantizers.Int8QuantizationConfig(),
    "int4": quantizers.Int4QuantizationConfig(block_size=4),
    "int4 plain": quantizers.Int4QuantizationConfig(block_size=None),
}


def made(name, mode="none", **arguments):
    make, x = LAYERS[name]
    if mode != "none" and "c" in name[:1]:
        pytest.skip("convolutions are not quantized")
    layer = make(**arguments)
    y = layer(x)
    if MODES[mode] is not None:
        layer.quantize(config=MODES[mode])
        y = layer(x)
    return layer, x, y


def pair(layer):
    return [layer.__dict__[name] for name in layer._lora_pair]


@EACH
@pytest.mark.parametrize("mode", MODES)
def test_it_begins_with_nothing_added_and_trains_the_pair_alone(name, mode):
    layer, x, y = made(name, mode)
    kept = {w.path: w.numpy() for w in layer.weights}
    layer.enable_lora(2)
    np.testing.assert_allclose(layer(x), y, rtol=1e-6, atol=1e-6)
    bias = 1 if getattr(layer, "bias", None) is not None else 0
    assert len(layer.trainable_weights) == 2 + bias
    model = models.Sequential([layer, layers.Flatten(), layers.Dense(1)])
    target = tk.random.normal((x.shape[0], 1))
    model.compile(tk.optimizers.Adam(0.05), "mse")
    start = model.evaluate(x, target, verbose=0)
    model.fit(x, target, epochs=15, verbose=0)
    assert model.evaluate(x, target, verbose=0) < start
    frozen = [w for w in layer.weights if not w.trainable]
    for weight in frozen:
        np.testing.assert_array_equal(weight, kept[weight.path])
    assert all(np.abs(w.numpy()).sum() > 0 for w in pair(layer))
    np.testing.assert_allclose(tk.function(layer)(x), layer(x), rtol=1e-5, atol=1e-5)


@EACH
@pytest.mark.parametrize("alpha", [None, 3.0])
def test_the_sum_is_that_of_the_formula(name, alpha):
    layer, x, _ = made(name)
    layer.enable_lora(2, lora_alpha=alpha)
    for weight in pair(layer):
        weight.assign(RNG.normal(size=weight.shape))
    a, b = (w.numpy() for w in pair(layer))
    attribute = "embeddings" if name == "embedding" else "kernel"
    kept = layer.__dict__[attribute].numpy()
    wanted = kept + (1 if alpha is None else alpha / 2) * (a @ b)
    np.testing.assert_allclose(getattr(layer, attribute).numpy(), wanted, rtol=1e-5, atol=1e-5)
    plain = LAYERS[name][0]()
    plain(x)
    plain.set_weights([wanted, *[w.numpy() for w in layer.weights if "bias" in w.path]])
    np.testing.assert_allclose(layer(x), plain(x), rtol=1e-4, atol=1e-4)


@EACH
@pytest.mark.parametrize("mode", MODES)
def test_files_have_the_sum_and_plain_layers_read_it(name, mode, tmp_path):
    layer, x, _ = made(name, mode)
    layer.enable_lora(2)
    for weight in pair(layer):
        weight.assign(RNG.normal(size=weight.shape) * 0.05)
    model = models.Sequential([layers.Input(x.shape[1:], dtype=x.dtype.name), layer])
    y = model(x)
    np.testing.assert_array_equal(copy.deepcopy(layer)(x), y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(x), y)
    near = 1e-5 if mode == "none" else 0.02 if mode == "int8" else 0.5
    model.save(tmp_path / "m.keras")
    again = tk.keras.saving.load_model(tmp_path / "m.keras")
    assert again.layers[0].lora_enabled
    np.testing.assert_array_equal(again(x), y)
    for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    plain, _, _ = made(name, mode)
    plain_model = models.Sequential([layers.Input(x.shape[1:], dtype=x.dtype.name), plain])
    model.save_weights(tmp_path / "m.weights.h5")
    plain_model.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_allclose(plain(x), y, atol=near)
    other, _, _ = made(name, mode, lora_rank=3) if mode == "none" else (None, x, y)
    if other is not None:  # the matrices of another rank add nothing to the sum
        models.Sequential([layers.Input(x.shape[1:], dtype=x.dtype.name), other]).load_weights(
            tmp_path / "m.weights.h5"
        )
        np.testing.assert_allclose(other(x), y, atol=near)


@EACH
def test_a_sum_by_keras_goes_on_training(name):
    """Keras's files have the sum alone; two matrices of zeros would have no gradient."""
    layer, x, _ = made(name)
    layer.enable_lora(2)
    second = pair(layer)[1]
    second.assign(RNG.normal(size=second.shape))
    y, store = layer(x), {}
    layer.save_own_variables(store)
    layer.load_own_variables(store)
    np.testing.assert_allclose(layer(x), y, rtol=1e-4, atol=1e-4)
    assert not second.numpy().any()
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum(layer(x) ** 2)
    assert np.abs(tape.gradient(loss, second)).max() > 0


@EACH
def test_the_rank_may_be_an_argument(name):
    layer, _, _ = made(name, lora_rank=3, lora_alpha=6)
    assert (layer.lora_enabled, layer.lora_rank, layer.lora_alpha) == (True, 3, 6)
    config = layer.get_config()
    assert (config["lora_rank"], config["lora_alpha"]) == (3, 6)
    assert "lora_rank" not in made(name)[0].get_config()


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="isn't yet built"):
        layers.Dense(2).enable_lora(2)
    bounded = layers.Dense(2, kernel_constraint="max_norm")
    bounded.build((None, 3))
    with pytest.raises(ValueError, match="kernel_constraint"):
        bounded.enable_lora(2)
    layer, x, y = made("dense")
    for rank in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="rank"):
            layer.enable_lora(rank)
    assert not layer.lora_enabled
    np.testing.assert_array_equal(layer(x), y)
    layer.enable_lora(1)
    with pytest.raises(ValueError, match="already enabled"):
        layer.enable_lora(1)
    assert not hasattr(layers.ReLU(), "enable_lora")


def test_floats_with_lora_can_be_quantized():
    layer, x, _ = made("dense")
    layer.enable_lora(2)
    for weight in pair(layer):
        weight.assign(RNG.normal(size=weight.shape) * 0.1)
    y = layer(x)
    layer.quantize("int8")
    assert layer.lora_enabled
    np.testing.assert_allclose(layer(x), y, atol=0.05)
