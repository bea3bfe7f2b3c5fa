"""Images mirrored, and windows of them: RandomFlip, RandomCrop."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.image_layer import (
    ImageFrame,
    MovingLayer,
    RandomImageLayer,
    boxes_in_pixels,
)
from trainkit.layers.augmentation.image_resizing import widest_window
from trainkit.layers.base.arguments import one_of, whole
from trainkit.ops.images.box_formats import crop


class RandomFlip(MovingLayer):
    """Images mirrored or not, each with probability 1/2.

    Shapes: see `ImageLayer`; dicts are changed as a whole.

    Args:
        mode: `"horizontal"` (left and right change places), `"vertical"`, or
            `"horizontal_and_vertical"`, which mirrors both ways or not at all.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the mode is none of these.

    Example:
        >>> layer = tk.layers.RandomFlip("horizontal", seed=1, bounding_box_format="xyxy")
        >>> boxes = {"boxes": [[0.0, 0.0, 1.0, 2.0]], "labels": [5]}
        >>> both = layer({"images": tk.ones((4, 4, 3)), "bounding_boxes": boxes}, training=True)
        >>> both["bounding_boxes"]["boxes"].shape
        TensorShape([1, 4])
    """

    def __init__(
        self,
        mode: str = "horizontal_and_vertical",
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        modes = ("horizontal", "vertical", "horizontal_and_vertical")
        self.mode = one_of(self, "mode", mode, modes)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        return {"flips": self._uniform(frame.one_each, 0.0, 1.0, seed) <= 0.5}

    def _move_pixels(self, images: Any, transformation: Any, interpolation: str) -> Any:
        axes = []
        if "vertical" in self.mode:
            axes.append(self._height_axis)
        if "horizontal" in self.mode:
            axes.append(self._height_axis + 1)
        return ops.where(transformation["flips"], ops.flip(images, axis=tuple(axes)), images)

    def _moved_boxes(self, boxes: Any, transformation: Any, height: Any, width: Any) -> Any:
        width, height = ops.cast(width, boxes.dtype), ops.cast(height, boxes.dtype)
        left, top, right, bottom = ops.split(boxes, 4, axis=-1)
        if "horizontal" in self.mode:
            left, right = width - right, width - left
        if "vertical" in self.mode:
            top, bottom = height - bottom, height - top
        mirrored = ops.concatenate([left, top, right, bottom], axis=-1)
        return ops.where(ops.reshape(transformation["flips"], (-1, 1, 1)), mirrored, boxes)


class RandomCrop(RandomImageLayer):
    """A window of the images at a random place, the same for a whole batch.

    Smaller images are enlarged: what their middle holds of the window is resized; where a graph
    does not know their sizes, they raise an error when it runs. Where the layer does not train,
    images stay as they are, in their dtype, as in Keras.

    Shapes: input (batch, old height, old width, channels) or one image without the batch, output
    the same with the new height and width. With `data_format="channels_first"` the channels stand
    before the height. Dicts are changed as a whole.

    Args:
        height: of the window, in pixels.
        width: of the window, in pixels.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Example:
        >>> tk.layers.RandomCrop(2, 3, seed=1)(tk.ones((1, 4, 4, 3)), training=True).shape
        TensorShape([1, 2, 3, 3])
    """

    _leaves_idle_integers = True

    def __init__(
        self,
        height: int,
        width: int,
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.autocast = False  # images that stay as they are keep their dtype, floats too
        self.height = whole(self, "height", height)
        self.width = whole(self, "width", width)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        height, width = frame.height, frame.width
        is_known = isinstance(height, int) and isinstance(width, int)
        if is_known and (height < self.height or width < self.width):
            top, left, _, _ = widest_window(height, width, self.height, self.width)
            rows, columns = min(self.height, height - top), min(self.width, width - left)
            return {"top": top, "left": left, "height": rows, "width": columns}
        draw = self.backend.random.randint
        top = draw((), 0, height - self.height + 1, dtype="int32", seed=seed)
        left = draw((), 0, width - self.width + 1, dtype="int32", seed=seed)
        return {"top": top, "left": left, "height": self.height, "width": self.width}

    def _augment(self, images: Any, transformation: Any) -> Any:
        return self._window(images, transformation, "bilinear")

    def _window(self, images: Any, transformation: Any, interpolation: str) -> Any:
        """The window, resized where it has another size."""
        height, width = transformation["height"], transformation["width"]
        for axis, start, size in (
            (self._height_axis, transformation["top"], height),
            (self._height_axis + 1, transformation["left"], width),
        ):
            indices = ops.arange(size, dtype="int32") + start
            images = ops.take(images, indices, axis=len(images.shape) + axis)
        if (height, width) == (self.height, self.width):
            return images
        return ops.image.resize(
            images,
            (self.height, self.width),
            interpolation=interpolation,
            data_format=self.data_format,
        )

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        if not training or transformation is None:
            return masks
        return ops.cast(self._window(masks, transformation, "nearest"), masks.dtype)

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        if not training or transformation is None:
            return bounding_boxes
        t = transformation

        def move(boxes: Any) -> Any:
            top, left = (ops.cast(t[side], boxes.dtype) for side in ("top", "left"))
            inside = crop(boxes, top, left, t["height"], t["width"])
            down, across = self.height / t["height"], self.width / t["width"]
            return inside * ops.convert_to_tensor([across, down, across, down], boxes.dtype)

        size = self._size_in(t["input_shape"])
        return boxes_in_pixels(
            bounding_boxes, self.bounding_box_format, size, (self.height, self.width), move
        )
