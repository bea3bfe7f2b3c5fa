"""Encoder of PNG images, on zlib alone. Source: W3C, Portable Network Graphics, third edition."""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BIT_DEPTH = 8
COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by channels: grey, grey with alpha, RGB, RGBA


def encode_png(pixels: np.ndarray) -> bytes:
    """PNG file of one image.

    Args:
        pixels: uint8 of shape (height, width, channels), neither size 0; 1 channel for grey, 2 for
            grey and alpha, 3 for red, green and blue, 4 with alpha.
    """
    height, width, channels = pixels.shape
    header = struct.pack(">2I5B", width, height, BIT_DEPTH, COLOR_TYPES[channels], 0, 0, 0)
    # each row begins with its filter type: 0, none
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * channels)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
