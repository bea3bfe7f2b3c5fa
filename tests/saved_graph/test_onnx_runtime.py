"""Exported files in onnxruntime, beside trainkit; skipped where onnxruntime is not installed."""

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.layer_table import ROWS
from tests.conformance.table import all_cases
from tests.onnx.onnx_files import branches
from trainkit import keras
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.saved_graph.onnx import model_encoding, runtime_check

onnxruntime = pytest.importorskip("onnxruntime")
layers = keras.layers


def dense():
    return [keras.Input((6,)), layers.Dense(5, activation="gelu"), layers.Dense(3, "softmax")]


def convolutions():
    return [
        keras.Input((11, 9, 4)),
        layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.Conv2D(8, 3, groups=2, dilation_rate=2, padding="same"),
        layers.DepthwiseConv2D(3, strides=2, padding="same"),
        layers.Conv2DTranspose(4, 3, strides=2, output_padding=1),
        layers.MaxPooling2D(2, padding="same"),
        layers.AveragePooling2D(3, 2, padding="same"),
        layers.ZeroPadding2D(((1, 0), (0, 2))),
        layers.UpSampling2D(2),
        layers.GroupNormalization(2),
        layers.Flatten(),
    ]


def recurrent():
    return [
        keras.Input((None, 4)),
        layers.LSTM(5, return_sequences=True),
        layers.Bidirectional(layers.GRU(3, return_sequences=True)),
        layers.GRU(4, reset_after=False, go_backwards=True, return_sequences=True),
        layers.LSTM(3, activation="relu", return_sequences=True),
        layers.SimpleRNN(4),
    ]


def masked():
    return [
        keras.Input((None,), dtype="int32"),
        layers.Embedding(3, 4, mask_zero=True),
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.GRU(3),
    ]


@pytest.mark.parametrize("make", [dense, convolutions, recurrent, masked])
def test_models_are_equal_at_other_batches_and_lengths(make, tmp_path, capsys):
    model = keras.Sequential(make())
    model.export(tmp_path / "m.onnx", verify=True)
    assert "2 runs, largest difference" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (place,) = session.get_inputs()
    sizes = [{"batch": 17}.get(n, n) for n in place.shape]
    sizes = [7 if isinstance(n, str) else n for n in sizes]
    x = np.random.default_rng(1).uniform(0, 2, sizes)
    x = x.astype(model.inputs[0].dtype)
    (y,) = session.run(None, {place.name: x})
    np.testing.assert_allclose(y, model(x).numpy(), rtol=1e-4, atol=1e-5)


def test_attention_and_its_masks_are_equal(tmp_path):
    x = keras.Input((None, 8))
    y = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    y = layers.LayerNormalization()(x + y)
    y = layers.GroupQueryAttention(4, 4, 2)(y, y)
    keras.Model(x, y).export(tmp_path / "m.onnx", verbose=False, verify=True)


def test_states_of_recurrent_layers_are_equal_at_all_steps_and_at_the_last(tmp_path):
    x = keras.Input((None,), dtype="int32")
    y, h, c = layers.LSTM(4, return_state=True)(layers.Embedding(3, 4, mask_zero=True)(x))
    z = layers.LSTM(4, return_sequences=True)(layers.Embedding(3, 4)(x))
    keras.Model(x, [y, h, c, z[:, -1, 1:3], z[:, 0]]).export(
        tmp_path / "m.onnx", verbose=False, verify=True
    )


def numbers(x):
    i, k = tk.cast(10.0 * x, tk.int32), tk.cast(100.0 * x, tk.int8)
    return -i // 3, (-i) % 3, k + k, x > 0.5, tk.cast(x, tk.bool), tk.cast(x, tk.float16) * 2.0


def parts(x):
    rows = tk.shape(x)[0]
    cube = tk.reshape(x, [rows, 2, 2])
    places = tk.constant([1, 0, 1])
    picked = cube[:, 0, places], cube[places % rows, places], cube[..., None, -1]
    whole = tk.fill([rows, 2], 7.0), tk.tile(x, [2, 1])
    return x[::-1], x[:, None, 1:-1], x[rows - 1], *whole, *picked


@pytest.mark.parametrize("function", [branches, numbers, parts])
def test_functions_are_equal_for_any_number_of_rows(function, tmp_path):
    traced = tk.function(function, input_signature=[tk.TensorSpec([None, 4])])
    check = tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", verify=True)
    session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
    for rows in (1, 2):
        x = np.random.default_rng(2).uniform(0, 1, (rows, 4)).astype(np.float32)
        for y, expected in zip(session.run(None, {"x": x}), traced(x), strict=True):
            assert y.dtype == expected.numpy().dtype
            np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert check.largest < 1e-5


