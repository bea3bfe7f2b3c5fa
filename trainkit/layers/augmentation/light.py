"""Images lighter or darker, with more or less contrast, and as negatives."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import clipped, limits, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, RandomImageLayer


class RandomBrightness(RandomImageLayer):
    """Images lighter or darker: a share of the value range is added to all pixels of an image.

    Images of integers stay integers where the layer is called eagerly; what is added is cut off to
    a whole number. Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        factor: the share, f for [-f, f], or (low, high), within [-1, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: `data_format`, `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> tk.layers.RandomBrightness(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    _leaves_idle_integers = True
    _augments_integers = True

    def __init__(
        self, factor: Any, value_range: Any = (0, 255), seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.factor = limits(self, "factor", factor)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        low, high = self.value_range
        return {"rgb_delta": self._uniform(frame.one_each, *self.factor, seed) * (high - low)}

    def _augment(self, images: Any, transformation: Any) -> Any:
        return clipped(
            images + ops.cast(transformation["rgb_delta"], images.dtype), self.value_range
        )


class RandomContrast(RandomImageLayer):
    """Each channel drawn towards its mean or away from it: (x - mean) * f + mean.

    Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        factor: f lies in [1 - low, 1 + high] for a pair (low, high) within [0, 1]. A number stands
            for (0, number), as in Keras: contrast grows.
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: `data_format`, `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> tk.layers.RandomContrast(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    _leaves_idle_integers = True

    def __init__(
        self, factor: Any, value_range: Any = (0, 255), seed: Seed | None = None, **kwargs: Any
    ) -> None:
        super().__init__(seed=seed, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        low, high = 1.0 - self.factor[0], 1.0 + self.factor[1]
        drawn = self._uniform(frame.one_each, low, high, seed, self.compute_dtype)
        return {"contrast_factor": drawn}

    def _augment(self, images: Any, transformation: Any) -> Any:
        factor = ops.cast(transformation["contrast_factor"], images.dtype)
        axes = (self._height_axis, self._height_axis + 1)
        mean = ops.mean(images, axis=axes, keepdims=True)
        return clipped((images - mean) * factor + mean, self.value_range)


class RandomInvert(RandomImageLayer):
    """Images as negatives, each with a probability: the greatest value less the pixel.

    Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        factor: the probability: a number, or a pair to draw it from, within [0, 1]; a number f
            stands for (0, f).
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomInvert((1.0, 1.0))
        >>> layer(tk.fill((1, 2, 2, 1), 55.0), training=True).numpy().ravel()
        array([200., 200., 200., 200.], dtype=float32)
    """

    _leaves_idle_integers = True

    def __init__(
        self,
        factor: Any = 1.0,
        value_range: Any = (0, 255),
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {"apply_inversion": self._draw_flags(frame, self.factor, seed)}

    def _augment(self, images: Any, transformation: Any) -> Any:
        is_applied = ops.reshape(transformation["apply_inversion"], (-1, 1, 1, 1))
        return ops.where(is_applied, self.value_range[1] - images, images)
