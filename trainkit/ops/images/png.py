"""PNG files: reading and writing images of 8 and 16 bits, with zlib alone.

Source: the PNG specification, ISO/IEC 15948, sections 5, 7 and 9.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import STRING_TENSORS, Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.coding import png_rows
from trainkit.ops.core.dynamic_shapes import Bound, needs_values

SIGNATURE = b"\x89PNG\r\n\x1a\n"


COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by channels: grey, grey with alpha, RGB, RGBA


_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


_MOST_PIXELS = 1 << 28


_ALWAYS = 1 << 26


_MOST_PACKED = 100
"""So many times its own size, or `_ALWAYS` bytes, may a file unpack to."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def _files_spec(a: Bound) -> Spec:
    shape = convert_to_tensor(a["image"]).shape
    return Spec(tuple(shape)[:-3], "string")


@needs_values("image", gives=_files_spec)
def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Tensor:
    """An image, or each of several, as a PNG file.

    Args:
        image: uint8 or uint16 (..., height, width, channels) with 1 to 4 channels: gray, gray and
            alpha, RGB, RGB and alpha.
        compression: 0 (none) to 9, or -1 for zlib's own choice.

    Returns:
        Strings of the shape (...), the bytes of the files; a scalar for one image.

    Raises:
        InvalidArgumentError: shape, dtype or compression are none of these.

    Example:
        >>> png = tk.image.encode_png(tk.zeros((2, 3, 1), tk.uint8))
        >>> png.numpy()[1:4]
        b'PNG'
    """
    pixels = np.asarray(convert_to_tensor(image).numpy())
    if (
        pixels.ndim < 3
        or pixels.shape[-1] not in COLOR_TYPES
        or pixels.dtype.name not in ("uint8", "uint16")
    ):
        raise InvalidArgumentError(
            "encode_png: needs uint8 or uint16 (..., height, width, 1 to 4 channels), got "
            f"{pixels.shape} {pixels.dtype}"
        )
    if not -1 <= compression <= 9 or 0 in pixels.shape[-3:]:
        raise InvalidArgumentError(
            f"encode_png: compression {compression} must be -1 to 9, the image {pixels.shape} not "
            "be empty"
        )
    images = pixels.reshape(-1, *pixels.shape[-3:])
    files = np.empty(len(images), object)
    files[:] = [png_bytes(x, compression) for x in images]
    return STRING_TENSORS[0](files.reshape(pixels.shape[:-3]))


def png_bytes(pixels: Any, compression: int = -1, filtered: bool = True) -> bytes:
    """The PNG file of one image.

    Args:
        pixels: uint8 or uint16 array (height, width, channels), neither size 0, with 1 to 4
            channels.
        compression: 0 (none) to 9, or -1 for zlib's own choice.
        filtered: store each row as differences to the row above (filter 2), which packs better, or
            as it is (filter 0).
    """
    height, width, channels = pixels.shape
    bits = 8 * pixels.dtype.itemsize
    head = struct.pack(">IIBBBBB", width, height, bits, COLOR_TYPES[channels], 0, 0, 0)
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    lines = _differences(rows) if filtered else np.insert(rows, 0, 0, axis=1)
    packed = zlib.compress(lines.tobytes(), compression)
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", packed), _chunk(b"IEND", b""))
    return SIGNATURE + b"".join(parts)


def _differences(rows: Any) -> Any:
    """Filter 2 for all rows, which stores differences to the row above."""
    above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
    kinds = np.full((len(rows), 1), 2, np.uint8)
    return np.hstack([kinds, rows - above])


def image_spec(a: Bound) -> Spec:
    """The spec of an image read from a file, with as many channels as are asked for.

    Args:
        a: arguments by name, among them `channels` and `dtype`.
    """
    return Spec((None, None, a["channels"] or None), dtypes.as_dtype(a["dtype"]))


def png_pixels(data: bytes, channels: int, dtype: Any) -> Any:
    """The array (height, width, channels) of a PNG file.

    Args:
        data: bytes of the file.
        channels: 1, 3 or 4 to convert to gray, RGB or RGB and alpha; 0 for what the file has.
        dtype: NumPy's uint8 or uint16.

    Raises:
        InvalidArgumentError: the bytes are no PNG file, are damaged, or interlaced.
    """
    try:
        pixels = _read(data)
    except (struct.error, zlib.error, IndexError) as error:
        raise InvalidArgumentError(f"decode_png: the file is damaged: {error}") from error
    return converted(pixels, channels, dtype)


def _chunks(data: bytes) -> Any:
    offset = len(SIGNATURE)
    while offset < len(data):
        (size,) = struct.unpack_from(">I", data, offset)
        kind, body = data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + size]
        (check,) = struct.unpack_from(">I", data, offset + 8 + size)
        if zlib.crc32(kind + body) != check:
            raise InvalidArgumentError(f"decode_png: the checksum of {kind!r} is wrong")
        yield kind, body
        offset += 12 + size


