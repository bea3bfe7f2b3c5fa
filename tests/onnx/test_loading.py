"""Models of ONNX files: their weights, their training, and their way out again."""

import copy

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import branches, onnx_model, write
from trainkit import keras
from trainkit.core.errors import InvalidArgumentError, UnimplementedError

layers = keras.layers
RNG = np.random.default_rng(0)


def rand(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def images():
    return [
        keras.Input((12, 12, 3)),
        layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        layers.DepthwiseConv2D(3, padding="same"),
        layers.MaxPooling2D(2),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4),
    ]


def texts():
    return [
        keras.Input((None,), dtype="int32"),
        layers.Embedding(7, 8),
        layers.LayerNormalization(),
        layers.Dense(8, activation="gelu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(4, activation="tanh"),
    ]


def steps():
    return [
        keras.Input((None, 4)),
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.GRU(3, reset_after=False, return_sequences=True),
        layers.SimpleRNN(4, return_sequences=True),
        layers.GRU(4),
    ]


DATA = {
    images: lambda: rand(5, 12, 12, 3),
    texts: lambda: RNG.integers(0, 7, (5, 9)),
    steps: lambda: rand(5, 9, 4),
}


@pytest.mark.parametrize("make", DATA)
def test_exported_models_come_back_train_and_go_out_again(make, tmp_path):
    model = keras.Sequential(make())
    model.export(tmp_path / "m.onnx", verbose=False)
    loaded = tk.onnx.load(tmp_path / "m.onnx")
    x = DATA[make]()
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5, atol=1e-6)
    function = tk.function(loaded)
    part = x[:3] if make is images else x[:3, :4]
    np.testing.assert_allclose(function(part), model(part), rtol=1e-5, atol=1e-6)
    loaded.compile(keras.optimizers.Adam(0.01), "mse")
    losses = loaded.fit(x, rand(5, 4), epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    loaded.export(tmp_path / "again.onnx", verbose=False)
    again = tk.onnx.load(tmp_path / "again.onnx")
    np.testing.assert_allclose(again(x), loaded(x), rtol=1e-5, atol=1e-6)
    loaded.save_weights(tmp_path / "m.weights.h5")
    other = tk.onnx.load(tmp_path / "m.onnx")
    other.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(other(x), loaded(x))


MODE = {"training_mode": 1}  # as a file for training has it; the call decides
NORMALIZED = (
    [
        ("Conv", "x w b", "c", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("BatchNormalization", "c scale shift mean var", "n", {"momentum": 0.5, **MODE}),
        ("Dropout", "n ratio", "d", {}),
        ("Relu", "d", "y", {}),
    ],
    [("x", ["N", 2, "H", "W"])],
    "y",
)


def constants():
    return {
        "w": rand(4, 2, 3, 3), "b": rand(4), "scale": rand(4), "shift": rand(4), "mean": rand(4),
        "var": np.full(4, 2.0, np.float32), "ratio": np.float32(0.0),
    }  # fmt: skip


def test_batch_normalization_uses_and_follows_the_batch_in_training(tmp_path):
    held = constants()
    model = tk.onnx.load(write(tmp_path / "m.onnx", *NORMALIZED, held))
    assert [v.name for v in model.trainable_variables] == ["w:0", "b:0", "scale:0", "shift:0"]
    x = rand(3, 2, 5, 6)
    c = tk.nn.conv2d(np.moveaxis(x, 1, -1), held["w"].transpose(2, 3, 1, 0), 1, "SAME") + held["b"]
    mean, variance = (m.numpy() for m in tk.nn.moments(c, [0, 1, 2]))

    def result(mean, variance):
        y = (c - mean) / np.sqrt(variance + 1e-5) * held["scale"] + held["shift"]
        return np.moveaxis(np.maximum(y, 0), -1, 1)

    np.testing.assert_allclose(model(x), result(held["mean"], held["var"]), rtol=1e-4, atol=1e-5)
    y = tk.function(model)(x, training=True)
    np.testing.assert_allclose(y, result(mean, variance), rtol=1e-4, atol=1e-5)
    moved = {v.name: v.numpy() for v in model.non_trainable_variables}
    np.testing.assert_allclose(moved["mean:0"], (held["mean"] + mean) / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved["var:0"], (held["var"] + variance) / 2, rtol=1e-5)
    model.trainable = False
    before = model(x).numpy()
    np.testing.assert_array_equal(model(x, training=True), before)


def test_dropout_drops_in_training_alone(tmp_path):
    held = {**constants(), "ratio": np.float32(0.5)}
    nodes = [("Dropout", "x ratio", "y mask", {})]
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, [("x", [None, 50])], "y mask", held))
    x = np.ones((4, 50), np.float32)
    np.testing.assert_array_equal(model(x)["y"], x)
    y = model(x, training=True)
    assert set(np.unique(y["y"])) == {0.0, 2.0}
    np.testing.assert_array_equal(y["mask"].numpy(), y["y"].numpy() > 0)


