"""Weights of PyTorch's modules in models of trainkit compute the same, and go back as they were."""

import re

import numpy as np
import pytest

import trainkit as tk
from tests.weights import torch_modules as torch_like
from tests.weights.torch_files import write_state
from trainkit.core.errors import (
    CheckpointMismatchError,
    InvalidArgumentError,
    NotBuiltError,
    UnimplementedError,
)

layers = tk.layers
RNG = np.random.default_rng(5)


def normal(*shape):
    return (0.5 * RNG.standard_normal(shape)).astype("float32")


def parameters(base, *shape, bias=True, out=0):
    """Weight and bias of a module; the number of biases is the size along axis `out`."""
    state = {f"{base}.weight": normal(*shape)}
    return state | ({f"{base}.bias": normal(shape[out])} if bias else {})


def norm(base, features, moments=True):
    state = {f"{base}.weight": normal(features), f"{base}.bias": normal(features)}
    if moments:
        state |= {
            f"{base}.running_mean": normal(features),
            f"{base}.running_var": np.abs(normal(features)) + 0.5,
            f"{base}.num_batches_tracked": np.array(3),
        }
    return state


def recurrent(base, gates, features, units, suffix="l0"):
    wide = gates * units
    return {
        f"{base}.weight_ih_{suffix}": normal(wide, features),
        f"{base}.weight_hh_{suffix}": normal(wide, units),
        f"{base}.bias_ih_{suffix}": normal(wide),
        f"{base}.bias_hh_{suffix}": normal(wide),
    }


def attention(base, size):
    return {
        f"{base}.in_proj_weight": normal(3 * size, size),
        f"{base}.in_proj_bias": normal(3 * size),
        **parameters(f"{base}.out_proj", size, size),
    }


def last(x):
    """Channels last."""
    return np.moveaxis(x, 1, -1)


def relu(x):
    return np.maximum(x, 0)


def mlp():
    state = parameters("0", 16, 8) | parameters("2", 16, 16) | parameters("4", 3, 16)
    model = tk.Sequential(
        [tk.Input((8,)), layers.Dense(16, "relu"), layers.Dense(16, "tanh"), layers.Dense(3)]
    )
    x = normal(5, 8)
    h = np.tanh(torch_like.linear(state, "2", relu(torch_like.linear(state, "0", x))))
    return state, model, x, torch_like.linear(state, "4", h)


