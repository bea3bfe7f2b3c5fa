"""Images seen from another side, or through water: RandomPerspective, RandomElasticTransform."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import clipped, limits, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, MovingLayer
from trainkit.layers.base.arguments import share
from trainkit.ops.images.box_formats import around, corner_points
from trainkit.ops.images.resampling import homography
from trainkit.ops.sampling.batch_rows import at_once


class RandomPerspective(MovingLayer):
    """Images whose four corners are drawn to other places.

    Shapes: see `ImageLayer`; dicts are changed as a whole, and a box becomes the one around its
    moved corners.

    Args:
        factor: probability that an image is changed: a number, or a pair to draw it from, within
            [0, 1]; a number f stands for (0, f).
        scale: how far the corners move at most, twice the share of the image, in [0, 1].
        fill_value: the value of what comes in from outside.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.RandomPerspective(scale=0.3, seed=1)
        >>> layer(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        factor: Any = 1.0,
        scale: float = 1.0,
        interpolation: str = "bilinear",
        fill_value: float = 0.0,
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, "constant", fill_value)
        self.factor = limits(self, "factor", factor, 0.0)
        self.scale = share(self, "scale", scale)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        is_applied, dtype = self._draw_flags(frame, self.factor, seed), self.compute_dtype
        half = 0.5 * self.scale
        moves = self._uniform((frame.batch, 4, 2), -half, half, seed, dtype)
        right, bottom = (ops.cast(n, dtype) - 1.0 for n in (frame.width, frame.height))
        x = ops.stack([right * 0, right, right * 0, right])
        start = ops.stack([x, ops.stack([bottom * 0, bottom * 0, bottom, bottom])], axis=-1)
        start = ops.expand_dims(start, 0) + ops.zeros_like(moves)
        end = ops.where(is_applied[:, None, None], start * (moves + 1.0), start)
        return {"apply_perspective": is_applied, "start_points": start, "end_points": end}

    def _move_pixels(self, images: Any, transformation: Any, interpolation: str) -> Any:
        outputs = ops.image.perspective_transform(
            images,
            transformation["start_points"],
            transformation["end_points"],
            interpolation=interpolation,
            fill_value=self.fill_value,
            data_format=self.data_format,
        )
        return ops.where(_for_each(images, transformation["apply_perspective"]), outputs, images)

    def _moved_boxes(self, boxes: Any, transformation: Any, height: Any, width: Any) -> Any:
        start, end = (
            ops.cast(ops.convert_to_tensor(transformation[f"{side}_points"]), boxes.dtype)
            for side in ("start", "end")
        )
        forward = ops.reshape(homography(end, start), (-1, 8, 1, 1))
        x, y = corner_points(boxes)
        a0, a1, a2, b0, b1, b2, c0, c1 = (forward[:, i] for i in range(8))
        depth = c0 * x + c1 * y + 1.0
        moved = around((a0 * x + a1 * y + a2) / depth, (b0 * x + b1 * y + b2) / depth)
        is_applied = ops.reshape(transformation["apply_perspective"], (-1, 1, 1))
        return ops.where(is_applied, moved, boxes)


class RandomElasticTransform(MovingLayer):
    """Images whose pixels drift apart as in moving water, neighbours alike.

    Source: Simard, Steinkraus and Platt 2003, "Best practices for convolutional neural networks".
    Shapes: see `ImageLayer`; masks drift along, bounding boxes can't.

    Args:
        factor: probability that an image is changed: a number, or a pair to draw it from, within
            [0, 1]; a number f stands for (0, f).
        scale: how strongly: a number, or a pair to draw from, within [0, 1]; a number f stands for
            (0, f).
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.RandomElasticTransform(scale=0.5, seed=1)
        >>> layer(tk.ones((1, 8, 8, 3)), training=True).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        factor: Any = 1.0,
        scale: Any = 1.0,
        interpolation: str = "bilinear",
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        value_range: Any = (0, 255),
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, fill_mode, fill_value)
        self.factor = limits(self, "factor", factor, 0.0)
        self.scale = limits(self, "scale", scale, 0.0)
        self.value_range = value_range_of(self, value_range)

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        if self.scale[1] == 0 or self.factor[1] == 0:
            return None
        return super().get_random_transformation(data, training, seed)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        is_applied = self._draw_flags(frame, self.factor, seed)
        strength = self._uniform((), *self.scale, seed, self.compute_dtype)
        # One seed for images and masks, which so drift alike.
        words = self.backend.random.randint((2,), 0, 2**31 - 1, dtype="int32", seed=at_once(seed))
        return {"apply_transform": is_applied, "distortion_factor": strength, "seed": words}

    def _augment(self, images: Any, transformation: Any) -> Any:
        return clipped(super()._augment(images, transformation), self.value_range)

    def _move_pixels(self, images: Any, transformation: Any, interpolation: str) -> Any:
        height, width = self._size_in(ops.shape(images))
        strength = ops.cast(transformation["distortion_factor"], "float32")
        longer, shorter = (
            ops.cast(pick(height, width), "float32") for pick in (ops.maximum, ops.minimum)
        )
        outputs = ops.image.elastic_transform(
            images,
            alpha=longer * strength * 0.1,
            sigma=shorter * strength * 0.05,
            interpolation=interpolation,
            fill_mode=self.fill_mode,
            fill_value=self.fill_value,
            seed=transformation["seed"],
            data_format=self.data_format,
        )
        return ops.where(_for_each(images, transformation["apply_transform"]), outputs, images)


def _for_each(images: Any, flags: Any) -> Any:
    """A choice for each image, (batch,), in a shape that broadcasts with a batch or one image."""
    return ops.reshape(flags, (-1, 1, 1, 1) if len(images.shape) == 4 else (1, 1, 1))
