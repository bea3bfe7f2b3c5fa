"""Images in files of other formats than PNG, by Pillow, and of whatever format a file has."""

from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.core.strings import one_text
from trainkit.ops.images.color_adjustments import convert_image_dtype
from trainkit.ops.images.image_bounds import check_pixels, frame_count, open_image, pillow
from trainkit.ops.images.png import SIGNATURE, converted, image_spec, png_pixels

_GIF = b"GIF8"
_JPEG = b"\xff\xd8\xff"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def _open(data: bytes, formats: list[str], op: str) -> Any:
    return open_image(io.BytesIO(data), len(data), formats, op)


def _pixels(image: Any, channels: int, op: str) -> Any:
    if channels not in (0, *_MODES):
        raise InvalidArgumentError(f"{op}: channels {channels} must be 0, 1, 3 or 4")
    plain = {"1": 1, "L": 1, "LA": 1, "RGBA": 4, "RGBa": 4, "P": 3, "PA": 4}
    mode = _MODES[channels or plain.get(image.mode, 3)]
    try:
        pixels = np.array(image if image.mode == mode else image.convert(mode))
    except Exception as error:  # a damaged file, found while its pixels are read
        raise InvalidArgumentError(f"{op}: the file is damaged: {error}") from None
    return pixels.reshape(*pixels.shape[:2], -1)


def _decode(contents: Any, formats: list[str], channels: int, op: str) -> Tensor:
    with _open(one_text(contents, op), formats, op) as image:
        return convert_to_tensor(_pixels(image, channels, op))


def _still(data: bytes, channels: int, dtype: Any, op: str) -> Any:
    """The array of a file of PNG, JPEG or a GIF of one image, whatever the operation is called."""
    if data.startswith(SIGNATURE):
        return png_pixels(data, channels, dtype)
    if data.startswith(_GIF):
        frames = _gif_frames(data, op)
        if channels not in (0, 3) or len(frames) > 1:
            raise InvalidArgumentError(
                f"{op}: a GIF has one image and 3 channels here, this one {len(frames)} images, "
                f"channels is {channels}; decode_gif gives all of them, (frames, height, width, 3)"
            )
        return converted(frames[0], 3, dtype)
    if not data.startswith(_JPEG):
        raise InvalidArgumentError(f"{op}: the bytes are no PNG, JPEG or GIF file")
    if channels == 4:
        raise InvalidArgumentError(f"{op}: channels is 4, and a JPEG has 1 or 3")
    with _open(data, ["JPEG"], op) as image:
        return converted(_pixels(image, channels, op), channels, dtype)


def _uint8_spec(a: Bound) -> Spec:
    return image_spec({**a, "dtype": "uint8"})


@needs_values("contents", gives=image_spec)
def decode_png(
    contents: TensorLike, channels: int = 0, dtype: DTypeLike = "uint8", name: str | None = None
) -> Tensor:
    """The image in the bytes of a PNG file; of a JPEG or a GIF of one image, too.

    Args:
        channels: 1, 3 or 4 to convert to gray, RGB or RGB and alpha; 0 for what the file has.
            A JPEG has no alpha, a GIF 3 channels alone.
        dtype: uint8 or uint16.

    Returns:
        (height, width, channels).

    Raises:
        InvalidArgumentError: the bytes are no such file, are damaged, or an interlaced PNG; or an
            argument is none of those above.
        ImportError: Pillow is not installed, for another file than PNG.

    Example:
        >>> png = tk.image.encode_png(tk.zeros((2, 3, 1), tk.uint8))
        >>> tk.image.decode_png(png).shape
        TensorShape([2, 3, 1])
    """
    dtype_name = dtypes.as_dtype(dtype).name
    if channels not in (0, 1, 3, 4) or dtype_name not in ("uint8", "uint16"):
        raise InvalidArgumentError(
            f"decode_png: channels {channels} must be 0, 1, 3 or 4, dtype {dtype_name} "
            "uint8 or uint16"
        )
    pixels = _still(one_text(contents, "decode_png"), channels, np.dtype(dtype_name), "decode_png")
    return convert_to_tensor(pixels)


