"""What MNIST and the sets made in its image share: four IDX files, 28 x 28 pixels, 10 classes."""

import os
import pathlib
import zipfile

import numpy as np

from trainkit.datasets.idx import read_labelled_images
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
    place = pathlib.Path(path).expanduser()
    if place.is_dir():
        return _read_parts(source.paths_in(place))
    if place.suffix == ".npz" and place.is_file():
        return _read_npz(place)
    raise FileNotFoundError(
        f"{source.name}: path is {os.fspath(path)!r}, which is neither a folder nor an .npz file. "
        f"Give a folder with {', '.join(source.files)}, or leave path out."
    )


def _read_parts(paths: dict[str, pathlib.Path]) -> Parts:
    return _read_part(paths, "train"), _read_part(paths, "t10k")


def _read_part(paths: dict[str, pathlib.Path], part: str) -> Part:
    images = paths[f"{part}-images-idx3-ubyte.gz"]
    labels = paths[f"{part}-labels-idx1-ubyte.gz"]
    return read_labelled_images(images, labels, IMAGE_SIZE, CLASSES)


def _read_npz(path: pathlib.Path) -> Parts:
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = sorted(set(KERAS_NAMES) - set(file.files))
            if missing:
                raise ValueError(f"has {sorted(file.files)} but no {', '.join(missing)}")
            x_train, y_train, x_test, y_test = (file[name] for name in KERAS_NAMES)
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not an .npz file in Keras's layout: {error}.") from error
    return (x_train, y_train), (x_test, y_test)
