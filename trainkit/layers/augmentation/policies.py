"""Several changes of an image, picked at random: RandAugment, AugMix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core.values.type_aliases import Seed
from trainkit.layers.augmentation.affine import RandomRotation, RandomShear, RandomTranslation
from trainkit.layers.augmentation.bounds import clipped, limits, value_range_of
from trainkit.layers.augmentation.filters import RandomSharpness
from trainkit.layers.augmentation.histograms import Equalization
from trainkit.layers.augmentation.hues import RandomColorDegeneration
from trainkit.layers.augmentation.image_layer import ImageFrame, RandomImageLayer
from trainkit.layers.augmentation.light import RandomBrightness, RandomContrast
from trainkit.layers.augmentation.tones import AutoContrast, RandomPosterization, Solarization
from trainkit.layers.base.arguments import whole
from trainkit.ops.images.box_formats import convert_format
from trainkit.ops.sampling.batch_rows import at_once

_MOVING = ("random_shear", "random_translation", "random_rotation")
_LIGHT = ("random_brightness", "random_color_degeneration", "random_contrast", "random_sharpness")
_TONES = ("random_posterization", "solarization", "auto_contrast", "equalization")

# More would be a mistake, or a file that is to keep its reader busy.
_MOST_STEPS = 100


class PolicyLayer(RandomImageLayer):
    """What both share: the layers to pick from, as attributes, and the pick by number.

    Args:
        factor: how strongly: a number f for (0, f), or a pair, within [0, 1].
        value_range: the least and greatest value of a pixel.
        interpolation: of layers that move pixels: `"bilinear"` or `"nearest"`.
        names: of the layers, in the order of their numbers.
        **kwargs: those of `RandomImageLayer`.
    """

    def __init__(
        self,
        factor: Any,
        value_range: Any,
        interpolation: str,
        names: tuple[str, ...],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.factor = limits(self, "factor", factor, 0.0)
        self.value_range = value_range_of(self, value_range)
        self.interpolation = interpolation
        self._names = names
        for name, make in self._makers().items():
            if name in names:
                setattr(self, name, make())

    def _makers(self) -> dict[str, Callable[[], Any]]:
        f = self.factor
        shared: dict[str, Any] = {
            "data_format": self.data_format,
            "bounding_box_format": self.bounding_box_format,
            "dtype": self.dtype_policy,
        }
        moving = {**shared, "interpolation": self.interpolation, "seed": self.seed}
        ranged = {**shared, "value_range": self.value_range}
        drawing = {**ranged, "seed": self.seed}
        return {
            "random_shear": lambda: RandomShear(f, f, **moving),
            "random_translation": lambda: RandomTranslation(f, f, **moving),
            "random_rotation": lambda: RandomRotation(f, **moving),
            "random_brightness": lambda: RandomBrightness(f, **drawing),
            "random_color_degeneration": lambda: RandomColorDegeneration(f, **drawing),
            "random_contrast": lambda: RandomContrast(f, **drawing),
            "random_sharpness": lambda: RandomSharpness(f, **drawing),
            "random_posterization": lambda: RandomPosterization(max(1, int(8 * f[1])), **drawing),
            "solarization": lambda: Solarization(f, f, **drawing),
            "auto_contrast": lambda: AutoContrast(**ranged),
            "equalization": lambda: Equalization(**ranged),
        }

    def _drawn_by_name(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        """What each layer draws; those that draw nothing are left out."""
        parts = {name: getattr(self, name) for name in self._names}
        return {
            name: {"input_shape": frame.shape, **part._drawn(frame, seed)}
            for name, part in parts.items()
            if isinstance(part, RandomImageLayer)
        }

    def _apply_picked(self, number: Any, method: str, value: Any, drawn: dict[str, Any]) -> Any:
        """`value` as a method of layer `number` changes it; one beyond the last leaves it."""

        def branch(name: str) -> Callable[[Any], Any]:
            step = getattr(getattr(self, name), method)
            return lambda x: step(x, transformation=drawn.get(name), training=True)

        branches = [*map(branch, self._names), lambda x: x]
        return ops.switch(number, branches, value)


class RandAugment(PolicyLayer):
    """A few changes of a batch, one after the other, each picked among eleven.

    These are `RandomShear`, `RandomTranslation`, `RandomRotation`, `RandomBrightness`,
    `RandomColorDegeneration`, `RandomContrast`, `RandomSharpness`, `RandomPosterization`,
    `Solarization`, `AutoContrast` and `Equalization`. The pick is the same for a whole batch, the
    strength is each image's own.
    Source: Cubuk et al. 2019, arXiv:1909.13719. Shapes: see `ImageLayer`; images have three
    channels; dicts are changed as a whole.

    Args:
        num_ops: how many changes, at most 100.
        factor: how strongly: a number f for (0, f), or a pair, within [0, 1].
        interpolation: of layers that move pixels: `"bilinear"` or `"nearest"`.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.RandAugment(seed=1)(tk.ones((1, 8, 8, 3)), training=True).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        num_ops: int = 2,
        factor: Any = 0.5,
        interpolation: str = "bilinear",
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        names = _MOVING + _LIGHT + _TONES
        super().__init__(
            factor, value_range, interpolation, names, seed=seed, data_format=data_format, **kwargs
        )
        self.num_ops = whole(self, "num_ops", num_ops, 0, _MOST_STEPS)

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        picks = self.backend.random.randint(
            (self.num_ops,), 0, len(self._names), dtype="int32", seed=at_once(seed)
        )
        return {"layer_idxes": picks, "transforms": self._drawn_by_name(frame, seed)}

    def _after_all(self, method: str, value: Any, transformation: Any) -> Any:
        """`value` after the method of each layer that was picked."""
        for i in range(self.num_ops):
            pick = transformation["layer_idxes"][i]
            value = self._apply_picked(pick, method, value, transformation["transforms"])
        return value

    def _augment(self, images: Any, transformation: Any) -> Any:
        return self._after_all("transform_images", images, transformation)

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        if not training or transformation is None:
            return masks
        return self._after_all("transform_segmentation_masks", masks, transformation)

    def transform_bounding_boxes(
        self, bounding_boxes: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        if not training or transformation is None:
            return bounding_boxes
        box_format: Any = self.bounding_box_format
        boxes = convert_format(bounding_boxes, box_format, box_format)  # in their last dtype
        return self._after_all("transform_bounding_boxes", boxes, transformation)


class AugMix(PolicyLayer):
    """Images mixed with several versions of themselves, each after a chain of changes.

    Source: Hendrycks et al. 2019, arXiv:1912.02781. Shapes: see `ImageLayer`; images have three
    channels; masks are mixed like the images and become floats; labels and boxes stay.

    Args:
        value_range: the least and greatest value of a pixel, to which results are clipped.
        num_chains: how many versions, at most 100.
        chain_depth: how many changes at most lead to each, picked among those of `RandAugment` and
            none.
        factor: how strongly: a number f for (0, f), or a pair, within [0, 1].
        alpha: parameter of the Dirichlet and Beta distributions that the weights come from.
        all_ops: whether brightness, color, contrast and sharpness are picked too.
        interpolation: of layers that move pixels: `"bilinear"` or `"nearest"`.
        **kwargs: `bounding_box_format` and those of `Layer`.

    Raises:
        InvalidArgumentError: a setting is none of these.

    Example:
        >>> tk.layers.AugMix(seed=1)(tk.ones((1, 8, 8, 3)), training=True).shape
        TensorShape([1, 8, 8, 3])
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        num_chains: int = 3,
        chain_depth: int = 3,
        factor: Any = 0.3,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: str = "bilinear",
        seed: Seed | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        names = _MOVING + _TONES + (_LIGHT if all_ops else ())
        super().__init__(
            factor, value_range, interpolation, names, seed=seed, data_format=data_format, **kwargs
        )
        self.num_chains = whole(self, "num_chains", num_chains, 1, _MOST_STEPS)
        self.chain_depth = whole(self, "chain_depth", chain_depth, 1, _MOST_STEPS)
        self.alpha = alpha
        self.all_ops = all_ops

    def _drawn(self, frame: ImageFrame, seed: Any) -> dict[str, Any]:
        draw = self.backend.random
        gamma = draw.gamma((self.num_chains,), self.alpha, seed=seed)
        shape = (self.num_chains, self.chain_depth)
        picks = draw.randint(shape, 0, len(self._names) + 1, dtype="int32", seed=at_once(seed))
        return {
            "chain_mixing_weights": gamma / ops.sum(gamma),
            "weight_sample": draw.beta((), self.alpha, self.alpha, seed=seed),
            "layer_idxes": picks,
            "transforms": [
                [self._drawn_by_name(frame, seed) for _ in range(self.chain_depth)]
                for _ in range(self.num_chains)
            ],
        }

    def _mixed_chains(self, method: str, value: Any, transformation: Any) -> Any:
        """The weighted mean of `value` and of its versions."""
        weights = ops.cast(transformation["chain_mixing_weights"], value.dtype)
        own = ops.cast(transformation["weight_sample"], value.dtype)
        total: Any = 0.0
        for i, chain in enumerate(transformation["transforms"]):
            version = value
            for j, drawn in enumerate(chain):
                pick = transformation["layer_idxes"][i, j]
                version = self._apply_picked(pick, method, version, drawn)
            total = total + version * weights[i]
        return own * value + (1.0 - own) * total

    def _augment(self, images: Any, transformation: Any) -> Any:
        mixed = self._mixed_chains("transform_images", images, transformation)
        return clipped(mixed, self.value_range)

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: Any = True
    ) -> Any:
        masks = ops.convert_to_tensor(segmentation_masks)
        if not training or transformation is None:
            return masks
        masks = ops.cast(masks, self.compute_dtype)
        return self._mixed_chains("transform_segmentation_masks", masks, transformation)
