"""`MaxNumBoundingBoxes`: the same number of boxes for each image."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.layers.augmentation.image_layer import ImageLayer
from trainkit.layers.base.arguments import an_int, whole


class MaxNumBoundingBoxes(ImageLayer):
    """Exactly `max_number` bounding boxes for each image: more are left out, fewer filled up.

    So images with different numbers of boxes fit into one batch. Shapes: see `ImageLayer`; boxes
    become (batch, max_number, 4), their labels (batch, max_number); all else stays.

    Args:
        max_number: how many.
        fill_value: the numbers and the label of boxes that are filled in.
        **kwargs: `data_format`, `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: `max_number` is below 1.
        TypeError: `fill_value` is no int.

    Example:
        >>> layer = tk.layers.MaxNumBoundingBoxes(2, bounding_box_format="xyxy")
        >>> boxes = {"boxes": [[0.0, 0.0, 1.0, 1.0]], "labels": [3]}
        >>> result = layer({"images": tk.ones((4, 4, 3)), "bounding_boxes": boxes})
        >>> result["bounding_boxes"]["labels"].numpy()
        array([ 3, -1], dtype=int32)
    """

    def __init__(self, max_number: int, fill_value: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_number = whole(self, "max_number", max_number)
        self.fill_value = an_int(self, "fill_value", fill_value)

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return images

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        result = dict(bounding_boxes)
        for key in ("boxes", "labels"):
            own = ops.convert_to_tensor(bounding_boxes[key])
            shape = tuple(ops.shape(own))
            filling = ops.full((shape[0], self.max_number, *shape[2:]), self.fill_value, own.dtype)
            result[key] = ops.concatenate([own, filling], axis=1)[:, : self.max_number]
        return result
