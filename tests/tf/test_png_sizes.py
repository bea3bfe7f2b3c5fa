"""Small PNG files that say they are large images."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest

import trainkit as tk


def png(width, height, bits, rows):
    """A gray image of these packed rows."""
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(kind + data))
        parts.append(struct.pack(">I", len(data)) + kind + data + check)
    return b"".join(parts)


@pytest.mark.parametrize("bits", [1, 8, 16])
def test_an_image_far_larger_than_its_file_is_refused(bits):
    size = 16_000
    rows = zlib.compress(bytes((size * bits // 8 + 1) * (size if bits == 1 else 1000)), 1)
    contents = png(size, size, bits, rows)
    tracemalloc.start()
    try:
        with pytest.raises(tk.errors.InvalidArgumentError, match="the file has"):
            tk.image.decode_png(contents)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_narrow_samples_are_unpacked_in_few_bytes(bits):
    width, height = 1600, 500
    rows = np.random.default_rng(0).integers(0, 256, (height, width * bits // 8), np.uint8)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    contents = png(width, height, bits, zlib.compress(lines))
    tracemalloc.start()
    try:
        image = tk.image.decode_png(contents).numpy()
        assert tracemalloc.get_traced_memory()[1] < 12 * width * height
    finally:
        tracemalloc.stop()
    wanted = np.unpackbits(rows, axis=1).reshape(height, width, bits)
    wanted = (wanted * (1 << np.arange(bits)[::-1])).sum(-1) * (255 // (2**bits - 1))
    np.testing.assert_array_equal(image[..., 0], wanted)
