"""Images between files, Pillow and arrays: `keras.utils.load_img` and its relatives."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from trainkit.core.dtypes import floatx
from trainkit.core.errors import InvalidArgumentError, NotFoundError, ShapeError
from trainkit.core.files.local_paths import local_path, path_text
from trainkit.core.files.printable import printable_line
from trainkit.core.files.readable_files import open_regular
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.ops.convolutional.window_arguments import image_data_format
from trainkit.ops.images.image_bounds import open_image, pillow
from trainkit.ops.images.resizing import resize

_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_WAYS = ("nearest", "bilinear", "bicubic", "hamming", "box", "lanczos")


def channel_order(data_format: str | None) -> str:
    """`data_format`, or the one that is set for all; `ValueError` for any other text."""
    order = data_format or image_data_format()
    if order not in ("channels_last", "channels_first"):
        raise ValueError(f"data_format {order!r}; use 'channels_last' or 'channels_first'")
    return order


def load_img(
    path: Any,
    color_mode: str = "rgb",
    target_size: Any = None,
    interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:
    """An image file as an image of Pillow.

    Args:
        path: of the file, or a file object of bytes.
        color_mode: `"grayscale"`, `"rgb"` or `"rgba"`.
        target_size: (height, width) to resize to.
        interpolation: `"nearest"`, `"bilinear"`, `"bicubic"`, `"hamming"`, `"box"` or `"lanczos"`.
        keep_aspect_ratio: cut the middle out before it is resized, so that nothing is distorted.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is no image, a pipe or a device, or has far more pixels than bytes.
        ValueError: another argument is none of those above.
        ImportError: Pillow is not installed.
    """
    if color_mode not in _MODES or interpolation.lower() not in _WAYS:
        raise ValueError(
            f"load_img: color_mode {color_mode!r} must be one of {list(_MODES)}, interpolation "
            f"{interpolation!r} one of {list(_WAYS)}"
        )
    source, size = _source(path)
    pil = pillow()
    opened = open_image(source, size, None, f"load_img: {_shown(path)}")
    try:
        mode = _MODES[color_mode]
        # Gray of 16 or 32 bits stays as it is: `convert("L")` would clip it to 255.
        is_deep_gray = mode == "L" and opened.mode in ("I;16", "I;16B", "I")
        # Pillow reads pixels here, not before; a copy no longer needs the file.
        image = opened.copy() if is_deep_gray or opened.mode == mode else opened.convert(mode)
    except Exception as error:  # Pillow raises what its decoders raise
        raise InvalidArgumentError(f"load_img: {_shown(path)} is no image: {error}") from None
    if target_size is None:
        return image
    height, width = (int(n) for n in target_size)
    way = getattr(pil.Resampling, interpolation.upper())
    box = _middle(image.size, width, height) if keep_aspect_ratio else None
    if image.size == (width, height):
        return image
    return image.resize((width, height), way, box=box)


def _source(path: Any) -> tuple[Any, int]:
    """A file of bytes, and how many it has; 0 where nobody can tell."""
    if isinstance(path, str | bytes | os.PathLike):
        try:
            with open_regular(path) as file:
                data = file.read()
        except NotFoundError as error:
            raise NotFoundError(f"load_img: {error}") from None
        return io.BytesIO(data), len(data)
    try:
        start = path.tell()
        size = path.seek(0, os.SEEK_END) - start
        path.seek(start)
    except (AttributeError, OSError, TypeError):  # no file, or one that can't go back
        return path, 0
    return path, size


def _shown(path: Any) -> str:
    return printable_line(path_text(path) if isinstance(path, str | bytes | os.PathLike) else path)


def _middle(size: tuple[int, int], width: int, height: int) -> tuple[int, int, int, int]:
    """The largest box in the middle of an image with the ratio of `width` to `height`."""
    have_width, have_height = size
    box_height = min(have_height, have_width * height // width)
    box_width = min(have_width, have_height * width // height)
    left, top = (have_width - box_width) // 2, (have_height - box_height) // 2
    return left, top, left + box_width, top + box_height


def img_to_array(img: Any, data_format: str | None = None, dtype: DTypeLike | None = None) -> Any:
    """An image of Pillow, or an array, as an array (height, width, channels).

    Args:
        img: the image.
        data_format: `"channels_first"` for (channels, height, width).
        dtype: element type; the default float by default.

    Raises:
        ValueError: the image has neither two nor three axes.
    """
    order = channel_order(data_format)
    x = np.asarray(img, dtype=dtype or floatx())
    if x.ndim not in (2, 3):
        raise ValueError(f"img_to_array: an image has two or three axes, this one shape {x.shape}")
    if x.ndim == 2:
        x = x[..., None]
    return x.transpose(2, 0, 1) if order == "channels_first" else x


def array_to_img(
    x: Any, data_format: str | None = None, scale: bool = True, dtype: DTypeLike | None = None
) -> Any:
    """An array (height, width, 1, 3 or 4 channels) as an image of Pillow.

    Args:
        x: the array.
        data_format: `"channels_first"` for (channels, height, width).
        scale: spread the values to 0 to 255.
        dtype: in which this is worked out; the default float by default.

    Raises:
        ValueError: the array has not three axes, or another number of channels.
        ImportError: Pillow is not installed.
    """
    array = np.asarray(x, dtype=dtype or floatx())
    if array.ndim != 3:
        raise ValueError(f"array_to_img: one image has three axes, the array shape {array.shape}")
    if channel_order(data_format) == "channels_first":
        array = array.transpose(1, 2, 0)
    if scale:
        array = array - array.min()
        high = array.max()
        array = array / (high if high != 0 else 1) * 255
    channels = array.shape[-1]
    if channels not in (1, 3, 4):
        raise ValueError(f"array_to_img: 1, 3 or 4 channels are needed, there are {channels}")
    if channels == 1:
        exceeds_bytes = array.max() > 255
        return pillow().fromarray(array[..., 0].astype("int32" if exceeds_bytes else "uint8"))
    return pillow().fromarray(array.astype("uint8"))


def save_img(
    path: Any,
    x: Any,
    data_format: str | None = None,
    file_format: str | None = None,
    scale: bool = True,
    **kwargs: Any,
) -> None:
    """Write an array as an image file.

    Args:
        path: of the file, or a file object.
        x: (height, width, 1, 3 or 4 channels).
        data_format: `"channels_first"` for (channels, height, width).
        file_format: such as `"png"`; by default what the ending of the path says.
        scale: spread the values to 0 to 255.
        **kwargs: what Pillow's `Image.save` takes besides.
    """
    image = array_to_img(x, data_format, scale)
    kind = (file_format or os.path.splitext(str(path))[1].lstrip(".")).lower()
    if image.mode == "RGBA" and kind in ("jpg", "jpeg"):
        image = image.convert("RGB")
    target = path if hasattr(path, "write") else local_path(path)
    image.save(target, format="jpeg" if file_format == "jpg" else file_format, **kwargs)


def smart_resize(
    x: Any,
    size: Any,
    interpolation: str = "bilinear",
    data_format: str = "channels_last",
    **kwargs: Any,
) -> Any:
    """Images in another size without distortion: the largest middle part of its ratio, resized.

    Args:
        x: one image (height, width, channels) or a batch of them.
        size: the new height and width.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"lanczos3"`, `"lanczos5"` or
            `"area"`.
        data_format: `"channels_last"` or `"channels_first"`.
        **kwargs: `backend_module`, which Keras hands over and nothing depends on here.

    Returns:
        A NumPy array for an array, else a tensor, in the dtype of `x`.

    Raises:
        TypeError: an argument by keyword is unknown.
        ValueError: `size` is no pair, or `x` has another rank.

    Example:
        >>> tk.keras.preprocessing.image.smart_resize(np.ones((4, 8, 3)), (2, 2)).shape
        (2, 2, 3)
    """
    kwargs.pop("backend_module", None)
    if kwargs:
        raise TypeError(f"smart_resize: unknown arguments {sorted(kwargs)}")
    if len(size) != 2:
        raise ValueError(f"smart_resize: size must be (height, width), got {size!r}")
    images = convert_to_tensor(x)
    if len(images.shape) not in (3, 4):
        raise ShapeError(
            f"smart_resize: an image has 3 axes, a batch of them 4; got shape {tuple(images.shape)}"
        )
    resized = resize(
        images, size, interpolation, crop_to_aspect_ratio=True, data_format=data_format
    )
    return resized.numpy() if isinstance(x, np.ndarray) else resized
