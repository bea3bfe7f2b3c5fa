"""Images whose values are spread evenly, as a whole or place by place.

An image is equalized by the running total of its histogram: a pixel becomes the share of pixels
that are no lighter. All histograms of a batch are counted at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.augmentation.bounds import rescaled, value_range_of
from trainkit.layers.augmentation.image_layer import ImageLayer
from trainkit.layers.base.arguments import sizes, whole

_BYTE = (0, 255)
_LEVELS = 256


def _histograms(numbers: Any, groups: Any, bins: int) -> Any:
    """How often each number occurs, (groups, bins); group g counts from g * bins on."""
    flat = ops.reshape(numbers, (-1,))
    counts = ops.segment_sum(ops.ones_like(flat), flat, num_segments=groups * bins)
    return ops.reshape(counts, (groups, bins))


class Equalization(ImageLayer):
    """Images whose values are spread evenly over the value range, by channel.

    A batch has one histogram for each channel, as in Keras. Shapes: see `ImageLayer`; labels, boxes
    and masks stay. Images that do not train stay too.

    Args:
        bins: how many values are distinguished, from 2 to 65,536.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.Equalization()(tk.constant([[[[100.0], [110.0], [120.0]]]])).numpy().ravel()
        array([  0., 128., 255.], dtype=float32)
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        bins: int = 256,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        self.value_range = value_range_of(self, value_range)
        self.bins = whole(self, "bins", bins, 2, 2**16)

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        images = ops.convert_to_tensor(images)
        if not training:
            return images
        images = ops.cast(images, self.compute_dtype)
        channels = images.shape[self._channel_axis]
        if channels is None:
            raise ShapeError(
                f"Equalization: the count of channels must be known, got shape {images.shape}"
            )
        values = ops.cast(rescaled(images, self.value_range, _BYTE), "float32")
        shape = (channels,) if self._channel_axis == -1 else (channels, 1, 1)
        first = np.reshape(np.arange(channels, dtype=np.int32) * self.bins, shape)

        def numbers(scaled: Any) -> Any:
            return ops.cast(ops.clip(scaled, 0, self.bins - 1), "int32") + first

        counts = _histograms(numbers(values * (self.bins - 1) / 255), channels, self.bins)
        table = ops.reshape(self._table(counts), (-1,))
        result = ops.take(table, numbers(values / 255 * (self.bins - 1)))
        flat = ops.reshape(ops.count_nonzero(counts, axis=1) <= 1, shape)
        return ops.cast(
            rescaled(ops.where(flat, values, result), _BYTE, self.value_range), self.compute_dtype
        )

    @staticmethod
    def _table(counts: Any) -> Any:
        """The new values (channels, bins) of old ones."""
        total = ops.cast(ops.cumsum(counts, axis=1), "float64")
        all_of_it = total[:, -1:]
        lowest = ops.min(ops.where(total > 0, total, all_of_it), axis=1, keepdims=True)
        span = all_of_it - lowest
        shares = (total - lowest) * 255 / ops.where(span == 0, 1.0, span)
        return ops.cast(ops.clip(ops.round(shares), *_BYTE), "float32")


