"""Layers that change images at random while training: flips, moves, turns, zooms, crops, light.

Called by themselves they do so too; `training=False`, or a model that is not training, turns
them off.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import is_tensor
from trainkit.layers.base.arguments import format_of, one_of, whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.image_resizing import CenterCrop
from trainkit.ops.sampling import random

_FILL_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


class _Augmentation(Layer):
    """What these layers share: batches of images, a generator, and the switch."""

    def __init__(self, seed: Any = None, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = random.SeedGenerator(seed)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any, training: Any = True) -> Any:
        x = ops.cast(inputs, self.compute_dtype)
        if not training:
            return self._unchanged(x)
        if len(x.shape) == 3:
            return ops.squeeze(self._changed(ops.expand_dims(x, 0)), 0)
        if len(x.shape) != 4:
            raise ShapeError(
                f"images have 3 axes, batches of them 4; the input has shape {tuple(x.shape)}"
            )
        return self._changed(x)

    def _unchanged(self, images: Any) -> Any:
        return images

    def _changed(self, images: Any) -> Any:
        """The batch `images` (batch, ...), changed at random."""
        raise NotImplementedError(f"{type(self).__name__} has no method _changed(self, images)")

    def _draw(self, images: Any, low: float, high: float) -> Any:
        """One number in [low, high) for each image, (batch,)."""
        shape = (ops.shape(images)[0],)
        return random.uniform(shape, low, high, images.dtype, self.seed_generator)

    @property
    def _rows(self) -> int:
        """The axis of the height."""
        return 1 if self.data_format == "channels_last" else 2

    def _size(self, images: Any) -> tuple[int, int]:
        height, width = images.shape[self._rows], images.shape[self._rows + 1]
        if height is None or width is None:
            raise ShapeError(
                f"the size of the images must be known, got shape {tuple(images.shape)}"
            )
        return height, width


def _bounds(layer: Any, name: str, factor: Any, least: float, most: float) -> tuple[float, float]:
    """A factor f as (-f, f), or a pair as it is.

    Raises:
        InvalidArgumentError: it is neither, or outside [least, most].
    """
    if isinstance(factor, int | float):
        low, high = -abs(factor), abs(factor)
    else:
        low, high = (float(f) for f in factor)
    if not least <= low <= high <= most:
        raise InvalidArgumentError(
            f"{type(layer).__name__}: {name} must be a number or a pair (low, high) within "
            f"[{least}, {most}], got {factor!r}"
        )
    return low, high


class RandomFlip(_Augmentation):
    """Images mirrored or not, each with probability 1/2.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        mode: `"horizontal"` (left and right change places), `"vertical"`, or
            `"horizontal_and_vertical"`.
        seed: int, by default derived from `set_seed`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: the mode is none of these.

    Example:
        >>> layer = tk.layers.RandomFlip("horizontal", seed=1)
        >>> images = tk.ones((2, 4, 4, 3))
        >>> layer(images, training=True).shape
        TensorShape([2, 4, 4, 3])
    """

    def __init__(
        self,
        mode: str = "horizontal_and_vertical",
        seed: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, data_format, **kwargs)
        modes = ("horizontal", "vertical", "horizontal_and_vertical")
        self.mode = one_of(self, "mode", mode, modes)

    def _changed(self, images: Any) -> Any:
        for word, axis in (("horizontal", self._rows + 1), ("vertical", self._rows)):
            if word in self.mode:
                chosen = ops.less(self._draw(images, 0.0, 1.0), 0.5)
                chosen = ops.reshape(chosen, (-1, 1, 1, 1))
                images = ops.where(chosen, ops.flip(images, axis=axis), images)
        return images


class _Warp(_Augmentation):
    """What the layers share that read each new pixel somewhere else."""

    def __init__(
        self,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: Any = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, data_format, **kwargs)
        self.fill_mode = one_of(self, "fill_mode", fill_mode, _FILL_MODES)
        self.interpolation = one_of(self, "interpolation", interpolation, ("bilinear", "nearest"))
        self.fill_value = fill_value

    def _warped(self, images: Any, numbers: list[Any]) -> Any:
        """Images read at (a0 x + a1 y + a2, b0 x + b1 y + b2); `numbers` are a0 ... b2."""
        zero = ops.zeros_like(next(n for n in numbers if is_tensor(n)))
        columns = [zero + n for n in numbers] + [zero, zero]
        return ops.image.affine_transform(
            images,
            ops.stack(columns, axis=1),
            interpolation=self.interpolation,
            fill_mode=self.fill_mode,
            fill_value=self.fill_value,
            data_format=self.data_format,
        )


class RandomTranslation(_Warp):
    """Images moved up or down and left or right.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        height_factor: share of the height by which to move at most, down if positive: f for
            [-f, f], or (low, high), within [-1, 1].
        width_factor: likewise for the width, to the right if positive.
        fill_mode: what comes in from outside: `"reflect"`, `"constant"`, `"wrap"`, `"nearest"` or
            `"mirror"`.
        interpolation: `"bilinear"` or `"nearest"`.
        seed: int, by default derived from `set_seed`.
        fill_value: the value outside in mode `"constant"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.RandomTranslation(0.1, 0.1, seed=1)
        >>> layer(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        height_factor: Any,
        width_factor: Any,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: Any = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, data_format, **kwargs)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self._height_range = _bounds(self, "height_factor", height_factor, -1.0, 1.0)
        self._width_range = _bounds(self, "width_factor", width_factor, -1.0, 1.0)

    def _changed(self, images: Any) -> Any:
        height, width = self._size(images)
        down = self._draw(images, *self._height_range) * height
        right = self._draw(images, *self._width_range) * width
        return self._warped(images, [1.0, 0.0, -right, 0.0, 1.0, -down])


class RandomRotation(_Warp):
    """Images turned about their centre.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        factor: angle as a share of a whole turn, counter-clockwise if positive: f for [-f, f], or
            (low, high), within [-1, 1].
        fill_mode: what comes in from outside: `"reflect"`, `"constant"`, `"wrap"`, `"nearest"` or
            `"mirror"`.
        interpolation: `"bilinear"` or `"nearest"`.
        seed: int, by default derived from `set_seed`.
        fill_value: the value outside in mode `"constant"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.RandomRotation(0.1, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        factor: Any,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: Any = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, data_format, **kwargs)
        self.factor = factor
        self._range = _bounds(self, "factor", factor, -1.0, 1.0)

    def _changed(self, images: Any) -> Any:
        height, width = self._size(images)
        angle = self._draw(images, *self._range) * (2 * math.pi)
        cos, sin = ops.cos(angle), ops.sin(angle)
        x, y = (width - 1) / 2, (height - 1) / 2
        left = x - (cos * x - sin * y)
        top = y - (sin * x + cos * y)
        return self._warped(images, [cos, ops.negative(sin), left, sin, cos, top])