def test_a_copy_has_weights_of_its_own_and_a_config_is_refused(tmp_path):
    model = tk.onnx.load(write(tmp_path / "m.onnx", *NORMALIZED, constants()))
    x = rand(2, 2, 5, 5)
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin(x), model(x))
    before = model(x).numpy()
    twin.trainable_variables[0].assign(0 * twin.trainable_variables[0])
    np.testing.assert_array_equal(model(x), before)
    assert np.abs(twin(x) - before).max() > 0
    with pytest.raises(NotImplementedError, match=r"write the model by model.export"):
        model.save(tmp_path / "m.keras")


def test_weights_train_as_asked(tmp_path):
    path = write(tmp_path / "m.onnx", *NORMALIZED, constants())
    assert tk.onnx.load(path, trainable=False).trainable_variables == []
    named = tk.onnx.load(path, trainable=["b"])
    assert [v.name for v in named.trainable_variables] == ["b:0"]
    with pytest.raises(InvalidArgumentError, match=r"no weight 'bb', .* such as 'b'"):
        tk.onnx.load(path, trainable=["bb"])


def test_parts_are_taken_and_inputs_reshaped(tmp_path):
    path = write(tmp_path / "m.onnx", *NORMALIZED, constants())
    model = tk.onnx.load(path, outputs=["c"], input_shapes={"x": (None, 2, 8, 8)})
    assert model.input_shape == (None, 2, 8, 8)
    assert model(rand(2, 2, 8, 8)).shape == (2, 4, 8, 8)
    head = keras.Model(model.inputs, layers.Dense(3)(layers.Flatten()(model.output)))
    assert head(rand(2, 2, 8, 8)).shape == (2, 3)
    for arguments, text in (
        ({"outputs": ["z"]}, "no value 'z'"),
        ({"input_shapes": {"z": (1,)}}, "no input 'z'"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            tk.onnx.load(path, **arguments)


def test_shapes_are_followed_while_sizes_are_free(tmp_path):
    nodes = [
        ("Shape", "x", "s", {}),
        ("Gather", "s zero", "n", {}),
        ("Unsqueeze", "n axis", "rows", {}),
        ("Concat", "rows minus four", "shape", {"axis": 0}),
        ("Reshape", "x shape", "r", {}),
        ("MatMul", "r w", "y", {}),
        ("Expand", "one s", "e", {}),
        ("Slice", "x axis ends last", "cut", {}),
        ("Sub", "ends axis", "ends2", {}),
    ]
    held = {
        "zero": np.int64(0), "axis": np.array([0]), "minus": np.array([-1]), "four": np.array([4]),
        "w": rand(4, 3), "one": np.ones((1, 1), np.float32), "ends": np.array([2]),
        "last": np.array([-1]),
    }  # fmt: skip
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, [("x", ["N", "T"])], "y e cut", held))
    assert model.output["y"].shape == (None, None, 3)
    for function in (model, tk.function(model)):
        x = rand(2, 8)
        y = function(x)
        np.testing.assert_allclose(y["y"], x.reshape(2, 2, 4) @ held["w"], rtol=1e-5, atol=1e-5)
        assert y["e"].shape == (2, 8)
        np.testing.assert_array_equal(y["cut"], x[:, :2])


