"""Images moved, turned, zoomed and sheared: a new pixel is read at A (x, y) + b in the old one."""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import is_tensor
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import limits
from trainkit.layers.augmentation.image_layer import ImageFrame, MovingLayer
from trainkit.ops.images.box_formats import around, corner_points
from trainkit.ops.images.resampling import axis_transform


class AffineLayer(MovingLayer):
    """What these layers share: from six numbers for each image to images, masks and boxes."""

    def _numbers(self, transformation: Any, height: Any, width: Any) -> list[Any]:
        """[a0, a1, a2, b0, b1, b2]: the new (x, y) is read at (a0 x + a1 y + a2, b0 x + b1 y + b2).

        Each is a number or a tensor (batch,).
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method _numbers(self, transformation, height, width)"
        )

    def _move_pixels(self, images: Any, transformation: Any, interpolation: str) -> Any:
        numbers = self._numbers(transformation, *self._size_in(ops.shape(images)))
        read = {
            "interpolation": interpolation,
            "fill_mode": self.fill_mode,
            "fill_value": self.fill_value,
            "data_format": self.data_format,
        }
        a0, a1, a2, b0, b1, b2 = numbers
        if not is_tensor(a1) and not is_tensor(b0) and a1 == b0 == 0:
            return axis_transform(images, a0, a2, b1, b2, **read)
        zero = ops.zeros_like(next(n for n in numbers if is_tensor(n)))
        columns = [zero + n for n in numbers] + [zero, zero]
        return ops.image.affine_transform(images, ops.stack(columns, axis=1), **read)

    def _moved_boxes(self, boxes: Any, transformation: Any, height: Any, width: Any) -> Any:
        numbers = self._numbers(transformation, height, width)
        a0, a1, a2, b0, b1, b2 = (
            ops.reshape(n, (-1, 1, 1)) if is_tensor(n) else n for n in numbers
        )
        x, y = corner_points(boxes)
        x, y, area = x - a2, y - b2, a0 * b1 - a1 * b0
        return around((b1 * x - a1 * y) / area, (a0 * y - b0 * x) / area)


def _floats(value: Any, *path: int) -> Any:
    """A drawn number for each image, (batch,), of an array (batch, ...)."""
    return ops.cast(ops.convert_to_tensor(value), "float32")[(slice(None), *path)]


class RandomTranslation(AffineLayer):
    """Images moved up or down and left or right.

    Shapes: see `ImageLayer`; dicts are changed as a whole.

    Args:
        height_factor: share of the height by which to move at most, down if positive: f for
            [-f, f], or (low, high), within [-1, 1].
        width_factor: likewise for the width, to the right if positive.
        **kwargs: `bounding_box_format` and those of `Layer`.

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
        seed: Seed | None = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, fill_mode, fill_value)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self.height_lower, self.height_upper = limits(self, "height_factor", height_factor)
        self.width_lower, self.width_upper = limits(self, "width_factor", width_factor)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        shape = (frame.batch, 1)
        down = self._uniform(shape, self.height_lower, self.height_upper, seed)
        right = self._uniform(shape, self.width_lower, self.width_upper, seed)
        width, height = ops.cast(frame.width, right.dtype), ops.cast(frame.height, down.dtype)
        return {"translations": ops.concatenate([right * width, down * height], axis=1)}

    def _numbers(self, transformation: Any, height: Any, width: Any) -> list[Any]:
        moves = transformation["translations"]
        return [1.0, 0.0, -_floats(moves, 0), 0.0, 1.0, -_floats(moves, 1)]


