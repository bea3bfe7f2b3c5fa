"""Images with parts erased, or put together from several: RandomErasing, CutMix, MixUp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.bounds import clipped, limits, value_range_of
from trainkit.layers.augmentation.image_layer import ImageFrame, RandomImageLayer
from trainkit.ops.collective.global_rows import global_batch, rows_of_others
from trainkit.ops.sampling.batch_rows import AlongBatch, at_once


class _WindowLayer(RandomImageLayer):
    """What layers share that change a rectangle in each image."""

    def _edges(self, length: Any, share: Any, frame: ImageFrame, seed: Any) -> tuple[Any, Any]:
        """Where a part of an axis begins and ends, (batch,) each, in pixels."""
        length = ops.cast(length, self.compute_dtype)
        part = share * length
        start = self._uniform((frame.batch,), 0.0, 1.0, seed, self.compute_dtype) * (length - part)
        return start, start + part

    def _inside(self, frame: ImageFrame, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
        """Which pixels lie between the edges, bools that broadcast with the images."""

        def between(length: Any, edges: tuple[Any, Any], axis: int) -> Any:
            coordinates = ops.cast(ops.arange(length, dtype="int32"), self.compute_dtype)
            low, high = (ops.expand_dims(edge, -1) for edge in edges)
            inside = ops.logical_and(coordinates >= low, coordinates < high)  # (batch, length)
            for other in range(1, 4):
                if other != axis:
                    inside = ops.expand_dims(inside, other)
            return inside

        rows = 4 + self._height_axis
        return ops.logical_and(between(frame.height, y, rows), between(frame.width, x, rows + 1))


class RandomErasing(_WindowLayer):
    """Images with a rectangle blotted out, each with a probability.

    Source: Zhong et al. 2017, arXiv:1708.04896. Shapes: see `ImageLayer`; labels, boxes and masks
    stay.

    Args:
        factor: the probability: a number, or a pair to draw it from, within [0, 1]; a number f
            stands for (0, f).
        scale: the square of the share of height and width that the rectangle takes: a pair to draw
            from, or a number f for (0, f), within [0, 1].
        fill_value: what it is filled with: a number, one for each channel, or `None` for noise.
        value_range: the least and greatest value of a pixel, to which fillings are clipped.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> layer = tk.layers.RandomErasing(1.0, (0.25, 0.25), fill_value=0, seed=1)
        >>> layer(tk.ones((1, 8, 8, 3)), training=True).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        factor: Any = 1.0,
        scale: Any = (0.02, 0.33),
        fill_value: Any = None,
        value_range: Any = (0, 255),
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.scale = limits(self, "scale", scale, 0.0)
        self.fill_value = fill_value
        self.value_range = value_range_of(self, value_range)
        three = isinstance(fill_value, list | tuple) and len(fill_value) == 3
        if not (fill_value is None or three or isinstance(fill_value, int | float)):
            raise InvalidArgumentError(
                "RandomErasing: fill_value must be a number, three of them, or None for noise, got "
                f"{fill_value!r}"
            )

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        dtype = self.compute_dtype
        sides = ops.sqrt(self._uniform((frame.batch, 2), *self.scale, seed, dtype))
        x = self._edges(frame.width, sides[:, 0], frame, seed)
        y = self._edges(frame.height, sides[:, 1], frame, seed)
        is_applied = self._draw_flags(frame, self.factor, seed)
        return {
            "apply_erasing": is_applied,
            "batch_masks": self._inside(frame, x, y),
            "fill_value": clipped(self._make_filling(frame, seed), self.value_range),
        }

    def _make_filling(self, frame: ImageFrame, seed: Any) -> Any:
        """What rectangles hold, in a shape that broadcasts with the images."""
        if self.fill_value is None:
            noise = self.backend.random.normal(frame.shape, dtype=self.compute_dtype, seed=seed)
            return noise * self.value_range[1]
        filling = ops.convert_to_tensor(self.fill_value, self.compute_dtype)
        if isinstance(self.fill_value, int | float) or self.data_format == "channels_last":
            return filling
        return ops.reshape(filling, (3, 1, 1))

    def _augment(self, images: Any, transformation: Any) -> Any:
        is_applied = ops.reshape(transformation["apply_erasing"], (-1, 1, 1, 1))
        erased = ops.logical_and(is_applied, transformation["batch_masks"])
        return ops.where(erased, ops.cast(transformation["fill_value"], images.dtype), images)


