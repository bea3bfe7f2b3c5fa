"""NASNet: cells that a search has found, in two sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    FOLDER,
    Wanted,
    WeightFile,
    channel_axis,
    halving_pad,
    network_like,
)
from trainkit.core.errors import InvalidArgumentError
from trainkit.models import Model


@dataclass(frozen=True)
class _Size:
    """One of the two networks.

    Attributes:
        name: in the names of its files.
        image: height and width that it was made for.
        width: of the cells before the first reduction.
        stem: width of the first convolution.
        repeats: normal cells between two reductions.
        skips: whether cells behind a reduction look past it, at what was two cells before.
        hashes: of the files with and without classifier.
    """

    name: str
    image: int
    width: int
    stem: int
    repeats: int
    skips: bool
    hashes: tuple[str, str]


_MOBILE = _Size(
    "mobile", 224, 44, 32, 4, False,
    ("020fb642bf7360b370c678b08e0adf61", "1ed92395b5b598bdda52abe5c0dbfd63"),
)  # fmt: skip
_LARGE = _Size(
    "large", 331, 168, 96, 6, True,
    ("11577c9a518f0070763c2b964a382f17", "d81d89dc07e6e56530c4e77faddd61b5"),
)  # fmt: skip


def _normalize(x: Any, name: str) -> Any:
    return layers.BatchNormalization(
        axis=channel_axis(), momentum=0.9997, epsilon=1e-3, name=name
    )(x)  # fmt: skip


def _relu(x: Any, name: str | None = None) -> Any:
    return layers.Activation("relu", name=name)(x)


def _pixelwise(x: Any, width: int, name: str) -> Any:
    return layers.Conv2D(
        width, 1, padding="same", use_bias=False, kernel_initializer="he_normal", name=name
    )(x)


def _separable(x: Any, width: int, window: int, name: str, stride: int = 1) -> Any:
    """Two separable convolutions, each behind an activation; the first may halve the images."""
    x = _relu(x)
    padding: str = "same"
    if stride == 2:
        x = layers.ZeroPadding2D(halving_pad(x, window), name=f"separable_conv_1_pad_{name}")(x)
        padding = "valid"
    for number in (1, 2):
        part = f"separable_conv_{number}"
        x = layers.SeparableConv2D(
            width,
            window,
            strides=stride if number == 1 else 1,
            padding=padding if number == 1 else "same",
            use_bias=False,
            name=f"{part}_{name}",
        )(x)
        x = _normalize(x, f"{part}_bn_{name}")
        x = _relu(x) if number == 1 else x
    return x


def _average(x: Any, stride: int, padding: str, name: str) -> Any:
    return layers.AveragePooling2D(3, strides=stride, padding=padding, name=name)(x)


def _maximum(x: Any, name: str) -> Any:
    return layers.MaxPooling2D(3, strides=2, name=name)(x)


def _halve(x: Any, width: int, block: str) -> Any:
    """Every second pixel, and those beside them, as half of the features each."""
    x = _relu(x, f"adjust_relu_1_{block}")
    parts = []
    for number in (1, 2):
        part = x
        if number == 2:
            part = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
            part = layers.Cropping2D(((1, 0), (1, 0)))(part)
        part = layers.AveragePooling2D(1, strides=2, name=f"adjust_avg_pool_{number}_{block}")(part)
        parts.append(_pixelwise(part, width // 2, f"adjust_conv_{number}_{block}"))
    return _normalize(layers.concatenate(parts, axis=channel_axis()), f"adjust_bn_{block}")


def _adjust(before: Any, x: Any, reduced: bool, width: int, block: str) -> Any:
    """The output of an earlier cell with the sizes of `x`."""
    if before is None:
        return x
    rows, target_rows = before.shape[-2], x.shape[-2]
    if reduced if rows is None or target_rows is None else rows != target_rows:
        return _halve(before, width, block)
    if before.shape[channel_axis()] == width:
        return before
    before = _pixelwise(_relu(before), width, f"adjust_conv_projection_{block}")
    return _normalize(before, f"adjust_bn_{block}")


def _normal(x: Any, before: Any, reduced: bool, width: int, block: str) -> Any:
    """The cell that keeps the sizes.

    Args:
        x: the output of the cell before.
        before: the output of the cell before that.
        reduced: whether `x` is of half the height and width of `before`.
        width: of each branch.
        block: in the names of its layers.
    """
    p = _adjust(before, x, reduced, width, block)
    h = _normalize(_pixelwise(_relu(x), width, f"normal_conv_1_{block}"), f"normal_bn_1_{block}")

    def add(number: int, left: Any, right: Any) -> Any:
        return layers.add([left, right], name=f"normal_add_{number}_{block}")

    left = _separable(h, width, 5, f"normal_left1_{block}")
    first = add(1, left, _separable(p, width, 3, f"normal_right1_{block}"))
    left = _separable(p, width, 5, f"normal_left2_{block}")
    second = add(2, left, _separable(p, width, 3, f"normal_right2_{block}"))
    third = add(3, _average(h, 1, "same", f"normal_left3_{block}"), p)
    left = _average(p, 1, "same", f"normal_left4_{block}")
    fourth = add(4, left, _average(p, 1, "same", f"normal_right4_{block}"))
    fifth = add(5, _separable(h, width, 3, f"normal_left5_{block}"), h)
    return layers.concatenate(
        [p, first, second, third, fourth, fifth], axis=channel_axis(), name=f"normal_concat_{block}"
    )


def _reduction(x: Any, before: Any, reduced: bool, width: int, block: str) -> Any:
    """The cell that halves height and width; the arguments are those of `_normal`."""
    p = _adjust(before, x, reduced, width, block)
    h = _pixelwise(_relu(x), width, f"reduction_conv_1_{block}")
    h = _normalize(h, f"reduction_bn_1_{block}")
    padded = layers.ZeroPadding2D(halving_pad(h, 3), name=f"reduction_pad_1_{block}")(h)

    def add(name: str | None, left: Any, right: Any) -> Any:
        return layers.add([left, right], name=name and f"reduction_{name}_{block}")

    left = _separable(h, width, 5, f"reduction_left1_{block}", 2)
    first = add("add_1", left, _separable(p, width, 7, f"reduction_right1_{block}", 2))
    left = _maximum(padded, f"reduction_left2_{block}")
    second = add("add_2", left, _separable(p, width, 7, f"reduction_right2_{block}", 2))
    left = _average(padded, 2, "valid", f"reduction_left3_{block}")
    third = add("add3", left, _separable(p, width, 5, f"reduction_right3_{block}", 2))
    fourth = add(None, second, _average(first, 1, "same", f"reduction_left4_{block}"))
    left = _separable(first, width, 3, f"reduction_left4_{block}")
    fifth = add("add4", left, _maximum(padded, f"reduction_right5_{block}"))
    return layers.concatenate(
        [second, third, fourth, fifth], axis=channel_axis(), name=f"reduction_concat_{block}"
    )


def _features(image: Any, size: _Size) -> Any:
    x = layers.Conv2D(
        size.stem, 3, strides=2, use_bias=False, kernel_initializer="he_normal", name="stem_conv1"
    )(image)
    stem = _normalize(x, "stem_bn1")
    before, x = stem, _reduction(stem, None, False, size.width // 4, "stem_1")
    before, x = x, _reduction(x, before, True, size.width // 2, "stem_2")
    reduced = True
    for stage in range(3):
        width = size.width * 2**stage
        first = stage * size.repeats + (stage > 0)
        for number in range(first, first + size.repeats):
            before, x = x, _normal(x, before, reduced, width, str(number))
            reduced = False
        if stage < 2:
            block = f"reduce_{(stage + 1) * size.repeats}"
            smaller = _reduction(x, before, False, 2 * width, block)
            before, x, reduced = before if size.skips else x, smaller, True
    return _relu(x)


def _nasnet(spec: Wanted, size: _Size) -> Model:
    spec.check_channels_last()
    if size is _MOBILE and spec.input_shape is None and spec.input_tensor is None:
        spec = dataclasses.replace(spec, input_shape=(size.image, size.image, 3))
    shape = spec.input_shape
    if spec.weights == "imagenet" and shape is not None and None in shape:
        raise InvalidArgumentError(
            f"{spec.name}: weights='imagenet' want all sizes of input_shape, got {tuple(shape)}"
        )
    image = spec.image(size.image, 32)
    x = spec.head(_features(image, size), None)
    ending = "" if spec.include_top else "-no-top"
    file = WeightFile(
        f"{FOLDER}nasnet/NASNet-{size.name}{ending}.h5",
        size.hashes[not spec.include_top],
        f"nasnet_{size.name}{ending.replace('-', '_')}.h5",
    )
    return spec.model(image, x, file)


def NASNetMobile(
    input_shape: Sequence[int | None] | None = None,
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "nasnet_mobile",
) -> Model:
    """The small network of the cells that were found, for images of 224 x 224.

    Source: Zoph et al. 2017, arXiv:1707.07012. Images: `nasnet.preprocess_input`.

    Args:
        input_shape: of one image, 32 x 32 or more; by default what the network is for, and all
            sizes for the large one without classifier. Sizes that are `None` serve images of
            32 n + 1 pixels a side.
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
        name: of the model.

    Returns:
        The model.

    Raises:
        InvalidArgumentError: arguments don't fit, or channels come first.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    return _nasnet(spec, _MOBILE)


NASNetLarge = network_like(
    NASNetMobile,
    "NASNetLarge",
    "nasnet_large",
    """The large network of the cells that were found, for images of 331 x 331.

    Source: Zoph et al. 2017, arXiv:1707.07012. Images: `nasnet.preprocess_input`.
    """,
    _nasnet,
    size=_LARGE,
)