class RandomRotation(AffineLayer):
    """Images turned about their centre.

    Shapes: see `ImageLayer`; dicts are changed as a whole, and a box becomes the one around its
    turned corners.

    Args:
        factor: angle as a share of a whole turn, counter-clockwise if positive: f for [-f, f], or
            (low, high), within [-1, 1].
        **kwargs: `bounding_box_format` and those of `Layer`.

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
        seed: Seed | None = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, fill_mode, fill_value)
        self.factor = limits(self, "factor", factor)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        low, high = self.factor
        return {"angle": self._uniform((frame.batch,), low * 360.0, high * 360.0, seed)}

    def _numbers(self, transformation: Any, height: Any, width: Any) -> list[Any]:
        angle = _floats(transformation["angle"]) * (math.pi / 180.0)
        cos, sin = ops.cos(angle), ops.sin(angle)
        x, y = (ops.cast(n, "float32") * 0.5 - 0.5 for n in (width, height))
        return [cos, -sin, x - (cos * x - sin * y), sin, cos, y - (sin * x + cos * y)]


class RandomZoom(AffineLayer):
    """Images enlarged or shrunk about their centre.

    Shapes: see `ImageLayer`; dicts are changed as a whole.

    Args:
        height_factor: by which share more of the height is seen, less if negative (0.2 shrinks the
            picture, -0.2 enlarges it): f for [-f, f], or (low, high), within (-1, 1].
        width_factor: likewise for the width; the same number as the height's by default, which
            keeps the aspect ratio.
        **kwargs: `bounding_box_format` and those of `Layer`.

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
        seed: Seed | None = None,
        fill_value: float = 0.0,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, fill_mode, fill_value)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self.height_lower, self.height_upper = self._above_minus_one("height_factor", height_factor)
        if width_factor is not None:
            self.width_lower, self.width_upper = self._above_minus_one("width_factor", width_factor)

    def _above_minus_one(self, name: str, factor: Any) -> tuple[float, float]:
        low, high = limits(self, name, factor)
        if isinstance(factor, list | tuple) and low <= -1.0:
            raise InvalidArgumentError(
                f"RandomZoom: at {name} -1 nothing is left to see; numbers lie within (-1, 1], got "
                f"{factor!r}"
            )
        return low, high

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        shape = (frame.batch, 1)
        tall = self._uniform(shape, 1.0 + self.height_lower, 1.0 + self.height_upper, seed)
        width_zoom = tall
        if self.width_factor is not None:
            width_zoom = self._uniform(shape, 1.0 + self.width_lower, 1.0 + self.width_upper, seed)
        return {"height_zoom": tall, "width_zoom": width_zoom}

    def _numbers(self, transformation: Any, height: Any, width: Any) -> list[Any]:
        tall, width_zoom = (
            _floats(transformation[f"{side}_zoom"], 0) for side in ("height", "width")
        )
        x, y = (ops.cast(n, "float32") * 0.5 - 0.5 for n in (width, height))
        return [width_zoom, 0.0, (1.0 - width_zoom) * x, 0.0, tall, (1.0 - tall) * y]


class RandomShear(AffineLayer):
    """Images whose rows and columns are shifted against each other.

    Shapes: see `ImageLayer`; dicts are changed as a whole. Boxes are moved in shares of the
    image, as in Keras, which is exact for square images and shear along one axis.

    Args:
        x_factor: by how many pixels a row is shifted against the next: f for [-f, f], or
            (low, high), within [0, 1]. Half of the images are sheared the other way.
        y_factor: likewise for columns.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.RandomShear(0.2, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        x_factor: Any = 0.0,
        y_factor: Any = 0.0,
        interpolation: str = "bilinear",
        fill_mode: str = "reflect",
        fill_value: float = 0.0,
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self._read_by(interpolation, fill_mode, fill_value)
        self.x_factor = self._symmetric("x_factor", x_factor)
        self.y_factor = self._symmetric("y_factor", y_factor)

    def _symmetric(self, name: str, factor: Any) -> tuple[float, float]:
        """A number f in [0, 1] as (-f, f); a pair, which may be such a one, as it is."""
        if isinstance(factor, list | tuple):
            low, high = limits(self, name, factor)
            if low == -high:
                return low, high
        low, high = limits(self, name, factor, 0.0)
        return (low, high) if isinstance(factor, list | tuple) else (-high, high)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        shape, dtype = (frame.batch, 1), self.compute_dtype
        side = self._uniform(shape, 0.0, 1.0, seed, dtype)
        y = self._uniform(shape, *self.y_factor, seed, dtype)
        x = self._uniform(shape, *self.x_factor, seed, dtype)
        return {"shear_factor": ops.concatenate([x, y], axis=1) * ops.where(side > 0.5, -1.0, 1.0)}

    def _numbers(self, transformation: Any, height: Any, width: Any) -> list[Any]:
        shear = transformation["shear_factor"]
        return [1.0, _floats(shear, 0), 0.0, _floats(shear, 1), 1.0, 0.0]

    def _moved_boxes(self, boxes: Any, transformation: Any, height: Any, width: Any) -> Any:
        shear = transformation["shear_factor"]
        x, y = (ops.reshape(_floats(shear, i), (-1, 1, 1)) for i in (0, 1))
        size = ops.stack([ops.cast(n, boxes.dtype) for n in (width, height, width, height)])
        left, top, right, bottom = ops.split(boxes / size, 4, axis=-1)
        left, right = (
            left - x * ops.where(x < 0, top, bottom),
            right - x * ops.where(x < 0, bottom, top),
        )
        new_top = top - y * ops.where(y > 0, right, left)
        new_bottom = bottom - y * ops.where(y > 0, left, right)
        return ops.concatenate([left, new_top, right, new_bottom], axis=-1) * size