def test_all_missing_operators_are_named_with_how_often(tmp_path):
    nodes = [
        ("Relu", "x", "a", {}),
        ("ImageDecoder", "a", "b", {}),
        ("com.x:Strange", "b", "c", {}),
        ("com.x:Strange", "c", "y", {}),
    ]
    path = write(tmp_path / "m.onnx", nodes, [("x", [None, 3])], "y")
    with pytest.raises(UnimplementedError, match=r"ImageDecoder \(1\), com.x:Strange \(2\)"):
        tk.onnx.load(path)
    part = tk.onnx.load(path, outputs=["a"])  # what is not needed is not asked for
    np.testing.assert_array_equal(part(np.array([[-1, 0, 2]], np.float32)), [[0, 0, 2]])


def test_an_error_says_file_node_and_operator(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [("MatMul", "x w", "y", {})],
        [("x", [None, 3])],
        "y",
        {"w": rand(4, 2)},
    )
    with pytest.raises(InvalidArgumentError, match=r"m.onnx', node 'y' \(MatMul\), opset 18: "):
        tk.onnx.load(path)


def flattened_softmax(x):
    e = np.exp(x.reshape(2, -1))
    return (e / e.sum(1, keepdims=True)).reshape(x.shape)


def softmax(x):
    e = np.exp(x)
    return e / e.sum(1, keepdims=True)


VERSIONS = [  # version, nodes, constants, what comes out
    (11, [("Softmax", "x", "y", {"axis": 1})], {}, flattened_softmax),
    (13, [("Softmax", "x", "y", {"axis": 1})], {}, softmax),
    (10, [("Clip", "x", "y", {"min": -0.5, "max": 0.5})], {}, lambda x: x.clip(-0.5, 0.5)),
    (11, [("Clip", "x low", "y", {})], {"low": np.float32(-0.5)}, lambda x: x.clip(-0.5)),
    (11, [("Unsqueeze", "x", "y", {"axes": [0, -1]})], {}, lambda x: x[None, ..., None]),
    (13, [("Unsqueeze", "x a", "y", {})], {"a": np.array([0, -1])}, lambda x: x[None, ..., None]),
    (9, [("Slice", "x", "y", {"starts": [1], "ends": [1 << 40], "axes": [2]})], {},
     lambda x: x[..., 1:]),
    (10, [("Slice", "x s e a t", "y", {})],
     {"s": np.array([-1]), "e": np.array([-(1 << 40)]), "a": np.array([1]), "t": np.array([-2])},
     lambda x: x[:, ::-2]),
    (11, [("ReduceSum", "x", "y", {"axes": [1], "keepdims": 0})], {}, lambda x: x.sum(1)),
    (13, [("ReduceSum", "x a", "y", {})], {"a": np.array([-1])},
     lambda x: x.sum(-1, keepdims=True)),
    (11, [("Split", "x", "z y", {"axis": 1, "split": [1, 2]})], {}, lambda x: x[:, 1:]),
    (18, [("Split", "x", "z y", {"axis": 1, "num_outputs": 2})], {}, lambda x: x[:, 2:]),
    (10, [("Pad", "x", "y", {"pads": [0, 0, 1, 0, 0, 2], "value": 3.0})], {},
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=3)),
    (18, [("Pad", "x p  v a".replace("  ", " "), "y", {})],
     {"p": np.array([1, 2]), "v": np.float32(3), "a": np.array([2])},
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=3)),
    (11, [("Dropout", "x", "y", {"ratio": 0.5})], {}, lambda x: x),
    (10, [("Resize", "x t", "y", {"mode": "nearest"})], {"t": np.array([1, 2, 1.0], np.float32)},
     lambda x: x.repeat(2, 1)),
    (13, [("Resize", "x e e s", "y", {"mode": "linear"})],
     {"e": np.zeros(0, np.float32), "s": np.array([2, 3, 2])},
     lambda x: (x[..., ::2] + x[..., 1::2]) / 2),
    (13, [("Flatten", "x", "y", {"axis": -1})], {}, lambda x: x.reshape(6, 4)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "nodes", "held", "expected"),
    VERSIONS,
    ids=[f"{n[0][0]}-{v}" for v, n, *_ in VERSIONS],
)
def test_versions_of_operators_differ(version, nodes, held, expected, tmp_path):
    path = write(tmp_path / "m.onnx", nodes, [("x", [None, 3, 4])], "y", held, version)
    x = rand(2, 3, 4)
    model = tk.onnx.load(path)
    np.testing.assert_allclose(model(x), expected(x), rtol=1e-5, atol=1e-6)