def cnn():
    state = parameters("conv", 8, 3, 3, 3) | norm("norm", 8) | parameters("grouped", 16, 4, 2, 2)
    state |= parameters("depthwise", 32, 1, 3, 3) | parameters("fc", 5, 32 * 9)
    model = tk.Sequential(
        [
            tk.Input((8, 8, 3)),
            layers.Conv2D(8, 3),
            layers.BatchNormalization(epsilon=1e-5),
            layers.ReLU(),
            layers.Conv2D(16, 2, groups=2),
            layers.DepthwiseConv2D(3, depth_multiplier=2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(5),
        ]
    )
    x = normal(2, 3, 8, 8)
    h = relu(torch_like.batch_norm(state, "norm", torch_like.conv(state, "conv", x)))
    h = torch_like.conv(state, "grouped", h, groups=2)
    h = torch_like.conv(state, "depthwise", h, groups=16)
    return state, model, last(x), torch_like.linear(state, "fc", h.reshape(2, -1))


def one_layer(state, layer, x, y):
    return state, tk.Sequential([tk.Input(x.shape[1:]), layer]), x, y


def conv_1d():
    state, x = parameters("c", 6, 4, 3), normal(2, 4, 9)
    return one_layer(state, layers.Conv1D(6, 3), last(x), last(torch_like.conv(state, "c", x)))


def conv_3d():
    state, x = parameters("c", 3, 2, 2, 3, 2), normal(2, 2, 4, 5, 6)
    y = last(torch_like.conv(state, "c", x))
    return one_layer(state, layers.Conv3D(3, (2, 3, 2)), last(x), y)


def transposed():
    state, x = parameters("c", 4, 6, 3, 2, out=1), normal(2, 4, 5, 5)
    y = last(torch_like.conv_transpose(state, "c", x))
    return one_layer(state, layers.Conv2DTranspose(6, (3, 2)), last(x), y)


def separable():
    state = parameters("each", 8, 1, 3, 3, bias=False) | parameters("mix", 5, 8, 1, 1)
    x = normal(2, 4, 6, 6)
    y = torch_like.conv(state, "mix", torch_like.conv(state, "each", x, groups=4))
    return one_layer(state, layers.SeparableConv2D(5, 3, depth_multiplier=2), last(x), last(y))


def flat_steps():
    """Of vectors that no convolution gave: these are flattened in the same order."""
    state, x = parameters("fc", 3, 20), normal(2, 5, 4)
    model = tk.Sequential([tk.Input((5, 4)), layers.Flatten(), layers.Dense(3)])
    return state, model, x, torch_like.linear(state, "fc", x.reshape(2, -1))


def lstm():
    state, x = recurrent("rnn", 4, 4, 6), normal(3, 5, 4)
    y = torch_like.lstm(state, "rnn", x)
    return one_layer(state, layers.LSTM(6, return_sequences=True), x, y)


def gru():
    state, x = recurrent("rnn", 3, 4, 6), normal(3, 5, 4)
    return one_layer(
        state, layers.GRU(6, return_sequences=True), x, torch_like.gru(state, "rnn", x)
    )


def simple_rnn():
    state, x = recurrent("rnn", 1, 4, 6), normal(3, 5, 4)
    y = torch_like.simple_rnn(state, "rnn", x)
    return one_layer(state, layers.SimpleRNN(6, return_sequences=True), x, y)


def two_ways():
    state = recurrent("rnn", 4, 4, 6) | recurrent("rnn", 4, 4, 6, "l0_reverse")
    state |= recurrent("rnn", 4, 12, 6, "l1") | recurrent("rnn", 4, 12, 6, "l1_reverse")
    model = tk.Sequential(
        [
            tk.Input((5, 4)),
            *(layers.Bidirectional(layers.LSTM(6, return_sequences=True)) for _ in range(2)),
        ]
    )
    x = normal(3, 5, 4)
    y = x
    for number in range(2):
        back = torch_like.lstm(state, "rnn", y[:, ::-1], f"l{number}_reverse")[:, ::-1]
        y = np.concatenate([torch_like.lstm(state, "rnn", y, f"l{number}"), back], axis=-1)
    return state, model, x, y


def encoder():
    """A stack of transformer layers, whose modules stand in another order than in the model."""
    state, x = {}, normal(2, 5, 16)
    inputs = tk.Input((None, 16))
    y, h = x, inputs
    for number in range(2):
        base = f"layers.{number}"
        state |= attention(f"{base}.self_attn", 16) | parameters(f"{base}.linear1", 32, 16)
        state |= parameters(f"{base}.linear2", 16, 32)
        state |= norm(f"{base}.norm1", 16, False) | norm(f"{base}.norm2", 16, False)
        a = y + torch_like.attention(state, f"{base}.self_attn", y, 4)
        a = torch_like.layer_norm(state, f"{base}.norm1", a)
        f = relu(torch_like.linear(state, f"{base}.linear1", a))
        f = torch_like.linear(state, f"{base}.linear2", f)
        y = torch_like.layer_norm(state, f"{base}.norm2", a + f)
        h = layers.LayerNormalization(epsilon=1e-5)(h + layers.MultiHeadAttention(4, 4)(h, h))
        f = layers.Dense(16)(layers.Dense(32, "relu")(h))
        h = layers.LayerNormalization(epsilon=1e-5)(h + f)
    return state, tk.Model(inputs, h), x, y


def projections():
    """An attention of four Linears, registered in an order of their own."""
    state = {}
    for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
        state |= parameters(f"attn.{name}", 8, 8)
    x = normal(2, 5, 8)
    q, k, v = (torch_like.linear(state, f"attn.{letter}_proj", x) for letter in "qkv")
    y = torch_like.linear(state, "attn.out_proj", torch_like.softmax_attention(q, k, v, 2))
    inputs = tk.Input((None, 8))
    return state, tk.Model(inputs, layers.MultiHeadAttention(2, 4)(inputs, inputs)), x, y


def tied_embedding():
    table = normal(11, 4)
    state = {"emb.weight": table, **norm("ln", 4, False), "head.weight": table}
    x = RNG.integers(0, 11, (2, 5)).astype("int32")
    model = tk.Sequential(
        [
            tk.Input((5,), dtype="int32"),
            layers.Embedding(11, 4),
            layers.LayerNormalization(epsilon=1e-5),
            layers.Dense(11, use_bias=False),
        ]
    )
    return state, model, x, torch_like.layer_norm(state, "ln", table[x]) @ table.T


NETWORKS = [
    mlp, cnn, conv_1d, conv_3d, transposed, separable, flat_steps, lstm, gru, simple_rnn, two_ways,
    encoder, projections, tied_embedding,
]  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_of_modules_compute_the_same(network, tmp_path):
    state, model, x, y = network()
    write_state(tmp_path / "w.pt", state)
    report = tk.weights.load_into(model, tmp_path / "w.pt")
    assert len(report) == len(model.weights)
    np.testing.assert_allclose(model(x, training=False), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_go_out_in_the_layouts_of_torch_and_back(network, tmp_path):
    state, model, *_ = network()
    tk.weights.load_into(model, state)
    before = [variable.numpy() for variable in model.weights]
    tk.weights.save(model, tmp_path / "w.safetensors", layout="torch")
    written = tk.weights.load(tmp_path / "w.safetensors")
    for variable in model.weights:
        variable.assign(tk.zeros_like(variable))
    tk.weights.load_into(model, written)
    for variable, values in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(variable, values)


@pytest.mark.parametrize("network", [cnn, gru, encoder])
def test_arrays_written_for_modules_are_those_that_were_read(network, tmp_path):
    state, model, *_ = network()
    report = tk.weights.load_into(model, state)
    modules = {}
    for transfer in report.transfers:  # a layer of the model, by its name in the file
        for source in transfer.sources:
            module = re.sub(r"\.(out_proj\.)?[^.]+$", "", source)
            layer = transfer.path.rpartition("/")[0]
            modules[module] = re.sub("/(cell|(query|key|value|output)_dense)$", "", layer)
    tk.weights.save(model, tmp_path / "w.safetensors", layout="torch", names=modules)
    written = tk.weights.load(tmp_path / "w.safetensors")
    assert written.keys() == state.keys()
    for name, array in state.items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(written[name], array)


# ---------------------------------------------------------------------- which is which


def dense_model(*units):
    return tk.Sequential([tk.Input((4,)), *(layers.Dense(n) for n in units)])


def alike(*names):
    state = {}
    for name in names:
        state |= parameters(name, 4, 4)
    return state


def kernels(model):
    return [layer.kernel.numpy().T for layer in model.layers if hasattr(layer, "kernel")]


def test_a_state_dict_in_step_with_the_model_is_taken_in_order():
    state, model = alike("first", "second"), dense_model(4, 4)
    report = tk.weights.load_into(model, state)
    np.testing.assert_array_equal(kernels(model)[0], state["first.weight"])
    assert {transfer.reason for transfer in report.transfers} == {"by order"}


def test_names_without_an_order_are_refused_with_the_candidates(tmp_path):
    tk.weights.save(alike("key", "other"), tmp_path / "w.safetensors")
    model = dense_model(4, 4)
    before = model.get_weights()
    message = r"all have bias \(4,\), weight \(4, 4\)\. The file does not say in which order .*"
    message += r"\n  modules  key, other\n  layers   layers/1, layers/2\nSay it by names="
    with pytest.raises(InvalidArgumentError, match=message):
        tk.weights.load_into(model, tmp_path / "w.safetensors")
    for array, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_numbers_in_names_are_an_order(tmp_path):
    state = alike(*(f"layers.{i}" for i in range(11)))
    tk.weights.save(state, tmp_path / "w.safetensors")
    model = dense_model(*[4] * 11)
    tk.weights.load_into(model, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(kernels(model)[10], state["layers.10.weight"])


def test_the_last_name_tells_layers_apart(tmp_path):
    state = alike("net.up", "net.down")
    tk.weights.save(state, tmp_path / "w.safetensors")
    model = tk.Sequential(
        [tk.Input((4,)), layers.Dense(4, name="down"), layers.Dense(4, name="up")]
    )
    tk.weights.load_into(model, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(kernels(model)[0], state["net.down.weight"])


class Named(tk.Model):
    def __init__(self):
        super().__init__()
        self.one = layers.Dense(4)
        self.blocks = [layers.Dense(4), layers.Dense(4)]

    def call(self, x):
        return self.blocks[1](self.blocks[0](self.one(x)))


def test_modules_called_as_attributes_are_found_by_name(tmp_path):
    state, model = alike("blocks.1", "one", "blocks.0"), Named()
    model(normal(2, 4))
    report = tk.weights.load_into(model, state)
    np.testing.assert_array_equal(model.blocks[1].kernel.numpy().T, state["blocks.1.weight"])
    assert {transfer.reason for transfer in report.transfers} == {"the same name"}


def test_names_of_layers_may_have_an_underscore_for_the_dot():
    state = alike("block.1.up", "block.0.up")
    model = tk.Sequential(
        [tk.Input((4,)), *(layers.Dense(4, name=f"block_{i}_up") for i in range(2))]
    )
    report = tk.weights.load_into(model, state)
    np.testing.assert_array_equal(kernels(model)[1], state["block.1.up.weight"])
    assert {transfer.reason for transfer in report.transfers} == {"the same name"}


def test_a_table_of_names_says_it():
    state, model = alike("a", "b"), dense_model(4, 4)
    tk.weights.load_into(model, state, names={"a": "layers/2", "b": model.layers[0].name})
    np.testing.assert_array_equal(kernels(model)[1], state["a.weight"])


def test_stars_in_names_stand_for_the_same_text():
    state, model = alike("enc.1.lin", "one", "enc.0.lin"), Named()
    model(normal(2, 4))
    report = tk.weights.load_into(model, state, names={"enc.*.lin": "blocks/*"})
    np.testing.assert_array_equal(model.blocks[1].kernel.numpy().T, state["enc.1.lin.weight"])
    assert report.transfers[-1].reason == "by the table of names"


def test_single_arrays_are_named(tmp_path):
    state, model = {"w": normal(4, 4), "b": normal(4)}, dense_model(4)
    names = {"w": "layers/1/kernel", "b": "layers/1/bias"}
    tk.weights.load_into(model, state, names=names)
    np.testing.assert_array_equal(kernels(model)[0], state["w"])


BAD_NAMES = {
    "no such module": ({"c": "layers/1"}, "the file has nothing called 'c'"),
    "no such layer": ({"a": "layers/7"}, "'layers/7', which names= says, is no layer.*layers/1"),
    "taken": ({"a": "layers/1", "b": "layers/1"}, "is no layer with weights, or is taken"),
    "shapes": ({"a": "layers/3"}, r"does not fit 'layers/3' \(Dense\)\n  module  bias \(4,\)"),
    "no such variable": ({"a.weight": "layers/1/kernal"}, "no variable 'layers/1/kernal'"),
    "stars": ({"a": "layers/*"}, "have not as many stars"),
    "no texts": ({"a": 3}, "names= is a dict of texts"),
    "nothing left out": ({"q.*": None}, "has nothing called"),
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_a_table_that_does_not_fit_is_refused(case):
    names, message = BAD_NAMES[case]
    model = dense_model(4, 4, 3)
    with pytest.raises(InvalidArgumentError, match=message):
        tk.weights.load_into(model, alike("a", "b") | parameters("c0", 3, 4), names=names)


def test_one_array_is_for_one_variable_and_one_name_for_one_layer():
    state = {"a.x": normal(4)}
    names = {"a.x": "layers/1/bias", "*.x": "layers/2/bias"}
    with pytest.raises(InvalidArgumentError, match=r"two entries of names= take 'a\.x'"):
        tk.weights.load_into(dense_model(4, 4), state, names=names)
    twins = [tk.Sequential([tk.Input((4,)), layers.Dense(4, name="same")]) for _ in range(2)]
    model = tk.Sequential([tk.Input((4,)), *twins])
    with pytest.raises(InvalidArgumentError, match="'same', which names= says, is of several"):
        tk.weights.load_into(model, alike("a", "b"), names={"a": "same"})


def test_a_part_is_of_a_file():
    with pytest.raises(InvalidArgumentError, match=r"part= is for files of torch\.save"):
        tk.weights.load_into(dense_model(4), alike("a"), part="model")


def test_projections_of_an_attention_are_not_taken_in_order():
    state = {}
    for name in "abcd":
        state |= parameters(f"attn.{name}", 8, 8)
    inputs = tk.Input((None, 8))
    model = tk.Model(inputs, layers.MultiHeadAttention(2, 4)(inputs, inputs))
    with pytest.raises(InvalidArgumentError, match="not clear which module"):
        tk.weights.load_into(model, state)


# ---------------------------------------------------------------------- what is left over


def test_what_is_missing_and_unused_is_said_and_nothing_changes():
    model = dense_model(4, 3)
    before = model.get_weights()
    with pytest.raises(CheckpointMismatchError) as caught:
        tk.weights.load_into(model, alike("a") | parameters("head", 7, 4))
    text = str(caught.value)
    assert "missing: layers/2 (Dense), bias (3,), weight (3, 4)" in text
    assert "unused: head.weight (7, 4)" in text
    assert "unchanged (2 weights missing, 2 arrays unused)" in text
    assert caught.value.report.missing == {"layers/2/kernel": (4, 3), "layers/2/bias": (3,)}
    for array, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_another_head_stays_as_it_is_with_partial():
    state, model = alike("a") | parameters("head", 7, 4), dense_model(4, 3)
    head = kernels(model)[1]
    report = tk.weights.load_into(model, state, partial=True)
    np.testing.assert_array_equal(kernels(model)[0], state["a.weight"])
    np.testing.assert_array_equal(kernels(model)[1], head)
    assert "2 variables set, 2 missing, 2 arrays unused" in str(report)
    assert "unused: head.weight (7, 4)" in str(report)


def test_what_is_left_out_by_the_table_is_not_unused():
    state, model = alike("a") | parameters("head", 7, 4), dense_model(4)
    report = tk.weights.load_into(model, state, names={"head.*": None})
    assert report.ignored == ["head.weight", "head.bias"]


def test_a_second_name_of_tied_weights_is_not_unused():
    state = alike("a")
    state["tied.weight"] = state["a.weight"]
    state |= {"tied.bias": state["a.bias"]}
    report = tk.weights.load_into(dense_model(4), state, names={"a": "layers/1"})
    assert report.ignored[0] == "tied.weight, which is the same as a.weight"


def test_other_kinds_of_numbers_are_refused():
    state = {"a.weight": np.ones((4, 4), "int64"), "a.bias": normal(4)}
    with pytest.raises(CheckpointMismatchError, match="holds int64, and layers/1/kernel float32"):
        tk.weights.load_into(dense_model(4), state)
    with pytest.raises(CheckpointMismatchError, match="holds int64"):
        tk.weights.load_into(dense_model(4), state, partial=True)


def test_floats_of_another_width_are_cast(tmp_path):
    import ml_dtypes

    state = {name: array.astype(ml_dtypes.bfloat16) for name, array in alike("a").items()}
    model = dense_model(4)
    tk.weights.load_into(model, write_state(tmp_path / "w.pt", state))
    np.testing.assert_array_equal(kernels(model)[0], state["a.weight"].astype("float32"))


def test_a_model_without_weights_is_refused():
    with pytest.raises(NotBuiltError, match="has no weights yet"):
        tk.weights.load_into(tk.Sequential([layers.Dense(3)]), alike("a"))


def test_a_gru_of_the_older_formula_is_not_filled():
    model = tk.Sequential([tk.Input((5, 4)), layers.GRU(6, reset_after=False)])
    with pytest.raises(CheckpointMismatchError, match="missing: layers/1/cell/kernel"):
        tk.weights.load_into(model, recurrent("rnn", 3, 4, 6))
    with pytest.raises(UnimplementedError, match="PyTorch has no module for the layers"):
        tk.weights.save(model, "w.safetensors", layout="torch")


# ---------------------------------------------------------------------- flattened images


class Convolutional(tk.Model):
    def __init__(self):
        super().__init__()
        self.conv, self.flatten = layers.Conv2D(4, 3), layers.Flatten()
        self.fc = layers.Dense(3)

    def call(self, x):
        return self.fc(self.flatten(self.conv(x)))


def convolutional_state():
    return parameters("conv", 4, 3, 3, 3) | parameters("fc", 3, 4 * 36)


def expected(state, x):
    return torch_like.linear(state, "fc", torch_like.conv(state, "conv", x).reshape(len(x), -1))


def test_a_hidden_flatten_is_asked_about():
    state, x, model = convolutional_state(), normal(2, 3, 8, 8), Convolutional()
    model(last(x))
    with pytest.raises(InvalidArgumentError, match=r"flattened=\{'fc': \(height, width, channels"):
        tk.weights.load_into(model, state)
    with pytest.raises(InvalidArgumentError, match="has 180 values, and 'fc' takes 144"):
        tk.weights.load_into(model, state, flattened={"fc": (6, 6, 5)})
    with pytest.raises(InvalidArgumentError, match="must have the sizes of images"):
        tk.weights.load_into(model, state, flattened={"fc": 144})
    with pytest.raises(InvalidArgumentError, match="no such Dense layer; near: fc"):
        tk.weights.load_into(model, state, flattened={"fcc": (6, 6, 4)})
    tk.weights.load_into(model, state, flattened={"fc": (6, 6, 4)})
    np.testing.assert_allclose(model(last(x)), expected(state, x), rtol=1e-4, atol=1e-5)


def by_reshape():
    x = tk.Input((8, 8, 3))
    y = tk.ops.reshape(layers.Conv2D(4, 3)(x), (-1, 144))
    return tk.Model(x, layers.Dense(3)(y))


def behind_a_nested_model():
    x = tk.Input((8, 8, 3))
    body = tk.Sequential([tk.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten()])
    return tk.Model(x, layers.Dense(3)(body(x)))


def in_a_nested_model():
    x = tk.Input((8, 8, 3))
    head = tk.Sequential([tk.Input((144,)), layers.Dropout(0.5), layers.Dense(3)])
    return tk.Model(x, head(layers.Flatten()(layers.Conv2D(4, 3)(x))))


@pytest.mark.parametrize("build", [by_reshape, behind_a_nested_model, in_a_nested_model])
def test_flattened_images_are_seen_wherever_they_are_flattened(build):
    state, x, model = convolutional_state(), normal(2, 3, 8, 8), build()
    tk.weights.load_into(model, state)
    np.testing.assert_allclose(model(last(x)), expected(state, x), rtol=1e-4, atol=1e-5)


def test_the_caller_knows_better_than_the_graph():
    state, model = convolutional_state(), in_a_nested_model()
    name = model.layers[-1].layers[-1].name
    tk.weights.load_into(model, state, flattened={name: None})
    np.testing.assert_array_equal(model.layers[-1].layers[-1].kernel.numpy().T, state["fc.weight"])


def test_channels_first_are_flattened_in_the_same_order():
    state, x = convolutional_state(), normal(2, 3, 8, 8)
    conv = layers.Conv2D(4, 3, data_format="channels_first")
    model = tk.Sequential([tk.Input((3, 8, 8)), conv, layers.Flatten(), layers.Dense(3)])
    tk.weights.load_into(model, state)
    np.testing.assert_allclose(model(x), expected(state, x), rtol=1e-4, atol=1e-5)


def steps_of(layer):
    return lambda x: layers.Flatten()(layer(layers.Conv1D(6, 3, padding="same")(x)))


def pooled(x):
    y = layers.MaxPooling1D(2)(layers.ReLU()(layers.Conv1D(6, 3, padding="same")(x)))
    return layers.Flatten()(layers.Concatenate()([y, y]))


def patches(x):
    return layers.Flatten()(layers.Reshape((4, 12))(layers.Conv1D(6, 3, padding="same")(x)))


@pytest.mark.parametrize(
    ("build", "is_turned"),
    [
        (pooled, True),
        (steps_of(layers.Activation("relu")), True),
        (steps_of(layers.LSTM(6, return_sequences=True)), False),
        (steps_of(layers.Dense(6)), False),
        (patches, False),
    ],
)
def test_steps_of_vectors_are_no_image(build, is_turned):
    """Behind an LSTM or a reshape the vectors of steps stand as they do in PyTorch."""
    inputs = tk.Input((8, 4))
    model = tk.Model(inputs, layers.Dense(2, name="fc")(build(inputs)))
    state = {"fc.weight": normal(2, 48), "fc.bias": normal(2)}
    tk.weights.load_into(model, state, partial=True)
    kernel = model.get_layer("fc").kernel.numpy()
    assert np.array_equal(kernel, state["fc.weight"].T) != is_turned


def test_flattened_images_beside_others_are_refused():
    x, other = tk.Input((8, 8, 3)), tk.Input((2,))
    flat = layers.Flatten()(layers.Conv2D(4, 3)(x))
    model = tk.Model([x, other], layers.Dense(3)(layers.Concatenate()([flat, other])))
    with pytest.raises(UnimplementedError, match="joins flattened images with something else"):
        tk.weights.load_into(model, parameters("conv", 4, 3, 3, 3) | parameters("fc", 3, 146))


def test_a_normalization_of_flattened_images_is_refused():
    model = tk.Sequential(
        [tk.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.BatchNormalization()]
    )
    with pytest.raises(UnimplementedError, match="BatchNormalization of flattened images"):
        tk.weights.load_into(model, parameters("conv", 4, 3, 3, 3) | norm("bn", 144))


# ---------------------------------------------------------------------- other layouts and names


def test_arrays_called_as_keras_and_flax_call_them_are_taken_as_they_are():
    kernel, filters = normal(4, 4), normal(3, 3, 2, 4)
    state = {"params/conv/kernel": filters, "params/conv/bias": normal(4)}
    state |= {"params/dense/kernel": kernel, "params/dense/bias": normal(4)}
    model = tk.Sequential(
        [tk.Input((5, 5, 2)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D(), layers.Dense(4)]
    )
    tk.weights.load_into(model, state)
    np.testing.assert_array_equal(model.layers[0].kernel, filters)
    np.testing.assert_array_equal(model.layers[-1].kernel, kernel)


def test_a_single_array_called_kernel_is_not_transposed():
    state, model = {"a/kernel": normal(4, 4), "a/bias": normal(4)}, dense_model(4)
    names = {"a/kernel": "layers/1/kernel", "a/bias": "layers/1/bias"}
    tk.weights.load_into(model, state, names=names)
    np.testing.assert_array_equal(model.layers[0].kernel, state["a/kernel"])


def test_layers_of_a_sequential_are_not_taken_for_numbers_of_modules():
    """`layers.1` of a module is not `layers/1` here, where the input has number 0."""
    state, model = alike("layers.0", "layers.1"), dense_model(4, 4)
    tk.weights.load_into(model, state)
    np.testing.assert_array_equal(kernels(model)[0], state["layers.0.weight"])


@pytest.mark.parametrize("wrapper", ["module", "_orig_mod"])
def test_names_in_front_that_wrappers_put_there_are_left_out(wrapper):
    state, model = alike(*(f"{wrapper}.{n}" for n in ("blocks.1", "one", "blocks.0"))), Named()
    model(normal(2, 4))
    report = tk.weights.load_into(model, state)
    assert {transfer.reason for transfer in report.transfers} == {"the same name"}


def test_a_table_names_recurrent_modules_as_torch_calls_them():
    state = recurrent("a", 4, 6, 6) | recurrent("b", 4, 6, 6)
    stack = [layers.LSTM(6, return_sequences=True) for _ in range(2)]
    model = tk.Sequential([tk.Input((5, 6)), *stack])
    tk.weights.load_into(model, state, names={"b": "layers/1", "a": "layers/2"})
    np.testing.assert_array_equal(stack[0].cell.kernel.numpy().T, state["b.weight_ih_l0"])


def test_a_table_names_both_directions_at_once():
    state = recurrent("rnn", 4, 4, 6) | recurrent("rnn", 4, 4, 6, "l0_reverse")
    both = layers.Bidirectional(layers.LSTM(6))
    model = tk.Sequential([tk.Input((5, 4)), both])
    tk.weights.load_into(model, state, names={"rnn": "layers/1"})
    kernel = both.backward_layer.cell.kernel.numpy().T
    np.testing.assert_array_equal(kernel, state["rnn.weight_ih_l0_reverse"])


def test_layers_with_other_weights_take_single_arrays_of_their_shape():
    class Scaled(tk.layers.Layer):
        def build(self, input_shape):
            self.factor = self.add_weight("factor", (4,))

        def call(self, x):
            return x * self.factor

    model = tk.Sequential([tk.Input((4,)), Scaled()])
    state = {"gate.w": normal(4)}
    with pytest.raises(CheckpointMismatchError, match=r"missing: layers/1/factor \(4,\)"):
        tk.weights.load_into(model, state)
    tk.weights.load_into(model, state, names={"gate.w": "layers/1/factor"})
    np.testing.assert_array_equal(model.layers[0].factor, state["gate.w"])
    wide = {"gate.w": normal(1, 4)}
    with pytest.raises(
        InvalidArgumentError, match=r"has the shape \(1, 4\), and 'layers/1/factor'"
    ):
        tk.weights.load_into(model, wide, names={"gate.w": "layers/1/factor"})


def test_values_too_large_for_a_narrow_weight_are_refused():
    model = tk.Sequential([tk.Input((4,)), layers.Dense(4, dtype="float16")])
    state = alike("a")
    state["a.weight"][0, 0] = 1e6
    with pytest.raises(CheckpointMismatchError, match=r"too large for layers/1/kernel, .* float16"):
        tk.weights.load_into(model, state)


def test_values_of_a_shared_variable_must_agree():
    class Borrowing(layers.Dense):
        def __init__(self, other):
            super().__init__(4)
            self.other = other

        def build(self, input_shape):
            self.kernel = self.other.kernel
            self.bias = self.add_weight("bias", (4,))

    up = layers.Dense(4)
    model = tk.Sequential([tk.Input((4,)), up, Borrowing(up)])
    state = alike("up", "down")
    with pytest.raises(CheckpointMismatchError, match=r"is shared by layers, and .* differ"):
        tk.weights.load_into(model, state)
    state["down.weight"] = state["up.weight"]
    tk.weights.load_into(model, state)


def test_half_of_the_paths_of_a_layer_are_none():
    state = {"layers/1/kernel": normal(4, 4)}
    with pytest.raises(CheckpointMismatchError, match="1 arrays unused"):
        tk.weights.load_into(dense_model(4), state)


def test_a_terminal_does_not_obey_names_in_a_report():
    state = {**alike("a"), "\x1b[31mred": normal(2)}
    report = tk.weights.load_into(dense_model(4), state, partial=True)
    assert "\x1b" not in str(report)
    assert r"\x1b[31mred" in str(report)


def test_a_failure_while_variables_are_set_takes_all_back(monkeypatch):
    model = dense_model(4, 3)
    before = model.get_weights()
    plain = type(model.weights[0])._store
    calls = []

    def store(self, array):
        calls.append(self)
        if len(calls) == 3:
            raise MemoryError("no room")
        plain(self, array)

    monkeypatch.setattr(type(model.weights[0]), "_store", store)
    with pytest.raises(MemoryError):
        tk.weights.load_into(model, alike("a") | parameters("b", 3, 4))
    for array, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_embeddings_that_are_used_in_reverse_are_one_array():
    table = normal(11, 4)
    model = tk.Sequential([tk.Input((5,), dtype="int32"), layers.ReversibleEmbedding(11, 4)])
    tk.weights.load_into(model, {"wte.weight": table, "lm_head.weight": table},
                         names={"wte": "layers/1"})  # fmt: skip
    np.testing.assert_array_equal(model.layers[0].embeddings, table)


def test_grouped_attention_is_found_by_the_names_of_its_projections():
    state = {}
    for name, size in (("k_proj", 8), ("v_proj", 8), ("q_proj", 16), ("o_proj", 16)):
        state |= parameters(f"self_attn.{name}", size, 16, bias=False)
    inputs = tk.Input((None, 16))
    layer = layers.GroupedQueryAttention(4, 4, 2, use_bias=False)
    model = tk.Model(inputs, layer(inputs, inputs))
    tk.weights.load_into(model, state)
    values = layer.value_dense.kernel.numpy().reshape(16, 8).T
    np.testing.assert_array_equal(values, state["self_attn.v_proj.weight"])


class Reshaping(tk.Model):
    """Flattens images by a function, or takes their means."""

    def __init__(self, is_flattened):
        super().__init__()
        self.conv = tk.layers.Conv2D(4, 3)
        self.pool = tk.layers.MaxPooling2D()
        self.mean = tk.layers.GlobalAveragePooling2D()
        self.fc = tk.layers.Dense(3)
        self.is_flattened = is_flattened

    def call(self, x):
        x = self.pool(self.conv(x))
        return self.fc(tk.reshape(x, (x.shape[0], -1)) if self.is_flattened else self.mean(x))


@pytest.mark.parametrize("is_flattened", [True, False])
def test_a_reshape_inside_a_call_is_asked_about(is_flattened, tmp_path):
    model = Reshaping(is_flattened)
    model(np.ones((1, 8, 8, 3), "float32"))
    rows = int(model.fc.kernel.shape[0])
    rng = np.random.default_rng(0)
    state = {
        "conv.weight": rng.normal(size=(4, 3, 3, 3)).astype("float32"),
        "conv.bias": np.zeros(4, "float32"),
        "fc.weight": rng.normal(size=(3, rows)).astype("float32"),
        "fc.bias": np.zeros(3, "float32"),
    }
    path = tmp_path / "m.safetensors"
    tk.weights.save(state, path)
    if not is_flattened:
        tk.weights.load_into(model, path)
        np.testing.assert_array_equal(model.fc.kernel, state["fc.weight"].T)
        return
    before = model.fc.kernel.numpy()
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"flattens images in a way"):
        tk.weights.load_into(model, path)
    np.testing.assert_array_equal(model.fc.kernel, before)
    tk.weights.load_into(model, path, flattened={"fc": (3, 3, 4)})
    by_channel = state["fc.weight"].reshape(3, 4, 3, 3).transpose(2, 3, 1, 0).reshape(36, 3)
    np.testing.assert_array_equal(model.fc.kernel, by_channel)