def _read(data: bytes) -> Any:
    if not data.startswith(SIGNATURE):
        raise InvalidArgumentError("decode_png: the bytes are no PNG file")
    chunks: dict[bytes, bytes] = {}
    for kind, body in _chunks(data):
        chunks[kind] = chunks.get(kind, b"") + body if kind == b"IDAT" else body
    if b"IHDR" not in chunks or b"IDAT" not in chunks:
        raise InvalidArgumentError("decode_png: the file has no image")
    width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if interlaced or color not in _CHANNELS or bits not in (1, 2, 4, 8, 16):
        raise InvalidArgumentError(
            f"decode_png: color type {color}, {bits} bits, interlaced {bool(interlaced)}; "
            "interlaced files are not supported"
        )
    if not 0 < width * height <= _MOST_PIXELS:
        raise InvalidArgumentError(f"decode_png: {height} by {width} pixels are too many, or none")
    channels = _CHANNELS[color]
    size = width * height * channels * (2 if bits == 16 else 1)
    if size > max(_ALWAYS, _MOST_PACKED * len(data)):
        raise InvalidArgumentError(
            f"decode_png: {height} by {width} pixels take {size} bytes, the file has {len(data)}"
        )
    line = -(-width * channels * bits // 8)
    raw_size = height * (line + 1)
    raw = zlib.decompressobj().decompress(chunks[b"IDAT"], raw_size)
    if len(raw) != raw_size:
        raise InvalidArgumentError(f"decode_png: {len(raw)} bytes of pixels, {raw_size} expected")
    lines = np.frombuffer(raw, np.uint8).reshape(height, line + 1)
    if lines[:, 0].max() > png_rows.NEAREST:
        raise InvalidArgumentError(f"decode_png: there is no filter {lines[:, 0].max()}")
    rows = png_rows.unfiltered(lines, max(channels * bits // 8, 1))
    samples = _samples(rows, bits, width * channels).reshape(height, width, channels)
    if color == 3:
        return _from_palette(samples, chunks.get(b"PLTE", b""), chunks.get(b"tRNS", b""))
    if bits < 8:
        samples = samples * np.uint8(255 // ((1 << bits) - 1))
    return samples


def _samples(rows: Any, bits: int, count: int) -> Any:
    if bits == 16:
        return rows.view(">u2").astype(np.uint16)
    if bits == 8:
        return rows
    single = np.unpackbits(rows, axis=1).reshape(len(rows), -1, bits)
    values = np.zeros(single.shape[:2], np.uint8)
    for bit in range(bits):
        values |= single[..., bit] << np.uint8(bits - 1 - bit)
    return values[:, :count]


def _from_palette(samples: Any, palette: bytes, alpha: bytes) -> Any:
    if len(palette) % 3:
        raise InvalidArgumentError(
            f"decode_png: the palette has {len(palette)} bytes, which are no triples"
        )
    colors = np.frombuffer(palette, np.uint8).reshape(-1, 3)
    if int(samples.max()) >= len(colors):
        raise InvalidArgumentError("decode_png: a pixel is beyond the palette")
    if alpha:
        alphas = np.full(len(colors), 255, np.uint8)
        alphas[: len(alpha)] = np.frombuffer(alpha, np.uint8)[: len(colors)]
        colors = np.hstack([colors, alphas[:, None]])
    return colors[samples[..., 0]]


def converted(pixels: Any, channels: int, dtype: Any) -> Any:
    """`pixels` in another number of channels and another range."""
    have = pixels.shape[-1]
    if channels == 1 and have > 2:
        pixels, have = _gray(pixels[..., :3]), 1
    if pixels.dtype != dtype:
        integers = pixels.astype(np.uint16)
        pixels = (integers * 257 if dtype == np.uint16 else integers >> 8).astype(dtype)
    if channels in (0, have):
        return pixels
    alpha = (
        pixels[..., -1:] if have in (2, 4) else np.full_like(pixels[..., :1], np.iinfo(dtype).max)
    )
    color = pixels[..., : have - 1] if have in (2, 4) else pixels
    if channels == 1:
        return color
    color = np.repeat(color, 3, axis=-1) if color.shape[-1] == 1 else color
    return color if channels == 3 else np.concatenate([color, alpha], axis=-1)


def _gray(colors: Any) -> Any:
    """Colors (..., 3) as one value, by the whole numbers of libpng, which TensorFlow reads with.

    They are the shares 0.299, 0.587 and the rest in 32,768 parts; 8 bits are cut off, 16 rounded.
    """
    parts = colors.astype(np.int64) @ np.array([9797, 19235, 3736])
    half = 1 << 14 if colors.dtype == np.uint16 else 0
    return ((parts + half) >> 15).astype(colors.dtype)[..., None]
