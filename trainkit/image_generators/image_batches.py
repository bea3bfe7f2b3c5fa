"""Batches of images that are changed by chance, of arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from trainkit.core.dtypes import floatx
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.process import forks
from trainkit.datasets.image_arrays import array_to_img, channel_order
from trainkit.models.training.py_dataset import PyDataset

SUBSETS = ("training", "validation")


class ImageIterator(PyDataset):
    """Batches of `n` samples, epoch after epoch without an end, and by their numbers for `fit`.

    A subclass gives `_batch(rows, random)`, the batch of these samples.

    Args:
        n: how many samples there are.
        batch_size: samples in a batch; the last batch of an epoch may have fewer.
        shuffle: whether the order is drawn anew for each epoch.
        seed: of order and changes; batch k draws with `seed + k`. By default chance comes from
            `numpy.random`.
        **kwargs: arguments of `PyDataset`.

    Raises:
        ValueError: `batch_size` is not positive.
    """

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if batch_size < 1:
            raise ValueError(f"{type(self).__name__}: batch_size={batch_size} must be positive")
        self.n = n
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.batch_index = 0
        self.total_batches_seen = 0
        self.index_array: Any = None
        self._random: Any = np.random
        self._lock = forks.make_lock()

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_random")}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._random = forks.make_lock(), np.random

    def __len__(self) -> int:
        return -(-self.n // self.batch_size)

    def __getitem__(self, index: int) -> Any:
        """The batch of number `index` of this epoch."""
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} was asked for, there are {len(self)}")
        with self._lock:
            random = self._begin_batch()
            if self.index_array is None:
                self._draw_order()
            rows = self.index_array[self.batch_size * index : self.batch_size * (index + 1)]
        return self._batch(rows, random)

    def __iter__(self) -> ImageIterator:
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self.n == 0:
                raise StopIteration
            random = self._begin_batch()
            if self.batch_index == 0:
                self._draw_order()
            first = self.batch_index * self.batch_size
            self.batch_index = self.batch_index + 1 if first + self.batch_size < self.n else 0
            rows = self.index_array[first : first + self.batch_size]
        return self._batch(rows, random)

    def next(self) -> Any:
        """The next batch, as `next()` gives it."""
        return next(self)

    def reset(self) -> None:
        """Begin an epoch with the next batch."""
        self.batch_index = 0

    def on_epoch_end(self) -> None:
        """Draw the order of the next epoch."""
        self._draw_order()

    def _begin_batch(self) -> Any:
        if self.seed is not None:
            self._random = np.random.RandomState(self.seed + self.total_batches_seen)
        self.total_batches_seen += 1
        return self._random

    def _draw_order(self) -> None:
        self.index_array = self._random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def _batch(self, rows: Any, random: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} needs a method _batch(self, rows, random)"
        )


def changed(generator: Any, image: Any, random: Any) -> Any:
    """`image`, one array, as `generator` changes it, `None` changing nothing."""
    if generator is None:
        return image
    settings = generator._drawn(image.shape, random)
    return generator.standardize(generator.apply_transform(image, settings))


class Pictures:
    """Where batches are written as image files, for a look at them.

    Args:
        folder: an existing folder, `None` for nowhere.
        prefix: with which names of files begin.
        file_format: `"png"` or `"jpeg"`.
        data_format: order of the axes.
    """

    def __init__(self, folder: Any, prefix: str, file_format: str, data_format: str) -> None:
        self.folder, self.prefix = folder, prefix
        self.file_format, self.data_format = file_format, data_format

    def write(self, images: Any, rows: Any, random: Any, limit: int) -> None:
        """Write each image, named after its row and a number below `limit`."""
        if not self.folder:
            return
        for image, row in zip(images, rows, strict=True):
            name = f"{self.prefix}_{row}_{random.randint(limit)}.{self.file_format}"
            array_to_img(image, self.data_format, scale=True).save(os.path.join(self.folder, name))


def _same_length(x: Any, other: Any, name: str) -> None:
    if other is not None and len(x) != len(other):
        raise InvalidArgumentError(
            f"NumpyArrayIterator: x has {len(x)} images, {name} has length {len(other)}"
        )


class NumpyArrayIterator(ImageIterator):
    """Batches of images of an array, changed by chance.

    Args:
        x: array (images, height, width, channels), or a pair of it and an array, or a list of
            arrays, that go along unchanged.
        y: labels, one for each image.
        image_data_generator: the `ImageDataGenerator` that changes them.
        batch_size: images in a batch.
        shuffle: whether the order is drawn anew for each epoch.
        sample_weight: a number for each image.
        seed: of order and changes.
        data_format: `"channels_last"` or `"channels_first"`.
        save_to_dir: folder into which each changed image is written as a file.
        save_prefix: with which names of such files begin.
        save_format: `"png"` or `"jpeg"`.
        subset: `"training"` or `"validation"`, the parts that `validation_split` makes.
        ignore_class_split: whether a class may be missing in one of the parts.
        dtype: of the images; the default float by default.

    Raises:
        ValueError: the images have not four axes, or `subset` is another word, or a class is
            missing in one part.
        InvalidArgumentError: the lengths differ.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        image_data_generator: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        sample_weight: Any = None,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        ignore_class_split: bool = False,
        dtype: Any = None,
    ) -> None:
        more: Any = []
        if isinstance(x, list | tuple):
            more = x[1] if isinstance(x[1], list) else [x[1]]
            x = x[0]
        x = np.asarray(x, dtype=dtype or floatx())
        more = [np.asarray(item) for item in more]
        y, weights = (None if part is None else np.asarray(part) for part in (y, sample_weight))
        for name, part in (("y", y), ("sample_weight", weights), *(("x[1]", m) for m in more)):
            _same_length(x, part, name)
        if x.ndim != 4:
            raise ValueError(
                f"NumpyArrayIterator: x must be (images, height, width, channels), got {x.shape}"
            )
        selection = slice(None)
        if subset is not None:
            selection = _part(len(x), subset, image_data_generator._validation_split)
            if y is not None and not ignore_class_split:
                _require_classes(y, selection)
        self.x, self.x_misc = x[selection], [item[selection] for item in more]
        self.y = None if y is None else y[selection]
        self.sample_weight = None if weights is None else weights[selection]
        self.dtype = dtype or floatx()
        self.image_data_generator = image_data_generator
        self.data_format = channel_order(data_format)
        self._pictures = Pictures(
            None if save_to_dir is None else local_path(save_to_dir),
            save_prefix,
            save_format,
            self.data_format,
        )
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _batch(self, rows: Any, random: Any) -> Any:
        generator = self.image_data_generator
        images = np.zeros((len(rows), *self.x.shape[1:]), dtype=self.dtype)
        for i, row in enumerate(rows):
            images[i] = changed(generator, self.x[row].astype(self.dtype), random)
        self._pictures.write(images, rows, random, 10_000)
        inputs = [images, *(item[rows] for item in self.x_misc)] if self.x_misc else images
        if self.y is None:
            return inputs
        if self.sample_weight is None:
            return inputs, self.y[rows]
        return inputs, self.y[rows], self.sample_weight[rows]


def _part(count: int, subset: str, split: float) -> slice:
    if subset not in SUBSETS:
        raise ValueError(f"subset={subset!r}; use 'training' or 'validation'")
    border = int(count * split)
    return slice(border) if subset == "validation" else slice(border, None)


def _require_classes(y: Any, selection: slice) -> None:
    border = selection.stop if selection.start is None else selection.start
    first, second = np.unique(y[:border]), np.unique(y[border:])
    if not np.array_equal(first, second):
        raise ValueError(
            "the validation part (the first images) and the training part have different labels, "
            f"{first.tolist()} and {second.tolist()}; shuffle the data, or give "
            "ignore_class_split=True"
        )
