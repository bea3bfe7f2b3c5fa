"""Reader of IDX files, the format of MNIST: a header of big-endian integers, then bytes.

Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
"""

import gzip
import math
import os
import pathlib
import struct
import zlib
from typing import IO, cast

import numpy as np

from trainkit.checkpoints.format.regular_files import FLOOR, opened_regular
from trainkit.core.errors import CheckpointError

UINT8_CODE = 0x08
STEP_BYTES = 1 << 20
MOST_PACKED = 8  # how far a file may unpack; MNIST's own unpack to 4.8 times their size


def read_idx(path: pathlib.Path, axes: int, size: tuple[int, ...] | None = None) -> np.ndarray:
    """Array of uint8 held by an IDX file, packed with gzip or not.

    Args:
        path: the file; one whose name ends in `.gz` is unpacked while it is read.
        axes: number of axes that the array has to have.
        size: those of the axes after the first, looked at before values are read; `None` for any.

    Returns:
        A writable array of uint8 with the shape that the header states.

    Raises:
        ValueError: the file is not such an array, is shorter or longer than its header says, is
            broken as a gzip file, unpacks to more than is plausible, or is no regular file. The
            message names it, with expected and found values.
    """
    try:
        with _open(path) as file:
            shape = _read_shape(path, file, axes)
            _check_size(path, shape, size)
            content = np.empty(math.prod(shape), np.uint8)
            byte_count = _fill(file, content)
            longer = bool(file.read(1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: broken gzip file: {error}. Get a fresh copy.") from error
    if byte_count != content.size or longer:
        raise ValueError(
            f"{path}: the header says {content.size} bytes, shape {shape}, but the file has "
            f"{'more' if longer else byte_count}. Get a fresh copy."
        )
    return content.reshape(shape)


def _check_size(path: pathlib.Path, shape: tuple[int, ...], size: tuple[int, ...] | None) -> None:
    """Refuse other sizes than expected, and more bytes than the file can stand for."""
    if size is not None and shape[1:] != size:
        raise ValueError(f"{path}: images of {shape[1:]} pixels, expected {size}.")
    file_size = os.path.getsize(path)
    allowed = max(FLOOR, MOST_PACKED * file_size) if path.suffix == ".gz" else file_size
    if math.prod(shape) > allowed:
        raise ValueError(
            f"{path}: the header says {math.prod(shape)} bytes, shape {shape}, but the file has "
            f"{file_size}. Get a fresh copy."
        )


def _fill(file: IO[bytes], content: np.ndarray) -> int:
    """Fill `content` from `file`; how many bytes there were."""
    filled = 0
    while filled < content.size and (step := file.read(min(content.size - filled, STEP_BYTES))):
        content[filled : filled + len(step)] = np.frombuffer(step, np.uint8)
        filled += len(step)
    return filled


def _open(path: pathlib.Path) -> IO[bytes]:
    try:
        file = opened_regular(path)
    except CheckpointError as error:
        raise ValueError(f"{path}: {error}") from error
    return cast(IO[bytes], _Unpacked(file) if path.suffix == ".gz" else file)


class _Unpacked(gzip.GzipFile):
    """A gzip file that closes the file it was given."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file)
        self._packed = file

    def close(self) -> None:
        """Give the file back."""
        super().close()
        self._packed.close()


def _read_shape(path: pathlib.Path, file: IO[bytes], axes: int) -> tuple[int, ...]:
    header = file.read(4 + 4 * axes)
    expected = UINT8_CODE << 8 | axes
    magic = int.from_bytes(header[:4], "big")
    if len(header) >= 4 and magic != expected:
        raise ValueError(
            f"{path}: not an IDX file of uint8 with {axes} axes: its magic number is "
            f"0x{magic:08x}, expected 0x{expected:08x}."
        )
    if len(header) < 4 + 4 * axes:
        raise ValueError(
            f"{path}: the header has {len(header)} bytes, expected {4 + 4 * axes}. "
            "Get a fresh copy."
        )
    return struct.unpack(f">{axes}I", header[4:])


def read_labelled_images(
    images: pathlib.Path, labels: pathlib.Path, size: tuple[int, int], classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Images and their labels from a pair of IDX files that belong together.

    Args:
        images: file of an array (images, height, width).
        labels: file of an array (images,).
        size: height and width that the images have to have, in pixels.
        classes: labels have to be below this.

    Returns:
        Images, uint8 of shape (images, height, width), and labels, uint8 of shape (images,).

    Raises:
        ValueError: a file is broken, images have another size, the two files differ in number, or
            a label is out of range. The message names the file.
    """
    y = read_idx(labels, axes=1)
    x = read_idx(images, axes=3, size=size)
    if len(x) != len(y):
        raise ValueError(f"{labels}: {len(y)} labels for the {len(x)} images of {images}.")
    if len(y) and y.max() >= classes:
        raise ValueError(f"{labels}: a label is {y.max()}, expected 0 to {classes - 1}.")
    return x, y
