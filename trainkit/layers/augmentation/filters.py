"""Images sharper or softer: RandomSharpness, RandomGaussianBlur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import clipped, limits, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, RandomImageLayer
from trainkit.ops.sampling.batch_rows import at_once


class RandomSharpness(RandomImageLayer):
    """Images sharper or smoother: x + (1 - 2 f) (smoothed x - x).

    Smoothed, a pixel is a mean in which it counts five times as much as each of its neighbours.

    0 smooths an image, 1/2 leaves it, and 1 sharpens it. Shapes: see `ImageLayer`; labels, boxes
    and masks stay.

    Args:
        factor: a number f for (0, f), or a pair to draw from, within [0, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> tk.layers.RandomSharpness(1.0, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {"factor": self._uniform((frame.batch,), *self.factor, seed)}

    def _augment(self, images: Any, transformation: Any) -> Any:
        factor = ops.reshape(ops.cast(transformation["factor"], images.dtype), (-1, 1, 1, 1))
        smooth = (self._around(images) + images * 4.0) / 13.0
        return clipped(images + (1.0 - 2.0 * factor) * (smooth - images), self.value_range)

    def _around(self, images: Any) -> Any:
        """Sums over each pixel and its eight neighbours, with zeros around the images."""
        for axis in (4 + self._height_axis, 5 + self._height_axis):
            ends = [(int(i == axis), int(i == axis)) for i in range(4)]
            padded, size = ops.pad(images, ends), ops.shape(images)[axis]
            rows = [
                padded[(slice(None),) * axis + (slice(start, size + start),)] for start in range(3)
            ]
            images = rows[0] + rows[1] + rows[2]
        return images


class RandomGaussianBlur(RandomImageLayer):
    """Images blurred by a bell curve, each with a probability.

    Shapes: see `ImageLayer`; labels, boxes and masks stay.

    Args:
        factor: the probability: a number, or a pair to draw it from, within [0, 1]; a number f
            stands for (0, f).
        kernel_size: height and width of the window, in pixels: one number or two, none even.
        sigma: standard deviation, in pixels: a number f for (0, f), or a pair to draw from, within
            [0, 1].
        value_range: the least and greatest value of a pixel, to which results are clipped.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.RandomGaussianBlur(kernel_size=5, seed=1)
        >>> layer(tk.ones((1, 8, 8, 3)), training=True).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        factor: Any = 1.0,
        kernel_size: int | Sequence[int] = 3,
        sigma: Any = 1.0,
        value_range: Any = (0, 255),
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.kernel_size = _window_size(kernel_size)
        self.sigma = limits(self, "sigma", sigma, 0.0)
        self.value_range = value_range_of(self, value_range)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        is_applied = self._draw_flags(frame, self.factor, seed)
        sigma = self._uniform((2,), *self.sigma, at_once(seed), self.compute_dtype) + 1e-6
        return {"should_apply_blur": is_applied, "blur_factor": sigma}

    def _augment(self, images: Any, transformation: Any) -> Any:
        blurred = ops.image.gaussian_blur(
            images,
            kernel_size=self.kernel_size,
            sigma=transformation["blur_factor"],
            data_format=self.data_format,
        )
        is_applied = ops.reshape(transformation["should_apply_blur"], (-1, 1, 1, 1))
        return clipped(ops.where(is_applied, blurred, images), self.value_range)


def _window_size(size: Any) -> tuple[int, int]:
    pair = tuple(size) if isinstance(size, list | tuple) else (size, size)
    if len(pair) != 2 or not all(isinstance(n, int) and n > 0 and n % 2 for n in pair):
        raise InvalidArgumentError(
            f"RandomGaussianBlur: kernel_size must be one number above 0 or two, none even, got "
            f"{size!r}"
        )
    return pair[0], pair[1]
