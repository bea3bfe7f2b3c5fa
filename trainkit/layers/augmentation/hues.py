"""Colors: more or less of them, or others."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import clipped, limits, rescaled, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, RandomImageLayer
from trainkit.layers.augmentation.light import RandomBrightness, RandomContrast
from trainkit.layers.base.arguments import share
from trainkit.ops.neural.normalization import EPSILON


class ColorLayer(RandomImageLayer):
    """What layers for colors share.

    Args:
        factor: how strongly; see the subclass.
        value_range: the least and greatest value of a pixel.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        seed: int, by default derived from `set_seed`.
        **kwargs: `bounding_box_format` and those of `Layer`.
    """

    _leaves_idle_integers = True
    _min_factor = -1.0

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, self._min_factor)
        self.value_range = value_range_of(self, value_range)

    def _for_images(self, factor: Any, images: Any) -> Any:
        """A number for each image, in a shape that broadcasts with a channel of them."""
        return ops.reshape(ops.cast(factor, images.dtype), (-1, 1, 1, 1))


class RandomSaturation(ColorLayer):
    """Images with more or less color: the saturation times f / (1 - f).

    0 makes an image gray, 1/2 leaves it, and 1 takes the strongest colors. Shapes: see
    `ImageLayer`; images have three channels; labels, boxes and masks stay.

    Args:
        factor: f for [-f, f], as in Keras, or (low, high), within [-1, 1]; negative numbers count
            as 0 where the value range begins at 0.
        value_range: the least and greatest value of a pixel, to which the saturation is clipped.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomSaturation((0.0, 0.0))
        >>> layer(tk.constant([[[[200.0, 100.0, 50.0]]]]), training=True).numpy().ravel()
        array([200., 200., 200.], dtype=float32)
    """

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        factor = self._uniform((frame.batch,), *self.factor, seed)
        return {"factor": factor / (1 - factor + EPSILON)}

    def _augment(self, images: Any, transformation: Any) -> Any:
        factor = self._for_images(transformation["factor"], images)
        hsv = ops.image.rgb_to_hsv(images, data_format=self.data_format)
        hue, saturation, value = ops.split(hsv, 3, axis=self._channel_axis)
        saturation = clipped(saturation * factor, self.value_range)
        hsv = ops.concatenate([hue, saturation, value], axis=self._channel_axis)
        return ops.image.hsv_to_rgb(hsv, data_format=self.data_format)


class RandomHue(ColorLayer):
    """Images with their colors turned on the wheel of hues.

    Shapes: see `ImageLayer`; images have three channels; labels, boxes and masks stay.

    Args:
        factor: by which share of half the wheel, to either side: f for (0, f), or (low, high),
            within [0, 1].
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomHue((1.0, 1.0), seed=1)  # half a turn: red becomes cyan
        >>> layer(tk.constant([[[[255.0, 0.0, 0.0]]]]), training=True).numpy().round().ravel()
        array([  0., 255., 255.], dtype=float32)
    """

    _min_factor = 0.0

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        side = ops.where(self._uniform((frame.batch,), 0.0, 1.0, seed) > 0.5, -1.0, 1.0)
        return {"factor": side * self._uniform((frame.batch,), *self.factor, seed) * 0.5}

    def _augment(self, images: Any, transformation: Any) -> Any:
        turn = self._for_images(transformation["factor"], images)
        shares = rescaled(images, self.value_range, (0, 1))
        hsv = ops.image.rgb_to_hsv(shares, data_format=self.data_format)
        hue, saturation, value = ops.split(hsv, 3, axis=self._channel_axis)
        hue = hue + turn
        hue = ops.where(hue > 1.0, hue - 1.0, hue)
        hue = ops.where(hue < 0.0, hue + 1.0, hue)
        hsv = ops.concatenate([hue, saturation, value], axis=self._channel_axis)
        rgb = ops.image.hsv_to_rgb(hsv, data_format=self.data_format)
        return rescaled(ops.clip(rgb, 0, 1), (0, 1), self.value_range)


class RandomColorDegeneration(ColorLayer):
    """Images on the way to gray, which 1 reaches; negative numbers lead away from it.

    Shapes: see `ImageLayer`; images have three channels; labels, boxes and masks stay.

    Args:
        factor: how far: f for [-f, f], or (low, high), within [-1, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomColorDegeneration((1.0, 1.0))
        >>> layer(tk.constant([[[[100.0, 0.0, 0.0]]]]), training=True).numpy().round(1).ravel()
        array([29.9, 29.9, 29.9], dtype=float32)
    """

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {"factor": self._uniform((frame.batch, 1, 1, 1), *self.factor, seed)}

    def _augment(self, images: Any, transformation: Any) -> Any:
        factor = self._for_images(transformation["factor"], images)
        gray = ops.image.rgb_to_grayscale(images, data_format=self.data_format)
        return clipped(images + factor * (gray - images), self.value_range)


class RandomGrayscale(RandomImageLayer):
    """Images without color, each with a probability; three channels stay, all alike.

    Shapes: see `ImageLayer`; labels, boxes and masks stay. The dtype stays.

    Args:
        factor: the probability, in [0, 1].
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomGrayscale(1.0)
        >>> layer(tk.constant([[[[100.0, 0.0, 0.0]]]]), training=True).numpy().round(1).ravel()
        array([29.9, 29.9, 29.9], dtype=float32)
    """

    def __init__(
        self,
        factor: float = 0.5,
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = share(self, "factor", factor)

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        """Which images become gray, (batch, 1, 1, 1) of bool."""
        if not training:
            return None
        frame = self._frame(data)
        drawn = self._uniform((frame.batch, 1, 1, 1), 0.0, 1.0, self._source(frame, seed))
        return drawn < self.factor

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        images = ops.convert_to_tensor(images)
        if not training or transformation is None:
            return images
        gray = ops.image.rgb_to_grayscale(images, data_format=self.data_format)
        return ops.where(transformation, gray, images)


class RandomColorJitter(RandomImageLayer):
    """Brightness, contrast, saturation and hue of images, one after the other.

    Shapes: see `ImageLayer`; for saturation and hue images have three channels; labels, boxes and
    masks stay.

    Args:
        brightness_factor: that of `RandomBrightness`; `None` to leave it out.
        contrast_factor: that of `RandomContrast`, likewise.
        saturation_factor: that of `RandomSaturation`, likewise.
        hue_factor: that of `RandomHue`, likewise.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a factor is outside its range.

    Example:
        >>> layer = tk.layers.RandomColorJitter(brightness_factor=0.2, hue_factor=0.1, seed=1)
        >>> layer(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    _leaves_idle_integers = True

    def __init__(
        self,
        value_range: Any = (0, 255),
        brightness_factor: Any = None,
        contrast_factor: Any = None,
        saturation_factor: Any = None,
        hue_factor: Any = None,
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.value_range = value_range_of(self, value_range)
        self.brightness_factor = brightness_factor
        self.contrast_factor = contrast_factor
        self.saturation_factor = saturation_factor
        self.hue_factor = hue_factor
        self.random_brightness = self._part(RandomBrightness, brightness_factor)
        self.random_contrast = self._part(RandomContrast, contrast_factor)
        self.random_saturation = self._part(RandomSaturation, saturation_factor)
        self.random_hue = self._part(RandomHue, hue_factor)

    def _part(self, kind: Any, factor: Any) -> Any:
        """A layer of `kind`, or `None` without a factor."""
        if factor is None:
            return None
        return kind(
            factor,
            value_range=self.value_range,
            seed=self.seed,
            data_format=self.data_format,
            dtype=self.dtype_policy,
        )

    def _parts(self) -> dict[str, Any]:
        names = ("random_brightness", "random_contrast", "random_saturation", "random_hue")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {name: part._drawn(frame, seed) for name, part in self._parts().items()}

    def _augment(self, images: Any, transformation: Any) -> Any:
        for name, part in self._parts().items():
            images = part.transform_images(images, transformation[name])
        return images
