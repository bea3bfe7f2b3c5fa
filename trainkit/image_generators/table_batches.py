"""Batches of images that are changed by chance, of files that a table names."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from trainkit.core.files.local_paths import local_path
from trainkit.core.process.console import say
from trainkit.datasets.image_arrays import channel_order
from trainkit.image_generators.file_batches import (
    ENDINGS,
    FileIterator,
    color_modes,
    require_choice,
    share,
)
from trainkit.image_generators.image_batches import Pictures

_OF_CLASSES = ("binary", "categorical", "sparse")


class DataFrameIterator(FileIterator):
    """Batches of images that a table of pandas names, changed by chance.

    Args:
        dataframe: the table, a row for each image.
        directory: folder to which the names are relative; by default they are whole paths.
        image_data_generator: the `ImageDataGenerator` that changes them.
        x_col: column of the names.
        y_col: column of the labels, or several.
        weight_col: column of weights.
        target_size: (height, width) to which images are resized.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        classes: the labels, in the order of their numbers; rows with others are left out.
        class_mode: `"categorical"` for rows with 1 at each label, `"binary"` or `"sparse"` for
            numbers, `"raw"` for the values of `y_col`, `"multi_output"` for each column by itself,
            `"input"` for the images themselves, `None` for no labels.
        batch_size: images in a batch.
        shuffle: whether the order is drawn anew for each epoch.
        seed: of order and changes.
        data_format: `"channels_last"` or `"channels_first"`.
        save_to_dir: folder into which each changed image is written as a file.
        save_prefix: with which names of such files begin.
        save_format: `"png"` or `"jpeg"`.
        subset: `"training"` or `"validation"`, the parts that `validation_split` makes.
        interpolation: way of resizing, as in `load_img`.
        keep_aspect_ratio: whether images are cut rather than distorted.
        dtype: of the images; the default float by default.
        validate_filenames: whether names without a file are left out, with a warning.

    Raises:
        ValueError: a word is none of those listed, or `"binary"` has not two classes.
        TypeError: names are no texts, or labels do not go with `class_mode`.
    """

    allowed_class_modes = ("binary", "categorical", "input", "multi_output", "raw", "sparse", None)

    def __init__(
        self,
        dataframe: Any,
        directory: Any = None,
        image_data_generator: Any = None,
        x_col: str = "filename",
        y_col: Any = "class",
        weight_col: str | None = None,
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
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = None,
        validate_filenames: bool = True,
    ) -> None:
        name = type(self).__name__
        require_choice(name, "class_mode", class_mode, self.allowed_class_modes)
        color_modes(name, color_mode)
        part = share(image_data_generator, subset, name)
        order = channel_order(data_format)
        folder = "" if directory is None else local_path(directory)
        table = dataframe
        _require_columns(table, x_col, y_col, weight_col, class_mode, classes)
        if validate_filenames:
            table = _with_files(table, x_col, folder)
        self.directory, self.subset, self.split = folder, subset, part if subset else None
        kinds = ""
        if class_mode in _OF_CLASSES:
            names = list(dict.fromkeys(classes)) if classes else _labels_of(table[y_col])
            table = table[[_kept(label, names) != [] for label in table[y_col]]]
            self.class_indices = {label: number for number, label in enumerate(names)}
            kinds = f" belonging to {len(names)} classes"
        table = table.iloc[int(part[0] * len(table)) : int(part[1] * len(table))]
        if class_mode in _OF_CLASSES:
            self.classes = [
                [self.class_indices[one] for one in _kept(label, self.class_indices)]
                if isinstance(label, list | tuple)
                else self.class_indices[label]
                for label in table[y_col]
            ]
        elif class_mode == "multi_output":
            self._targets = [np.array(table[column].tolist()) for column in y_col]
        elif class_mode == "raw":
            self._targets = table[y_col].to_numpy()
        self.filenames = table[x_col].tolist()
        self._weights = None if weight_col is None else table[weight_col].to_numpy()
        checked = "validated" if validate_filenames else "non-validated"
        say(f"Found {len(table)} {checked} image filenames{kinds}.")
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


def _all(column: Any, kinds: Any) -> bool:
    return all(isinstance(value, kinds) for value in column)


def _require_columns(
    table: Any, x_col: str, y_col: Any, weight_col: Any, class_mode: Any, classes: Any
) -> None:
    """Raise `ValueError` or `TypeError` unless the columns are what `class_mode` needs."""
    columns = [x_col, weight_col, *([] if class_mode in ("input", None) else _several(y_col))]
    missing = [column for column in columns if column is not None and column not in table]
    if missing:
        raise ValueError(
            f"DataFrameIterator: the table has no columns {missing}; it has {list(table.columns)}"
        )
    if not _all(table[x_col], str):
        raise TypeError(f"DataFrameIterator: names in column {x_col!r} must be texts")
    if class_mode == "multi_output" and not isinstance(y_col, list):
        raise TypeError(
            f"DataFrameIterator: class_mode='multi_output' needs a list as y_col, got {y_col!r}"
        )
    if class_mode in ("binary", "sparse") and not _all(table[y_col], str):
        raise TypeError(
            f"DataFrameIterator: class_mode={class_mode!r} needs texts in column {y_col!r}; for "
            "numbers use class_mode='raw', or make texts of them: table[column].astype(str)"
        )
    if class_mode == "categorical" and not _all(table[y_col], str | list | tuple):
        raise TypeError(
            f"DataFrameIterator: class_mode='categorical' needs texts, or lists of them, in column "
            f"{y_col!r}; make texts of numbers: table[column].astype(str)"
        )
    if class_mode == "binary":
        count = len(set(classes)) if classes else table[y_col].nunique()
        if count != 2:
            raise ValueError(f"DataFrameIterator: 'binary' needs two classes, there are {count}")


def _several(columns: Any) -> list[Any]:
    return list(columns) if isinstance(columns, list | tuple) else [columns]


def _labels_of(column: Any) -> list[Any]:
    return sorted({one for label in column for one in _several(label)})


def _kept(label: Any, names: Any) -> list[Any]:
    return [one for one in _several(label) if one in names]


def _with_files(table: Any, x_col: str, folder: str) -> Any:
    """The rows whose file is there and is an image."""
    paths = [os.path.join(folder, file) for file in table[x_col]]
    has_file = [path.lower().endswith(ENDINGS) and os.path.isfile(path) for path in paths]
    if missing := has_file.count(False):
        example = paths[has_file.index(False)]
        warnings.warn(
            f"DataFrameIterator: {missing} names in column {x_col!r} are no image files, for "
            f"instance {example}; their rows are left out",
            stacklevel=3,
        )
    return table[has_file]
