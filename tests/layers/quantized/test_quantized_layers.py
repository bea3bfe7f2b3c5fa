"""Layers that are quantized: values, gradients, files, copies, and what is refused."""

import copy
import pickle

import numpy as np
import pytest

import trainkit as tk
from trainkit import quantizers
from trainkit.keras import layers, models

RNG = np.random.default_rng(5)
NO_GROUPS = quantizers.Int4QuantizationConfig(block_size=None)
SMALL_GROUPS = quantizers.Int4QuantizationConfig(block_size=8)
WEIGHTS_ONLY = quantizers.Int8QuantizationConfig(activation_quantizer=None)
CUSTOM_4 = quantizers.Int4QuantizationConfig(
    quantizers.AbsMaxQuantizer(axis=0, value_range=(-8, 7)),
    quantizers.AbsMaxQuantizer(axis=-1),
    block_size=None,
)
MODES = {
    "int8": ("int8", None, 0.02),
    "int8 weights": ("int8", WEIGHTS_ONLY, 0.02),
    "int4": ("int4", None, 0.3),
    "int4 groups of 8": ("int4", SMALL_GROUPS, 0.2),
    "int4 no groups": ("int4", NO_GROUPS, 0.3),
    "int4 own quantizers": ("int4", CUSTOM_4, 0.3),
    "float8": ("float8", None, 0.1),
}
EACH_MODE = pytest.mark.parametrize("mode", MODES)


def dense(**more):
    return layers.Dense(6, activation="relu", bias_initializer="normal", **more)


def einsum(equation, shape, bias=None, **more):
    return lambda: layers.EinsumDense(equation, shape, bias_axes=bias, **more)


LAYERS = {
    "dense": (dense, (4, 20)),
    "dense no bias": (lambda: layers.Dense(7, use_bias=False), (4, 3, 20)),
    "einsum": (einsum("abc,cd->abd", (None, 5), "d"), (2, 3, 20)),
    "einsum heads": (einsum("abc,cde->abde", (None, 2, 3), "de"), (2, 3, 20)),
    "einsum back": (einsum("abde,dec->abc", (None, 5), "c"), (2, 3, 4, 5)),
    "einsum dots": (einsum("...x,xy->...y", 5, "y"), (2, 3, 20)),
    "einsum turned": (einsum("abc,dc->adb", (5, 3)), (2, 3, 20)),
}
EACH_LAYER = pytest.mark.parametrize("name", LAYERS)


def made(name, seed=1):
    tk.random.set_seed(seed)
    make, shape = LAYERS[name]
    layer = make()
    x = tk.constant(RNG.normal(size=shape).astype("float32"))
    return layer, x, layer(x)


def quantized(name, mode):
    layer, x, y = made(name)
    mode, config, tolerance = MODES[mode]
    layer.quantize(mode, config=config)
    return layer, x, y, tolerance


@EACH_MODE
@EACH_LAYER
def test_results_stay_near_eagerly_compiled_and_again(name, mode):
    layer, x, y, tolerance = quantized(name, mode)
    got = layer(x)
    assert float(tk.reduce_max(tk.abs(got - y))) < tolerance * float(tk.reduce_max(tk.abs(y)) + 1)
    assert not np.array_equal(got, y)
    np.testing.assert_array_equal(layer(x), got)
    np.testing.assert_allclose(tk.function(layer)(x), got, rtol=1e-5, atol=1e-6)
    assert layer.compute_output_shape(tuple(x.shape))[-1] == y.shape[-1]


@EACH_MODE
@EACH_LAYER
def test_the_gradient_by_the_input_is_that_of_the_floats_nearly(name, mode):
    layer, x, _ = made(name)
    with tk.GradientTape() as tape:
        tape.watch(x)
        total = tk.reduce_sum(layer(x))
    wanted = tape.gradient(total, x)
    chosen, config, tolerance = MODES[mode]
    layer.quantize(chosen, config=config)
    with tk.GradientTape() as tape:
        tape.watch(x)
        total = tk.reduce_sum(layer(x))
    got = tape.gradient(total, x)
    far = tk.abs(got - wanted) > 3 * tolerance * float(tk.reduce_max(tk.abs(wanted)) + 1)
    assert float(tk.reduce_mean(tk.cast(far, "float32"))) < 0.1  # a relu may flip


