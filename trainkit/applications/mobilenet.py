"""MobileNet and MobileNetV2: depthwise convolutions, for small machines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    FOLDER,
    Wanted,
    WeightFile,
    channel_axis,
    divisible,
    halving_pad,
)
from trainkit.core.errors import InvalidArgumentError
from trainkit.models import Model

_TRAINED = {"mobilenet": (128, 160, 192, 224), "mobilenet_v2": (96, 128, 160, 192, 224)}
_ALPHAS = {
    "mobilenet": {0.25: "2_5", 0.5: "5_0", 0.75: "7_5", 1.0: "1_0"},
    "mobilenet_v2": dict.fromkeys((0.35, 0.5, 0.75, 1.0, 1.3, 1.4), ""),
}
# width and stride of each block
_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
    (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
_BLOCKS_V2 = (
    (16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (64, 1),
    (96, 1), (96, 1), (96, 1), (160, 2), (160, 1), (160, 1), (320, 1),
)  # fmt: skip


def _size(spec: Wanted, variant: str) -> int:
    """The size of images for which there are trained weights, by the shape that was given."""
    shape = spec.input_shape
    if shape is None and spec.input_tensor is not None:
        shape = tuple(spec.input_tensor.shape)[1:]
    if shape is None or len(shape) != 3:
        return 224
    height, width = shape[1:] if channel_axis() == 1 else shape[:2]
    return height if height is not None and height == width in _TRAINED[variant] else 224


def _check_trained(spec: Wanted, variant: str, alpha: float, image: Any) -> None:
    """Refuse what no weights were trained for; other sizes of images take those of 224 x 224."""
    if spec.weights != "imagenet":
        return
    if alpha not in _ALPHAS[variant]:
        raise InvalidArgumentError(
            f"{variant}: weights='imagenet' are there for alpha {sorted(_ALPHAS[variant])}, "
            f"got {alpha}"
        )
    height, width = tuple(image.shape)[2:4] if channel_axis() == 1 else tuple(image.shape)[1:3]
    if height != width or height not in _TRAINED[variant]:
        warnings.warn(
            f"{variant}: images of {height} x {width} take the weights trained on 224 x 224",
            stacklevel=4,
        )


def _normalize(x: Any, name: str, relu: str | None, **settings: Any) -> Any:
    x = layers.BatchNormalization(axis=channel_axis(), name=name, **settings)(x)
    return x if relu is None else layers.ReLU(6.0, name=relu)(x)


def _block(x: Any, width: int, stride: int, multiplier: int, number: int) -> Any:
    if stride == 2:
        x = layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"conv_pad_{number}")(x)
    name = f"conv_dw_{number}"
    x = layers.DepthwiseConv2D(
        3,
        padding="valid" if stride == 2 else "same",
        depth_multiplier=multiplier,
        strides=stride,
        use_bias=False,
        name=name,
    )(x)
    x = _normalize(x, f"{name}_bn", f"{name}_relu")
    name = f"conv_pw_{number}"
    x = layers.Conv2D(width, 1, padding="same", use_bias=False, name=name)(x)
    return _normalize(x, f"{name}_bn", f"{name}_relu")


def MobileNet(
    input_shape: Sequence[int | None] | None = None,
    alpha: float = 1.0,
    depth_multiplier: int = 1,
    dropout: float = 1e-3,
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = None,
) -> Model:
    """The first network of depthwise convolutions, for images of 224 x 224.

    Source: Howard et al. 2017, arXiv:1704.04861. Images: `mobilenet.preprocess_input`.

    Args:
        input_shape: of one image, 32 x 32 or more.
        alpha: factor of all widths.
        depth_multiplier: features that depthwise convolutions make of each.
        dropout: rate before the classifier.
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
        InvalidArgumentError: arguments don't fit, or there are no trained weights for them.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    size = _size(spec, "mobilenet")
    image = spec.image(size, 32)
    _check_trained(spec, "mobilenet", alpha, image)
    if weights == "imagenet" and depth_multiplier != 1:
        raise InvalidArgumentError("mobilenet: weights='imagenet' are for depth_multiplier=1")
    x = layers.Conv2D(int(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="conv1")(
        image
    )
    x = _normalize(x, "conv1_bn", "conv1_relu")
    for number, (width, stride) in enumerate(_BLOCKS, 1):
        x = _block(x, int(width * alpha), stride, depth_multiplier, number)
    x = _mobile_head(spec, x, dropout)
    ending = "_tf.h5" if include_top else "_tf_no_top.h5"
    text = _ALPHAS["mobilenet"].get(alpha, "")
    trained = WeightFile(f"{FOLDER}mobilenet/mobilenet_{text}_{size}{ending}")
    return spec.model(image, x, trained, f"mobilenet_{alpha:0.2f}_{_rows(image)}")


def _rows(image: Any) -> Any:
    return image.shape[2 if channel_axis() == 1 else 1]


def _mobile_head(spec: Wanted, x: Any, dropout: float) -> Any:
    """The classifier as a convolution of one pixel."""
    if not spec.include_top:
        return spec.pooled(x)
    x = layers.GlobalAveragePooling2D(keepdims=True)(x)
    x = layers.Dropout(dropout, name="dropout")(x)
    x = layers.Conv2D(spec.classes, 1, padding="same", name="conv_preds")(x)
    x = layers.Reshape((spec.classes,), name="reshape_2")(x)
    return layers.Activation(spec.classifier_activation, name="predictions")(x)


def _block_v2(x: Any, width: int, stride: int, number: int) -> Any:
    """Wider, depthwise, narrower again; with a shortcut where the sizes stay."""
    start, before = x, x.shape[channel_axis()]
    name = f"block_{number}_" if number else "expanded_conv_"
    settings = {"epsilon": 1e-3, "momentum": 0.999}
    if number:
        x = layers.Conv2D(6 * before, 1, padding="same", use_bias=False, name=f"{name}expand")(x)
        x = _normalize(x, f"{name}expand_BN", f"{name}expand_relu", **settings)
    if stride == 2:
        x = layers.ZeroPadding2D(halving_pad(x, 3), name=f"{name}pad")(x)
    padding: str = "valid" if stride == 2 else "same"
    x = layers.DepthwiseConv2D(
        3, strides=stride, padding=padding, use_bias=False, name=f"{name}depthwise"
    )(x)
    x = _normalize(x, f"{name}depthwise_BN", f"{name}depthwise_relu", **settings)
    x = layers.Conv2D(width, 1, padding="same", use_bias=False, name=f"{name}project")(x)
    x = _normalize(x, f"{name}project_BN", None, **settings)
    same = stride == 1 and before == width
    return layers.Add(name=f"{name}add")([start, x]) if same else x


def MobileNetV2(
    input_shape: Sequence[int | None] | None = None,
    alpha: float = 1.0,
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = None,
) -> Model:
    """The network of inverted residuals, for images of 224 x 224.

    Source: Sandler et al. 2018, arXiv:1801.04381. Images: `mobilenet_v2.preprocess_input`.

    Args:
        input_shape: of one image, 32 x 32 or more.
        alpha: factor of all widths.
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
        InvalidArgumentError: arguments don't fit, or there are no trained weights for them.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    size = _size(spec, "mobilenet_v2")
    image = spec.image(size, 32)
    _check_trained(spec, "mobilenet_v2", alpha, image)
    settings = {"epsilon": 1e-3, "momentum": 0.999}
    x = layers.Conv2D(
        divisible(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="Conv1"
    )(image)
    x = _normalize(x, "bn_Conv1", "Conv1_relu", **settings)
    for number, (width, stride) in enumerate(_BLOCKS_V2):
        x = _block_v2(x, divisible(int(width * alpha)), stride, number)
    last = divisible(1280 * alpha) if alpha > 1.0 else 1280
    x = layers.Conv2D(last, 1, use_bias=False, name="Conv_1")(x)
    x = spec.head(_normalize(x, "Conv_1_bn", "out_relu", **settings), None)
    ending = ".h5" if include_top else "_no_top.h5"
    url = (
        f"{FOLDER}mobilenet_v2/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_"
        f"{float(alpha)}_{size}{ending}"
    )
    return spec.model(image, x, WeightFile(url), f"mobilenetv2_{alpha:0.2f}_{_rows(image)}")