# Layers that take text, or whose results no operation of ONNX gives.
NO_LAYER_FORM = {
    "ContrastLimitedAdaptiveHistogramEqualization",
    "HashedCrossing",
    "Hashing",
    "StringLookup",
    "TextVectorization",
    "Wrapper",
}


def difference_of_layer(row, path):
    """How far a layer, with any batch, is from itself in onnxruntime, for its row's input."""
    rng = np.random.default_rng(0)
    layer = row.make(dtype="float32")
    draws = [draw(rng) for draw in (row.inputs, *row.more)]
    narrow = {np.dtype(np.float64): np.float32}
    args = nest.map_structure(
        lambda a: a.astype(narrow.get(a.dtype, a.dtype)) if isinstance(a, np.ndarray) else a, draws
    )
    expected = nest.flatten(layer(*args, **row.call))
    specs = nest.map_structure(
        lambda a: tk.TensorSpec([None, *a.shape[1:]], a.dtype) if isinstance(a, np.ndarray) else a,
        args,
    )
    traced = tk.function(lambda *inputs: layer(*inputs, **row.call))
    tk.saved_graph.export_onnx(traced, path, *specs)
    session = onnxruntime.InferenceSession(path)
    arrays = [a for a in nest.flatten(args) if isinstance(a, np.ndarray)]
    feeds = {x.name: a for x, a in zip(session.get_inputs(), arrays, strict=True)}
    pairs = zip(expected, session.run(None, feeds), strict=True)
    return max(runtime_check.difference(np.asarray(y), found) for y, found in pairs)


def test_every_layer_is_equal_or_says_why_not(tmp_path):
    faults = []
    for number, row in enumerate(ROWS):
        if row.name in NO_LAYER_FORM:
            continue
        apart = difference_of_layer(row, tmp_path / f"{number}.onnx")
        if not apart < 1e-5:
            faults.append(f"{row.name}: {apart}")
    assert not faults, "\n".join(faults)


def difference_of_operation(case, path):
    """How far a call of an operation is from itself in onnxruntime."""
    arrays = [x.astype("float32") if x.dtype == "float64" else x for x in case.inputs]
    traced = tk.function(lambda *inputs: case.op(*inputs, **case.settings))
    concrete = traced.get_concrete_function(*[tk.TensorSpec(x.shape, x.dtype) for x in arrays])
    tk.saved_graph.export_onnx(concrete, path)
    session = onnxruntime.InferenceSession(path)
    feeds = {x.name: a for x, a in zip(session.get_inputs(), arrays, strict=True)}
    results = [y for y in nest.flatten(traced(*arrays)) if hasattr(y, "numpy")]
    pairs = zip(results, session.run(None, feeds), strict=True)
    return max(runtime_check.difference(y.numpy(), found) for y, found in pairs)


def test_operations_are_equal_or_named(tmp_path):
    equal, faults = 0, []
    for number, case in enumerate(all_cases()):
        if all(isinstance(x, np.ndarray) and x.dtype.kind in "fi" for x in case.inputs):
            try:
                apart = difference_of_operation(case, tmp_path / f"{number}.onnx")
            except UnimplementedError as error:
                assert "export to ONNX: " in str(error)  # noqa: PT017
                continue
            equal += 1
            if not apart < 1e-5:
                faults.append(f"{case}: {apart}")
    assert not faults, "\n".join(faults)
    assert equal > 190


def test_weights_beside_the_file_are_read_from_there(tmp_path, monkeypatch):
    monkeypatch.setattr(model_encoding, "LARGEST_FILE", model_encoding.OTHER_PARTS)
    model = keras.Sequential([keras.Input((40,)), layers.Dense(30), layers.Dense(9)])
    model.export(tmp_path / "m.onnx", verbose=False, verify=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    x = np.ones((2, 40), np.float32)
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(y, model(x).numpy(), rtol=1e-5, atol=1e-6)


def test_results_that_differ_are_an_error_and_no_file_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime_check, "TOLERANCE", -1.0)
    with pytest.raises(InvalidArgumentError, match=r"differ by .* the file is not written"):
        keras.Sequential(dense()).export(tmp_path / "m.onnx", verbose=False, verify=True)
    assert not list(tmp_path.iterdir())
