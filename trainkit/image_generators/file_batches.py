"""Batches of images that are changed by chance, of files in folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.dtypes import floatx
from trainkit.core.errors import NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.console import say
from trainkit.datasets.folders import files_below
from trainkit.datasets.image_arrays import channel_order, img_to_array, load_img
from trainkit.image_generators.image_batches import SUBSETS, ImageIterator, Pictures, changed

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")
_CHANNELS = {"rgb": 3, "rgba": 4, "grayscale": 1}


class FileIterator(ImageIterator):
    """Batches of images that are read from files when their turn comes.

    A subclass sets `classes`, a number or a list of numbers for each file, and `class_indices`.

    Args:
        filepaths: of the images.
        image_data_generator: the `ImageDataGenerator` that changes them, `None` for none.
        target_size: (height, width) to which images are resized.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        class_mode: what the labels are; a subclass says which there are.
        batch_size: images in a batch.
        shuffle: whether the order is drawn anew for each epoch.
        seed: of order and changes.
        data_format: `"channels_last"` or `"channels_first"`.
        pictures: where batches are written as files.
        interpolation: way of resizing, as in `load_img`.
        keep_aspect_ratio: whether images are cut to the ratio of `target_size` rather than
            distorted.
        dtype: of the images; the default float by default.

    Raises:
        ValueError: `color_mode` is another word.
    """

    classes: Any
    class_indices: dict[Any, int]
    _targets: Any = None
    _weights: Any = None

    def __init__(
        self,
        filepaths: Sequence[str],
        image_data_generator: Any,
        target_size: Any,
        color_mode: str,
        class_mode: str | None,
        batch_size: int,
        shuffle: bool,
        seed: int | None,
        data_format: str,
        pictures: Pictures,
        interpolation: str,
        keep_aspect_ratio: bool,
        dtype: Any,
    ) -> None:
        self.target_size = tuple(target_size)
        channels = _CHANNELS[color_mode]
        first = data_format == "channels_first"
        shape = (channels, *self.target_size) if first else (*self.target_size, channels)
        self.image_shape = shape
        self.color_mode, self.class_mode = color_mode, class_mode
        self.image_data_generator = image_data_generator
        self.data_format = data_format
        self.interpolation, self.keep_aspect_ratio = interpolation, keep_aspect_ratio
        self.dtype = dtype or floatx()
        self.samples = len(filepaths)
        self._filepaths = list(filepaths)
        self._pictures = pictures
        super().__init__(self.samples, batch_size, shuffle, seed)

    @property
    def filepaths(self) -> list[str]:
        """Paths of the images."""
        return self._filepaths

    @property
    def labels(self) -> Any:
        """A label for each image."""
        return self.classes if self._targets is None else self._targets

    @property
    def sample_weight(self) -> Any:
        """A weight for each image, or `None`."""
        return self._weights

    def _batch(self, rows: Any, random: Any) -> Any:
        images = np.zeros((len(rows), *self.image_shape), dtype=self.dtype)
        for i, row in enumerate(rows):
            img = load_img(
                self._filepaths[row],
                color_mode=self.color_mode,
                target_size=self.target_size,
                interpolation=self.interpolation,
                keep_aspect_ratio=self.keep_aspect_ratio,
            )
            array = np.array(img_to_array(img, self.data_format))
            images[i] = changed(self.image_data_generator, array, random)
        self._pictures.write(images, rows, random, 10_000_000)
        if self.class_mode is None:
            return images
        labels = self._labels(images, rows)
        return (images, labels) if self._weights is None else (images, labels, self._weights[rows])

    def _labels(self, images: Any, rows: Any) -> Any:
        if self.class_mode == "input":
            return images.copy()
        if self.class_mode == "multi_output":
            return [column[rows] for column in self._targets]
        if self.class_mode == "raw":
            return self._targets[rows]
        if self.class_mode in ("binary", "sparse"):
            return np.array([self.classes[row] for row in rows], dtype=self.dtype)
        marks = np.zeros((len(rows), len(self.class_indices)), dtype=self.dtype)
        for i, row in enumerate(rows):
            marks[i, self.classes[row]] = 1.0
        return marks


def require_choice(name: str, argument: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise `ValueError` unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name}: {argument}={value!r}; use one of {listed}")


def share(generator: Any, subset: str | None, name: str) -> tuple[float, float]:
    """From where to where, in shares of all files, a subset goes."""
    if subset is None:
        return 0.0, 1.0
    require_choice(name, "subset", subset, SUBSETS)
    border = generator._validation_split
    return (0.0, border) if subset == "validation" else (border, 1.0)


def color_modes(name: str, color_mode: str) -> None:
    """Raise `ValueError` for an unknown `color_mode`."""
    require_choice(name, "color_mode", color_mode, tuple(_CHANNELS))


class DirectoryIterator(FileIterator):
    """Batches of images of a folder with one folder for each class, changed by chance.

    Args:
        directory: the folder.
        image_data_generator: the `ImageDataGenerator` that changes them.
        target_size: (height, width) to which images are resized.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        classes: names of the folders, in the order of the labels; by default all, sorted.
        class_mode: `"categorical"` for rows with one 1, `"binary"` or `"sparse"` for numbers,
            `"input"` for the images themselves, `None` for no labels.
        batch_size: images in a batch.
        shuffle: whether the order is drawn anew for each epoch.
        seed: of order and changes.
        data_format: `"channels_last"` or `"channels_first"`.
        save_to_dir: folder into which each changed image is written as a file.
        save_prefix: with which names of such files begin.
        save_format: `"png"` or `"jpeg"`.
        follow_links: whether folders that are links are followed.
        subset: `"training"` or `"validation"`, the parts that `validation_split` makes.
        interpolation: way of resizing, as in `load_img`.
        keep_aspect_ratio: whether images are cut rather than distorted.
        dtype: of the images; the default float by default.

    Raises:
        NotFoundError: there is no such folder, or it has no folder of a class.
        ValueError: a word is none of those listed.
    """

    allowed_class_modes = ("categorical", "binary", "sparse", "input", None)

    def __init__(
        self,
        directory: Any,
        image_data_generator: Any,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Any = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        require_choice(name, "class_mode", class_mode, self.allowed_class_modes)
        color_modes(name, color_mode)
        part = share(image_data_generator, subset, name)
        order = channel_order(data_format)
        folder = local_path(directory)
        if not os.path.isdir(folder):
            raise NotFoundError(f"{name}: there is no folder {folder}")
        folders = sorted(d for d in os.listdir(folder) if os.path.isdir(os.path.join(folder, d)))
        names = list(classes or folders)
        if set(names) - set(folders):
            raise NotFoundError(
                f"{name}: classes {names} are not the folders of {folder}, {folders}"
            )
        self.directory, self.subset, self.split = directory, subset, part if subset else None
        self.num_classes = len(names)
        self.class_indices = {each: number for number, each in enumerate(names)}
        self.filenames: list[str] = []
        numbers: list[int] = []
        for each, number in self.class_indices.items():
            below = files_below(os.path.join(folder, each), ENDINGS, follow_links)
            files = [os.path.relpath(path, folder) for path in below]
            files = files[int(part[0] * len(files)) : int(part[1] * len(files))]
            self.filenames += files
            numbers += [number] * len(files)
        self.classes = np.array(numbers, dtype="int32")
        say(f"Found {len(numbers)} images belonging to {self.num_classes} classes.")
        super().__init__(
            [os.path.join(folder, file) for file in self.filenames],
            image_data_generator,
            target_size,
            color_mode,
            class_mode,
            batch_size,
            shuffle,
            seed,
            order,
            Pictures(save_to_dir, save_prefix, save_format, order),
            interpolation,
            keep_aspect_ratio,
            dtype,
        )