class CutMix(_WindowLayer):
    """Images with a rectangle of another image of the batch; labels mixed in the same measure.

    Source: Yun et al. 2019, arXiv:1905.04899. Shapes: see `ImageLayer`; labels are (batch, classes)
    of shares. A single image stays.

    Args:
        factor: the parameter of the Beta distribution from which the shares come: a pair to draw
            it from, or a number f for (0, f), within [0, 1].
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: the factor is outside its range.

    Example:
        >>> both = {"images": tk.ones((2, 8, 8, 3)), "labels": tk.eye(2)}
        >>> tk.layers.CutMix(seed=1)(both, training=True)["labels"].numpy().sum(axis=1)
        array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        factor: Any = 1.0,
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        self.factor = limits(self, "factor", factor, 0.0)

    def get_random_transformation(self, data: Any, training: Any = True, seed: Any = None) -> Any:
        if len(self._frame(data).shape) == 3:
            return None
        return super().get_random_transformation(data, training, seed)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        dtype = self.compute_dtype
        alpha = self._uniform((), *self.factor, seed, dtype) + 1e-6
        share = _shares(self, frame, alpha, seed, dtype=dtype)
        side = ops.sqrt(1.0 - share)
        x = self._edges(frame.width, side, frame, seed)
        y = self._edges(frame.height, side, frame, seed)
        area = ops.cast(frame.width, dtype) * ops.cast(frame.height, dtype)
        uncut_share = 1.0 - (x[1] - x[0]) * (y[1] - y[0]) / area
        return {
            "batch_masks": self._inside(frame, x, y),
            "mix_weight": ops.reshape(uncut_share, (-1, 1, 1, 1)),
            "permutation_order": _shuffle(self, frame, seed),
        }

    def _augment(self, images: Any, transformation: Any) -> Any:
        return self._paste(images, transformation)

    def _paste(self, images: Any, transformation: Any) -> Any:
        """Images or masks with rectangles of others, in their dtype."""
        others = _others(self, images, transformation)
        return ops.where(transformation["batch_masks"], others, images)

    def transform_labels(
        self, labels: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return _mix(self, labels, transformation) if training and transformation else labels

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        raise UnimplementedError(
            "CutMix does not cut bounding boxes; leave them out of its input, or use MixUp"
        )

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        return self._paste(masks, transformation) if training and transformation else masks


class MixUp(RandomImageLayer):
    """Images as weighted means of two of the batch; labels and masks as well, boxes of both.

    Source: Zhang et al. 2017, arXiv:1710.09412. Shapes: see `ImageLayer`; labels are
    (batch, classes) of shares, and masks become floats.

    Args:
        alpha: the parameter of the Beta distribution from which the weights come, above 0.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: alpha is not above 0.

    Example:
        >>> both = {"images": tk.ones((2, 8, 8, 3)), "labels": tk.eye(2)}
        >>> tk.layers.MixUp(seed=1)(both, training=True)["labels"].numpy().sum(axis=1)
        array([1., 1.], dtype=float32)
    """

    _leaves_idle_integers = True

    def __init__(
        self,
        alpha: float = 0.2,
        data_format: str | None = None,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed=seed, data_format=data_format, **kwargs)
        if not isinstance(alpha, int | float) or alpha <= 0:
            raise InvalidArgumentError(f"MixUp: alpha must be above 0, got {alpha!r}")
        self.alpha = alpha

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        order = _shuffle(self, frame, seed)
        weight = _shares(self, frame, self.alpha, seed)
        return {"mix_weight": weight, "permutation_order": order}

    def _augment(self, images: Any, transformation: Any) -> Any:
        return _mix(self, images, transformation, 4)

    def transform_labels(
        self, labels: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        return _mix(self, labels, transformation) if training and transformation else labels

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        if not training or transformation is None:
            return bounding_boxes
        result = dict(bounding_boxes)
        for key in ("boxes", "labels"):
            own = ops.convert_to_tensor(bounding_boxes[key])
            axis = min(1, len(own.shape) - 1)
            others = _others(self, own, transformation)
            result[key] = ops.concatenate([own, others], axis=axis)
        return result

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        return _mix(self, masks, transformation) if training and transformation else masks


def _shuffle(layer: RandomImageLayer, frame: ImageFrame, seed: Any) -> Any:
    """The numbers of the images in another order; in a replica, of those of all replicas."""

    def draw(count: Any, seed: Any) -> Any:
        return layer.backend.random.shuffle(ops.arange(count, dtype="int32"), seed=seed)

    return _own(draw, frame, seed)


def _shares(
    layer: RandomImageLayer, frame: ImageFrame, alpha: Any, seed: Any, **settings: Any
) -> Any:
    """A number for each image, from a Beta distribution with both parameters `alpha`."""

    def draw(count: Any, seed: Any) -> Any:
        return layer.backend.random.beta((count,), alpha, alpha, seed=seed, **settings)

    return _own(draw, frame, seed)


def _own(draw: Callable[[Any, Any], Any], frame: ImageFrame, seed: Any) -> Any:
    """What is drawn for the images; in a replica its rows of what is drawn for all replicas."""
    rows = rows_of_others() if isinstance(seed, AlongBatch) else None
    if rows is None:
        return draw(frame.batch, at_once(seed))
    return draw(rows.total, at_once(seed))[rows.start : rows.start + max(rows.size, 1)]


def _others(layer: RandomImageLayer, values: Any, transformation: Any) -> Any:
    """What belongs to the images that are mixed with these, which other replicas may have."""
    if len(transformation.get("input_shape", ())) == 4:
        values = global_batch(values, type(layer).__name__)
    return ops.take(values, transformation["permutation_order"], axis=0)


def _mix(layer: RandomImageLayer, values: Any, transformation: Any, rank: int | None = None) -> Any:
    """Weighted means of what belongs to an image and to another of the batch, floats.

    The weights have `rank` axes, by default as many as the values.
    """
    values = ops.cast(ops.convert_to_tensor(values), layer.compute_dtype)
    weight = ops.cast(ops.convert_to_tensor(transformation["mix_weight"]), values.dtype)
    weight = ops.reshape(weight, (-1, *(1,) * ((rank or len(values.shape)) - 1)))
    others = _others(layer, values, transformation)
    return weight * values + (1.0 - weight) * others