@EACH_MODE
@EACH_LAYER
@pytest.mark.parametrize("kind", ["keras", "weights", "config", "deepcopy", "pickle", "checkpoint"])
def test_files_and_copies_give_the_same_results(name, mode, kind, tmp_path):
    layer, x, _, _ = quantized(name, mode)
    model = models.Sequential([layers.Input(tuple(x.shape[1:])), layer])
    wanted = model(x)
    if kind == "keras":
        model.save(tmp_path / "m.keras")
        again = tk.keras.saving.load_model(tmp_path / "m.keras")
    elif kind == "deepcopy":
        again = copy.deepcopy(model)
    elif kind == "pickle":
        again = pickle.loads(pickle.dumps(layer))
    else:
        again = models.Sequential.from_config(model.get_config())
        assert again.layers[0].quantization_mode == MODES[mode][0]
        if kind == "weights":
            model.save_weights(tmp_path / "m.weights.h5")
            again.load_weights(tmp_path / "m.weights.h5")
        elif kind == "checkpoint":
            tk.train.Checkpoint(model=model).write(tmp_path / "c")
            tk.train.Checkpoint(model=again).read(tmp_path / "c").assert_consumed()
        else:
            again.set_weights(
                [dict((w.name, w) for w in model.weights)[w.name].numpy() for w in again.weights]
            )
    np.testing.assert_array_equal(again(x), wanted)


@pytest.mark.parametrize(("policy", "compute"), [("mixed_bfloat16", "bfloat16"), ("float64",) * 2])
@pytest.mark.parametrize("mode", ["int8", "int4", "float8", "ternary"])
def test_other_dtypes(policy, compute, mode):
    layer = layers.Dense(6, dtype=policy)
    x = tk.constant(RNG.normal(size=(4, 20)))
    y = layer(x)
    layer.quantize(mode)
    got = layer(x)
    assert (got.dtype, layer.dtype_policy.name) == (compute, layer.dtype_policy.name)
    assert layer.dtype_policy.name.endswith(f"_from_{policy}")
    if mode != "ternary":
        assert float(tk.reduce_max(tk.abs(tk.cast(got - y, "float32")))) < 0.7


def test_int8_and_float16_do_not_go_together():
    layer = layers.Dense(2, dtype="float16")
    layer.build((None, 3))
    with pytest.raises(ValueError, match="float16"):
        layer.quantize("int8")
    with pytest.raises(ValueError, match="float16"):
        layers.Dense(2, dtype="int8_from_float16")


def test_a_dense_layer_of_many_inputs_sums_integers_without_loss():
    """5000 products of 127 * 127 leave the whole numbers of float32."""
    layer = layers.Dense(2, use_bias=False, kernel_initializer="ones")
    x = np.ones((2, 5000), "float32")
    x[0, 1::2] = 0.25
    layer(x)
    layer.quantize("int8")
    quarter = 32 / 127
    np.testing.assert_allclose(layer(x)[0], 2500 * (1 + quarter), rtol=1e-6)
    np.testing.assert_allclose(layer(x)[1], 5000, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.quantize("int8"),
        lambda layer: layer.quantize("int7"),
        lambda layer: layer.quantize("gptq"),
        lambda layer: layer.quantize("int4", config=quantizers.Int8QuantizationConfig()),
    ],
)
def test_a_layer_is_quantized_once_and_a_refusal_changes_nothing(change):
    layer, x, _, _ = quantized("dense", "int4")
    before = layer(x), {k: id(v) for k, v in layer.__dict__.items()}, type(layer)
    with pytest.raises(ValueError, match=r"already quantized|Invalid|must pass|Contradictory"):
        change(layer)
    np.testing.assert_array_equal(layer(x), before[0])
    assert type(layer) is before[2]


class Sub(layers.Dense):
    """A class of the user."""