class ContrastLimitedAdaptiveHistogramEqualization(ImageLayer):
    """Images whose values are spread evenly in each part of the image, within a limit.

    The image is cut into tiles, each equalized by a histogram whose high bars are cut off and
    spread over all values; between the middles of tiles the results are interpolated.
    Source: Zuiderveld 1994, "Contrast limited adaptive histogram equalization", Graphics Gems IV.
    Shapes: see `ImageLayer`; labels, boxes and masks stay. The dtype stays. Nothing is drawn, so
    the layer works in inference too.

    Args:
        clip_limit: how many times the mean a bar may reach; 0 or less for no limit.
        tile_grid_size: number of tiles along height and width.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=2)
        >>> layer(tk.ones((1, 8, 8, 3))).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        clip_limit: float = 4.0,
        tile_grid_size: Any = (8, 8),
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        self.value_range = value_range_of(self, value_range)
        if not isinstance(clip_limit, int | float):
            raise InvalidArgumentError(
                f"{type(self).__name__}: clip_limit must be a number, got {clip_limit!r}"
            )
        self.clip_limit = clip_limit
        self.tile_grid_size = sizes(self, "tile_grid_size", tile_grid_size, 2)

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        images = ops.convert_to_tensor(images)
        first = self.data_format == "channels_first"
        x = ops.moveaxis(images, -3, -1) if first else images
        single = len(x.shape) == 3
        x = ops.expand_dims(x, 0) if single else x
        x = ops.cast(rescaled(ops.cast(x, "float32"), self.value_range, _BYTE), "float32")
        y = rescaled(self._equalize(x), _BYTE, self.value_range)
        y = ops.cast(ops.squeeze(y, 0) if single else y, images.dtype)
        return ops.moveaxis(y, -1, -3) if first else y

    def _equalize(self, x: Any) -> Any:
        """A batch (batch, height, width, channels) of values in [0, 255]."""
        height, width, channels = x.shape[1:]
        if None in (height, width, channels):
            raise ShapeError(
                f"{type(self).__name__}: height, width and channels must be known, got shape "
                f"{tuple(x.shape)}"
            )
        (rows, columns), batch = self.tile_grid_size, ops.shape(x)[0]
        tall, tile_width = -(-height // rows), -(-width // columns)
        ends = ((0, 0), (0, tall * rows - height), (0, tile_width * columns - width), (0, 0))
        padded = ops.pad(x, ends, mode="symmetric") if np.any(ends) else x
        levels = ops.cast(ops.clip(padded, *_BYTE), "int32")
        numbers = ops.reshape(ops.arange(batch, dtype="int32"), (-1, 1, 1, 1)) * (rows * columns)

        def tables(row: Any, column: Any) -> Any:
            """Where the tables of tiles (padded height,), (padded width,) begin for each pixel."""
            tile = numbers + (row[:, None, None] * columns + column[None, :, None])
            return (tile * channels + np.arange(channels, dtype=np.int32)) * _LEVELS

        row, column = (
            np.repeat(np.arange(n, dtype=np.int32), size)
            for n, size in ((rows, tall), (columns, tile_width))
        )
        counts = _histograms(
            tables(row, column) + levels, batch * (rows * columns * channels), _LEVELS
        )
        table = ops.reshape(self._table(ops.cast(counts, "float32"), tall * tile_width), (-1,))
        top, bottom, down = _neighbours(rows, tall)
        left, right, across = _neighbours(columns, tile_width)

        def between(row: Any) -> Any:
            values = [ops.take(table, tables(row, column) + levels) for column in (left, right)]
            return values[0] * (1.0 - across[:, None]) + values[1] * across[:, None]

        down = down[:, None, None]
        y = between(top) * (1.0 - down) + between(bottom) * down
        return y[:, :height, :width]

    def _table(self, counts: Any, pixels: int) -> Any:
        """The new values (tiles, 256) of old ones."""
        if self.clip_limit > 0:
            clipped = ops.clip(counts, 0, self.clip_limit * pixels / _LEVELS)
            counts = clipped + ops.sum(counts - clipped, axis=-1, keepdims=True) / _LEVELS
        total = ops.cumsum(counts, axis=-1)
        lowest = ops.min(total, axis=-1, keepdims=True)
        span = pixels - lowest
        return ops.clip((total - lowest) * 255.0 / ops.where(span == 0, 1.0, span), *_BYTE)


def _neighbours(tiles: int, size: int) -> tuple[Any, Any, Any]:
    """For each pixel of an axis the two tiles with the nearest middles, and the second's share."""
    coordinates = (np.arange(tiles * size, dtype=np.float32) - size / 2.0) / size
    low = np.floor(coordinates)
    first, second = (np.clip(low + i, 0, tiles - 1).astype(np.int32) for i in (0, 1))
    return first, second, (coordinates - low).astype(np.float32)
