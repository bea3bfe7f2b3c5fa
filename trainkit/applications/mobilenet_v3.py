"""MobileNetV3: inverted residuals whose shapes a search has found, in two sizes."""

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
    network_like,
)
from trainkit.core.errors import InvalidArgumentError
from trainkit.models import Model

# factor by which features are expanded, width, window, stride, whether features are weighted,
# whether the activation is the hard swish; a window of 5 is 3 in the minimalistic networks
_BLOCKS = {
    "small": (
        (1, 16, 3, 2, True, False), (72 / 16, 24, 3, 2, False, False),
        (88 / 24, 24, 3, 1, False, False), (4, 40, 5, 2, True, True), (6, 40, 5, 1, True, True),
        (6, 40, 5, 1, True, True), (3, 48, 5, 1, True, True), (3, 48, 5, 1, True, True),
        (6, 96, 5, 2, True, True), (6, 96, 5, 1, True, True), (6, 96, 5, 1, True, True),
    ),
    "large": (
        (1, 16, 3, 1, False, False), (4, 24, 3, 2, False, False), (3, 24, 3, 1, False, False),
        (3, 40, 5, 2, True, False), (3, 40, 5, 1, True, False), (3, 40, 5, 1, True, False),
        (6, 80, 3, 2, False, True), (2.5, 80, 3, 1, False, True), (2.3, 80, 3, 1, False, True),
        (2.3, 80, 3, 1, False, True), (6, 112, 3, 1, True, True), (6, 112, 3, 1, True, True),
        (6, 160, 5, 2, True, True), (6, 160, 5, 1, True, True), (6, 160, 5, 1, True, True),
    ),
}  # fmt: skip
_LAST = {"small": 1024, "large": 1280}
_SE_RATIO = 0.25
_HASHES = {
    "large_224_0.75": ("765b44a33ad4005b3ac83185abf1d0eb", "40af19a13ebea4e2ee0c676887f69a2e"),
    "large_224_1.0": ("59e551e166be033d707958cf9e29a6a7", "07fb09a5933dd0c8eaafa16978110389"),
    "large_minimalistic_224_1.0": (
        "675e7b876c45c57e9e63e6d90a36599c", "ec5221f64a2f6d1ef965a614bdae7973",
    ),
    "small_224_0.75": ("cb65d4e5be93758266aa0a7f2c6708b7", "ebdb5cc8e0b497cd13a7c275d475c819"),
    "small_224_1.0": ("8768d4c2e7dee89b9d02b2d03d65d862", "d3e8ec802a04aa4fc771ee12a9a9b836"),
    "small_minimalistic_224_1.0": (
        "99cd97fb2fcdad2bf028eb838de69e37", "cde8136e733e811080d9fcd8a252f7e4",
    ),
}  # fmt: skip


def _activate(x: Any, hard_swish: bool) -> Any:
    return layers.Activation("hard_swish")(x) if hard_swish else layers.ReLU()(x)


def _conv(x: Any, width: int, name: str, window: int = 1, stride: int = 1) -> Any:
    return layers.Conv2D(
        width, window, strides=stride, padding="same", use_bias=False, name=name
    )(x)  # fmt: skip


def _normalize(x: Any, name: str) -> Any:
    return layers.BatchNormalization(
        axis=channel_axis(), epsilon=1e-3, momentum=0.999, name=name
    )(x)  # fmt: skip


def _weight(x: Any, width: int, name: str) -> Any:
    """Each feature times a number that depends on the means of all: squeeze and excitation."""
    name = f"{name}squeeze_excite_"
    y = layers.GlobalAveragePooling2D(keepdims=True, name=f"{name}avg_pool")(x)
    inner = divisible(width * _SE_RATIO)
    y = layers.Conv2D(inner, 1, padding="same", name=f"{name}conv")(y)
    y = layers.ReLU(name=f"{name}relu")(y)
    y = layers.Conv2D(width, 1, padding="same", name=f"{name}conv_1")(y)
    y = layers.ReLU(6.0)(y + 3.0) * (1.0 / 6.0)
    return layers.Multiply(name=f"{name}mul")([x, y])


def _block(
    x: Any,
    factor: float,
    width: int,
    window: int,
    stride: int,
    weighted: bool,
    hard_swish: bool,
    number: int,
) -> Any:
    """Wider, depthwise, narrower again; with a shortcut where the sizes stay."""
    start, before = x, x.shape[channel_axis()]
    name = f"expanded_conv_{number}_" if number else "expanded_conv_"
    filters = divisible(before * factor)
    if number:
        x = _normalize(_conv(x, filters, f"{name}expand"), f"{name}expand_bn")
        x = _activate(x, hard_swish)
    if stride == 2:
        x = layers.ZeroPadding2D(halving_pad(x, window), name=f"{name}depthwise_pad")(x)
    x = layers.DepthwiseConv2D(
        window,
        strides=stride,
        padding="same" if stride == 1 else "valid",
        use_bias=False,
        name=f"{name}depthwise",
    )(x)
    x = _activate(_normalize(x, f"{name}depthwise_bn"), hard_swish)
    if weighted:
        x = _weight(x, filters, name)
    x = _normalize(_conv(x, width, f"{name}project"), f"{name}project_bn")
    same = stride == 1 and before == width
    return layers.Add(name=f"{name}add")([start, x]) if same else x


