"""Reader of IDX files, the format of MNIST: a header of big-endian integers, then bytes.

Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
"""

import gzip
import math
import pathlib
import struct
import zlib
from typing import IO, cast

import numpy as np

UINT8_CODE = 0x08
STEP_BYTES = 1 << 20


def read_idx(path: pathlib.Path, axes: int) -> np.ndarray:
    """Array of uint8 held by an IDX file, packed with gzip or not.

    Args:
        path: the file; one whose name ends in `.gz` is unpacked while it is read.
        axes: number of axes that the array has to have.

    Returns:
        A writable array of uint8 with the shape that the header states.

    Raises:
        ValueError: the file is not such an array, is shorter or longer than its header says, or
            is broken as a gzip file. The message names it, with expected and found values.
    """
    try:
        with _opened(path) as file:
            shape = _read_shape(path, file, axes)
            content = _read_at_most(file, math.prod(shape) + 1)  # one more shows a file too long
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: broken gzip file: {error}. Get a fresh copy.") from error
    if len(content) != math.prod(shape):
        found = "more" if len(content) > math.prod(shape) else len(content)
        raise ValueError(
            f"{path}: the header says {math.prod(shape)} bytes, shape {shape}, but the file has "
            f"{found}. Get a fresh copy."
        )
    return np.frombuffer(content, np.uint8).reshape(shape).copy()


def _read_at_most(file: IO[bytes], count: int) -> bytes:
    """Bytes up to `count`, in steps, so that a false header cannot ask for all of the memory."""
    steps = []
    while count > 0 and (step := file.read(min(count, STEP_BYTES))):
        steps.append(step)
        count -= len(step)
    return b"".join(steps)


def _opened(path: pathlib.Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _read_shape(path: pathlib.Path, file: IO[bytes], axes: int) -> tuple[int, ...]:
    header = file.read(4 + 4 * axes)
    expected = UINT8_CODE << 8 | axes
    found = int.from_bytes(header[:4], "big")
    if len(header) >= 4 and found != expected:
        raise ValueError(
            f"{path}: not an IDX file of uint8 with {axes} axes: its magic number is "
            f"0x{found:08x}, expected 0x{expected:08x}."
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
    x, y = read_idx(images, axes=3), read_idx(labels, axes=1)
    if x.shape[1:] != size:
        raise ValueError(f"{images}: images of {x.shape[1:]} pixels, expected {size}.")
    if len(x) != len(y):
        raise ValueError(f"{labels}: {len(y)} labels for the {len(x)} images of {images}.")
    if len(y) and y.max() >= classes:
        raise ValueError(f"{labels}: a label is {y.max()}, expected 0 to {classes - 1}.")
    return x, y
