"""Layers that change the size of images: Resizing, CenterCrop."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.layers.augmentation.image_layer import ImageLayer, boxes_in_pixels
from trainkit.layers.base.arguments import one_of, whole
from trainkit.ops.images.box_formats import crop


def widest_window(height: int, width: int, rows: int, columns: int) -> tuple[int, int, int, int]:
    """The largest middle part of an image that has the aspect ratio rows : columns.

    Returns:
        Its top, left, height and width.
    """
    tall = max(min(height, int(width * rows / columns)), 1)
    window_width = max(min(width, int(height * columns / rows)), 1)
    return (height - tall) // 2, (width - window_width) // 2, tall, window_width


class SizingLayer(ImageLayer):
    """What both share: a new size, and labels, masks and boxes that come along in any mode."""

    def __init__(
        self, height: int, width: int, data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        self.height = whole(self, "height", height)
        self.width = whole(self, "width", width)

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        """The shape of the images; nothing is drawn."""
        return {"input_shape": self._frame(data).shape}

    def _resize(self, images: Any, interpolation: str) -> Any:
        """Images or masks in the new size, in their dtype."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method _resize(self, images, interpolation)"
        )

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return self._resize(ops.convert_to_tensor(segmentation_masks), "nearest")

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        height, width = self._size_in(transformation["input_shape"])

        def move(boxes: Any) -> Any:
            return self._boxes_in_new_size(boxes, height, width)

        return boxes_in_pixels(
            bounding_boxes,
            self.bounding_box_format,
            (height, width),
            (self.height, self.width),
            move,
        )

    def _boxes_in_new_size(self, boxes: Any, height: Any, width: Any) -> Any:
        """Boxes (batch, boxes, 4) in `"xyxy"` as they lie in the new image."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method _boxes_in_new_size(self, boxes, height, width)"
        )


class Resizing(SizingLayer):
    """Images in another size.

    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height. Dicts are changed as a whole; masks take the nearest pixel. The dtype stays.

    Args:
        height: of the output, in pixels.
        width: of the output, in pixels.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"lanczos3"`, `"lanczos5"` or
            `"area"`.
        crop_to_aspect_ratio: whether to keep the aspect ratio and crop what is too much.
        pad_to_aspect_ratio: whether to keep it and fill what is missing with `fill_value`.
        fill_mode: how: `"constant"`.
        fill_value: value of what is filled in.
        antialias: whether to average over the pixels that shrink into one.
        **kwargs: `bounding_box_format` and those of `Layer`.

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
        super().__init__(height, width, data_format, **kwargs)
        methods = ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5", "area")
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

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return self._resize(images, self.interpolation)

    def _resize(self, images: Any, interpolation: str) -> Any:
        return ops.image.resize(
            images,
            (self.height, self.width),
            interpolation=interpolation,
            antialias=self.antialias,
            crop_to_aspect_ratio=self.crop_to_aspect_ratio,
            pad_to_aspect_ratio=self.pad_to_aspect_ratio,
            fill_mode=self.fill_mode,
            fill_value=self.fill_value,
            data_format=self.data_format,
        )

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        result = super().transform_bounding_boxes(bounding_boxes, transformation, training)
        original_boxes = ops.convert_to_tensor(bounding_boxes["boxes"])
        empty = ops.logical_or(
            ops.all(original_boxes == -1, axis=-1), ops.all(original_boxes == 0, axis=-1)
        )
        boxes = ops.where(ops.expand_dims(empty, -1), 0.0, result["boxes"])
        return {**result, "boxes": boxes}

    def _boxes_in_new_size(self, boxes: Any, height: Any, width: Any) -> Any:
        old_height, old_width = ops.cast(height, boxes.dtype), ops.cast(width, boxes.dtype)
        down, across = self.height / old_height, self.width / old_width
        if self.pad_to_aspect_ratio:
            down = across = ops.minimum(down, across)
        elif self.crop_to_aspect_ratio:
            down = across = ops.maximum(down, across)
        top = (self.height - old_height * down) // 2
        left = (self.width - old_width * across) // 2
        if self.crop_to_aspect_ratio:  # rounded towards the middle, as the images are
            top, left = (
                -((old_height * down - self.height) // 2),
                -((old_width * across - self.width) // 2),
            )
        return boxes * ops.stack([across, down, across, down]) + ops.stack([left, top, left, top])


class CenterCrop(SizingLayer):
    """The middle of images; smaller images are enlarged until it fits, then cropped.

    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height. Dicts are changed as a whole; masks take the nearest pixel.

    Args:
        height: of the output, in pixels.
        width: of the output, in pixels.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Example:
        >>> tk.layers.CenterCrop(2, 2)(tk.ones((1, 4, 6, 3))).shape
        TensorShape([1, 2, 2, 3])
    """

    def __init__(
        self, height: int, width: int, data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(height, width, data_format, **kwargs)

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return self._resize(ops.cast(images, self.compute_dtype), "bilinear")

    def _resize(self, images: Any, interpolation: str) -> Any:
        rows, columns = self._size_in(images.shape)
        if rows is None or columns is None:
            rows, columns = self._size_in(ops.shape(images))
            return ops.cond(
                ops.logical_and(rows >= self.height, columns >= self.width),
                lambda: self._middle(images, rows, columns),
                lambda: self._enlarge(images, interpolation),
            )
        if rows < self.height or columns < self.width:
            return self._enlarge(images, interpolation)
        return self._middle(images, rows, columns)

    def _enlarge(self, images: Any, interpolation: str) -> Any:
        return ops.image.resize(
            images,
            (self.height, self.width),
            interpolation=interpolation,
            crop_to_aspect_ratio=True,
            data_format=self.data_format,
        )

    def _middle(self, images: Any, rows: Any, columns: Any) -> Any:
        first, rank = self._height_axis, len(images.shape)
        starts, sizes = [0] * rank, [-1] * rank
        starts[first : first + 2 or None] = ((rows - self.height) // 2, (columns - self.width) // 2)
        sizes[first : first + 2 or None] = self.height, self.width
        return ops.slice(images, starts, sizes)

    def _boxes_in_new_size(self, boxes: Any, height: Any, width: Any) -> Any:
        if height >= self.height and width >= self.width:
            top, left = (height - self.height) // 2, (width - self.width) // 2
            return crop(boxes, top, left, self.height, self.width)
        top, left, rows, columns = widest_window(height, width, self.height, self.width)
        inside = crop(boxes, top, left, rows, columns)
        down, across = self.height / rows, self.width / columns
        return inside * ops.convert_to_tensor([across, down, across, down], boxes.dtype)
