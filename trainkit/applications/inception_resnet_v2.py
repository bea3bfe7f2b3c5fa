"""Inception-ResNet V2: branches of different windows, added to a shortcut."""

from __future__ import annotations

from collections.abc import Sequence
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
from trainkit.layers.residual_branches import CustomScaleLayer
from trainkit.models import Model

_HASHES = ("e693bd0210a403b3192acc6073ad2e96", "d19885ff4a710c122648d3b5c3b684e4")
_ROW, _COLUMN = (1, 7), (7, 1)
# branches of each kind of block, each a list of (width, window)
_BRANCHES: dict[str, tuple[tuple[tuple[int, Any], ...], ...]] = {
    "block35": (((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3))),
    "block17": (((192, 1),), ((128, 1), (160, _ROW), (192, _COLUMN))),
    "block8": (((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1)))),
}


def _conv(
    x: Any, width: int, window: Any, stride: int = 1, padding: str = "same", name: str | None = None
) -> Any:
    named = (None, None) if name is None else (f"{name}_bn", f"{name}_ac")
    x = layers.Conv2D(
        width, window, strides=stride, padding=padding, use_bias=False, name=name
    )(x)  # fmt: skip
    x = layers.BatchNormalization(axis=channel_axis(), scale=False, name=named[0])(x)
    return layers.Activation("relu", name=named[1])(x)


def _convs(x: Any, steps: Sequence[tuple[int, Any]], halved: bool = False) -> Any:
    """Convolutions one behind the other, each (width, window); the last may halve the images."""
    for i, (width, window) in enumerate(steps, 1):
        last = halved and i == len(steps)
        x = _conv(x, width, window, 2 if last else 1, "valid" if last else "same")
    return x


def _join(branches: list[Any], name: str) -> Any:
    return layers.Concatenate(axis=channel_axis(), name=name)(branches)


def _block(x: Any, scale: float, kind: str, number: int, relu: bool = True) -> Any:
    name = f"{kind}_{number}"
    mixed = _join([_convs(x, steps) for steps in _BRANCHES[kind]], f"{name}_mixed")
    up = layers.Conv2D(
        x.shape[channel_axis()], 1, padding="same", use_bias=True, name=f"{name}_conv"
    )(mixed)
    x = CustomScaleLayer(scale)([x, up])
    return layers.Activation("relu", name=f"{name}_ac")(x) if relu else x


def _stem(x: Any) -> Any:
    x = _conv(x, 32, 3, 2, "valid")
    x = _conv(_conv(x, 32, 3, 1, "valid"), 64, 3)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = _conv(_conv(x, 80, 1, 1, "valid"), 192, 3, 1, "valid")
    x = layers.MaxPooling2D(3, strides=2)(x)
    branches = [_convs(x, steps) for steps in (
        ((96, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)),
    )]  # fmt: skip
    averaged = _conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), 64, 1)
    return _join([*branches, averaged], "mixed_5b")


def _halve(x: Any, branches: Sequence[Sequence[tuple[int, Any]]], name: str) -> Any:
    outputs = [_convs(x, steps, halved=True) for steps in branches]
    return _join([*outputs, layers.MaxPooling2D(3, strides=2)(x)], name)


def _features(image: Any) -> Any:
    x = _stem(image)
    for number in range(1, 11):
        x = _block(x, 0.17, "block35", number)
    x = _halve(x, (((384, 3),), ((256, 1), (256, 3), (384, 3))), "mixed_6a")
    for number in range(1, 21):
        x = _block(x, 0.1, "block17", number)
    x = _halve(
        x, (((256, 1), (384, 3)), ((256, 1), (288, 3)), ((256, 1), (288, 3), (320, 3))), "mixed_7a"
    )
    for number in range(1, 10):
        x = _block(x, 0.2, "block8", number)
    x = _block(x, 1.0, "block8", 10, relu=False)
    return _conv(x, 1536, 1, name="conv_7b")


def _inception_resnet(spec: Wanted) -> Model:
    image = spec.image(299, 75)
    x = spec.head(_features(image))
    ending = ".h5" if spec.include_top else "_notop.h5"
    file = f"inception_resnet_v2_weights_tf_dim_ordering_tf_kernels{ending}"
    digest = _HASHES[not spec.include_top]
    return spec.model(image, x, WeightFile(f"{FOLDER}inception_resnet_v2/{file}", digest))


InceptionResNetV2 = network_like(
    VGG16,
    "InceptionResNetV2",
    "inception_resnet_v2",
    """The network of residual branches side by side, for images of 299 x 299, at least 75 x 75.

    Source: Szegedy et al. 2016, arXiv:1602.07261. Images: `inception_resnet_v2.preprocess_input`.
    """,
    _inception_resnet,
)