def test_control_flow_comes_back(tmp_path):
    function = tk.function(branches, input_signature=[tk.TensorSpec([None, 3])])
    tk.saved_graph.export_onnx(function, tmp_path / "m.onnx")
    model = tk.onnx.load(tmp_path / "m.onnx")
    compiled = tk.function(model)
    for rows, scale in ((2, 0.1), (5, 2.0)):
        x = np.abs(rand(rows, 3)) * np.float32(scale)
        for call in (model, compiled):
            for y, expected in zip(call(x).values(), function(x), strict=True):
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def lengths_of_rows():
    w, r = rand(1, 20, 3), rand(1, 20, 5)
    nodes = [("LSTM", "x w r b len", "a h c", {"hidden_size": 5}),
             ("LSTM", "x w r b len", "b2 h2 c2", {"direction": "reverse"})]  # fmt: skip
    return nodes, {"w": w, "r": r, "b": rand(1, 40), "len": np.array([4, 2], np.int32)}


def test_recurrence_stops_at_the_length_of_each_sequence(tmp_path):
    nodes, held = lengths_of_rows()
    path = write(tmp_path / "m.onnx", nodes, [("x", ["T", 2, 3])], "a h c b2 h2", held)
    model, x = tk.onnx.load(path), rand(4, 2, 3)
    y = model(x)
    assert not y["a"][2:, 0, 1].numpy().any()
    np.testing.assert_array_equal(y["a"][1, 0, 1], y["h"][0, 1])
    np.testing.assert_array_equal(y["a"][3, 0, 0], y["h"][0, 0])
    cut = {**held, "len": np.array([2, 2], np.int32)}
    short = tk.onnx.load(
        write(tmp_path / "s.onnx", nodes, [("x", ["T", 2, 3])], "a h c b2 h2", cut)
    )
    other = short(x[:2])
    for name in ("h", "c", "h2"):
        np.testing.assert_allclose(y[name][0, 1], other[name][0, 1], rtol=1e-5, atol=1e-6)


