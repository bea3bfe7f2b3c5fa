"""Imported and trained models in onnxruntime; skipped where it is not installed."""

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import write
from trainkit import keras

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)


def rand(*shape):
    return RNG.normal(size=shape).astype(np.float32)


IMAGES = (
    [
        ("Conv", "x w", "c", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("BatchNormalization", "c scale shift mean var", "n", {}),
        ("Clip", "n low high", "r", {}),
        ("Conv", "r d", "e", {"pads": [1, 1, 1, 1], "group": 4}),
        ("Add", "r e", "s", {}),
        ("GlobalAveragePool", "s", "g", {}),
        ("Flatten", "g", "f", {}),
        ("Gemm", "f k b", "y", {"transB": 1}),
    ],
    [("x", ["N", 3, "H", "W"])],
    "y",
    {
        "w": rand(4, 3, 3, 3), "scale": rand(4), "shift": rand(4), "mean": rand(4),
        "var": np.full(4, 2.0, np.float32), "low": np.float32(0), "high": np.float32(6),
        "d": rand(4, 1, 3, 3), "k": rand(5, 4), "b": rand(5),
    },
)  # fmt: skip
TEXTS = (
    [
        ("Gather", "table ids", "e", {}),
        ("LayerNormalization", "e scale shift", "n", {"axis": -1}),
        ("MatMul", "n q", "qs", {}),
        ("Transpose", "n", "t", {"perm": [0, 2, 1]}),
        ("MatMul", "qs t", "m", {}),
        ("Softmax", "m", "p", {"axis": -1}),
        ("MatMul", "p n", "a", {}),
        ("Add", "a n", "r", {}),
        ("ReduceMean", "r ax", "y", {"keepdims": 0}),
    ],
    [("ids", ["N", "T"], "int64")],
    "y",
    {
        "table": rand(9, 8), "scale": rand(8), "shift": rand(8), "q": rand(8, 8),
        "ax": np.array([1]),
    },
)  # fmt: skip


@pytest.mark.parametrize(("parts", "width"), [(IMAGES, 5), (TEXTS, 8)], ids=["images", "texts"])
def test_a_trained_model_is_equal_at_other_batches_and_lengths(parts, width, tmp_path):
    def data(batch, size):
        return rand(batch, 3, size, size) if parts is IMAGES else RNG.integers(0, 9, (batch, size))

    path = write(tmp_path / "m.onnx", *parts)
    model, original = tk.onnx.load(path), onnxruntime.InferenceSession(path)
    name = original.get_inputs()[0].name
    x = data(4, 6)
    np.testing.assert_allclose(model(x), original.run(None, {name: x})[0], rtol=1e-4, atol=1e-5)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    losses = model.fit(x, rand(4, width), epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.export(tmp_path / "again.onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "again.onnx")
    name = session.get_inputs()[0].name
    for batch, size in ((1, 5), (3, 9), (17, 5)):
        x = data(batch, size)
        np.testing.assert_allclose(model(x), session.run(None, {name: x})[0], rtol=1e-4, atol=1e-5)
