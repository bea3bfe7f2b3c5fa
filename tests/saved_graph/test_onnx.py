"""Models and functions as ONNX files, read back by their messages, and run where onnxruntime is."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx import model_encoding
from trainkit.saved_graph.onnx.onnx_messages import ModelProto, array_of

layers = keras.layers


def read(path):
    return ModelProto.FromString(path.read_bytes())


def kinds(graph):
    return [node.op_type for node in graph.node]


def attributes(node):
    return {a.name: list(a.ints) or a.i or a.f or a.s or a.g for a in node.attribute}


def sizes(value):
    dims = value.type.tensor_type.shape.dim
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in dims]


def exported(function, tmp_path, *specs, **options):
    """The message of a Python function, traced for specs."""
    path = tmp_path / "f.onnx"
    assert tk.saved_graph.export_onnx(tk.function(function), path, *specs, **options) is None
    return read(path)


def mlp():
    return keras.Sequential(
        [layers.Input((4,), name="x"), layers.Dense(3, activation="relu"), layers.Dense(2)]
    )


def test_a_model_is_a_file_with_a_free_batch(tmp_path, capsys):
    model = mlp()
    model.export(tmp_path / "m.onnx", verbose=False)
    assert not capsys.readouterr().out
    message = read(tmp_path / "m.onnx")
    assert (message.ir_version, message.producer_name) == (8, "trainkit")
    assert [(s.domain, s.version) for s in message.opset_import] == [("", 18)]
    graph = message.graph
    assert graph.name == model.name
    assert kinds(graph) == ["Gemm", "Relu", "Gemm", "Identity"]
    assert [(x.name, sizes(x)) for x in graph.input] == [("x", ["batch", 4])]
    assert [(y.name, sizes(y)) for y in graph.output] == [("output_0", [None, 2])]
    weights = {t.name: array_of(t) for t in graph.initializer}
    assert set(graph.node[0].input) <= {"x", *weights}
    np.testing.assert_array_equal(weights[graph.node[0].input[1]], model.layers[0].kernel.numpy())
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


def test_names_of_inputs_and_results_are_those_of_the_function(tmp_path):
    def both(a, b):
        return {"total": a + b, "first": a}

    message = exported(both, tmp_path, tk.TensorSpec([None, 3]), tk.TensorSpec([3]),
                       opset_version=20, ir_version=9)  # fmt: skip
    assert (message.ir_version, message.opset_import[0].version) == (9, 20)
    assert [x.name for x in message.graph.input] == ["a", "b"]
    assert {y.name for y in message.graph.output} == {"total", "first"}
    by_name = {node.output[0]: node for node in message.graph.node}
    assert by_name["first"].input[0] == "a"


def test_convolutions_stay_with_channels_first(tmp_path):
    model = keras.Sequential(
        [
            layers.Input((9, 9, 3)),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3, dilation_rate=2, use_bias=False),
            layers.GlobalAveragePooling2D(),
        ]
    )
    model.export(tmp_path / "m.onnx", verbose=False)
    graph = read(tmp_path / "m.onnx").graph
    assert kinds(graph) == [
        "Transpose", "Conv", "Relu", "Mul", "Add", "Conv", "ReduceMean", "Identity"
    ]  # fmt: skip
    assert attributes(graph.node[0])["perm"] == [0, 3, 1, 2]
    first, second = [attributes(node) for node in graph.node if node.op_type == "Conv"]
    assert (first["strides"], first["pads"], first["group"]) == ([2, 2], [1, 1, 1, 1], 1)
    assert (second["dilations"], second["group"]) == ([2, 2], 4)
    weights = {t.name: array_of(t) for t in graph.initializer}
    kernel = model.layers[0].kernel.numpy()
    np.testing.assert_array_equal(weights[graph.node[1].input[1]], kernel.transpose(3, 2, 0, 1))


def test_recurrent_layers_are_nodes_with_their_gates_in_order(tmp_path):
    model = keras.Sequential([layers.Input((None, 3)), layers.LSTM(2)])
    model.export(tmp_path / "m.onnx", verbose=False)
    graph = read(tmp_path / "m.onnx").graph
    (node,) = [node for node in graph.node if node.op_type == "LSTM"]
    assert "MatMul" not in kinds(graph)
    weights = {t.name: array_of(t) for t in graph.initializer}
    kernel = model.layers[0].cell.kernel.numpy()
    i, f, g, o = np.split(kernel, 4, axis=1)
    expected = np.concatenate([i, o, f, g], axis=1).T[None]
    np.testing.assert_array_equal(weights[node.input[1]], expected)


def test_branches_and_loops_are_bodies(tmp_path):
    def sign(x):
        if tk.reduce_sum(x) > 0:
            y = x + 1.0
        else:
            y = x - 1.0
        for _ in range(tk.shape(x)[0]):
            y = y * 2.0
        return y

    graph = exported(sign, tmp_path, tk.TensorSpec([None])).graph
    (branch,) = [node for node in graph.node if node.op_type == "If"]
    bodies = {a.name: kinds(a.g) for a in branch.attribute}
    assert bodies == {"then_branch": ["Add", "Identity"], "else_branch": ["Sub", "Identity"]}
    assert {"Scan", "Loop"} & set(kinds(graph))


@keras.saving.register_keras_serializable("test_onnx")
class Products(layers.Layer):
    """Calls an operation that has no form in ONNX."""

    def call(self, x):
        return tk.math.lgamma(x)


def test_an_operation_without_a_form_is_named_with_its_layer_and_the_file_stays(tmp_path):
    inner = keras.Sequential([layers.Dense(3), Products(name="products")])
    model = keras.Sequential([layers.Input((4,)), inner, layers.Dense(2)])
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    match = r"lgamma.* of layer 'products' \(Products\), made at .*test_onnx.py.*Leave it out"
    with pytest.raises(UnimplementedError, match=match):
        model.export(path, verbose=False)
    assert path.read_bytes() == b"before"
    assert "call" not in model.layers[-1].__dict__


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda p: mlp().export(p / "m", format="onnx"), ValueError, r"does not end in '\.onnx'"),
        (lambda p: mlp().export(p / "m.onnx", opset_version=17), ValueError, "17 .*18 to 25"),
        (lambda p: mlp().export(p / "m.onnx", ir_version=7), ValueError, "7 .*8 to 13"),
        (lambda p: mlp().export(p / "m.onnx", optimize=True), TypeError, "optimize.*verify"),
        (
            lambda p: keras.Sequential([layers.Dense(2)]).export(p / "m.onnx"),
            ValueError,
            "has not been built.*call it",
        ),
        (
            lambda p: exported(lambda x: x, p, tk.TensorSpec([None], "string")),
            UnimplementedError,
            "takes text.*turn text into numbers",
        ),
        (
            lambda p: exported(lambda x: x, p, tk.TensorSpec([None], "complex64")),
            UnimplementedError,
            "takes complex64.*float32",
        ),
        (
            lambda p: exported(lambda x: tk.nn.dropout(x, 0.5), p, tk.TensorSpec([2])),
            UnimplementedError,
            "training=False",
        ),
        (
            lambda p: exported(
                lambda x: tk.py_function(lambda v: v, [x], "float32"), p, tk.TensorSpec([2])
            ),
            UnimplementedError,
            "it runs Python",
        ),
        (
            lambda p: exported(tk.print, p, tk.TensorSpec([2])),
            UnimplementedError,
            "print.*something besides its result",
        ),
        (lambda p: mlp().export(p / "m", format="openvino"), ValueError, "openvino.convert_model"),
        (
            lambda p: keras.export.ExportArchive().write_out(p / "m.onnx"),
            ValueError,
            "one endpoint",
        ),
        (lambda p: tk.saved_graph.export_onnx(abs, p / "f.onnx"), TypeError, "decorate it with"),
    ],
)  # fmt: skip
def test_what_can_not_be_written_is_refused_in_words(make, error, match, tmp_path):
    with pytest.raises(error, match=match):
        make(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_archive_writes_its_one_endpoint(tmp_path):
    model, archive = mlp(), keras.export.ExportArchive()
    archive.track_and_add_endpoint("serve", model, [tk.TensorSpec([None, 4])])
    archive.write_out(tmp_path / "a.onnx", verbose=False)
    model.export(tmp_path / "b.onnx", verbose=False)
    first, second = [read(tmp_path / name).graph for name in ("a.onnx", "b.onnx")]
    assert kinds(first) == kinds(second)
    assert first.initializer == second.initializer
    with pytest.raises(ValueError, match="options are for folders"):
        archive.write_out(tmp_path / "c.onnx", tk.saved_model.SaveOptions())
    archive.add_endpoint("more", model.call, [tk.TensorSpec([None, 4])])
    with pytest.raises(ValueError, match=r"there are 2 \(serve, more\)"):
        archive.write_out(tmp_path / "c.onnx")


def test_weights_that_are_quantized_stay_small(tmp_path):
    model = keras.Sequential([layers.Input((64,)), layers.Dense(64)])
    model.quantize("int8", verbose=False)
    model.export(tmp_path / "m.onnx", verbose=False)
    assert "MatMulInteger" in kinds(read(tmp_path / "m.onnx").graph)
    assert (tmp_path / "m.onnx").stat().st_size < 2 * 64 * 64


def test_more_weights_than_a_file_holds_go_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(model_encoding, "LARGEST_FILE", model_encoding.OTHER_PARTS)
    model = keras.Sequential([layers.Input((40,)), layers.Dense(30), layers.Dense(9)])
    model.export(tmp_path / "m.onnx", verbose=False)
    (beside,) = tmp_path.glob("m.onnx.*.data")
    tensors = {t.name: t for t in read(tmp_path / "m.onnx").graph.initializer}
    outside = [t for t in tensors.values() if t.data_location]
    assert [tuple(t.dims) for t in outside] == [(40, 30), (30, 9)]
    for tensor, layer in zip(outside, model.layers, strict=True):
        place = {entry.key: entry.value for entry in tensor.external_data}
        assert place["location"] == beside.name
        assert not tensor.HasField("raw_data")
        start = int(place["offset"])
        values = beside.read_bytes()[start : start + int(place["length"])]
        np.testing.assert_array_equal(
            np.frombuffer(values, "<f4").reshape(tuple(tensor.dims)), layer.kernel.numpy()
        )


def test_a_gradient_rule_of_the_users_is_left_out(tmp_path):
    @tk.custom_gradient
    def bounded(x):
        return tk.tanh(x), lambda g: tk.math.lgamma(g)

    graph = exported(lambda x: bounded(x) * 2.0, tmp_path, tk.TensorSpec([3])).graph
    assert kinds(graph) == ["Tanh", "Mul", "Identity"]


def test_a_function_that_assigns_is_refused(tmp_path):
    count = tk.Variable(0.0, name="count")

    def counting(x):
        count.assign_add(1.0)
        return x * count

    with pytest.raises(UnimplementedError, match=r"assigns 'count'.*argument and a result"):
        exported(counting, tmp_path, tk.TensorSpec([2]))


def test_verifying_without_onnxruntime_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="pip install 'onnx"):
        mlp().export(tmp_path / "m.onnx", verify=True)
    assert not list(tmp_path.iterdir())