class RandomZoom(_Warp):
    """Images enlarged or shrunk about their centre.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        height_factor: by which share more of the height is seen, less if negative (0.2 shrinks the
            picture, -0.2 enlarges it): f for [-f, f], or (low, high), above -1.
        width_factor: likewise for the width; the same number as the height's by default, which
            keeps the aspect ratio.
        fill_mode: what comes in from outside: `"reflect"`, `"constant"`, `"wrap"`, `"nearest"` or
            `"mirror"`.
        interpolation: `"bilinear"` or `"nearest"`.
        seed: int, by default derived from `set_seed`.
        fill_value: the value outside in mode `"constant"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.RandomZoom(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        height_factor: Any,
        width_factor: Any = None,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: Any = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, data_format, **kwargs)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self._height_range = _bounds(self, "height_factor", height_factor, -0.999, 10.0)
        if width_factor is not None:
            self._width_range = _bounds(self, "width_factor", width_factor, -0.999, 10.0)

    def _changed(self, images: Any) -> Any:
        height, width = self._size(images)
        tall = 1.0 + self._draw(images, *self._height_range)
        wide = tall
        if self.width_factor is not None:
            wide = 1.0 + self._draw(images, *self._width_range)
        left, top = (1.0 - wide) * ((width - 1) / 2), (1.0 - tall) * ((height - 1) / 2)
        return self._warped(images, [wide, 0.0, left, 0.0, tall, top])


class RandomCrop(_Augmentation):
    """A window of the images at a random place, the same for a whole batch; else the middle.

    Smaller images are enlarged until the window fits.
    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height.

    Args:
        height: of the window, in pixels.
        width: of the window, in pixels.
        seed: int, by default derived from `set_seed`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Example:
        >>> tk.layers.RandomCrop(2, 3, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 2, 3, 3])
    """

    def __init__(
        self,
        height: int,
        width: int,
        seed: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, data_format, **kwargs)
        self.height = whole(self, "height", height)
        self.width = whole(self, "width", width)
        self._middle = CenterCrop(height, width, data_format, dtype=self.dtype_policy)

    def _unchanged(self, images: Any) -> Any:
        return self._middle(images)

    def _changed(self, images: Any) -> Any:
        height, width = self._size(images)
        if height < self.height or width < self.width:
            return self._middle(images)
        for axis, n, wanted in ((0, height, self.height), (1, width, self.width)):
            start = random.randint((), 0, n - wanted + 1, "int32", self.seed_generator)
            places = ops.arange(wanted, dtype="int32") + start
            images = ops.take(images, places, axis=self._rows + axis)
        return images


class RandomContrast(_Augmentation):
    """Each channel drawn towards its mean or away from it: (x - mean) * f + mean.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        factor: f lies in [1 - factor, 1 + factor], or for a pair in [1 - low, 1 + high]; within
            [0, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        seed: int, by default derived from `set_seed`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> tk.layers.RandomContrast(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        seed: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, data_format, **kwargs)
        self.factor = factor
        pair = (factor, factor) if isinstance(factor, int | float) else tuple(factor)
        if len(pair) != 2 or not all(0 <= f <= 1 for f in pair):
            raise InvalidArgumentError(
                f"RandomContrast: factor must be a number or a pair within [0, 1], got {factor!r}"
            )
        self._range = (1.0 - pair[0], 1.0 + pair[1])
        self.value_range = tuple(value_range)

    def _changed(self, images: Any) -> Any:
        factor = ops.reshape(self._draw(images, *self._range), (-1, 1, 1, 1))
        mean = ops.mean(images, axis=(self._rows, self._rows + 1), keepdims=True)
        return ops.clip((images - mean) * factor + mean, *self.value_range)


class RandomBrightness(_Augmentation):
    """Images made lighter or darker by one number for all pixels.

    Shapes: input and output (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        factor: share of the value range that is added: f for [-f, f], or (low, high), within
            [-1, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        seed: int, by default derived from `set_seed`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> tk.layers.RandomBrightness(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        seed: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, data_format, **kwargs)
        self.factor = factor
        self._range = _bounds(self, "factor", factor, -1.0, 1.0)
        self.value_range = tuple(value_range)

    def _changed(self, images: Any) -> Any:
        low, high = self.value_range
        added = ops.reshape(self._draw(images, *self._range) * (high - low), (-1, 1, 1, 1))
        return ops.clip(images + added, low, high)
