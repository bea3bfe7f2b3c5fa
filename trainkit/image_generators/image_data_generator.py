"""`ImageDataGenerator`: images changed by chance and normalized, batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trainkit.core.dtypes import floatx
from trainkit.core.errors import InvalidArgumentError
from trainkit.datasets.image_arrays import channel_order
from trainkit.image_generators.affine_arrays import FILL_MODES, apply_affine_transform
from trainkit.image_generators.changes import apply_brightness_shift, apply_channel_shift
from trainkit.image_generators.file_batches import DirectoryIterator, require_choice
from trainkit.image_generators.image_batches import NumpyArrayIterator
from trainkit.image_generators.table_batches import DataFrameIterator

_TINY = 1e-6
_Iterator = TypeVar("_Iterator")


class ImageDataGenerator:
    """Gives batches of images that are changed by chance and normalized, for `fit`.

    The order is: `rotation_range` to `vertical_flip`, then `preprocessing_function`, `rescale`, and
    normalization. New programs use layers such as `RandomRotation`, which run inside the model.
    A seed gives the images that it gives in Keras, where the two shifts have changed places.

    Args:
        featurewise_center: subtract the mean of each channel, which `fit` finds.
        samplewise_center: subtract the mean of each image.
        featurewise_std_normalization: divide by the deviation of each channel, too; implies
            `featurewise_center`.
        samplewise_std_normalization: divide by the deviation of each image, too; implies
            `samplewise_center`.
        zca_whitening: make pixels uncorrelated, in place of a division; implies
            `featurewise_center`.
        zca_epsilon: what keeps the whitening from a division by zero.
        rotation_range: degrees, at most, to either side.
        width_shift_range: at most this share of the width if it is below 1, this many pixels if it
            is 1 or more; an int stands for whole pixels below it, a list for its numbers.
        height_shift_range: likewise.
        brightness_range: least and greatest factor of brightness.
        shear_range: degrees, at most, to either side.
        zoom_range: least and greatest zoom, or one number z for 1 - z and 1 + z.
        channel_shift_range: what is added or subtracted, at most.
        fill_mode: what is outside: `"nearest"`, `"constant"`, `"reflect"`, `"mirror"` or `"wrap"`.
        cval: the value outside, in mode `"constant"`.
        horizontal_flip: whether half of the images are mirrored, left to right.
        vertical_flip: whether half of the images are mirrored, top to bottom.
        rescale: factor of all values.
        preprocessing_function: of one image, an array of three axes.
        data_format: `"channels_last"` or `"channels_first"`.
        validation_split: share of the images, the first ones, that is `subset="validation"`.
        interpolation_order: 1 for linear interpolation, 0 for the nearest pixel.
        dtype: of the images; the default float by default.

    Raises:
        ValueError: an argument is none of what is listed here.

    Example:
        >>> images, labels = np.zeros((6, 8, 8, 3)), np.arange(6)
        >>> changing = tk.keras.preprocessing.image.ImageDataGenerator(rotation_range=20)
        >>> x, y = next(changing.flow(images, labels, batch_size=4))
        >>> x.shape, y.shape
        ((4, 8, 8, 3), (4,))
    """

    def __init__(
        self,
        featurewise_center: bool = False,
        samplewise_center: bool = False,
        featurewise_std_normalization: bool = False,
        samplewise_std_normalization: bool = False,
        zca_whitening: bool = False,
        zca_epsilon: float = 1e-6,
        rotation_range: float = 0,
        width_shift_range: Any = 0.0,
        height_shift_range: Any = 0.0,
        brightness_range: Any = None,
        shear_range: float = 0.0,
        zoom_range: Any = 0.0,
        channel_shift_range: float = 0.0,
        fill_mode: str = "nearest",
        cval: float = 0.0,
        horizontal_flip: bool = False,
        vertical_flip: bool = False,
        rescale: float | None = None,
        preprocessing_function: Callable[[Any], Any] | None = None,
        data_format: str | None = None,
        validation_split: float = 0.0,
        interpolation_order: int = 1,
        dtype: Any = None,
    ) -> None:
        name = "ImageDataGenerator"
        require_choice(name, "fill_mode", fill_mode, FILL_MODES)
        require_choice(name, "interpolation_order", interpolation_order, (0, 1))
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(
                f"{name}: validation_split={validation_split} must lie between 0 and 1"
            )
        self.featurewise_std_normalization = featurewise_std_normalization and not zca_whitening
        self.featurewise_center = featurewise_center or featurewise_std_normalization
        self.featurewise_center = self.featurewise_center or zca_whitening
        self.samplewise_std_normalization = samplewise_std_normalization
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.zca_whitening, self.zca_epsilon = zca_whitening, zca_epsilon
        self.rotation_range = rotation_range
        self.width_shift_range = width_shift_range
        self.height_shift_range = height_shift_range
        self.shear_range = shear_range
        self.channel_shift_range = channel_shift_range
        self.fill_mode, self.cval = fill_mode, cval
        self.horizontal_flip, self.vertical_flip = horizontal_flip, vertical_flip
        self.rescale = rescale
        self.preprocessing_function = preprocessing_function
        self.interpolation_order = interpolation_order
        self.dtype = dtype or floatx()
        self.data_format = channel_order(data_format)
        first = self.data_format == "channels_first"
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if first else (3, 1, 2)
        self.zoom_range = [1 - zoom_range, 1 + zoom_range] if _is_number(zoom_range) else zoom_range
        self.brightness_range = brightness_range
        for argument in ("zoom_range", "brightness_range"):
            pair = getattr(self, argument)
            if pair is not None and not (
                isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_number, pair))
            ):
                raise ValueError(f"{name}: {argument} must be two numbers, got {pair!r}")
        self._validation_split = validation_split
        self.mean: Any = None
        self.std: Any = None
        self.zca_whitening_matrix: Any = None

    # ------------------------------------------------------------------ batches

    def flow(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: Any = None,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> NumpyArrayIterator:
        """Batches of the images of an array; arguments and errors are `NumpyArrayIterator`'s."""
        return self._iterator(NumpyArrayIterator, locals())

    def flow_from_directory(
        self,
        directory: Any,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Any = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
    ) -> DirectoryIterator:
        """Batches of the images of a folder; arguments and errors are `DirectoryIterator`'s."""
        return self._iterator(DirectoryIterator, locals())

    def flow_from_dataframe(
        self,
        dataframe: Any,
        directory: Any = None,
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
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        interpolation: str = "nearest",
        validate_filenames: bool = True,
    ) -> DataFrameIterator:
        """Batches of images that a table names; arguments and errors are `DataFrameIterator`'s.

        `class_mode="other"` is an older word for `"raw"`.
        """
        class_mode = "raw" if class_mode == "other" else class_mode
        return self._iterator(DataFrameIterator, locals())

    def _iterator(self, kind: Callable[..., _Iterator], arguments: dict[str, Any]) -> _Iterator:
        """An iterator by the `locals()` of the methods above, and by what the generator says."""
        del arguments["self"]
        facts = {"data_format": self.data_format, "dtype": self.dtype}
        return kind(image_data_generator=self, **facts, **arguments)

    # ------------------------------------------------------------------ one image

    def get_random_transform(self, img_shape: Any, seed: int | None = None) -> dict[str, Any]:
        """Draw the changes for one image.

        Args:
            img_shape: of the image, three axes.
            seed: by default chance comes from `numpy.random`.

        Returns:
            A dict that `apply_transform` takes.
        """
        return self._drawn(img_shape, np.random if seed is None else np.random.RandomState(seed))

    def _drawn(self, shape: Any, random: Any) -> dict[str, Any]:
        turn = self.rotation_range
        low, high = self.zoom_range
        drawn: dict[str, Any] = {"theta": random.uniform(-turn, turn) if turn else 0}
        drawn["tx"] = _shift(self.height_shift_range, shape[self.row_axis - 1], random)
        drawn["ty"] = _shift(self.width_shift_range, shape[self.col_axis - 1], random)
        shear = self.shear_range
        drawn["shear"] = random.uniform(-shear, shear) if shear else 0
        drawn["zx"], drawn["zy"] = (1, 1) if low == high == 1 else random.uniform(low, high, 2)
        drawn["flip_horizontal"] = bool(random.random_sample() < 0.5) and self.horizontal_flip
        drawn["flip_vertical"] = bool(random.random_sample() < 0.5) and self.vertical_flip
        span = self.channel_shift_range
        drawn["channel_shift_intensity"] = random.uniform(-span, span) if span else None
        bright = self.brightness_range
        drawn["brightness"] = None if bright is None else random.uniform(*bright)
        return drawn

    def apply_transform(self, x: Any, transform_parameters: dict[str, Any]) -> Any:
        """One image with these changes.

        Args:
            x: array of three axes.
            transform_parameters: as `get_random_transform` gives them; what is left out does not
                change: `"theta"`, `"tx"`, `"ty"`, `"shear"`, `"zx"`, `"zy"`, `"flip_horizontal"`,
                `"flip_vertical"`, `"channel_shift_intensity"`, `"brightness"`.

        Returns:
            A new array of the shape of `x`.

        Raises:
            ValueError: `x` is not one image.
        """
        row, col, channel = self.row_axis - 1, self.col_axis - 1, self.channel_axis - 1
        parameter_of: Callable[..., Any] = transform_parameters.get
        x = apply_affine_transform(
            x,
            **{k: parameter_of(k, 1 if k in ("zx", "zy") else 0) for k in _AFFINE},
            row_axis=row,
            col_axis=col,
            channel_axis=channel,
            fill_mode=self.fill_mode,
            cval=self.cval,
            order=self.interpolation_order,
        )
        if parameter_of("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, parameter_of("channel_shift_intensity"), channel)
        if parameter_of("flip_horizontal"):
            x = np.flip(x, col)
        if parameter_of("flip_vertical"):
            x = np.flip(x, row)
        if parameter_of("brightness") is not None:
            x = apply_brightness_shift(x, parameter_of("brightness"), False)
        return np.array(x)

    def random_transform(self, x: Any, seed: int | None = None) -> Any:
        """One image, changed by chance; see `get_random_transform` and `apply_transform`."""
        return self.apply_transform(x, self.get_random_transform(np.shape(x), seed))

    def standardize(self, x: Any) -> Any:
        """One image, or a batch, normalized as the arguments say.

        Args:
            x: array of floats; it may be changed itself.

        Returns:
            The normalized array. What `fit` finds is left out, with a warning, before `fit`.
        """
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x = _scale(x, self.rescale)
        if self.samplewise_center:
            x = x - np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (np.std(x, keepdims=True) + _TINY)
        if self.featurewise_center and self._fit("featurewise_center", self.mean):
            x = x - self.mean
        if self.featurewise_std_normalization and self._fit(
            "featurewise_std_normalization", self.std
        ):
            x = x / (self.std + _TINY)
        if self.zca_whitening and self._fit("zca_whitening", self.zca_whitening_matrix):
            flat = np.reshape(x, (-1, int(np.prod(x.shape[-3:]))))
            x = np.reshape(flat @ self.zca_whitening_matrix, x.shape)
        return x

    def _fit(self, argument: str, statistic: Any) -> bool:
        if statistic is None:
            warnings.warn(
                f"ImageDataGenerator: {argument} needs numbers of the data; call fit(x) first, "
                "where x is an array of images",
                stacklevel=3,
            )
        return statistic is not None

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Find mean, deviation and whitening of the data, after `rescale`.

        Args:
            x: array of images, four axes.
            augment: whether the images are changed first.
            rounds: how often each image is changed, with `augment`.
            seed: of the changes; by default chance comes from `numpy.random`.

        Raises:
            InvalidArgumentError: `x` has not four axes.
        """
        x = np.array(x, dtype=self.dtype)
        if x.ndim != 4:
            raise InvalidArgumentError(
                f"ImageDataGenerator.fit: images have four axes together, x has shape {x.shape}"
            )
        random = np.random if seed is None else np.random.RandomState(seed)
        if self.rescale:
            x = _scale(x, self.rescale)
        if augment:
            x = np.stack(
                [
                    self.apply_transform(image, self._drawn(image.shape, random))
                    for _ in range(rounds)
                    for image in x
                ]
            ).astype(self.dtype)
        others = (0, self.row_axis, self.col_axis)
        if self.featurewise_center:
            self.mean = np.mean(x, axis=others, keepdims=True)[0]
            x = x - self.mean
        if self.featurewise_std_normalization:
            self.std = np.std(x, axis=others, keepdims=True)[0]
            x = x / (self.std + _TINY)
        if self.zca_whitening:
            u, s, _ = np.linalg.svd(np.reshape(x, (len(x), -1)).T, full_matrices=False)
            self.zca_whitening_matrix = (u * (np.sqrt(len(x)) / (s + self.zca_epsilon))) @ u.T


_AFFINE = ("theta", "tx", "ty", "shear", "zx", "zy")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scale(x: Any, factor: float) -> Any:
    """`x` times `factor`; integers become floats."""
    return x * np.asarray(factor, x.dtype if np.asarray(x).dtype.kind == "f" else floatx())


def _shift(limit: Any, size: int, random: Any) -> Any:
    """By how many pixels to move, below `limit`, of `size`."""
    if not np.any(limit):
        return 0
    if isinstance(limit, float):
        shift = random.uniform(-limit, limit)
    else:
        shift = random.choice(limit) * random.choice([-1, 1])
    return shift * size if np.max(limit) < 1 else shift
