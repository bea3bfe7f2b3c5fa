"""What MNIST and the sets made in its image share: four IDX files, 28 x 28 pixels, 10 classes."""

import math
import os
import pathlib

import numpy as np

from trainkit.checkpoints.format.regular_files import FLOOR
from trainkit.checkpoints.interop.safetensors import NpzFile
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import CheckpointError
from trainkit.core.files.local_paths import local_path
from trainkit.datasets.idx import MOST_PACKED, read_labelled_images
from trainkit.datasets.store import Source

Part = tuple[np.ndarray, np.ndarray]
Parts = tuple[Part, Part]

IMAGE_SIZE = (28, 28)
CLASSES = 10
KERAS_NAMES = ("x_train", "y_train", "x_test", "y_test")


def load_parts(source: Source, path: str | os.PathLike[str] | None) -> Parts:
    """Training and test part from `path`, else from wherever the source has its files."""
    if path is None:
        return _read_parts(source.paths())
    location = pathlib.Path(local_path(path)).expanduser()
    if location.is_dir():
        return _read_parts(source.paths_in(location))
    if location.suffix == ".npz" and location.is_file():
        return _read_npz(location)
    raise FileNotFoundError(
        f"{source.name}: path is {local_path(path)!r}, which is neither a folder nor an .npz file."
        f" Give a folder with {', '.join(source.files)}, or leave path out."
    )


def _read_parts(paths: dict[str, pathlib.Path]) -> Parts:
    return _read_part(paths, "train"), _read_part(paths, "t10k")


def _read_part(paths: dict[str, pathlib.Path], part: str) -> Part:
    images = paths[f"{part}-images-idx3-ubyte.gz"]
    labels = paths[f"{part}-labels-idx1-ubyte.gz"]
    return read_labelled_images(images, labels, IMAGE_SIZE, CLASSES)


def _read_npz(path: pathlib.Path) -> Parts:
    try:
        with NpzFile(path) as file:
            shapes = file.shapes()
            missing = sorted(set(KERAS_NAMES) - set(shapes))
            if missing:
                raise ValueError(f"has {sorted(shapes)} but no {', '.join(missing)}")
            _check_shapes(shapes, os.path.getsize(path))
            x_train, y_train, x_test, y_test = (file.read(name) for name in KERAS_NAMES)
    except (ValueError, CheckpointError) as error:
        raise ValueError(f"{path}: not an .npz file in Keras's layout: {error}.") from error
    return (x_train, y_train), (x_test, y_test)


def _check_shapes(shapes: dict[str, tuple[tuple[int, ...], str]], file_size: int) -> None:
    """Refuse what are no images and labels, and more of them than the file can stand for."""
    for part in ("train", "test"):
        (images, kind), (labels, _) = shapes[f"x_{part}"], shapes[f"y_{part}"]
        if images[1:] != IMAGE_SIZE or labels != images[:1] or kind != "uint8":
            raise ValueError(
                f"x_{part} is {kind}{list(images)} and y_{part} {list(labels)}, expected uint8 "
                f"images of {IMAGE_SIZE} and a label for each"
            )
    size = sum(math.prod(shapes[n][0]) * as_dtype(shapes[n][1]).size for n in KERAS_NAMES)
    if size > max(FLOOR, MOST_PACKED * file_size):
        raise ValueError(f"it unpacks to {size} bytes and has {file_size}")
