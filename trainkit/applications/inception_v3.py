"""Inception V3: branches of different windows, side by side."""

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

_HASHES = ("9a0d58056eeedaa3f26cb7ebd46da564", "bcbd6486424b2319ff4ef7d526e38f63")


def _conv(
    x: Any, width: int, window: int | tuple[int, int], stride: int = 1, padding: str = "same"
) -> Any:
    x = layers.Conv2D(width, window, strides=stride, padding=padding, use_bias=False)(x)
    x = layers.BatchNormalization(axis=channel_axis(), scale=False)(x)
    return layers.Activation("relu")(x)


def _convs(x: Any, *steps: Any) -> Any:
    """Convolutions one behind the other, each (width, window)."""
    for width, window in steps:
        x = _conv(x, width, window)
    return x


def _average(x: Any, width: int) -> Any:
    return _conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), width, 1)


def _join(branches: list[Any], name: str | None = None) -> Any:
    return layers.concatenate(branches, axis=channel_axis(), name=name)


def _stem(x: Any) -> Any:
    x = _conv(x, 32, 3, 2, "valid")
    x = _conv(_conv(x, 32, 3, 1, "valid"), 64, 3)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = _conv(_conv(x, 80, 1, 1, "valid"), 192, 3, 1, "valid")
    return layers.MaxPooling2D(3, strides=2)(x)


def _of_35(x: Any, pool_width: int, name: str) -> Any:
    one = _conv(x, 64, 1)
    five = _convs(x, (48, 1), (64, 5))
    three = _convs(x, (64, 1), (96, 3), (96, 3))
    return _join([one, five, three, _average(x, pool_width)], name)


def _to_17(x: Any) -> Any:
    three = _conv(x, 384, 3, 2, "valid")
    twice = _conv(_convs(x, (64, 1), (96, 3)), 96, 3, 2, "valid")
    return _join([three, twice, layers.MaxPooling2D(3, strides=2)(x)], "mixed3")


def _of_17(x: Any, width: int, name: str) -> Any:
    row, column = (1, 7), (7, 1)
    one = _conv(x, 192, 1)
    seven = _convs(x, (width, 1), (width, row), (192, column))
    twice = _convs(x, (width, 1), (width, column), (width, row), (width, column), (192, row))
    return _join([one, seven, twice, _average(x, 192)], name)


def _to_8(x: Any) -> Any:
    three = _conv(_conv(x, 192, 1), 320, 3, 2, "valid")
    seven = _convs(x, (192, 1), (192, (1, 7)), (192, (7, 1)))
    seven = _conv(seven, 192, 3, 2, "valid")
    return _join([three, seven, layers.MaxPooling2D(3, strides=2)(x)], "mixed8")


def _of_8(x: Any, number: int) -> Any:
    one = _conv(x, 320, 1)
    three = _conv(x, 384, 1)
    three = _join([_conv(three, 384, (1, 3)), _conv(three, 384, (3, 1))], f"mixed9_{number - 9}")
    twice = _convs(x, (448, 1), (384, 3))
    twice = _join([_conv(twice, 384, (1, 3)), _conv(twice, 384, (3, 1))])
    return _join([one, three, twice, _average(x, 192)], f"mixed{number}")


def _features(image: Any) -> Any:
    x = _stem(image)
    for number, width in enumerate((32, 64, 64)):
        x = _of_35(x, width, f"mixed{number}")
    x = _to_17(x)
    for number, width in enumerate((128, 160, 160, 192), 4):
        x = _of_17(x, width, f"mixed{number}")
    x = _to_8(x)
    for number in (9, 10):
        x = _of_8(x, number)
    return x


def _inception(spec: Wanted) -> Model:
    image = spec.image(299, 75)
    x = spec.head(_features(image))
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}inception_v3/inception_v3_weights_tf_dim_ordering_tf_kernels{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[not spec.include_top]))


InceptionV3 = network_like(
    VGG16,
    "InceptionV3",
    "inception_v3",
    """The network of branches side by side, for images of 299 x 299, at least 75 x 75.

    Source: Szegedy et al. 2015, arXiv:1512.00567. Images: `inception_v3.preprocess_input`.
    """,
    _inception,
)
