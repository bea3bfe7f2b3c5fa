"""Residual networks of the first and of the second kind: ResNet50 to ResNet152V2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    FOLDER,
    Network,
    Wanted,
    WeightFile,
    channel_axis,
    network_like,
)
from trainkit.applications.vgg import VGG16
from trainkit.models import Model

_WIDTHS = (64, 128, 256, 512)
_EPSILON = 1.001e-5
_HASHES = {
    "resnet50": ("2cb95161c43110f7111970584f804107", "4d473c1dd8becc155b73f8504c6f6626"),
    "resnet101": ("f1aeb4b969a6efcfb50fad2f0c20cfc5", "88cf7a10940856eca736dc7b7e228a21"),
    "resnet152": ("100835be76be38e30d865e96f2aaae62", "ee4c566cf9a93f14d82f913c2dc6dd0c"),
    "resnet50v2": ("3ef43a0b657b3be2300d5770ece849e0", "fac2f116257151a9d068a22e544a4917"),
    "resnet101v2": ("6343647c601c52e1368623803854d971", "c0ed64b8031c3730f411d2eb4eea35b5"),
    "resnet152v2": ("a49b44d1979771252814e80f8ec446f9", "ed17cf2e0169df9d443503ef94b23b33"),
}


def _normalize(x: Any, name: str, relu: str | None = None) -> Any:
    x = layers.BatchNormalization(axis=channel_axis(), epsilon=_EPSILON, name=name)(x)
    return x if relu is None else layers.Activation("relu", name=relu)(x)


def _block(x: Any, width: int, name: str, stride: int, wider: bool) -> Any:
    """Three convolutions beside a shortcut, which is a convolution where sizes change."""
    shortcut = x
    if wider:
        shortcut = layers.Conv2D(4 * width, 1, strides=stride, name=f"{name}_0_conv")(x)
        shortcut = _normalize(shortcut, f"{name}_0_bn")
    x = layers.Conv2D(width, 1, strides=stride, name=f"{name}_1_conv")(x)
    x = _normalize(x, f"{name}_1_bn", f"{name}_1_relu")
    x = layers.Conv2D(width, 3, padding="same", name=f"{name}_2_conv")(x)
    x = _normalize(x, f"{name}_2_bn", f"{name}_2_relu")
    x = layers.Conv2D(4 * width, 1, name=f"{name}_3_conv")(x)
    x = _normalize(x, f"{name}_3_bn")
    x = layers.Add(name=f"{name}_add")([shortcut, x])
    return layers.Activation("relu", name=f"{name}_out")(x)


def _block_v2(x: Any, width: int, name: str, stride: int, wider: bool) -> Any:
    """The same with normalization and activation before each convolution."""
    before = _normalize(x, f"{name}_preact_bn", f"{name}_preact_relu")
    if wider:
        shortcut = layers.Conv2D(4 * width, 1, strides=stride, name=f"{name}_0_conv")(before)
    else:
        shortcut = layers.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
    x = layers.Conv2D(width, 1, use_bias=False, name=f"{name}_1_conv")(before)
    x = _normalize(x, f"{name}_1_bn", f"{name}_1_relu")
    x = layers.ZeroPadding2D(1, name=f"{name}_2_pad")(x)
    x = layers.Conv2D(width, 3, strides=stride, use_bias=False, name=f"{name}_2_conv")(x)
    x = _normalize(x, f"{name}_2_bn", f"{name}_2_relu")
    x = layers.Conv2D(4 * width, 1, name=f"{name}_3_conv")(x)
    return layers.Add(name=f"{name}_out")([shortcut, x])


def _stage(x: Any, width: int, depth: int, number: int) -> Any:
    for i in range(1, depth + 1):
        stride = 2 if i == 1 and number > 2 else 1
        x = _block(x, width, f"conv{number}_block{i}", stride, i == 1)
    return x


def _stage_v2(x: Any, width: int, depth: int, number: int) -> Any:
    for i in range(1, depth + 1):
        stride = 2 if i == depth and number < 5 else 1
        x = _block_v2(x, width, f"conv{number}_block{i}", stride, i == 1)
    return x


def _resnet(spec: Wanted, variant: str, depths: Sequence[int]) -> Model:
    second = variant.endswith("v2")
    image = spec.image(224, 32)
    x = layers.ZeroPadding2D(3, name="conv1_pad")(image)
    x = layers.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    if not second:
        x = _normalize(x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(1, name="pool1_pad")(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    stage = _stage_v2 if second else _stage
    for number, (width, depth) in enumerate(zip(_WIDTHS, depths, strict=True), 2):
        x = stage(x, width, depth, number)
    if second:
        x = _normalize(x, "post_bn", "post_relu")
    x = spec.head(x, names=("avg_pool", "max_pool"))
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}resnet/{variant}_weights_tf_dim_ordering_tf_kernels{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[variant][not spec.include_top]))


def _like(pattern: Network, name: str, depths: Sequence[int]) -> Network:
    layer_count, _, second = name.removeprefix("ResNet").partition("V")
    if second:
        about = f"""The residual network of {layer_count} layers, activated before convolutions.

        Source: He et al. 2016, arXiv:1603.05027. Images: `resnet_v2.preprocess_input`.
        """
    else:
        about = f"""The residual network of {layer_count} layers, for images of 224 x 224.

        Source: He et al. 2015, arXiv:1512.03385. Images: `resnet.preprocess_input`.
        """
    variant = name.lower()
    return network_like(pattern, name, variant, about, _resnet, variant=variant, depths=depths)


ResNet50 = _like(VGG16, "ResNet50", (3, 4, 6, 3))
ResNet101 = _like(VGG16, "ResNet101", (3, 4, 23, 3))
ResNet152 = _like(VGG16, "ResNet152", (3, 8, 36, 3))
ResNet50V2 = _like(VGG16, "ResNet50V2", (3, 4, 6, 3))
ResNet101V2 = _like(VGG16, "ResNet101V2", (3, 4, 23, 3))
ResNet152V2 = _like(VGG16, "ResNet152V2", (3, 8, 36, 3))
