import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops import image

RAMP = np.arange(8.0).reshape(1, 8, 1) + np.zeros((4, 1, 2))
IMAGE = np.random.default_rng(0).random((2, 5, 6, 3)).astype("float32")
BICUBIC_UP = [
    *(-0.0563225, 0.5762231, 0.65725, -0.6916102, -0.6183426, 0.1443255, 0.9893582),
    *(-0.0941428, -0.7225677, -0.4609741, 0.7990395, 0.4707229, -0.3670952),
]
BICUBIC_DOWN = [0.2090513, -0.4306306, 0.047809, -0.2033402, -0.1958756, -0.0118244]
METHODS = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")


@pytest.mark.parametrize("method", METHODS)
def test_constants_stay_and_the_same_size_changes_nothing(method):
    flat = np.full((3, 4, 2), 7.0)
    assert_same(image.resize(flat, (5, 2), method), np.full((5, 2, 2), 7.0))
    assert_same(image.resize(IMAGE, (5, 6), method), IMAGE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_that_are_remembered_serve_each_device_and_tape(device, method, dtype):
    images = IMAGE.astype(dtype)
    with tk.device("/cpu:0"):
        expected = image.resize(images, (7, 4), method).numpy()
    for _ in range(2):
        with tk.device(device), tk.GradientTape() as tape:
            x = tk.constant(images)
            tape.watch(x)
            y = image.resize(x, (7, 4), method)
            gradient = tape.gradient(y, x)
        assert y.device == gradient.device == x.device
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient.numpy().sum(), np.prod(y.shape), rtol=1e-5)


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_straight_slopes_stay_straight_inside(method):
    wide = image.resize(RAMP, (4, 16), method).numpy()[0, :, 0]
    np.testing.assert_allclose(wide[4:12], (np.arange(16)[4:12] + 0.5) / 2 - 0.5, atol=1e-6)


def test_bicubic_without_antialias_reads_a_table_of_1024_positions():
    # the numbers of tf.image.resize(..., "bicubic") of TensorFlow 2.21
    x = np.sin(np.arange(9, dtype="float32") * 2).reshape(1, 9, 1)
    up = image.resize(x, (1, 13), "bicubic").numpy()[0, :, 0]
    down = image.resize(x, (1, 6), "bicubic").numpy()[0, :, 0]
    np.testing.assert_allclose(up, BICUBIC_UP, atol=1e-6)
    np.testing.assert_allclose(down, BICUBIC_DOWN, atol=1e-6)


def test_nearest_takes_the_pixel_under_the_middle():
    assert image.resize(RAMP, (1, 3), "nearest").numpy()[0, :, 0].tolist() == [1, 4, 6]
    assert image.resize(np.uint8(RAMP), (2, 2), "nearest").dtype == "uint8"


def test_antialiasing_weighs_all_pixels():
    plain = image.resize(RAMP**2, (4, 2)).numpy()[0, :, 0]
    smooth = image.resize(RAMP**2, (4, 2), antialias=True).numpy()[0, :, 0]
    assert plain.tolist() == [2.5, 30.5]
    assert smooth[0] > plain[0]


def test_integers_are_rounded_and_kept_in_their_range():
    edge = np.array([[[0], [255], [255], [0]]], np.uint8)
    found = image.resize(edge, (1, 8), "bicubic").numpy()[0, :, 0]
    assert found.dtype == np.uint8
    assert (found.min(), found.max()) == (0, 255)


def test_aspect_ratios_are_kept_by_cutting_or_framing():
    x = np.arange(24.0).reshape(1, 4, 6, 1)
    assert_same(image.resize(x, (4, 4), crop_to_aspect_ratio=True), x[:, :, 1:5])
    framed = image.resize(x, (6, 6), pad_to_aspect_ratio=True, fill_value=-1.0)
    assert_same(framed, np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)), constant_values=-1))


def test_channels_may_come_first():
    last = image.resize(IMAGE, (3, 4))
    first = image.resize(IMAGE.transpose(0, 3, 1, 2), (3, 4), data_format="channels_first")
    assert_same(first, last.numpy().transpose(0, 3, 1, 2))


def test_scale_and_translate_doubles_and_centers():
    scale = np.float32([2, 2])
    found = image.scale_and_translate(
        np.arange(9.0, dtype="float32").reshape(3, 3),
        (5, 5),
        scale,
        -(scale / 2 - 0.5),
        (0, 1),
        "linear",
    )
    assert_same(found, np.add.outer(np.arange(5) * 1.5, np.arange(5) * 0.5))