def test_classes_derived_from_a_layer_are_left_alone_unless_asked():
    layer = Sub(3)
    x = tk.ones((2, 4))
    y = layer(x)
    with pytest.raises(NotImplementedError, match="Sub"):
        layer.quantize("int8")
    assert type(layer) is Sub
    np.testing.assert_array_equal(layer(x), y)
    layer.quantize("int8", type_check=False)
    assert isinstance(layer, Sub)
    assert layer.quantization_mode == "int8"
    twin = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(twin(x), layer(x))


@pytest.mark.parametrize(
    ("layer", "mode"),
    [
        (lambda: layers.ReLU(), "int8"),
        (lambda: layers.Embedding(4, 3), "float8"),
        (lambda: layers.EinsumDense("ab,bc->ac", 3), "ternary"),
        (lambda: layers.TernaryDense(3), "int8"),
    ],
)
def test_modes_that_a_layer_does_not_have(layer, mode):
    layer = layer()
    layer(np.ones((2, 3), "int32" if isinstance(layer, layers.Embedding) else "float32"))
    with pytest.raises(NotImplementedError):
        layer.quantize(mode)
    assert layer.quantization_mode is None


def test_a_layer_without_weights_yet_says_so():
    with pytest.raises(ValueError, match="isn't yet built"):
        layers.Dense(2).quantize("int8")


def test_setting_the_policy_quantizes():
    layer, x, _ = made("dense")
    layer.dtype_policy = "int4/8_from_float32"
    assert tuple(layer.kernel_scale.shape) == (3, 6)
    assert layer.dtype_policy.name == "int4/8_from_float32"
    other, _, _ = made("dense")
    with pytest.raises(ValueError, match="calibration"):
        other.dtype_policy = "gptq/4/8_from_float32"
    assert other.quantization_mode is None
    np.testing.assert_array_equal(other(x), made("dense")[0](x))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_shapes_without_values_leave_a_layer_unbuilt(mode):
    layer = layers.Dense(3, dtype=f"{mode}_from_float32")
    assert layer.compute_output_shape((None, 4)) == (None, 3)
    assert not layer.built
    assert layer(tk.ones((2, 4))).shape == (2, 3)
    assert len(layer.weights) == 3


# ------------------------------------------------------------------ embeddings


@pytest.mark.parametrize("config", [None, NO_GROUPS, SMALL_GROUPS], ids=["8", "4", "4 groups"])
@pytest.mark.parametrize("kind", ["plain", "tied", "untied"])
def test_embeddings_look_up_and_score(config, kind, tmp_path):
    more = {} if kind == "plain" else {"tie_weights": kind == "tied"}
    cls = layers.Embedding if kind == "plain" else layers.ReversibleEmbedding
    layer = cls(30, 17, embeddings_initializer="normal", **more)
    ids = np.array([[0, 29], [5, 5]])
    rows = layer(ids)
    vectors = tk.constant(RNG.normal(size=(2, 17)).astype("float32"))
    scores = layer(vectors, reverse=True) if more else None
    layer.quantize("int8" if config is None else "int4", config=config)
    near = 0.002 if config is None else 0.02
    assert float(tk.reduce_max(tk.abs(layer(ids) - rows))) < near
    np.testing.assert_array_equal(tk.function(layer)(tk.constant(ids)), layer(ids))
    if scores is not None:
        assert float(tk.reduce_max(tk.abs(layer(vectors, reverse=True) - scores))) < 12 * near
    store = {}
    layer.save_own_variables(store)
    again = cls.from_config(layer.get_config())
    again.build(None)
    again.load_own_variables(store)
    np.testing.assert_array_equal(again(ids), layer(ids))
    model = models.Sequential([layer])
    model.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(tk.keras.saving.load_model(tmp_path / "m.keras")(ids), layer(ids))


def test_masks_of_an_embedding_stay():
    layer = layers.Embedding(5, 3, mask_zero=True)
    layer(np.array([[1, 0]]))
    layer.quantize("int8")
    np.testing.assert_array_equal(layer.compute_mask(tk.constant([[1, 0]])), [[True, False]])


