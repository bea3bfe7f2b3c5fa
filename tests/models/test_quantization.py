"""`Model.quantize`: which layers it reaches, its report, and that a refusal changes nothing."""

import copy

import numpy as np
import pytest

import trainkit as tk
from trainkit import quantizers
from trainkit.keras import layers, models

RNG = np.random.default_rng(2)
X = tk.constant(RNG.normal(size=(5, 8)).astype("float32"))
MODES = ["int8", "int4", "float8", "ternary"]


def functional():
    inputs = layers.Input((8,))
    x = layers.Dense(12, "relu", name="first")(inputs)
    y = layers.Dense(12, name="second", use_bias=False)(x)
    return models.Model(inputs, layers.Dense(3, name="head")(layers.Add(name="sum")([x, y])))


def nested():
    inner = models.Sequential([layers.Input((12,)), layers.Dense(12, name="inside")], name="inner")
    inputs = layers.Input((8,))
    x = layers.Dense(12, layers.LeakyReLU(), name="first")(inputs)
    return models.Model(inputs, [layers.Dense(3, name="head")(inner(x)), x])


class Subclassed(models.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [layers.Dense(8, "relu", name=f"block{i}") for i in range(2)]
        self.heads = {"a": layers.Dense(2, name="a"), "b": layers.EinsumDense("ab,bc->ac", 3)}

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return {name: head(x) for name, head in self.heads.items()}


MODELS = {"functional": functional, "nested": nested, "subclassed": Subclassed}
EACH_MODEL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
pytestmark = pytest.mark.filterwarnings("ignore:`model.quantize")


def flat(y):
    return np.concatenate([np.reshape(part, -1) for part in tk.nest.flatten(y)])


def quantizable(model):
    kinds = (layers.Dense, layers.EinsumDense)
    return [layer for layer in model._flatten_layers() if isinstance(layer, kinds)]


@EACH_MODEL
@pytest.mark.parametrize("mode", MODES)
def test_all_dense_layers_are_reached(make, mode):
    model = make()
    y = flat(model(X))
    report = model.quantize(mode, verbose=False)
    reached = [layer for layer in quantizable(model) if layer.quantization_mode == mode]
    expected = [
        layer
        for layer in quantizable(model)
        if mode != "ternary" or not isinstance(layer, layers.EinsumDense)
    ]
    assert reached == expected
    assert [path for path, _, _ in report.quantized] == [layer.path for layer in reached]
    got = flat(model(X))
    assert np.isfinite(got).all()
    assert not np.array_equal(got, y)
    if mode != "ternary":
        assert np.abs(got - y).max() < 0.6 * np.abs(y).max()
    np.testing.assert_allclose(flat(model.predict(X, verbose=0)), got, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(flat(copy.deepcopy(model)(X)), got)


@EACH_MODEL
def test_a_model_that_was_run_runs_anew(make):
    """What was compiled before the layers changed is not used afterwards."""
    model = make()
    model.predict(X, verbose=0)
    model.quantize("int8", verbose=False)
    np.testing.assert_allclose(
        flat(model.predict(X, verbose=0)), flat(model(X)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("first", {"first"}),
        (["first", "^head$"], {"first", "head"}),
        (lambda layer: layer.name != "first", {"second", "head"}),
    ],
)
def test_filters_say_which_layers(filters, names):
    model = functional()
    report = model.quantize("int8", filters=filters, verbose=False)
    assert {layer.name for layer in quantizable(model) if layer.quantization_mode} == names
    dropped = {"first", "second", "head"} - names
    assert dropped <= set(report.skipped_by_reason(report.SKIP_FILTERED))


def test_the_report_says_why_layers_were_left_alone(capsys):
    model = functional()
    model.get_layer("first").quantize("int8")
    with pytest.warns(UserWarning, match=r"1 layer\(s\) were skipped because .*'sum'"):
        report = model.quantize("int4")
    assert report.skipped_by_reason(report.SKIP_ALREADY_QUANTIZED) == ["first"]
    assert report.num_quantized == 2
    assert "first: already quantized" in capsys.readouterr().out
    assert "policy : int4/128_from_float32" in model.quantization_summary(verbose=False)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mode": "int7"}, "Invalid quantization mode"),
        ({}, "either `mode` or `config`"),
        ({"mode": "int8", "filters": 3}, "filters"),
        ({"mode": "int8", "speed": 3}, "'speed'"),
        ({"mode": "gptq"}, "GPTQConfig"),
        ({"config": quantizers.GPTQConfig(["a"], len)}, "quantization structure"),
        (
            {
                "config": quantizers.AWQConfig(
                    None, None, quantization_layer_structure={"sequential_blocks": []}
                )
            },
            "dataset",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_changes(arguments, error):
    model = functional()
    y = model(X)
    before = [dict(layer.__dict__) for layer in quantizable(model)]
    with pytest.raises(ValueError, match=error):
        model.quantize(**arguments)
    assert [dict(layer.__dict__) for layer in quantizable(model)] == before
    np.testing.assert_array_equal(model(X), y)


def test_a_layer_that_fails_halfway_leaves_all_as_they_were():
    class Broken(layers.Dense):
        def quantize(self, *args, **kwargs):
            raise AttributeError("broken")

    model = models.Sequential([layers.Input((8,)), layers.Dense(4), Broken(3)])
    y = model(X)
    kinds = [type(layer) for layer in model.layers]
    with pytest.raises(AttributeError, match="broken"):
        model.quantize("int8", verbose=False)
    assert [type(layer) for layer in model.layers] == kinds
    assert model.layers[0].quantization_mode is None
    np.testing.assert_array_equal(model(X), y)
    assert len(model.trainable_variables) == 4


def test_a_model_without_weights_yet_says_so():
    with pytest.raises(ValueError, match="isn't yet built"):
        models.Sequential([layers.Dense(3)]).quantize("int8")


# ------------------------------------------------------------------ GPTQ and AWQ


class Letters:
    def tokenize(self, text):
        return [ord(c) % 20 for c in text]


class Block(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.up = layers.EinsumDense("abc,cde->abde", (None, 2, 16), bias_axes="de")
        self.down = layers.EinsumDense("abde,dec->abc", (None, 16), bias_axes="c")
        self.mix = layers.Dense(16, "relu")

    def call(self, x):
        return x + self.mix(self.down(self.up(x)))


def language_model():
    tokens = layers.Input((10,), dtype="int32")
    embed, blocks = layers.Embedding(20, 16, "normal"), [Block(), Block()]
    x = embed(tokens)
    for block in blocks:
        x = block(x)
    model = models.Model(tokens, layers.Dense(20, name="head")(x))
    return model, {"pre_block_layers": [embed], "sequential_blocks": blocks}


def calibrated(kind, **more):
    tk.random.set_seed(4)
    model, structure = language_model()
    tokens = RNG.integers(0, 20, (4, 10)).astype("int32")
    y = model(tokens)
    config = kind(
        ["the quick brown fox jumps over the lazy dog " * 20],
        Letters(),
        num_samples=16,
        sequence_length=10,
        quantization_layer_structure=structure,
        **more,
    )
    report = model.quantize(config=config, verbose=False)
    return model, tokens, y, report


GPTQ, AWQ = quantizers.GPTQConfig, quantizers.AWQConfig


@pytest.mark.parametrize(
    ("kind", "more", "tolerance"),
    [
        (GPTQ, {"group_size": 8}, 0.2),
        (GPTQ, {"group_size": 8, "activation_order": True}, 0.2),
        (GPTQ, {"group_size": -1, "symmetric": True}, 0.3),
        (GPTQ, {"weight_bits": 8, "per_channel": False, "group_size": -1}, 0.02),
        (GPTQ, {"weight_bits": 2, "group_size": 4}, 0.9),
        (GPTQ, {"weight_bits": 3}, 0.5),
        (AWQ, {"group_size": 8}, 0.2),
        (AWQ, {"group_size": -1, "apply_clip": False, "num_grid_points": 4}, 0.3),
    ],
)
def test_calibrated_models_stay_near_and_go_through_files(kind, more, tolerance, tmp_path):
    model, tokens, y, report = calibrated(kind, **more)
    assert report.num_quantized == 6
    assert report.skipped_by_reason(report.SKIP_OUTSIDE_STRUCTURE)
    got = model(tokens)
    error = float(tk.norm(got - y) / tk.norm(y))
    assert 0 < error < tolerance
    for layer in model._flatten_layers():
        if layer.quantization_mode:
            assert layer.is_gptq_calibrated or layer.is_awq_calibrated
            assert not hasattr(layer, "_kernel")
            assert layer.quantized_kernel.dtype == "uint8"
    model.save_weights(tmp_path / "m.weights.h5")
    again = copy.deepcopy(model)
    for variable in again.variables:
        variable.assign(tk.zeros_like(variable))
    again.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(again(tokens), got)


def test_gptq_is_nearer_than_rounding_alone():
    model, tokens, y, _ = calibrated(GPTQ, group_size=16)
    tk.random.set_seed(4)
    rounded, _ = language_model()
    rounded(tokens)
    config = quantizers.Int4QuantizationConfig(block_size=16)
    rounded.quantize(config=config, filters=["dense", "mix", "einsum"], verbose=False)
    assert float(tk.norm(model(tokens) - y)) < float(tk.norm(rounded(tokens) - y))


def test_layers_that_were_not_calibrated_are_not_saved(tmp_path):
    layer = layers.Dense(4)
    x = tk.ones((2, 8))
    y = layer(x)
    layer.quantize(config=GPTQ(["a"], Letters(), group_size=4))
    np.testing.assert_array_equal(layer(x), y)
    with pytest.raises(ValueError, match="never calibrated"):
        models.Sequential([layer]).save_weights(tmp_path / "m.weights.h5")
    turned = layers.EinsumDense("ab,cb->ac", 3)
    turned(x)
    with pytest.raises(NotImplementedError, match="first axes"):
        turned.quantize(config=GPTQ(["a"], Letters(), group_size=4))
    assert turned.quantization_mode is None


@pytest.mark.parametrize("strategy", ["strided", "linspace", "random"])
def test_calibration_data_is_cut_out_of_short_texts(strategy):
    from trainkit.quantizers.calibration import get_dataloader

    found = get_dataloader(Letters(), 7, ["abc", "de"], num_samples=5, strategy=strategy)
    assert (found.shape, found.dtype) == ((5, 1, 7), np.int32)
    again = get_dataloader(Letters(), 7, ["abc", "de"], num_samples=5, strategy=strategy)
    np.testing.assert_array_equal(found, again)
    with pytest.raises(ValueError, match="empty"):
        get_dataloader(Letters(), 7, [], strategy=strategy)
    with pytest.raises(TypeError, match="iterable"):
        get_dataloader(Letters(), 7, "abc", strategy=strategy)


@pytest.mark.parametrize(
    "optimizer",
    [
        "adam",
        tk.optimizers.SGD(0.1, momentum=0.9, use_ema=True),
        tk.optimizers.LossScaleOptimizer(tk.optimizers.Adam()),
    ],
    ids=["adam", "averages", "loss_scale"],
)
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_trained_model_goes_through_a_file_and_trains_on(optimizer, mode, tmp_path):
    optimizer = copy.deepcopy(optimizer)
    model = models.Sequential([layers.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)])
    model.compile(optimizer, "mse")
    x, y = np.ones((16, 6), np.float32), np.ones((16, 3), np.float32)
    model.fit(x, y, verbose=0)
    model.quantize(mode, verbose=False)
    assert {id(w) for _, w, _ in model.optimizer.slot_variables()} <= {
        id(w) for w in model.trainable_variables
    }
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    again = models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), expected)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    for each in (model, again):
        each.fit(x, y, verbose=0)
    np.testing.assert_allclose(again.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)