def _features(x: Any, variant: str, alpha: float, minimalistic: bool) -> Any:
    x = _normalize(_conv(x, 16, "conv", 3, 2), "conv_bn")
    x = _activate(x, not minimalistic)
    for number, (factor, width, window, stride, weighted, hard) in enumerate(_BLOCKS[variant]):
        if minimalistic:
            window, weighted, hard = 3, False, False
        x = _block(x, factor, divisible(width * alpha), window, stride, weighted, hard, number)
    x = _conv(x, divisible(x.shape[channel_axis()] * 6), "conv_1")
    return _activate(_normalize(x, "conv_1_bn"), not minimalistic)


def _head(spec: Wanted, x: Any, width: int, dropout_rate: float, minimalistic: bool) -> Any:
    """The classifier as two convolutions of one pixel."""
    if not spec.include_top:
        return spec.pooled(x, ("avg_pool", "max_pool"))
    x = layers.GlobalAveragePooling2D(keepdims=True)(x)
    x = layers.Conv2D(width, 1, padding="same", name="conv_2")(x)
    x = _activate(x, not minimalistic)
    if dropout_rate > 0:
        x = layers.Dropout(dropout_rate)(x)
    x = layers.Conv2D(spec.classes, 1, padding="same", name="logits")(x)
    x = layers.Flatten()(x)
    return layers.Activation(spec.classifier_activation, name="predictions")(x)


def _check_trained(spec: Wanted, alpha: float, minimalistic: bool, image: Any) -> None:
    """Refuse widths that no weights were trained for; all images take those of 224 x 224."""
    if spec.weights != "imagenet":
        return
    trained = (1.0,) if minimalistic else (0.75, 1.0)
    if alpha not in trained:
        raise InvalidArgumentError(
            f"{spec.name}: weights='imagenet' with minimalistic={minimalistic} are there for "
            f"alpha {trained}, got {alpha}"
        )
    height, width = tuple(image.shape)[2:4] if channel_axis() == 1 else tuple(image.shape)[1:3]
    if height != width or height != 224:
        warnings.warn(
            f"{spec.name}: images of {height} x {width} take the weights trained on 224 x 224",
            stacklevel=4,
        )


def _check_same_width(spec: Wanted) -> None:
    input_shape, start = spec.input_shape, spec.input_tensor
    if input_shape is None or not hasattr(start, "_keras_history"):
        return
    axis = 2 if channel_axis() == -1 else 1
    if tuple(start.shape)[axis] != input_shape[1]:
        raise InvalidArgumentError(
            f"{spec.name}: input_shape={tuple(input_shape)} does not fit input_tensor of shape "
            f"{tuple(start.shape)}; leave input_shape out"
        )


def _mobilenet(
    spec: Wanted,
    variant: str,
    alpha: float,
    minimalistic: bool,
    dropout_rate: float,
    include_preprocessing: bool,
) -> Model:
    _check_same_width(spec)
    image = spec.image(224, 32, any_size=True)
    _check_trained(spec, alpha, minimalistic, image)
    x = image
    if include_preprocessing:
        x = layers.Rescaling(1.0 / 127.5, -1.0)(x)
    x = _features(x, variant, alpha, minimalistic)
    last = _LAST[variant]
    width = divisible(last * alpha) if alpha > 1.0 else last
    x = _head(spec, x, width, dropout_rate, minimalistic)
    file = f"{variant}{'_minimalistic' if minimalistic else ''}_224_{float(alpha)}"
    ending = "" if spec.include_top else "_no_top_v2"
    digests = _HASHES.get(file, (None, None))
    url = f"{FOLDER}mobilenet_v3/weights_mobilenet_v3_{file}_float{ending}.h5"
    return spec.model(image, x, WeightFile(url, digests[not spec.include_top]))


def MobileNetV3Small(
    input_shape: Sequence[int | None] | None = None,
    alpha: float = 1.0,
    minimalistic: bool = False,
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    classes: int = 1000,
    pooling: str | None = None,
    dropout_rate: float = 0.2,
    classifier_activation: Any = "softmax",
    include_preprocessing: bool = True,
    name: str | None = "MobileNetV3Small",
) -> Model:
    """The small network, for images of about 224 x 224 with values in [0, 255].

    Source: Howard et al. 2019, arXiv:1905.02244. The preprocessing is inside.

    Args:
        input_shape: of one image, 32 x 32 or more; by default all sizes.
        alpha: factor of all widths.
        minimalistic: whether it does without weights of the features, hard swish and windows of 5.
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        classes: how many.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        dropout_rate: before the classifier.
        classifier_activation: of the classifier, `None` for logits.
        include_preprocessing: whether it takes values in [0, 255]; without, in [-1, 1].
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
    return _mobilenet(spec, "small", alpha, minimalistic, dropout_rate, include_preprocessing)


MobileNetV3Large = network_like(
    MobileNetV3Small,
    "MobileNetV3Large",
    "MobileNetV3Large",
    """The large network, for images of about 224 x 224 with values in [0, 255].

    Source: Howard et al. 2019, arXiv:1905.02244. The preprocessing is inside.
    """,
    _mobilenet,
    variant="large",
)
