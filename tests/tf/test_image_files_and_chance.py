"""PNG files, random changes of images, and the errors of image functions."""

import struct
import zlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.ops.images.png import _chunk

IMAGE = np.random.RandomState(0).uniform(size=(4, 6, 5, 3)).astype("float32")


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_gives_back_what_was_written(dtype, channels):
    high = np.iinfo(dtype).max + 1
    pixels = np.random.RandomState(1).randint(0, high, (5, 7, channels)).astype(dtype)
    read = tk.image.decode_png(tk.image.encode_png(pixels), dtype=dtype).numpy()
    assert read.dtype.name == dtype
    np.testing.assert_array_equal(read, pixels)


def test_png_files_of_several_images():
    images = np.random.RandomState(1).randint(0, 256, (2, 3, 4, 5, 1)).astype("uint8")
    encode = tk.function(tk.image.encode_png, input_signature=[tk.TensorSpec(None, tk.uint8)])
    for files in (tk.image.encode_png(images), encode(images)):
        assert files.shape == (2, 3)
        np.testing.assert_array_equal(tk.image.decode_png(files[1, 2]), images[1, 2])
    assert tk.image.encode_png(images[:0]).shape == (0, 3)
    assert encode(images[0, 0]).shape == ()


GIF = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b"
)


def test_images_are_read_whatever_format_the_operation_is_called_after():
    # Shapes as of TensorFlow 2.21.
    pixels = np.full((4, 5, 3), 7, "uint8")
    png, jpeg = tk.image.encode_png(pixels), tk.image.encode_jpeg(pixels)
    for decode in (tk.image.decode_png, tk.image.decode_jpeg):
        for file in (png, jpeg):
            np.testing.assert_array_equal(decode(file), pixels)
            assert decode(file, channels=1).shape == (4, 5, 1)
        assert decode(GIF).shape == decode(GIF, channels=3).shape == (1, 1, 3)
        assert decode(png, channels=4).shape == (4, 5, 4)
        with pytest.raises(tk.errors.InvalidArgumentError, match="a JPEG has 1 or 3"):
            decode(jpeg, channels=4)
        with pytest.raises(tk.errors.InvalidArgumentError, match="3 channels here"):
            decode(GIF, channels=1)
        with pytest.raises(tk.errors.InvalidArgumentError, match="no PNG, JPEG or GIF"):
            decode(b"BM" + bytes(60))
    assert tk.image.decode_gif(png).shape == tk.image.decode_gif(jpeg).shape == (1, 4, 5, 3)
    assert tk.image.decode_png(jpeg, dtype=tk.uint16).numpy().max() == 7 * 257
    with pytest.raises(tk.errors.InvalidArgumentError, match="decode_bmp"):
        tk.image.decode_bmp(png)


def png(width, height, bits, color, lines, more=b""):
    head = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    body = zlib.compress(bytes(lines))
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + more
        + _chunk(b"IDAT", body)
        + _chunk(b"IEND", b"")
    )


def test_png_undoes_every_filter():
    # Rows of 3 gray pixels: none, left, above, mean and Paeth; each row becomes 10, 20, 30.
    lines = [0, 10, 20, 30, 1, 10, 10, 10, 2, 0, 0, 0, 3, 5, 5, 5, 4, 0, 0, 0]
    pixels = tk.image.decode_png(png(3, 5, 8, 0, lines)).numpy()[..., 0]
    np.testing.assert_array_equal(pixels, [[10, 20, 30]] * 5)


def test_png_reads_single_bits_and_palettes():
    pixels = tk.image.decode_png(png(3, 1, 1, 0, [0, 0b10100000])).numpy()
    np.testing.assert_array_equal(pixels[..., 0], [[255, 0, 255]])
    palette = _chunk(b"PLTE", bytes([1, 2, 3, 40, 50, 60]))
    pixels = tk.image.decode_png(png(2, 1, 8, 3, [0, 1, 0], palette)).numpy()
    np.testing.assert_array_equal(pixels, [[[40, 50, 60], [1, 2, 3]]])


def test_png_converts_channels():
    gray = np.array([[[7], [9]]], "uint8")
    read = tk.image.decode_png(tk.image.encode_png(gray), channels=4).numpy()
    np.testing.assert_array_equal(read, [[[7, 7, 7, 255], [9, 9, 9, 255]]])
    rgb = np.array([[[255, 0, 0], [10, 10, 10]]], "uint8")
    read = tk.image.decode_png(tk.image.encode_png(rgb), channels=1).numpy()
    np.testing.assert_array_equal(read, [[[76], [10]]])