@needs_values("contents", gives=_uint8_spec)
def decode_jpeg(
    contents: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The image in the bytes of a JPEG file; of a PNG or a GIF of one image, too.

    Args:
        channels: 1 or 3 to convert to gray or RGB, 4 for a PNG with alpha; 0 for what the file
            has. A GIF has 3 channels alone.
        ratio: 1, 2, 4 or 8: by how much a JPEG is made smaller while it is read.
        fancy_upscaling: True is the only way that is supported.
        try_recover_truncated: whether what is missing at the end of a file is left gray.
        acceptable_fraction: 1 is the only one that is supported.
        dct_method: a hint of TensorFlow's; Pillow has one method.

    Returns:
        uint8 (height, width, channels).

    Raises:
        InvalidArgumentError: the bytes are no such file, or an argument is none of those above.
        ImportError: Pillow is not installed, for another file than PNG.
    """
    if channels not in (0, 1, 3, 4) or ratio not in (1, 2, 4, 8):
        raise InvalidArgumentError(
            f"decode_jpeg: channels {channels} must be 0, 1, 3 or 4, ratio {ratio} 1, 2, 4 or 8"
        )
    if not fancy_upscaling or acceptable_fraction != 1:
        raise InvalidArgumentError(
            "decode_jpeg: fancy_upscaling=False and acceptable_fraction below 1 are not supported"
        )
    data = one_text(contents, "decode_jpeg")
    if channels == 4 or not data.startswith(_JPEG):
        return convert_to_tensor(_still(data, channels, np.dtype(np.uint8), "decode_jpeg"))
    with _open(data, ["JPEG"], "decode_jpeg") as image:
        if ratio > 1:
            image.draft(image.mode, (image.width // ratio, image.height // ratio))
        if try_recover_truncated:
            return convert_to_tensor(_recover(image, channels))
        return convert_to_tensor(_pixels(image, channels, "decode_jpeg"))


def _recover(image: Any, channels: int) -> Any:
    files: Any = importlib.import_module("PIL.ImageFile")
    before, files.LOAD_TRUNCATED_IMAGES = files.LOAD_TRUNCATED_IMAGES, True
    try:
        return _pixels(image, channels, "decode_jpeg")
    finally:
        files.LOAD_TRUNCATED_IMAGES = before


@needs_values(
    "contents", "crop_window", gives=lambda a: Spec((None, None, a["channels"] or None), "uint8")
)
def decode_and_crop_jpeg(
    contents: TensorLike,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """A part of the image in a JPEG file: `crop_window` is (top, left, height, width).

    The other arguments are those of `decode_jpeg`.

    Args:
        crop_window: four ints.
        ratio: as for `decode_jpeg`.
        fancy_upscaling: as for `decode_jpeg`.
        try_recover_truncated: as for `decode_jpeg`.
        acceptable_fraction: as for `decode_jpeg`.
        dct_method: as for `decode_jpeg`.

    Raises:
        InvalidArgumentError: the part reaches beyond the image.
    """
    image = decode_jpeg(contents, channels, ratio, fancy_upscaling, try_recover_truncated,
                        acceptable_fraction, dct_method)  # fmt: skip
    top, left, height, width = (int(n) for n in np.asarray(convert_to_tensor(crop_window).numpy()))
    rows, columns = image.shape[:2]
    if (
        min(top, left) < 0
        or min(height, width) < 1
        or top + height > rows
        or left + width > columns
    ):
        raise InvalidArgumentError(
            f"decode_and_crop_jpeg: rows {top} to {top + height} and columns {left} to "
            f"{left + width} of an image of {rows} by {columns}"
        )
    part: Tensor = image[top : top + height, left : left + width]
    return part


@needs_values("contents", gives=_uint8_spec)
def decode_bmp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Tensor:
    """The image in the bytes of a BMP file, uint8 (height, width, channels).

    Args:
        contents: string scalar, or bytes.
        channels: 1, 3 or 4 to convert; 0 for what the file has.
    """
    return _decode(contents, ["BMP"], channels, "decode_bmp")


@needs_values("contents", gives=lambda a: Spec((None, None, None, 3), "uint8"))
def decode_gif(contents: TensorLike, name: str | None = None) -> Tensor:
    """All images of a GIF file, uint8 (frames, height, width, 3); a PNG or JPEG is one of them.

    Raises:
        InvalidArgumentError: the bytes are no such file.
        ImportError: Pillow is not installed, for another file than PNG.
    """
    data = one_text(contents, "decode_gif")
    if data.startswith(_GIF):
        return convert_to_tensor(_gif_frames(data, "decode_gif"))
    return convert_to_tensor(_still(data, 3, np.dtype(np.uint8), "decode_gif")[None])


def _gif_frames(data: bytes, op: str) -> Any:
    with _open(data, ["GIF"], op) as image:
        return _frames(image, 3, op, len(data))


@needs_values("contents", gives=lambda a: Spec((None, None, None, a["channels"] or None), "uint8"))
def decode_webp(
    contents: TensorLike, channels: int = 0, dtype: DTypeLike = "uint8", name: str | None = None
) -> Tensor:
    """All images of a WebP file, uint8 (frames, height, width, channels).

    Args:
        dtype: only uint8.

    Raises:
        InvalidArgumentError: the bytes are no WebP file, or another dtype is asked for.
        ImportError: Pillow is not installed.
    """
    if dtypes.as_dtype(dtype).name != "uint8":
        raise InvalidArgumentError(f"decode_webp: dtype {dtype!r} is not supported; use uint8")
    data = one_text(contents, "decode_webp")
    with _open(data, ["WEBP"], "decode_webp") as image:
        return convert_to_tensor(_frames(image, channels, "decode_webp", len(data)))


def _frames(image: Any, channels: int, op: str, size: int) -> Any:
    """All images of a file, each as large as the first says: a later one may claim more."""
    count, shape = frame_count(image, op), image.size
    check_pixels(shape, count, size, op)
    frames: Any = None
    for number in range(count):
        try:
            image.seek(number)
        except Exception as error:  # a damaged file
            raise InvalidArgumentError(f"{op}: frame {number} is damaged: {error}") from None
        if image.size != shape:
            raise InvalidArgumentError(
                f"{op}: frame {number} is {image.height} by {image.width}, the file is "
                f"{shape[1]} by {shape[0]}"
            )
        pixels = _pixels(image, channels, op)
        frames = np.empty((count, *pixels.shape), np.uint8) if frames is None else frames
        if pixels.shape != frames.shape[1:]:
            raise InvalidArgumentError(
                f"{op}: frame {number} has {pixels.shape[2]} channels, the first one "
                f"{frames.shape[3]}; choose channels"
            )
        frames[number] = pixels
    return frames


def _any_spec(a: Bound) -> Spec:
    if a["expand_animations"]:
        return Spec((None, None, a["channels"] or None), dtypes.as_dtype(a["dtype"]))
    return image_spec(a)


@needs_values("contents", gives=_any_spec)
def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: DTypeLike = "uint8",
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """The image in the bytes of a file of PNG, JPEG, GIF, BMP or WebP.

    Args:
        channels: 1, 3 or 4 to convert; 0 or `None` for what the file has.
        dtype: uint8 or uint16, or a float type for values in [0, 1].
        expand_animations: whether a GIF gives all its images, (frames, height, width, channels),
            or its first, as other files do.

    Returns:
        (height, width, channels).

    Raises:
        InvalidArgumentError: the bytes are no such file.
        ImportError: Pillow is not installed, for another file than PNG.

    Example:
        >>> png = tk.image.encode_png(tk.zeros((2, 3, 1), tk.uint8))
        >>> tk.image.decode_image(png).shape
        TensorShape([2, 3, 1])
    """
    data, target = one_text(contents, "decode_image"), dtypes.as_dtype(dtype)
    if data.startswith(SIGNATURE):
        deep = "uint16" if target.name == "uint16" else "uint8"
        image = decode_png(data, channels or 0, deep)
    elif data.startswith(_GIF):
        frames = decode_gif(data)
        image = frames if expand_animations else frames[0]
    else:
        image = _decode(data, ["JPEG", "BMP", "WEBP"], channels or 0, "decode_image")
    return image if image.dtype == target else convert_image_dtype(image, target)


@needs_values("contents", gives=lambda a: Spec((), "bool"))
def is_jpeg(contents: TensorLike, name: str | None = None) -> Tensor:
    """Whether bytes begin as a JPEG file does.

    Example:
        >>> bool(tk.image.is_jpeg(tk.image.encode_png(tk.zeros((2, 3, 1), tk.uint8))))
        False
    """
    return convert_to_tensor(one_text(contents, "is_jpeg").startswith(_JPEG))


@needs_values("contents", gives=lambda a: Spec((3,), "int32"))
def extract_jpeg_shape(
    contents: TensorLike, output_type: DTypeLike = "int32", name: str | None = None
) -> Tensor:
    """Height, width and channels of a JPEG file, without its pixels.

    Args:
        output_type: int32 or int64.
    """
    with _open(one_text(contents, "extract_jpeg_shape"), ["JPEG"], "extract_jpeg_shape") as image:
        shape = (image.height, image.width, len(image.getbands()))
        return convert_to_tensor(np.array(shape, dtypes.as_dtype(output_type).dtype))


@needs_values("image", gives=lambda a: Spec((), "string"))
def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """An image as a JPEG file.

    Args:
        image: uint8 (height, width, channels) with 1 or 3 channels.
        format: `""`, `"grayscale"` or `"rgb"`, which must agree with the channels.
        quality: 0 to 100.
        progressive: whether a coarse image comes first.
        optimize_size: spend time on a smaller file.
        chroma_downsampling: whether colors are kept at half the size.
        density_unit: `"in"` or `"cm"`, of the next two.
        x_density: pixels to a unit.
        y_density: pixels to a unit.
        xmp_metadata: bytes that are kept in the file; none by default.

    Returns:
        A string scalar, the bytes of the file.

    Raises:
        InvalidArgumentError: shape or dtype are none of these.
        ImportError: Pillow is not installed.
    """
    pixels = np.asarray(convert_to_tensor(image).numpy())
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[-1] not in (1, 3):
        raise InvalidArgumentError(
            f"encode_jpeg: needs uint8 (height, width, 1 or 3), got {pixels.shape} {pixels.dtype}"
        )
    kind = {1: "grayscale", 3: "rgb"}[pixels.shape[-1]]
    if format not in ("", kind) or not 0 <= quality <= 100 or density_unit not in ("in", "cm"):
        raise InvalidArgumentError(
            f"encode_jpeg: format {format!r} must be '' or {kind!r}, quality {quality} 0 to 100, "
            f"density_unit {density_unit!r} 'in' or 'cm'"
        )
    inches = 1.0 if density_unit == "in" else 2.54
    more = {"xmp": xmp_metadata} if xmp_metadata else {}
    out = io.BytesIO()
    pillow().fromarray(pixels[..., 0] if kind == "grayscale" else pixels).save(
        out, "JPEG", quality=quality, progressive=progressive, optimize=optimize_size,
        subsampling=2 if chroma_downsampling else 0,
        dpi=(round(x_density * inches), round(y_density * inches)), **more,
    )  # fmt: skip
    return convert_to_tensor(out.getvalue())


@needs_values("image", "jpeg_quality", gives=lambda a: like(a["image"]))
def adjust_jpeg_quality(
    image: TensorLike, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Tensor:
    """An image as it comes back from a JPEG file of that quality, in its own dtype.

    Args:
        image: (height, width, 1 or 3 channels).
        jpeg_quality: 0 to 100.
        dct_method: a hint that changes nothing.
    """
    x = convert_to_tensor(image)
    packed = encode_jpeg(convert_image_dtype(x, "uint8", saturate=True), quality=int(jpeg_quality))
    return convert_image_dtype(decode_jpeg(packed), x.dtype)


describe_arguments(
    globals(),
    """
    contents: string scalar, or bytes.
    channels: 1, 3 or 4 to convert; 0 for what the file has.
    """,
)
