"""Folders of files, one folder for each class, as data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.console import say
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.docstrings import describe_arguments
from trainkit.data import AUTOTUNE, Dataset
from trainkit.datasets.image_arrays import channel_order
from trainkit.ops.core.strings import substr
from trainkit.ops.images.image_codecs import decode_image
from trainkit.ops.images.image_crops import resize_with_pad
from trainkit.ops.signal.wav import decode_wav
from trainkit.records.decoding import read_file

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
_CHANNELS = {"rgb": 3, "rgba": 4, "grayscale": 1}
_WAYS = ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5", "area")


class _Files:
    """The files below a folder and their labels, in the order in which they are shared out.

    Attributes:
        paths: of the files.
        labels: a number for each, or `None`.
        class_names: of the classes.
    """

    def __init__(
        self,
        directory: Any,
        labels: Any,
        endings: Sequence[str],
        class_names: Any,
        shuffle: bool,
        seed: int,
        follow_links: bool,
        verbose: bool,
    ) -> None:
        folder = local_path(directory)
        if not os.path.isdir(folder):
            raise NotFoundError(f"there is no folder {folder}")
        inferred = isinstance(labels, str)
        subfolders = sorted(
            name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))
        )
        if inferred and class_names is not None and set(class_names) - set(subfolders):
            raise ValueError(
                f"class_names {list(class_names)} are not the folders of {folder}, {subfolders}"
            )
        self.class_names = list(class_names or subfolders) if inferred else []
        self.paths: list[str] = []
        numbers: list[int] = []
        for number, name in enumerate(self.class_names if inferred else [""]):
            below = files_below(os.path.join(folder, name), endings, follow_links)
            self.paths += below
            numbers += [number] * len(below)
        if not inferred and labels is not None:
            numbers = [int(label) for label in labels]
            if len(numbers) != len(self.paths):
                raise ValueError(f"{len(numbers)} labels for {len(self.paths)} files in {folder}")
            self.class_names = [str(n) for n in sorted(set(numbers))]
        self.labels = None if labels is None else np.array(numbers, np.int32)
        if verbose:
            text = f" belonging to {len(self.class_names)} classes" if labels is not None else ""
            say(f"Found {len(self.paths)} files{text}.")
        if shuffle:
            order = np.random.RandomState(seed).permutation(len(self.paths))
            self.paths = [self.paths[i] for i in order]
            self.labels = None if self.labels is None else self.labels[order]

    def part(self, split: float | None, subset: str | None, verbose: bool) -> tuple[list[str], Any]:
        """The paths and labels of one subset: the last share of all files is for validation."""
        if split is None:
            return self.paths, self.labels
        count = int(split * len(self.paths))
        training = subset == "training"
        selection = (
            slice(0, len(self.paths) - count) if training else slice(len(self.paths) - count, None)
        )
        paths = self.paths[selection]
        if verbose:
            say(f"Using {len(paths)} files for {subset}.")
        return paths, None if self.labels is None else self.labels[selection]


def files_below(folder: str, endings: Sequence[str], follow_links: bool) -> list[str]:
    """Paths of the files with these endings, in any letters, folder by folder, sorted."""
    visited = sorted(os.walk(folder, followlinks=follow_links))
    return [
        os.path.join(where, name)
        for where, _, names in visited
        for name in sorted(names)
        if name.lower().endswith(tuple(endings))
    ]


def _check(caller: str, labels: Any, label_mode: Any, class_names: Any, split: Any, subset: Any,
             shuffle: bool, seed: Any, format: str = "tf") -> tuple[Any, Any]:  # fmt: skip
    """Labels and label mode, `None` both where one is.

    Raises:
        ValueError: the arguments do not go together.
    """
    listed = isinstance(labels, list | tuple | np.ndarray)
    if not listed and labels not in ("inferred", None):
        raise ValueError(
            f"{caller}: labels must be 'inferred', None, or a list of numbers, got {labels!r}"
        )
    if class_names and not isinstance(labels, str):
        raise ValueError(f"{caller}: class_names go with labels='inferred' alone")
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError(
            f"{caller}: label_mode {label_mode!r}; use 'int', 'categorical', 'binary' or None"
        )
    if split is not None and not 0 < split < 1:
        raise ValueError(f"{caller}: validation_split {split} is not between 0 and 1")
    if (split is None) != (subset is None) or subset not in (
        None,
        "training",
        "validation",
        "both",
    ):
        raise ValueError(
            f"{caller}: validation_split goes with subset 'training', 'validation' or 'both', got "
            f"{split} and {subset!r}"
        )
    if split is not None and shuffle and seed is None:
        raise ValueError(
            f"{caller}: give a seed, so that training and validation share no files, or "
            "shuffle=False"
        )
    if format != "tf":
        raise ValueError(f"{caller}: format {format!r}; only 'tf', a Dataset, is supported")
    return (None, None) if labels is None or label_mode is None else (labels, label_mode)


def _dataset(
    caller: str,
    directory: Any,
    labels: Any,
    label_mode: Any,
    class_names: Any,
    endings: Sequence[str],
    load: Callable[[Any], Any],
    batch_size: int | None,
    shuffle: bool,
    seed: int | None,
    split: float | None,
    subset: str | None,
    follow_links: bool,
    verbose: bool,
) -> Any:
    """A data set, or two of them for `subset="both"`, of what `load` makes of the files."""
    seed = int(np.random.randint(1_000_000)) if seed is None else int(seed)
    files = _Files(directory, labels, endings, class_names, shuffle, seed, follow_links, verbose)
    if label_mode == "binary" and len(files.class_names) != 2:
        raise ValueError(
            f"{caller}: label_mode='binary' is for two classes, not {files.class_names}"
        )
    datasets = []
    for name in ("training", "validation") if subset == "both" else (subset,):
        paths, numbers = files.part(split, name, verbose)
        if not paths:
            raise ValueError(f"{caller}: no files in {directory} end in one of {list(endings)}")
        mixed = shuffle and not (subset == "both" and name == "validation")
        dataset = _pair_with_labels(paths, numbers, label_mode, len(files.class_names))
        if mixed:
            dataset = dataset.shuffle(1024 if batch_size is None else 8 * batch_size, seed)
        dataset = dataset.map(
            lambda path, *label: (load(path), *label) if label else load(path), AUTOTUNE
        )
        if batch_size is not None:
            dataset = dataset.batch(batch_size)
        dataset = dataset.prefetch(AUTOTUNE)
        dataset.class_names = files.class_names or None
        dataset.file_paths = paths
        datasets.append(dataset)
    return datasets if subset == "both" else datasets[0]


def _pair_with_labels(paths: Any, numbers: Any, label_mode: Any, classes: int) -> Any:
    """Pairs of a path and a label, or paths alone, which need not be UTF-8."""
    paths = [os.fsencode(path) for path in paths]
    if numbers is None:
        return Dataset.from_tensor_slices(paths)
    if label_mode == "categorical":
        numbers = np.eye(classes, dtype=np.float32)[numbers]
    elif label_mode == "binary":
        numbers = numbers.astype(np.float32)[:, None]
    return Dataset.from_tensor_slices((paths, numbers))


def image_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Any = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """The images in a folder, as float32 batches of one size, with labels.

    With `interpolation="nearest"` they are of uint8, as the pixels of the files are.

    Args:
        labels: `"inferred"`, from the folders; a list of numbers in the order of the sorted paths;
            or `None`.
        label_mode: `"int"`; `"categorical"`, a row of zeros and a one; `"binary"`, 0.0 or 1.0; or
            `None`, for images alone.
        class_names: the names of the folders in another order than the sorted one.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        batch_size: images of a batch; single images for `None`.
        image_size: (height, width) to which images are resized.
        interpolation: a way to resize, see `tk.image.ResizeMethod`.
        crop_to_aspect_ratio: cut images rather than distort them.
        pad_to_aspect_ratio: fill images up rather than distort them.
        data_format: `"channels_first"` for (batch, channels, height, width).

    Returns:
        A data set with the attributes `class_names` and `file_paths`.

    Raises:
        NotFoundError: there is no such folder.
        ValueError: the arguments do not go together, or there are no images.
    """
    caller = "image_dataset_from_directory"
    labels, label_mode = _check(caller, labels, label_mode, class_names, validation_split, subset,
                                  shuffle, seed, format)  # fmt: skip
    if color_mode not in _CHANNELS or interpolation.lower() not in _WAYS:
        raise ValueError(
            f"{caller}: color_mode {color_mode!r} must be one of {list(_CHANNELS)}, interpolation "
            f"{interpolation!r} one of {list(_WAYS)}"
        )
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError(
            f"{caller}: crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other"
        )
    channels, order = _CHANNELS[color_mode], channel_order(data_format)
    way = interpolation.lower()

    def load(path: Any) -> Any:
        image = decode_image(read_file(path), channels, expand_animations=False)
        if pad_to_aspect_ratio:  # around the resized image, whose border is not mixed with zeros
            image = resize_with_pad(image, height, width, way)
        else:
            image = ops.image.resize(
                image if way == "nearest" else ops.cast(image, "float32"),
                (height, width),
                interpolation=way,
                crop_to_aspect_ratio=crop_to_aspect_ratio,
                data_format="channels_last",
            )
        return ops.transpose(image, (2, 0, 1)) if order == "channels_first" else image

    shape = (channels, height, width) if order == "channels_first" else (height, width, channels)
    dtype = "uint8" if way == "nearest" else "float32"
    return _dataset(
        caller, directory, labels, label_mode, class_names, IMAGES,
        _of_shape(load, shape, dtype), batch_size, shuffle, seed, validation_split, subset,
        follow_links, verbose,
    )  # fmt: skip


def _of_shape(load: Callable[[Any], Any], shape: Any, dtype: Any) -> Callable[[Any], Any]:
    """`load`, whose results are known to have a shape."""
    spec = TensorSpec(shape, dtype)

    def load_file(path: Any) -> Any:
        result = load(path)
        result.set_shape(spec.shape)
        return result

    return load_file


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """The `.txt` files in a folder, as batches of string tensors, with labels.

    Args:
        labels: as in `image_dataset_from_directory`, as are the arguments that are not named here.
        label_mode: the same.
        class_names: the same.
        batch_size: texts of a batch; single texts for `None`.
        max_length: bytes to which texts are cut.

    Raises:
        NotFoundError: there is no such folder.
        ValueError: the arguments do not go together, or there are no files.
    """
    caller = "text_dataset_from_directory"
    labels, label_mode = _check(caller, labels, label_mode, class_names, validation_split, subset,
                                  shuffle, seed, format)  # fmt: skip

    def load(path: Any) -> Any:
        text = read_file(path)
        return text if max_length is None else substr(text, 0, max_length)

    return _dataset(
        caller, directory, labels, label_mode, class_names, (".txt",), load, batch_size, shuffle,
        seed, validation_split, subset, follow_links, verbose,
    )  # fmt: skip


def audio_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    batch_size: int | None = 32,
    sampling_rate: int | None = None,
    output_sequence_length: int | None = None,
    ragged: bool = False,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """The `.wav` files in a folder, as float32 batches (batch, samples, channels), with labels.

    Args:
        labels: as in `image_dataset_from_directory`, as are the arguments that are not named here.
        label_mode: the same.
        class_names: the same.
        batch_size: sounds of a batch, filled up with zeros to the longest; single ones for `None`.
        sampling_rate: not supported: sounds keep their rate.
        output_sequence_length: samples to which sounds are cut or filled up.
        ragged: not supported: there are no ragged tensors.

    Raises:
        NotFoundError: there is no such folder.
        ValueError: the arguments do not go together, or there are no files.
    """
    caller = "audio_dataset_from_directory"
    labels, label_mode = _check(caller, labels, label_mode, class_names, validation_split, subset,
                                  shuffle, seed, format)  # fmt: skip
    if ragged or sampling_rate is not None:
        raise ValueError(f"{caller}: ragged=True and sampling_rate are not supported")
    length = -1 if output_sequence_length is None else int(output_sequence_length)

    def load(path: Any) -> Any:
        return decode_wav(read_file(path), desired_samples=length)[0]

    datasets = _dataset(
        caller, directory, labels, label_mode, class_names, (".wav",), load, None, shuffle, seed,
        validation_split, subset, follow_links, verbose,
    )  # fmt: skip
    if batch_size is None:
        return datasets
    parts = datasets if isinstance(datasets, list) else [datasets]
    batches = [_pad(part, batch_size) for part in parts]
    return batches if isinstance(datasets, list) else batches[0]


def _pad(dataset: Any, size: int) -> Any:
    batches = dataset.padded_batch(size).prefetch(AUTOTUNE)
    batches.class_names, batches.file_paths = dataset.class_names, dataset.file_paths
    return batches


describe_arguments(
    globals(),
    """
    directory: the folder; with inferred labels it has a folder for each class.
    shuffle: whether the order is random.
    seed: of the order.
    validation_split: share of the files that is for validation.
    subset: `"training"`, `"validation"`, or `"both"` for a list of two data sets.
    follow_links: whether linked folders are searched, too.
    format: `"tf"`, for a `Dataset`, is the only one.
    verbose: whether to print how many files were found.
    """,
)
