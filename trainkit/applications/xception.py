"""Xception: separable convolutions beside shortcuts."""

from __future__ import annotations

from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    FOLDER,
    Wanted,
    WeightFile,
    channel_axis,
    network_like,
)
from trainkit.applications.vgg import VGG16
from trainkit.models import Model

_HASHES = ("0a58e3b7378bc2990ea3b43d5981f1f6", "b0042744bf5b25fce3cb969f33bebb97")


def _normalize(x: Any, name: str | None = None) -> Any:
    return layers.BatchNormalization(axis=channel_axis(), name=name)(x)


def _relu(x: Any, name: str) -> Any:
    return layers.Activation("relu", name=name)(x)


def _separable(x: Any, width: int, name: str) -> Any:
    x = layers.SeparableConv2D(width, 3, padding="same", use_bias=False, name=name)(x)
    return _normalize(x, f"{name}_bn")


def _shortcut(x: Any, width: int) -> Any:
    return _normalize(layers.Conv2D(width, 1, strides=2, padding="same", use_bias=False)(x))


def _smaller(x: Any, number: int, widths: tuple[int, int]) -> Any:
    """Two separable convolutions and a quarter of the pixels."""
    name = f"block{number}"
    shortcut = _shortcut(x, widths[1])
    if number > 2:  # the second block comes behind an activation
        x = _relu(x, f"{name}_sepconv1_act")
    x = _separable(x, widths[0], f"{name}_sepconv1")
    x = _separable(_relu(x, f"{name}_sepconv2_act"), widths[1], f"{name}_sepconv2")
    x = layers.MaxPooling2D(3, strides=2, padding="same", name=f"{name}_pool")(x)
    return layers.add([x, shortcut])


def _same(x: Any, number: int) -> Any:
    """Three separable convolutions."""
    shortcut = x
    for i in (1, 2, 3):
        name = f"block{number}_sepconv{i}"
        x = _separable(_relu(x, f"{name}_act"), 728, name)
    return layers.add([x, shortcut])


def _features(image: Any) -> Any:
    x = image
    for i, (width, stride) in enumerate(((32, 2), (64, 1)), 1):
        name = f"block1_conv{i}"
        x = layers.Conv2D(width, 3, strides=stride, use_bias=False, name=name)(x)
        x = _relu(_normalize(x, f"{name}_bn"), f"{name}_act")
    for number, width in ((2, 128), (3, 256), (4, 728)):
        x = _smaller(x, number, (width, width))
    for number in range(5, 13):
        x = _same(x, number)
    x = _smaller(x, 13, (728, 1024))
    for i, width in ((1, 1536), (2, 2048)):
        name = f"block14_sepconv{i}"
        x = _relu(_separable(x, width, name), f"{name}_act")
    return x


def _xception(spec: Wanted) -> Model:
    image = spec.image(299, 71)
    x = spec.head(_features(image))
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}xception/xception_weights_tf_dim_ordering_tf_kernels{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[not spec.include_top]))


Xception = network_like(
    VGG16,
    "Xception",
    "xception",
    """The network of separable convolutions, for images of 299 x 299, at least 71 x 71.

    Source: Chollet 2016, arXiv:1610.02357. Images: `xception.preprocess_input`.
    """,
    _xception,
)