def test_pixels_from_outside_are_zero():
    found = image.scale_and_translate(np.ones(4, "float32"), (6,), [1.0], [2.0], (0,), "cubic")
    assert_same(found, [0, 0, 1, 1, 1, 1])


def test_gradients_reach_the_scale():
    scale = convert_to_tensor([1.5])
    with GradientTape() as tape:
        tape.watch(scale)
        x = np.arange(6.0, dtype="float32")
        y = image.scale_and_translate(x, (4,), scale, [0.0], (0,), "linear", antialias=False)
        inner = y[1:]  # (i + 1/2) / scale - 1/2
    slope = -sum((1.5, 2.5, 3.5)) / 1.5**2
    assert float(tape.gradient(inner, scale)[0]) == pytest.approx(slope, rel=1e-5)


def test_area_takes_the_mean_of_what_a_new_pixel_covers():
    x = np.arange(12.0, dtype="float32").reshape(1, 2, 6, 1)
    columns = [(0 + 0.5 * 1) / 1.5, (0.5 * 1 + 2) / 1.5, (3 + 0.5 * 4) / 1.5, (0.5 * 4 + 5) / 1.5]
    means = np.array(columns, "float32") + 3  # of both rows, which lie 6 apart
    for call in (
        lambda: image.resize(x, (1, 4), interpolation="area"),
        lambda: tk.layers.Resizing(1, 4, interpolation="area")(x),
        lambda: tk.image.resize(x, (1, 4), "area"),
    ):
        np.testing.assert_allclose(call().numpy().ravel(), means, 1e-6)


ERRORS = [
    (lambda: image.resize(IMAGE, (4, 4), "gaussian"), "'gaussian' is none of"),
    (lambda: image.resize(IMAGE, (4, 0)), "both above 0"),
    (lambda: image.resize(IMAGE, (4, 4), fill_mode="reflect"), "'reflect' is none of"),
    (
        lambda: image.resize(IMAGE, (4, 4), crop_to_aspect_ratio=True, pad_to_aspect_ratio=True),
        "only one of",
    ),
    (lambda: image.resize(IMAGE[0, 0], (4, 4)), "Invalid images rank"),
    (
        lambda: image.scale_and_translate(RAMP, RAMP.shape, [1.0], [0.0], (0,), "box"),
        "'box' is none of",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scales_and_axes_must_fit():
    with pytest.raises(InvalidArgumentError, match="1 axes need as many scales"):
        image.scale_and_translate(RAMP, RAMP.shape, [1.0, 2.0], [0.0], (0,), "linear")
    with pytest.raises(ShapeError, match="must equal"):
        image.scale_and_translate(RAMP, (4, 9, 2), [1.0], [0.0], (0,), "linear")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "uint8", "int32"])
def test_tensorflows_images_are_resized_in_float32(dtype):
    x = tk.cast(np.arange(60.0).reshape(1, 4, 5, 3), dtype)
    boxes = [[0.0, 0.0, 1.0, 1.0]]
    later = tk.function(lambda x, size: tk.image.resize(x, size))
    for y in [
        *(tk.image.resize(x, (3, 4), m) for m in ("bilinear", "bicubic", "area", "gaussian")),
        tk.image.resize(x, (4, 5)),
        tk.image.resize_with_pad(x, 6, 6),
        later(x, tk.constant([3, 4])),
        *(tk.image.crop_and_resize(x, boxes, [0], (2, 2), m) for m in ("bilinear", "nearest")),
    ]:
        assert y.dtype == "float32"
    assert tk.image.resize(x, (3, 4), "nearest").dtype == dtype
    assert (
        tk.function(lambda x, size: tk.image.resize(x, size, "nearest"))(x, [3, 4]).dtype == dtype
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_edges_have_the_float_of_their_images(dtype):
    x = tk.cast(np.arange(60.0).reshape(1, 4, 5, 3), dtype)
    assert tk.image.sobel_edges(x).dtype == image.sobel_edges(x).dtype == dtype


def test_sixteen_bits_become_short_floats():
    x = tk.constant([0, 1, 100, 32000, 65535], "uint16")
    want = np.array([0, 1, 100, 32000, 65535]) / 65535
    for dtype in ("float16", "bfloat16"):
        y = tk.image.convert_image_dtype(x, dtype)
        np.testing.assert_allclose(tk.cast(y, "float32").numpy(), want, rtol=4e-3, atol=1e-7)
