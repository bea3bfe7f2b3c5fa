"""Layers that change the size of images: Resizing, CenterCrop."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.base.arguments import format_of, one_of, whole
from trainkit.layers.base.layer import Layer


class Resizing(Layer):
    """Images in another size.

    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height.

    Args:
        height, width: of the output, in pixels.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`.
        crop_to_aspect_ratio: whether to keep the aspect ratio and crop what is too much.
        pad_to_aspect_ratio: whether to keep it and fill what is missing with `fill_value`.
        fill_mode: how: `"constant"`.
        fill_value: value of what is filled in.
        antialias: whether to average over the pixels that shrink into one.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.Resizing(8, 8)(tk.ones((1, 4, 6, 3))).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        height: int,
        width: int,
        interpolation: str = "bilinear",
        crop_to_aspect_ratio: bool = False,
        pad_to_aspect_ratio: bool = False,
        fill_mode: str = "constant",
        fill_value: float = 0.0,
        antialias: bool = False,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.height = whole(self, "height", height)
        self.width = whole(self, "width", width)
        methods = ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")
        self.interpolation = one_of(self, "interpolation", interpolation.lower(), methods)
        self.fill_mode = one_of(self, "fill_mode", fill_mode, ("constant",))
        if crop_to_aspect_ratio and pad_to_aspect_ratio:
            raise InvalidArgumentError(
                "Resizing: crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other"
            )
        self.crop_to_aspect_ratio = crop_to_aspect_ratio
        self.pad_to_aspect_ratio = pad_to_aspect_ratio
        self.fill_value = fill_value
        self.antialias = antialias
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        return ops.image.resize(
            inputs,
            (self.height, self.width),
            interpolation=self.interpolation,
            antialias=self.antialias,
            crop_to_aspect_ratio=self.crop_to_aspect_ratio,
            pad_to_aspect_ratio=self.pad_to_aspect_ratio,
            fill_mode=self.fill_mode,
            fill_value=self.fill_value,
            data_format=self.data_format,
        )


class CenterCrop(Layer):
    """The middle of images; smaller images are enlarged until it fits, then cropped.

    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height.

    Args:
        height, width: of the output, in pixels.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Example:
        >>> tk.layers.CenterCrop(2, 2)(tk.ones((1, 4, 6, 3))).shape
        TensorShape([1, 2, 2, 3])
    """

    def __init__(
        self, height: int, width: int, data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.height = whole(self, "height", height)
        self.width = whole(self, "width", width)
        self.data_format = format_of(self, data_format)

    def call(self, inputs: Any) -> Any:
        x = ops.cast(inputs, self.compute_dtype)
        axis = len(x.shape) - (3 if self.data_format == "channels_last" else 2)
        rows, columns = x.shape[axis], x.shape[axis + 1]
        if rows is None or columns is None:
            raise ShapeError(f"the size of the images must be known, got shape {tuple(x.shape)}")
        if rows < self.height or columns < self.width:
            return ops.image.resize(
                x,
                (self.height, self.width),
                crop_to_aspect_ratio=True,
                data_format=self.data_format,
            )
        top, left = (rows - self.height) // 2, (columns - self.width) // 2
        key = (slice(None),) * axis
        return x[(*key, slice(top, top + self.height), slice(left, left + self.width))]
