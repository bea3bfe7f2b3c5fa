"""PNG files whose rows are filtered as other programs do it."""

import struct
import sys
import zlib

import numpy as np
import pytest

import trainkit as tk

COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: color type


def filtered(rows, kinds, step):
    """Rows with differences to what each filter guesses."""
    wide = np.zeros((len(rows) + 1, rows.shape[1] + step), np.int64)
    wide[1:, step:] = rows
    left, up, corner = wide[1:, :-step], wide[:-1, step:], wide[:-1, :-step]
    near = left + up - corner
    order = np.abs(np.stack([near - left, near - up, near - corner])).argmin(axis=0)
    guesses = [0 * left, left, up, (left + up) // 2, np.choose(order, [left, up, corner])]
    chosen = np.choose(np.reshape(kinds, (-1, 1)), guesses)
    return np.hstack([np.reshape(kinds, (-1, 1)), (rows - chosen) & 255]).astype(np.uint8)


def png(width, height, bits, color, lines):
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n"]
    packed = zlib.compress(lines.tobytes(), 1)
    for kind, data in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(kind + data))
        parts.append(struct.pack(">I", len(data)) + kind + data + check)
    return b"".join(parts)


def photo(rng, height, width, channels, bits):
    """Values that differ little from their neighbours, with some that differ much."""
    steps = rng.integers(-3, 4, (height, width, channels)).cumsum(axis=0).cumsum(axis=1)
    steps = np.where(rng.random(steps.shape) < 0.02, rng.integers(0, 1 << 16, steps.shape), steps)
    return (steps % (1 << bits)).astype("uint8" if bits == 8 else "uint16")


def file_of(image, kinds, bits):
    height, width, channels = image.shape
    rows = image.astype(f">u{bits // 8}").reshape(height, -1).view(np.uint8)
    lines = filtered(rows.astype(np.int64), kinds, channels * bits // 8)
    return png(width, height, bits, COLORS[channels], lines)


@pytest.mark.parametrize(("channels", "bits"), [(1, 8), (3, 8), (4, 8), (1, 16), (2, 16)])
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 90), (90, 1), (2, 300), (300, 3), (70, 90), (90, 70), (1100, 80)], ids=str
)
@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (4,), (4, 1, 3, 0, 2, 4, 4, 3), "any"])
def test_all_filters_give_the_image_that_was_written(mode, rng, bits, channels, size, kinds):
    image = photo(rng, *size, channels, bits)
    kinds = rng.integers(0, 5, size[0]) if kinds == "any" else np.resize(kinds, size[0])
    found = tk.image.decode_png(file_of(image, kinds, bits), dtype=f"uint{bits}")
    np.testing.assert_array_equal(found.numpy(), image)


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("width", [1, 7, 200])
def test_filters_of_pixels_that_share_a_byte(mode, rng, bits, width):
    rows = rng.integers(0, 256, (80, -(-width * bits // 8)))
    lines = filtered(rows, rng.integers(0, 5, 80), 1)
    found = tk.image.decode_png(png(width, 80, bits, 0, lines)).numpy()
    plain = tk.image.decode_png(png(width, 80, bits, 0, filtered(rows, [0] * 80, 1))).numpy()
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("kind", [5, 255])
def test_filters_that_there_are_not(mode, kind):
    lines = np.zeros((4, 7), np.uint8)
    lines[2, 0] = kind
    with pytest.raises(tk.errors.InvalidArgumentError, match=f"no filter {kind}"):
        tk.image.decode_png(png(2, 4, 8, 2, lines))


@pytest.mark.parametrize("kind", [3, 4])
@pytest.mark.parametrize("size", [(300, 400), (400, 300)], ids=str)
def test_images_are_not_walked_byte_by_byte(mode, rng, kind, size):
    image = photo(rng, *size, 3, 8)
    contents = file_of(image, np.full(size[0], kind), 8)
    tk.image.decode_png(contents)  # what is compiled is
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        tk.image.decode_png(contents)
    finally:
        sys.setprofile(before)
    assert calls < image.size / 4