def test_names_are_data_and_a_tape_sees_the_weights(tmp_path):
    """No name of a file becomes an attribute, and each is that of a variable."""
    names = ["__class__", "call", "a/b:c", "trainable", "é"]
    nodes, at = [], "self"
    for i, name in enumerate(names):
        nodes.append(("Mul", f"{at} {name}", f"out.{i}", {}))
        at = f"out.{i}"
    held = {name: rand(3) for name in names}
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, [("self", [None, 3])], at, held))
    assert [v.name for v in model.trainable_variables] == [f"{name}:0" for name in names]
    # kernels know arrays by the one dtype that NumPy has for native floats
    assert all(v.numpy().dtype is np.dtype(np.float32) for v in model.variables[:5])
    x = rand(2, 3)
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum(model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    product = np.prod([held[name] for name in names], axis=0)
    for name, gradient in zip(names, gradients, strict=True):
        np.testing.assert_allclose(gradient, (x * product / held[name]).sum(0), rtol=1e-4)


def test_quantized_weights_are_read(tmp_path):
    nodes = [
        ("DequantizeLinear", "w s z", "k", {"axis": 1}),
        ("MatMul", "x k", "m", {}),
        ("QuantizeLinear", "m t", "q", {}),
        ("DequantizeLinear", "q t", "y", {}),
    ]
    w, s = RNG.integers(-128, 128, (3, 2)).astype(np.int8), np.array([0.01, 0.02], np.float32)
    z, t = np.array([1, -2], np.int8), np.float32(0.05)
    held = {"w": w, "s": s, "z": z, "t": t}
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, [("x", [None, 3])], "y", held))
    x = np.abs(rand(4, 3))
    product = x @ ((w.astype(np.float32) - z) * s)
    expected = np.clip(np.round(product / t), 0, 255) * t
    np.testing.assert_allclose(model(x), expected, atol=0.051)


def test_functions_of_a_file_stand_where_they_are_called(tmp_path):
    model = onnx_model([("d:Sloped", "x", "a", {"slope": 0.5}), ("d:Sloped", "a", "y", {})],
                       [("x", [None, 3])], "y")  # fmt: skip
    function = model.functions.add(name="Sloped", domain="d", input=["x"], output=["y"])
    function.opset_import.add(domain="", version=18)
    function.attribute_proto.add(name="slope", type=1, f=0.1)
    inner = function.node.add(op_type="LeakyRelu", input=["x"], output=["t"])
    inner.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    function.node.add(op_type="Neg", input=["t"], output=["y"])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = rand(4, 3)
    first = -np.where(x < 0, 0.5 * x, x)
    expected = -np.where(first < 0, np.float32(0.1) * first, first)
    np.testing.assert_allclose(tk.onnx.load(tmp_path / "m.onnx")(x), expected, rtol=1e-6)


def test_a_choice_between_sizes_has_their_dtype(tmp_path):
    nodes = [
        ("Shape", "x", "s", {}),
        ("Where", "first s two", "a", {}),
        ("Where", "none s two", "b", {}),
        ("Expand", "one a", "e", {}),
        ("Identity", "a", "y", {}),
        ("Identity", "b", "z", {}),
    ]
    held = {
        "first": np.array([True, False]), "none": np.array([False, False]),
        "two": np.array([2, 2]), "one": np.ones((1, 1), np.float32),
    }  # fmt: skip
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, [("x", ["N", "T"])], "y z e", held))
    for call in (model, tk.function(model, input_signature=[tk.TensorSpec([None, None])])):
        y = call(rand(5, 3))
        np.testing.assert_array_equal(y["y"], [5, 2])
        np.testing.assert_array_equal(y["z"], [2, 2])
        assert y["y"].dtype == y["z"].dtype == tk.int64
        assert y["e"].shape == (5, 2)


WHOLE = [1, 10, 102, 20, 203, 30, 304, 40, 405, 50, 500]
CUT = [("NOTSET", 1), ("VALID", 1), ("SAME_LOWER", 1), ("SAME_UPPER", 0)]


@pytest.mark.parametrize(("auto", "start"), CUT)
def test_an_odd_number_of_pads_has_its_larger_half_where_the_standard_says(auto, start, tmp_path):
    settings = {"strides": [2], "output_shape": [10], "auto_pad": auto}
    nodes = [("ConvTranspose", "x w", "y", settings)]
    kernel = np.array([[[1, 10, 100]]], "float32")
    path = write(tmp_path / "m.onnx", nodes, [("x", [1, 1, 5])], "y", {"w": kernel}, 11)
    y = tk.onnx.load(path)(np.arange(1, 6, dtype="float32").reshape(1, 1, 5))
    assert np.asarray(y).ravel().tolist() == WHOLE[start : start + 10]
