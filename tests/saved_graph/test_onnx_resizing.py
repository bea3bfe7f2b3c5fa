"""Exported work on images whose sizes are known only when the file runs, in onnxruntime."""

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import write
from tests.saved_graph.test_onnx_spectra import compare
from trainkit.core.errors import UnimplementedError

onnxruntime = pytest.importorskip("onnxruntime")
layers = tk.keras.layers
RNG = np.random.default_rng(6)
METHODS = ["nearest", "bilinear", "bicubic"]


def images(*shape, dtype="float32"):
    if dtype == "float32":
        return RNG.normal(size=shape).astype(dtype)
    return RNG.integers(0, 256, shape).astype(dtype)


@pytest.mark.parametrize("method", METHODS)
def test_images_of_any_size_reach_one(method, tmp_path):
    def function(x):
        return tk.image.resize(x, (6, 9), method), tk.ops.image.resize(x, (5, 4), method)

    draws = [(images(*shape, 3),) for shape in ((1, 3, 4), (2, 11, 7), (5, 6, 9))]
    compare(function, [tk.TensorSpec([None, None, None, 3])], draws, tmp_path / "f.onnx")


@pytest.mark.parametrize("method", METHODS[:2])
def test_images_of_bytes_stay_bytes(method, tmp_path):
    def function(x):  # three times as large: no value lies between two whole ones
        return tk.ops.image.resize(x, (9, 12), method), tk.image.resize(x, (9, 12), method)

    draws = [(images(n, 3, 4, 3, dtype="uint8"),) for n in (1, 4)]
    spec = tk.TensorSpec([None, None, None, 3], "uint8")
    compare(function, [spec], draws, tmp_path / "f.onnx")


OTHERS = ["lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area"]


@pytest.mark.parametrize("method", OTHERS)
def test_methods_that_onnx_does_not_have(method, tmp_path):
    def function(x):
        doubled = tk.image.resize(x, tk.shape(x)[1:3] * 2, method)
        if method.startswith("lanczos"):
            return tk.ops.image.resize(x, (6, 4), method), doubled
        return doubled

    draws = [(images(*shape, 3),) for shape in ((1, 3, 4), (2, 11, 7))]
    compare(function, [tk.TensorSpec([None, None, None, 3])], draws, tmp_path / "f.onnx")


@pytest.mark.parametrize("method", [*METHODS, "lanczos3"])
def test_images_that_shrink_are_smoothed(method, tmp_path):
    def function(x):
        return (
            tk.image.resize(x, tk.shape(x)[1:3] // 2, method, antialias=True),
            tk.ops.image.resize(x, (4, 2), method, antialias=True),
        )

    def first(x):
        settings = {"antialias": True, "data_format": "channels_first"}
        return tk.ops.image.resize(x, (3, 2), method, **settings)

    draws = [(images(*shape, 3),) for shape in ((1, 3, 4), (2, 11, 7))]
    compare(function, [tk.TensorSpec([None, None, None, 3])], draws, tmp_path / "f.onnx")
    draws = [(images(2, 3, 8, 7),)]
    compare(first, [tk.TensorSpec([None, 3, None, None])], draws, tmp_path / "f.onnx")


def test_bytes_that_shrink_are_rounded(tmp_path):
    def function(x):
        return tk.ops.image.resize(x, (2, 2), "bilinear", antialias=True)

    draws = [(images(2, 8, 8, 3, dtype="uint8"),)]
    spec = tk.TensorSpec([None, None, None, 3], "uint8")
    compare(function, [spec], draws, tmp_path / "f.onnx", tolerance=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_images_reach_sizes_that_are_values(method, tmp_path):
    def function(x):
        return tk.image.resize(x, tk.shape(x)[1:3] * 2, method)

    draws = [(images(*shape, 2),) for shape in ((1, 3, 4), (2, 11, 7))]
    compare(function, [tk.TensorSpec([None, None, None, 2])], draws, tmp_path / "f.onnx")


def test_one_image_and_channels_in_front(tmp_path):
    def one(x):
        return tk.ops.image.resize(x, (6, 5))

    compare(one, [tk.TensorSpec([None, None, 3])], [(images(4, 8, 3),)], tmp_path / "f.onnx")

    def first(x):
        return tk.ops.image.resize(x, (6, 5), data_format="channels_first")

    draws = [(images(n, 3, 8, 7),) for n in (1, 3)]
    compare(first, [tk.TensorSpec([None, 3, None, None])], draws, tmp_path / "f.onnx")


def test_models_that_resize_what_they_get(tmp_path):
    model = tk.keras.Sequential(
        [tk.keras.Input((None, None, 3)), layers.Resizing(8, 8), layers.Conv2D(2, 3)]
    )
    check = model.export(tmp_path / "m.onnx", verbose=False, verify=True)
    assert check is None or check.largest < 1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pad_to_aspect_ratio": True}, "with pad_to_aspect_ratio=True"),
        ({"crop_to_aspect_ratio": True}, "with crop_to_aspect_ratio=True"),
    ],
)
def test_what_can_not_be_written_is_named(settings, message, tmp_path):
    traced = tk.function(lambda x: tk.ops.image.resize(x, (6, 5), **settings))
    spec = tk.TensorSpec([None, None, None, 3])
    with pytest.raises(UnimplementedError, match=message):
        tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", spec)


def test_an_aspect_ratio_is_named(tmp_path):
    traced = tk.function(lambda x, size: tk.image.resize(x, size, preserve_aspect_ratio=True))
    specs = tk.TensorSpec([None, 4, 4, 3]), tk.TensorSpec([2], "int32")
    with pytest.raises(UnimplementedError, match="preserve_aspect_ratio=True"):
        tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", *specs)


def random_boxes(count):
    corners = RNG.uniform(0, 10, (count, 2)).astype(np.float32)
    return np.concatenate([corners, corners + RNG.uniform(1, 8, (count, 2))], 1).astype(np.float32)


def test_boxes_that_stay(tmp_path):
    def function(boxes, scores):
        plain = tk.image.non_max_suppression(boxes, scores, 6, 0.4)
        few = tk.image.non_max_suppression(boxes, scores, tk.size(scores) // 3, 0.4, 0.5)
        return plain, tk.gather(boxes, few)

    draws = [(random_boxes(n), RNG.random(n, np.float32)) for n in (1, 8, 30)]
    specs = [tk.TensorSpec([None, 4]), tk.TensorSpec([None])]
    compare(function, specs, draws, tmp_path / "f.onnx")


def test_boxes_of_a_file_go_out_again(tmp_path):
    inputs = [("b", ["N", "K", 4]), ("s", ["N", "C", "K"])]
    constants = {"most": np.int64(4), "o": np.float32(0.4), "t": np.float32(0.2)}
    nodes = [("NonMaxSuppression", "b s most o t", "y", {})]
    model = tk.onnx.load(write(tmp_path / "m.onnx", nodes, inputs, "y", constants))
    model.export(tmp_path / "again.onnx", verbose=False)
    again = tk.onnx.load(tmp_path / "again.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "again.onnx")
    for batch in (1, 3):
        boxes = np.stack([random_boxes(12) for _ in range(batch)])
        data = {"b": boxes, "s": RNG.random((batch, 2, 12), np.float32)}
        np.testing.assert_array_equal(again(data), model(data))
        np.testing.assert_array_equal(session.run(None, data)[0], model(data))