def test_png_refuses_what_is_damaged():
    whole = tk.image.encode_png(np.zeros((2, 2, 3), "uint8")).numpy()
    with pytest.raises(tk.errors.InvalidArgumentError, match="no PNG, JPEG or GIF file"):
        tk.image.decode_png(b"BM")
    with pytest.raises(tk.errors.InvalidArgumentError, match="checksum"):
        tk.image.decode_png(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    with pytest.raises(tk.errors.InvalidArgumentError):
        tk.image.decode_png(whole[:40])
    palette = _chunk(b"PLTE", bytes([1, 2]))
    with pytest.raises(tk.errors.InvalidArgumentError, match="2 bytes, which are no triples"):
        tk.image.decode_png(png(2, 1, 8, 3, [0, 0, 0], palette))
    with pytest.raises(tk.errors.InvalidArgumentError, match="encode_png: needs"):
        tk.image.encode_png(np.zeros((2, 2, 3), "float32"))


CHANGES = [
    ("brightness", (0.4,)),
    ("contrast", (0.3, 0.7)),
    ("saturation", (0.2, 0.6)),
    ("hue", (0.3,)),
    ("flip_left_right", ()),
    ("flip_up_down", ()),
    ("crop", ((2, 3, 4, 3),)),
]


@pytest.mark.parametrize(("name", "settings"), CHANGES)
def test_stateless_changes_follow_their_seed(name, settings):
    change = getattr(tk.image, f"stateless_random_{name}")
    one, two = (change(IMAGE, *settings, seed=(3, 5)).numpy() for _ in range(2))
    np.testing.assert_array_equal(one, two)
    others = [change(IMAGE, *settings, seed=(3, k)).numpy() for k in range(10)]
    assert any(not np.array_equal(one, other) for other in others)


@pytest.mark.parametrize(("name", "settings"), CHANGES)
def test_random_changes_repeat_after_set_seed(name, settings):
    change = getattr(tk.image, f"random_{name}")
    tk.random.set_seed(7)
    one = [change(IMAGE, *settings).numpy() for _ in range(6)]
    tk.random.set_seed(7)
    two = [change(IMAGE, *settings).numpy() for _ in range(6)]
    np.testing.assert_array_equal(one, two)
    assert any(not np.array_equal(one[0], other) for other in one[1:])


def test_random_brightness_adds_one_number():
    moved = tk.image.stateless_random_brightness(IMAGE, 0.4, (1, 2)).numpy() - IMAGE
    assert abs(moved.mean()) <= 0.4
    np.testing.assert_allclose(moved, moved.flat[0], atol=1e-6)


def test_flips_decide_for_each_image():
    many = np.broadcast_to(IMAGE[:1], (64, 6, 5, 3))
    flipped = tk.image.stateless_random_flip_left_right(many, (1, 2)).numpy()
    same = [np.array_equal(image, IMAGE[0]) for image in flipped]
    turned = [np.array_equal(image, IMAGE[0][:, ::-1]) for image in flipped]
    assert all(a != b for a, b in zip(same, turned, strict=True))
    assert 10 < sum(turned) < 54


def test_random_crop_is_a_part_and_reaches_every_place():
    row = np.arange(5)
    found = {
        tuple(tk.image.stateless_random_crop(row, (3,), (0, k)).numpy().tolist()) for k in range(60)
    }
    assert found == {(0, 1, 2), (1, 2, 3), (2, 3, 4)}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tk.image.random_brightness(IMAGE, -1), "max_delta"),
        (lambda: tk.image.random_contrast(IMAGE, 0.5, 0.5), "lower"),
        (lambda: tk.image.random_saturation(IMAGE, -0.5, 0.5), "lower"),
        (lambda: tk.image.random_hue(IMAGE, 0.6), r"\[0, 0.5\]"),
        (lambda: tk.image.random_crop(IMAGE, (9, 1, 1, 1)), "none of them larger"),
        (lambda: tk.image.random_flip_up_down(IMAGE[0, 0]), "random_flip"),
        (lambda: tk.image.adjust_hue(IMAGE, 2.0), r"\[-1, 1\]"),
        (lambda: tk.image.adjust_hue(IMAGE[..., :1], 0.1), "3 channels"),
        (lambda: tk.image.adjust_gamma(IMAGE, -1), "gamma"),
        (lambda: tk.image.rgb_to_yuv(IMAGE[..., :2]), "3 channels"),
        (lambda: tk.image.ssim(IMAGE, IMAGE, 1.0), "smaller than the window"),
        (lambda: tk.image.ssim(IMAGE, IMAGE[:, 1:], 1.0), "of one size"),
        (lambda: tk.image.total_variation(IMAGE[0, 0]), "total_variation"),
        (lambda: tk.image.image_gradients(IMAGE[0]), "image_gradients"),
        (lambda: tk.image.resize_with_pad(IMAGE, 0, 3), "above 0"),
        (lambda: tk.image.resize_with_crop_or_pad(IMAGE, 3, 0), "above 0"),
        (lambda: tk.image.crop_and_resize(IMAGE, [[0.0, 0, 1, 1]], [4], (2, 2)), "not in"),
        (lambda: tk.image.crop_and_resize(IMAGE, [0.0, 1.0], [0], (2, 2)), "boxes"),
        (lambda: tk.image.non_max_suppression(np.zeros((3, 4)), np.zeros(2), 1), "scores"),
        (lambda: tk.image.non_max_suppression(np.zeros((3, 4)), np.zeros(3), 1, 2.0), "threshold"),
        (lambda: tk.image.draw_bounding_boxes(IMAGE, np.zeros((1, 2, 4)), None), "boxes"),
    ],
)
def test_bad_input_names_the_function(call, words):
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        call()


def test_a_webp_file_gives_bytes_alone():
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"decode_webp: dtype 'float32' .* uint8"
    ):
        tk.image.decode_webp(b"RIFF", dtype="float32")
