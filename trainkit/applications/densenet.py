"""DenseNet: each layer sees the features of all before it."""

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
from trainkit.core.errors import InvalidArgumentError
from trainkit.models import Model

_EPSILON = 1.001e-5
_GROWTH = 32
_HASHES = {
    "densenet121": ("9d60b8095a5708f2dcce2bca79d332c7", "30ee3e1110167f948a6b9946edeeb738"),
    "densenet169": ("d699b8f76981ab1b30698df4c175e90b", "b8c4d4c20dd625c148057b9ff1c1176b"),
    "densenet201": ("1ceb130c1ea1b78c3bf6114dbdfd8807", "c13680b51ded0fb44dff2d8f86ac8bb1"),
}


def _activate(x: Any, name: str, relu: str) -> Any:
    x = layers.BatchNormalization(axis=-1, epsilon=_EPSILON, name=name)(x)
    return layers.Activation("relu", name=relu)(x)


def _layer(x: Any, name: str) -> Any:
    new = _activate(x, f"{name}_0_bn", f"{name}_0_relu")
    new = layers.Conv2D(4 * _GROWTH, 1, use_bias=False, name=f"{name}_1_conv")(new)
    new = _activate(new, f"{name}_1_bn", f"{name}_1_relu")
    new = layers.Conv2D(_GROWTH, 3, padding="same", use_bias=False, name=f"{name}_2_conv")(new)
    return layers.Concatenate(axis=-1, name=f"{name}_concat")([x, new])


def _halve(x: Any, name: str) -> Any:
    """Half the features on a quarter of the pixels."""
    x = _activate(x, f"{name}_bn", f"{name}_relu")
    x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False, name=f"{name}_conv")(x)
    return layers.AveragePooling2D(2, strides=2, name=f"{name}_pool")(x)


def _densenet(spec: Wanted, variant: str, depths: Sequence[int]) -> Model:
    if channel_axis() == 1:
        raise InvalidArgumentError(f"{variant}: images must have the data format channels_last")
    image = spec.image(224, 32)
    x = layers.ZeroPadding2D(3)(image)
    x = layers.Conv2D(64, 7, strides=2, use_bias=False, name="conv1_conv")(x)
    x = _activate(x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(1)(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1")(x)
    for number, depth in enumerate(depths, 2):
        if number > 2:
            x = _halve(x, f"pool{number - 1}")
        for i in range(1, depth + 1):
            x = _layer(x, f"conv{number}_block{i}")
    x = spec.head(_activate(x, "bn", "relu"), names=("avg_pool", "max_pool"))
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}densenet/{variant}_weights_tf_dim_ordering_tf_kernels{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[variant][not spec.include_top]))


def _like(pattern: Network, layer_count: int, depths: Sequence[int]) -> Network:
    about = f"""The densely connected network of {layer_count} layers, for images of 224 x 224.

    Source: Huang et al. 2016, arXiv:1608.06993. Images: `densenet.preprocess_input`.
    """
    name, variant = f"DenseNet{layer_count}", f"densenet{layer_count}"
    return network_like(pattern, name, variant, about, _densenet, variant=variant, depths=depths)


DenseNet121 = _like(VGG16, 121, (6, 12, 24, 16))
DenseNet169 = _like(VGG16, 169, (6, 12, 32, 32))
DenseNet201 = _like(VGG16, 201, (6, 12, 48, 32))