# ------------------------------------------------------------------ ternary


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
@pytest.mark.parametrize("bias", [True, False])
def test_a_ternary_layer_gives_the_same_when_packed(threshold, bias):
    layer = layers.TernaryDense(7, threshold=threshold, use_bias=bias)
    x = tk.constant(RNG.normal(size=(3, 13)).astype("float32"))
    y = layer(x)
    signs = np.unique(np.round(layer._ternary_kernel().numpy(), 5))
    assert set(signs) <= {-1.0, 0.0, 1.0}
    layer.quantize("ternary")
    assert layer._packed_kernel.shape == (3, 7)
    np.testing.assert_allclose(layer(x), y, rtol=1e-5, atol=1e-6)


def test_a_ternary_layer_trains():
    layer = layers.TernaryDense(1)
    x = tk.constant(RNG.normal(size=(64, 5)).astype("float32"))
    y = x[:, :1] - x[:, 3:4]
    model = models.Sequential([layer])
    model.compile("sgd", "mse")
    model.fit(x, y, epochs=1, verbose=0)
    start = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=40, verbose=0)
    assert model.evaluate(x, y, verbose=0) < start


# ------------------------------------------------------------------ float8


@pytest.mark.parametrize("eagerly", [True, False])
def test_float8_trains_and_moves_its_scales_on(eagerly):
    tk.random.set_seed(0)
    model = models.Sequential([layers.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1)])
    model.quantize("float8", verbose=False)
    model.compile(tk.optimizers.Adam(0.02), "mse", run_eagerly=eagerly)
    x = RNG.normal(size=(128, 8)).astype("float32")
    y = x @ RNG.normal(size=(8, 1)).astype("float32")
    start = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=32, epochs=12, verbose=0)
    assert model.evaluate(x, y, verbose=0) < start / 5
    first = model.layers[0]
    history = first.inputs_amax_history.numpy()
    assert np.count_nonzero(history) == 48
    assert float(first.inputs_scale) == pytest.approx(history[history > 0].max() / 448, rel=0.2)
    assert float(first.outputs_grad_scale) != 1.0
    before = history.copy()
    model.predict(x, verbose=0)
    np.testing.assert_array_equal(first.inputs_amax_history, before)


def test_a_policy_says_how_long_the_history_is():
    policy = tk.keras.dtype_policies.QuantizedFloat8DTypePolicy("float8", "float32", 16)
    layer = layers.Dense(2, dtype=policy)
    layer.build((None, 3))
    assert layer.inputs_amax_history.shape == (16,)
    assert layers.Dense.from_config(layer.get_config()).dtype_policy == policy


# ------------------------------------------------------------------ maps of policies


def test_a_map_of_policies_quantizes_layers_by_path():
    policies = tk.keras.dtype_policies.DTypePolicyMap("float32")
    policies["net/first"] = "int8_from_float32"
    policies["net/.*last"] = "mixed_bfloat16"

    class Net(layers.Layer):
        def __init__(self):
            super().__init__(name="net", dtype=policies)
            self.first = layers.Dense(3, name="first", dtype=policies)
            self.last = layers.Dense(3, name="last", dtype=policies)

        def call(self, x):
            return self.last(self.first(x))

    net = Net()
    y = net(tk.ones((2, 4)))
    assert net.first.quantization_mode == "int8"
    assert net.first._kernel.dtype == "int8"
    assert (net.last.quantization_mode, net.last.compute_dtype) == (None, "bfloat16")
    assert y.dtype == "bfloat16"


@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
def test_sizes_that_are_not_known_yet(mode):
    inputs = layers.Input((None, 8))
    model = models.Model(inputs, layers.EinsumDense("abc,cde->abde", (None, 3, 4))(inputs))
    model.quantize(mode, verbose=False)
    x = tk.constant(RNG.normal(size=(2, 5, 8)).astype("float32"))
    compiled = tk.function(model, input_signature=[tk.TensorSpec((None, None, 8), tk.float32)])
    np.testing.assert_allclose(compiled(x), model(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x), rtol=1e-5, atol=1e-6)
