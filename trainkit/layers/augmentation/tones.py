"""Tones mapped to other tones: Solarization, RandomPosterization, AutoContrast."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import limits, rescaled, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, ImageLayer, RandomImageLayer

_BYTE = (0, 255)


class Solarization(RandomImageLayer):
    """Images made lighter, then those pixels inverted that reach a threshold.

    Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        addition_factor: share of the value range that is added: f for (0, f), or (low, high),
            within [0, 1]. As in Keras only the upper end is a share; the lower end counts in steps
            of 1/255.
        threshold_factor: likewise the threshold, from which on pixels are inverted.
        **kwargs: `data_format`, `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a factor is outside its range.

    Example:
        >>> layer = tk.layers.Solarization(threshold_factor=(0.0, 0.5), seed=1)
        >>> layer(tk.fill((1, 1, 1, 1), 255.0), training=True).numpy().ravel()
        array([0.], dtype=float32)
    """

    def __init__(
        self,
        addition_factor: Any = 0.0,
        threshold_factor: Any = 0.0,
        value_range: Any = (0, 255),
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.addition_factor = limits(self, "addition_factor", addition_factor, 0.0)
        self.threshold_factor = limits(self, "threshold_factor", threshold_factor, 0.0)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {
            name: self._uniform(frame.one_each, low, high * 255, seed, self.compute_dtype)
            for name, (low, high) in (
                ("additions", self.addition_factor),
                ("thresholds", self.threshold_factor),
            )
        }

    def _augment(self, images: Any, transformation: Any) -> Any:
        added, threshold = (
            ops.cast(transformation[name], images.dtype) for name in ("additions", "thresholds")
        )
        lighter = ops.clip(rescaled(images, self.value_range, _BYTE) + added, *_BYTE)
        result = ops.where(lighter < threshold, lighter, 255 - lighter)
        return rescaled(result, _BYTE, self.value_range)


class RandomPosterization(RandomImageLayer):
    """Images with fewer bits for each value: the lower ones of 8 are cleared.

    Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        factor: how many bits are kept: a pair (low, high) to draw from, low included and high not,
            unless both are equal; within [1, 8]. A number n stands for (1, n).
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomPosterization((1, 1))
        >>> layer(tk.constant([[[[100.0], [200.0]]]]), training=True).numpy().ravel()
        array([  0., 128.], dtype=float32)
    """

    _leaves_idle_integers = True

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 1, 8)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        low, high = (int(n) for n in self.factor)
        if low == high:
            bits = ops.full((frame.batch,), low, dtype="uint8")
        else:
            bits = self.backend.random.randint((frame.batch,), low, high, dtype="uint8", seed=seed)
        return {"shift_factor": 8 - bits}

    def _augment(self, images: Any, transformation: Any) -> Any:
        shift = ops.reshape(ops.cast(transformation["shift_factor"], images.dtype), (-1, 1, 1, 1))
        step = ops.power(2.0, shift)
        byte_values = ops.floor(rescaled(images, self.value_range, _BYTE))
        return rescaled(ops.floor(byte_values / step) * step, _BYTE, self.value_range)


class AutoContrast(ImageLayer):
    """Images whose darkest and lightest pixels become the ends of the value range, by channel.

    Shapes: see `ImageLayer`; labels, boxes and masks stay. Nothing is drawn, so the layer works in
    inference too.

    Args:
        **kwargs: `data_format`, `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: `value_range` is no range.

    Example:
        >>> tk.layers.AutoContrast()(tk.constant([[[[100.0], [150.0], [200.0]]]])).numpy().ravel()
        array([  0. , 127.5, 255. ], dtype=float32)
    """

    def __init__(self, value_range: Any = (0, 255), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value_range = value_range_of(self, value_range)

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        images = ops.cast(ops.convert_to_tensor(images), self.compute_dtype)
        scaled = rescaled(images, self.value_range, _BYTE)
        low, high = scaled, scaled
        for axis in (self._height_axis, self._height_axis + 1):  # one by one, which is faster
            low, high = (
                ops.min(low, axis=axis, keepdims=True),
                ops.max(high, axis=axis, keepdims=True),
            )
        spread = high - low
        flat = spread == 0
        scale = 255.0 / ops.where(flat, 1.0, spread)
        result = rescaled(ops.clip(scaled * scale - low * scale, *_BYTE), _BYTE, self.value_range)
        return ops.where(flat, images, ops.cast(result, images.dtype))
