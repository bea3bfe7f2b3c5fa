"""Opening image files of strangers by Pillow: a few bytes may claim to be gigabytes of pixels."""

from __future__ import annotations

import importlib
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.requirements import install_command

MOST_PIXELS = 1 << 28
MOST_FRAMES = 1 << 12
ALWAYS = 1 << 26
"""Bytes of pixels that an image may have however small its file is."""

MOST_PACKED = 100
"""Bytes of pixels for each byte of the file, above that."""

_BY_PROGRAMS = ("EPS", "WMF")  # Pillow hands these to Ghostscript or to Windows


def pillow() -> Any:
    """Pillow's `Image` module.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise ImportError(
            "images other than PNG are read and written by Pillow, which is not installed; "
            f"run: {install_command('images')}"
        ) from None


def open_image(source: Any, size: int, formats: list[str] | None, what: str) -> Any:
    """An image of Pillow whose pixels are not read yet, and not out of proportion.

    Args:
        source: a file of bytes.
        size: how many bytes it has.
        formats: names of the formats that it may have; any by default.
        what: who asks, for errors.

    Raises:
        InvalidArgumentError: it is no image of these formats, or has too many pixels.
        ImportError: Pillow is not installed.
    """
    opener = pillow()
    try:
        image = opener.open(source, formats=formats)
    except Exception as error:  # Pillow raises what its decoders raise
        names = f": the bytes are no {'/'.join(formats)}" if formats else " is no image"
        raise InvalidArgumentError(f"{what}{names}: {error}") from None
    if image.format in _BY_PROGRAMS:
        raise InvalidArgumentError(f"{what}: {image.format} files are not read")
    check_pixels(image.size, 1, size, what)
    return image


def check_pixels(shape: tuple[int, int], frames: int, size: int, what: str) -> None:
    """Refuse more pixels than a file of `size` bytes has.

    Args:
        shape: width and height.
        frames: how many images of that shape there are.
        size: of the file, in bytes.
        what: who asks, for errors.

    Raises:
        InvalidArgumentError: there are more, or none.
    """
    width, height = shape
    pixels = frames * width * height
    if not 0 < pixels <= MOST_PIXELS or frames > MOST_FRAMES:
        raise InvalidArgumentError(
            f"{what}: {frames} images of {height} by {width} pixels are too many, or none"
        )
    if 3 * pixels > max(ALWAYS, MOST_PACKED * size):
        raise InvalidArgumentError(
            f"{what}: a file of {size} bytes that has {frames} images of {height} by {width} "
            f"pixels is refused: more than {MOST_PACKED} times as many bytes would come out of it"
        )


def frame_count(image: Any, what: str) -> int:
    """How many images a file has.

    Raises:
        InvalidArgumentError: the file is damaged.
    """
    try:
        return int(getattr(image, "n_frames", 1))
    except Exception as error:  # the frames are traversed to be counted
        raise InvalidArgumentError(f"{what}: the file is damaged: {error}") from None
