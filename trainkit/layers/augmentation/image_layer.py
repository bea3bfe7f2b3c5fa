"""`ImageLayer`: what layers for images share. Subclasses say what becomes of a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError, UnimplementedError
from trainkit.core.tensor import is_tensor
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.base.arguments import format_of, one_of
from trainkit.layers.preprocessing.augmenting import Augmenting
from trainkit.layers.preprocessing.data_layer import DataLayer
from trainkit.ops.images.box_formats import clip_to_image_size, convert_format
from trainkit.ops.sampling import generators
from trainkit.ops.sampling.batch_rows import along_batch


class ImageFrame(NamedTuple):
    """What a transformation is drawn for.

    Attributes:
        shape: of the images; a tensor stands for a size that is not known yet.
        batch: count of images, 1 for a single one.
        height: in pixels.
        width: in pixels.
    """

    shape: tuple[Any, ...]
    batch: Any
    height: Any
    width: Any

    @property
    def one_each(self) -> tuple[Any, ...]:
        """The shape of one number for each image, which broadcasts with the images."""
        return (1, 1, 1) if len(self.shape) == 3 else (self.batch, 1, 1, 1)


class ImageLayer(Augmenting, DataLayer):
    """A layer that takes images, or a dict with images and what belongs to them.

    In a dict there are `"images"`, and perhaps `"labels"`, `"segmentation_masks"` (of integers,
    laid out like the images) and `"bounding_boxes"` (a dict with `"boxes"` (boxes, 4) and
    `"labels"` (boxes,)). A dict with a batch of images has batches of all of these. What the layer
    is given is left as it is; results come in new dicts.

    Shapes: (batch, height, width, channels) or one image without the batch. With
    `data_format="channels_first"` the channels stand before the height.

    Args:
        bounding_box_format: of boxes in dicts, such as `"xyxy"`; see
            `keras.utils.bounding_boxes.convert_format`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        **kwargs: those of `Layer`.
    """

    def __init__(
        self, bounding_box_format: str | None = None, data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bounding_box_format = bounding_box_format
        self.data_format = format_of(self, data_format)

    # ------------------------------------------------------------------ for subclasses

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        """A batch of images, changed.

        Args:
            images: (batch, height, width, channels).
            transformation: what `get_random_transformation` gave.
            training: whether the layer runs for training.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method transform_images(self, images, transformation, "
            "training)"
        )

    def transform_labels(
        self, labels: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        """The labels of a batch; by default they stay."""
        return labels

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        """The boxes of a batch; by default they stay."""
        return bounding_boxes

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        """The masks of a batch; by default they stay."""
        return segmentation_masks

    def transform_single_image(self, image: Any, transformation: Any, training: Any = True) -> Any:
        """One image, changed as a batch of it."""
        return _one(self.transform_images, image, transformation, training)

    def transform_single_label(self, label: Any, transformation: Any, training: Any = True) -> Any:
        """The labels of one image, changed as those of a batch of it."""
        return _one(self.transform_labels, label, transformation, training)

    def transform_single_bounding_box(
        self, bounding_box: Any, transformation: Any, training: Any = True
    ) -> Any:
        """The boxes of one image, changed as those of a batch of it."""
        return _one(self.transform_bounding_boxes, bounding_box, transformation, training)

    def transform_single_segmentation_mask(
        self, segmentation_mask: Any, transformation: Any, training: Any = True
    ) -> Any:
        """The mask of one image, changed as that of a batch of it."""
        return _one(self.transform_segmentation_masks, segmentation_mask, transformation, training)

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        """What is drawn once for images, labels, boxes and masks; `None` if nothing is."""
        return None

    # ------------------------------------------------------------------ calls

    def call(self, data: Any, training: Any = True) -> Any:
        if not isinstance(data, dict):
            return self._transform({"images": data}, training)["images"]
        return self._transform(data, training)

    def _transform(self, data: dict[str, Any], training: Any) -> dict[str, Any]:
        """A dict like `data`, all of it changed alike."""
        images = ops.convert_to_tensor(data["images"])
        if len(images.shape) not in (3, 4):
            raise ShapeError(
                f"images have 3 axes, batches of them 4; the input has shape {tuple(images.shape)}"
            )
        single = len(images.shape) == 3
        transformation = self.get_random_transformation(data, training=training)
        result = {**data, "images": images}
        if "bounding_boxes" in data:
            result["bounding_boxes"] = self._dense_boxes(data["bounding_boxes"])
        steps = {
            "images": self.transform_images,
            "bounding_boxes": self.transform_bounding_boxes,
            "labels": self.transform_labels,
            "segmentation_masks": self.transform_segmentation_masks,
        }
        for key, step in steps.items():
            if key in result:
                value = _with_batch(result[key]) if single else _tensors(result[key])
                value = step(value, transformation=transformation, training=training)
                result[key] = _without_batch(value) if single else value
        return result

    def _dense_boxes(self, bounding_boxes: Any) -> Any:
        """Boxes that fit, lists of different lengths filled up."""
        if not self.bounding_box_format:
            raise InvalidArgumentError(
                f"{type(self).__name__} was given bounding boxes: say in which format they are, "
                "such as bounding_box_format='xyxy'"
            )
        return dense_boxes(bounding_boxes)

    # ------------------------------------------------------------------ sizes

    @property
    def _channel_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else -3

    @property
    def _height_axis(self) -> int:
        """The axis of the height, counted from the end; that of the width follows it."""
        return -3 if self.data_format == "channels_last" else -2

    def _size_in(self, shape: Any) -> tuple[Any, Any]:
        """Height and width in the shape of images."""
        return shape[self._height_axis], shape[self._height_axis + 1]

    def _frame(self, data: Any) -> ImageFrame:
        images = data["images"] if isinstance(data, dict) else data
        shape = tuple(ops.shape(images))
        if len(shape) not in (3, 4):
            raise ShapeError(
                f"images have 3 axes, batches of them 4; the input has shape {tuple(images.shape)}"
            )
        return ImageFrame(shape, 1 if len(shape) == 3 else shape[0], *self._size_in(shape))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if config.get("bounding_box_format", 0) is None:
            del config["bounding_box_format"]
        return config


def _tensors(value: Any) -> Any:
    """Arrays and lists as tensors, those in a dict too."""
    if isinstance(value, dict):
        return {key: _tensors(part) for key, part in value.items()}
    return ops.convert_to_tensor(value)


def _one(transform: Any, value: Any, transformation: Any, training: Any) -> Any:
    """What `transform` makes of a batch of `value` alone."""
    batch = transform(_with_batch(value), transformation=transformation, training=training)
    return _without_batch(batch)


def _with_batch(value: Any) -> Any:
    """What belongs to one image, as a batch of one."""
    if isinstance(value, dict):
        return {key: _with_batch(part) for key, part in value.items()}
    return ops.expand_dims(ops.convert_to_tensor(value), 0)


def _without_batch(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_batch(part) for key, part in value.items()}
    return ops.squeeze(value, 0)


def dense_boxes(bounding_boxes: Any) -> dict[str, Any]:
    """Bounding boxes as tensors.

    Args:
        bounding_boxes: dict with `"boxes"` (batch, boxes, 4) or (boxes, 4) and `"labels"`. Lists
            may hold another number of boxes for each image; boxes of zeros with label -1 fill up
            the shorter ones.

    Raises:
        InvalidArgumentError: one of both is missing, or they don't belong together.
        ShapeError: they have another rank.
    """
    if not isinstance(bounding_boxes, dict) or not {"boxes", "labels"} <= bounding_boxes.keys():
        raise InvalidArgumentError(
            f"bounding boxes are a dict with 'boxes' and 'labels', got {bounding_boxes!r}"
        )
    boxes, labels = bounding_boxes["boxes"], bounding_boxes["labels"]
    if isinstance(boxes, list):
        boxes, labels = _fill_up(boxes, labels)
    boxes, labels = ops.cast(ops.convert_to_tensor(boxes), "float32"), ops.convert_to_tensor(labels)
    rank = len(boxes.shape)
    if rank not in (2, 3) or len(labels.shape) not in (rank - 1, rank):
        raise ShapeError(
            "boxes are (boxes, 4) or (batch, boxes, 4) and their labels (boxes,) or (batch, "
            f"boxes); got boxes {tuple(boxes.shape)} and labels {tuple(labels.shape)}"
        )
    return {**bounding_boxes, "boxes": boxes, "labels": labels}


def _fill_up(boxes: list[Any], labels: Any) -> tuple[Any, Any]:
    """Lists of boxes and labels as arrays, the shorter ones filled up."""
    if is_tensor(labels) or len(boxes) != len(labels):
        raise InvalidArgumentError(
            f"boxes are a list of {len(boxes)}, so their labels must be one too, got {labels!r}"
        )
    ranks = {np.ndim(some) for some in boxes if len(some)}
    if ranks <= {1}:
        return np.reshape(np.asarray(boxes, np.float32), (-1, 4)), np.asarray(labels, np.int32)
    count = max(map(len, boxes))
    if any(len(a) != len(b) for a, b in zip(boxes, labels, strict=True)):
        raise InvalidArgumentError(
            f"there are {[len(b) for b in boxes]} boxes and {[len(b) for b in labels]} labels"
        )
    full, named = (
        np.zeros((len(boxes), count, 4), "float32"),
        np.full((len(boxes), count), -1, "int32"),
    )
    for i, (some, box_labels) in enumerate(zip(boxes, labels, strict=True)):
        if len(some):
            full[i, : len(some)], named[i, : len(box_labels)] = some, box_labels
    return full, named


class RandomImageLayer(ImageLayer):
    """An `ImageLayer` that draws what it does, and does it while training only.

    Args:
        seed: int, by default derived from `set_seed`.
        **kwargs: those of `ImageLayer`.
    """

    _leaves_idle_integers = False
    """Whether images of integers keep their dtype where the layer does nothing, as in Keras."""

    _augments_integers = False
    """Whether they keep it while training, too."""

    def __init__(self, seed: Seed | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = generators.SeedGenerator(seed)

    @property
    def generator(self) -> generators.SeedGenerator:
        """What the layer draws from."""
        return self.seed_generator

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        if not training:
            return None
        frame = self._frame(data)
        return {"input_shape": frame.shape, **self._drawn(frame, self._source(frame, seed))}

    def _source(self, frame: ImageFrame, seed: Any) -> Any:
        """What the numbers of a transformation are drawn from: by rows, for a batch."""
        source = self.generator if seed is None else seed
        return source if len(frame.shape) == 3 else along_batch(source)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        """The numbers of a transformation, drawn from `seed`."""
        raise NotImplementedError(f"{type(self).__name__} has no method _drawn(self, frame, seed)")

    def transform_images(
        self, images: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        images = ops.convert_to_tensor(images)
        is_idle = not training or transformation is None
        if is_idle and self._leaves_idle_integers:
            return images
        if not is_idle and self._augments_integers and images.dtype.is_integer:
            # a sum of bytes would wrap around before it is clipped
            changed = self._augment(ops.cast(images, "int64"), transformation)
            return ops.cast(changed, images.dtype)
        images = ops.cast(images, self.compute_dtype)
        if is_idle:
            return images
        return ops.cast(self._augment(images, transformation), self.compute_dtype)

    def _augment(self, images: Any, transformation: Any) -> Any:
        """The batch `images`, changed as was drawn."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method _augment(self, images, transformation)"
        )

    def _uniform(
        self, shape: Any, low: float, high: float, seed: Any, dtype: str | None = None
    ) -> Any:
        """Numbers in [low, high)."""
        return self.backend.random.uniform(
            shape=shape, minval=low, maxval=high, dtype=dtype, seed=seed
        )

    def _draw_flags(self, frame: ImageFrame, factor: tuple[float, float], seed: Any) -> Any:
        """Which images are changed, (batch,): each with a probability drawn from `factor`."""
        probability = self._uniform((frame.batch,), *factor, seed)
        return self._uniform((frame.batch,), 0.0, 1.0, seed) < probability


class MovingLayer(RandomImageLayer):
    """A `RandomImageLayer` that moves pixels, so that masks and boxes move along."""

    interpolation = "bilinear"

    def _read_by(self, interpolation: str, fill_mode: str, fill_value: float) -> None:
        """Keep how pixels are read: between others, and outside of the image.

        Raises:
            InvalidArgumentError: a setting is unknown.
        """
        fill_modes = ("reflect", "wrap", "constant", "nearest", "mirror")
        self.interpolation = one_of(self, "interpolation", interpolation, ("bilinear", "nearest"))
        self.fill_mode = one_of(self, "fill_mode", fill_mode, fill_modes)
        self.fill_value = fill_value

    def _augment(self, images: Any, transformation: Any) -> Any:
        return self._move_pixels(images, transformation, self.interpolation)

    def _move_pixels(self, images: Any, transformation: Any, interpolation: str) -> Any:
        """Images or masks with their pixels moved, in their dtype."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method _move_pixels(self, images, transformation, "
            "interpolation)"
        )

    def _moved_boxes(self, boxes: Any, transformation: Any, height: Any, width: Any) -> Any:
        """Boxes (batch, boxes, 4) in `"xyxy"` pixels, moved."""
        raise UnimplementedError(
            f"{type(self).__name__} moves each pixel by itself, and bounding boxes can't follow; "
            "leave them out of its input"
        )

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        if not training or transformation is None:
            return masks
        return self._move_pixels(masks, transformation, "nearest")

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        if not training or transformation is None:
            return bounding_boxes
        size = self._size_in(transformation["input_shape"])

        def move(boxes: Any) -> Any:
            return self._moved_boxes(boxes, transformation, *size)

        return boxes_in_pixels(bounding_boxes, self.bounding_box_format, size, size, move)


def boxes_in_pixels(
    bounding_boxes: Any, box_format: Any, size: Any, new_size: Any, move: Any
) -> Any:
    """Bounding boxes moved by a function of boxes in `"xyxy"`, and cut off at the new image.

    Args:
        bounding_boxes: dict with `"boxes"` (batch, boxes, 4) or, the same for all images,
            (boxes, 4), and `"labels"`.
        box_format: of the boxes.
        size: height and width of the image.
        new_size: those of the image that it becomes.
        move: function of boxes (batch, boxes, 4) to new ones.
    """
    result = convert_format(bounding_boxes, box_format, "xyxy", *size)
    boxes = result["boxes"]
    shared = len(boxes.shape) == 2
    moved = move(ops.expand_dims(boxes, 0) if shared else boxes)
    if shared and moved.shape[0] not in (1, None):
        raise ShapeError(
            f"each of {moved.shape[0]} images is changed in another way, so boxes need the shape "
            f"(batch, boxes, 4), got {tuple(boxes.shape)}"
        )
    result["boxes"] = ops.squeeze(moved, 0) if shared else moved
    result = clip_to_image_size(result, *new_size)
    return convert_format(result, "xyxy", box_format, *new_size)
