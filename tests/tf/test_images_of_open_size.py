"""Functions of images whose height and width are known only when they come."""

import numpy as np
import pytest

import trainkit as tk

OPEN = tk.TensorSpec((None, None, 3), "float32")
IMAGE = np.random.default_rng(0).uniform(0, 255, (5, 7, 3)).astype("float32")
WIDE = np.random.default_rng(1).uniform(0, 255, (9, 6, 3)).astype("float32")

CASES = {  # the function, and the shape that is known while it is traced
    "resize_with_pad": (lambda x: tk.image.resize_with_pad(x, 4, 4), (4, 4, 3)),
    "resize_with_crop_or_pad": (lambda x: tk.image.resize_with_crop_or_pad(x, 4, 9), (4, 9, 3)),
    "central_crop": (lambda x: tk.image.central_crop(x, 0.5), (None, None, 3)),
    "crop_to_bounding_box": (lambda x: tk.image.crop_to_bounding_box(x, 1, 2, 3, 4), (3, 4, 3)),
    "pad_to_bounding_box": (lambda x: tk.image.pad_to_bounding_box(x, 1, 1, 11, 12), (11, 12, 3)),
    "resize": (lambda x: tk.image.resize(x, (3, 3), preserve_aspect_ratio=True), (None, None, 3)),
    "per_image_standardization": (tk.image.per_image_standardization, (None, None, 3)),
    "sobel_edges": (lambda x: tk.image.sobel_edges(x[None]), (1, None, None, 3, 2)),
    "ssim": (lambda x: tk.image.ssim(x, x * 0.9, 255.0, filter_size=3), ()),
    "ssim_map": (
        lambda x: tk.image.ssim(x, x * 0.9, 255.0, filter_size=3, return_index_map=True),
        (None, None),
    ),
    "ssim_multiscale": (
        lambda x: tk.image.ssim_multiscale(x, x * 0.9, 255.0, (0.5, 0.5), filter_size=2),
        (),
    ),
    "ops_ssim": (lambda x: tk.ops.image.ssim(x, x * 0.9, 255.0, filter_size=3), ()),
    "crop_and_resize": (
        lambda x: tk.image.crop_and_resize(x[None], [[0.0, 0.1, 1.0, 0.8]], [0], (4, 5)),
        (1, 4, 5, 3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_open_sizes_give_what_known_ones_give(name):
    function, shape = CASES[name]
    traced = tk.function(function, input_signature=[OPEN])
    static = []
    tk.function(lambda x: static.append(tuple(function(x).shape)), input_signature=[OPEN])(IMAGE)
    assert static == [shape]
    for image in (IMAGE, WIDE, IMAGE):
        np.testing.assert_array_equal(traced(image), function(image))
    data = tk.data.Dataset.from_generator(lambda: iter([IMAGE, WIDE]), output_signature=OPEN)
    data = data.map(function)
    assert tuple(data.element_spec.shape) == shape
    for result, image in zip(data, (IMAGE, WIDE), strict=True):
        np.testing.assert_array_equal(result, function(image))


@pytest.mark.parametrize("name", [n for n in CASES if n != "per_image_standardization"])
def test_gradients_of_open_sizes_are_those_of_known_ones(name):
    function, _ = CASES[name]

    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(tk.square(function(x)))
        return tape.gradient(y, x)

    traced = tk.function(slope, input_signature=[OPEN])
    for image in (IMAGE, WIDE):
        want = slope(tk.constant(image)).numpy()
        assert np.any(want)
        np.testing.assert_allclose(traced(image), want, rtol=1e-4, atol=1e-3)


def test_sizes_that_come_with_the_image():
    fitted = tk.function(
        lambda x, n: tk.image.resize_with_crop_or_pad(x, n, n + 1),
        input_signature=[OPEN, tk.TensorSpec((), "int32")],
    )
    for n in (3, 8):
        want = tk.image.resize_with_crop_or_pad(IMAGE, n, n + 1)
        np.testing.assert_array_equal(fitted(IMAGE, n), want)


def test_a_part_that_reaches_beyond_an_image_of_open_size_is_refused():
    crop = tk.function(
        lambda x: tk.image.crop_to_bounding_box(x, 3, 0, 4, 4), input_signature=[OPEN]
    )
    assert crop(WIDE).shape == (4, 4, 3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="rows 3 to 7"):
        crop(IMAGE)


@pytest.mark.parametrize(
    "crop",
    [
        lambda x: tk.image.random_crop(x, (4, 4, 3), seed=1),
        lambda x: tk.image.stateless_random_crop(x, [4, 4, 3], (1, 2)),
        lambda x: tk.image.random_crop(x, [4, tk.constant(4), 3]),
    ],
)
def test_random_parts_of_images_of_open_size(crop):
    static = []

    @tk.function(input_signature=[OPEN])
    def traced(x):
        y = crop(x)
        static.append(tuple(y.shape))
        return y

    for image in (IMAGE, WIDE):
        part = traced(image).numpy()
        places = [
            (i, j)
            for i in range(image.shape[0] - 3)
            for j in range(image.shape[1] - 3)
            if np.array_equal(image[i : i + 4, j : j + 4], part)
        ]
        assert len(places) == 1
    assert static == [(4, 4, 3)] * len(static)
    data = tk.data.Dataset.from_generator(lambda: iter([IMAGE, WIDE]), output_signature=OPEN)
    batch = next(iter(data.map(crop).batch(2)))
    assert batch.shape == (2, 4, 4, 3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="does not fit"):
        traced(IMAGE[:3])


def test_grays_of_png_files_are_those_of_libpng():
    colors = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [100, 150, 200], [1, 2, 3], [9, 9, 9]]
    png = tk.io.encode_png(np.array([colors], np.uint8))
    want = [76, 149, 29, 140, 1, 9]  # as TensorFlow reads them: what is behind the point is cut off
    for data in (png, tk.io.encode_png(np.array([[[*c, 7] for c in colors]], np.uint8))):
        np.testing.assert_array_equal(tk.io.decode_png(data, channels=1).numpy().ravel(), want)
        np.testing.assert_array_equal(tk.io.decode_image(data, channels=1).numpy().ravel(), want)
    deep = tk.io.decode_png(png, channels=1, dtype=tk.uint16).numpy().ravel()
    np.testing.assert_array_equal(deep, np.array(want) * 257)
    words = np.array([[[60000, 3, 700], [1, 2, 3]]], np.uint16)
    gray = tk.io.decode_png(tk.io.encode_png(words), channels=1, dtype=tk.uint16)
    np.testing.assert_array_equal(gray.numpy().ravel(), [18020, 2])
