"""EfficientNetV2: networks that train faster, in seven sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    DEVIATIONS,
    FOLDER,
    MEANS,
    Network,
    Wanted,
    WeightFile,
    channel_axis,
    network_like,
)
from trainkit.initializers import VarianceScaling
from trainkit.models import Model

# repeats, width, factor by which features are expanded, stride of each stage; the first three
# stages convolve once where the others expand and then convolve each feature
_SMALL = (
    (1, 16, 1, 1),
    (2, 32, 4, 2),
    (2, 48, 4, 2),
    (3, 96, 4, 2),
    (5, 112, 6, 1),
    (8, 192, 6, 2),
)
_STAGES = {
    "-s": (
        (2, 24, 1, 1), (4, 48, 4, 2), (4, 64, 4, 2), (6, 128, 4, 2), (9, 160, 6, 1),
        (15, 256, 6, 2),
    ),
    "-m": (
        (3, 24, 1, 1), (5, 48, 4, 2), (5, 80, 4, 2), (7, 160, 4, 2), (14, 176, 6, 1),
        (18, 304, 6, 2), (5, 512, 6, 1),
    ),
    "-l": (
        (4, 32, 1, 1), (7, 64, 4, 2), (7, 96, 4, 2), (10, 192, 4, 2), (19, 224, 6, 1),
        (25, 384, 6, 2), (7, 640, 6, 1),
    ),
}  # fmt: skip
_FUSED_STAGES = 3
# width of the stem, factor of widths, factor of repeats, size of images
_SIZES = {
    "b0": (32, 1.0, 1.0, 224), "b1": (32, 1.0, 1.1, 240), "b2": (32, 1.1, 1.2, 260),
    "b3": (32, 1.2, 1.4, 300), "-s": (24, 1.0, 1.0, 384), "-m": (24, 1.0, 1.0, 480),
    "-l": (32, 1.0, 1.0, 480),
}  # fmt: skip
_HASHES = {
    "b0": ("21ecbf6da12460d5c40bb2f29ceb2188", "893217f2bb855e2983157299931e43ff"),
    "b1": ("069f0534ff22adf035c89e2d9547a9dc", "0e80663031ca32d657f9caa404b6ec37"),
    "b2": ("424e49f28180edbde1e94797771950a7", "1dfe2e7a5d45b6632553a8961ea609eb"),
    "b3": ("1f1fc43bd98a6e4fd8fdfd551e02c7a0", "f6abf7b5849ac99a89b50dd3fd532856"),
    "-s": ("e1d88a8495beba45748fedd0cecbe016", "af0682fb74e8c54910f2d4393339c070"),
    "-m": ("a3bf6aa3276309f4fc6a34aa114c95cd", "1b8dc055df72dde80d614482840fe342"),
    "-l": ("27e6d408b53c7ebc868fefa357689935", "b0b66b5c863aef5b46e8608fe1711615"),
}
_DROP = _TOP_DROP = 0.2


def _round_to_8(width: float) -> int:
    """The multiple of 8 that is nearest to `width`, 8 or more."""
    return max(8, int(width + 4) // 8 * 8)


def _kernels() -> Any:
    return VarianceScaling(2.0, "fan_out", "truncated_normal")


def _conv(x: Any, width: int, window: int, name: str, **settings: Any) -> Any:
    settings = {"padding": "same", "use_bias": False, **settings}
    return layers.Conv2D(width, window, kernel_initializer=_kernels(), name=name, **settings)(x)


def _normalize(x: Any, name: str, activation: str | None = None) -> Any:
    x = layers.BatchNormalization(axis=channel_axis(), momentum=0.9, name=name)(x)
    return x if activation is None else layers.Activation("swish", name=activation)(x)


def _weight(x: Any, inner: int, width: int, name: str) -> Any:
    """Each feature times a number that depends on the means of all: squeeze and excitation."""
    shape = (width, 1, 1) if channel_axis() == 1 else (1, 1, width)
    y = layers.GlobalAveragePooling2D(name=f"{name}se_squeeze")(x)
    y = layers.Reshape(shape, name=f"{name}se_reshape")(y)
    y = _conv(y, inner, 1, f"{name}se_reduce", activation="swish", use_bias=True)
    y = _conv(y, width, 1, f"{name}se_expand", activation="sigmoid", use_bias=True)
    return layers.multiply([x, y], name=f"{name}se_excite")


def _fuse(x: Any, before: int, width: int, factor: int, stride: int, name: str) -> Any:
    """Expansion and window in one convolution, then a projection if there was an expansion."""
    if factor == 1:
        x = _conv(x, width, 3, f"{name}project_conv", strides=stride)
        return _normalize(x, f"{name}project_bn", f"{name}project_activation")
    x = _conv(x, before * factor, 3, f"{name}expand_conv", strides=stride)
    x = _normalize(x, f"{name}expand_bn", f"{name}expand_activation")
    return _normalize(_conv(x, width, 1, f"{name}project_conv"), f"{name}project_bn")


def _separate(x: Any, before: int, width: int, factor: int, stride: int, name: str) -> Any:
    """Expansion, a window for each feature, weights of the features, projection."""
    filters = before * factor
    x = _conv(x, filters, 1, f"{name}expand_conv")
    x = _normalize(x, f"{name}expand_bn", f"{name}expand_activation")
    x = layers.DepthwiseConv2D(
        3,
        strides=stride,
        padding="same",
        use_bias=False,
        depthwise_initializer=_kernels(),
        name=f"{name}dwconv2",
    )(x)
    x = _normalize(x, f"{name}bn", f"{name}activation")
    x = _weight(x, max(1, before // 4), filters, name)
    return _normalize(_conv(x, width, 1, f"{name}project_conv"), f"{name}project_bn")


def _with_shortcut(x: Any, start: Any, drop: float, name: str) -> Any:
    if drop:
        x = layers.Dropout(drop, noise_shape=(None, 1, 1, 1), name=f"{name}drop")(x)
    return layers.add([x, start], name=f"{name}add")


def _prepare(image: Any, variant: str) -> Any:
    if variant.startswith("b") and image.shape[channel_axis()] == 3:
        x = layers.Rescaling(1.0 / 255)(image)
        variances = [deviation**2 for deviation in DEVIATIONS]
        return layers.Normalization(channel_axis(), list(MEANS), variances)(x)
    return layers.Rescaling(1.0 / 128.0, -1)(image)


def _features(x: Any, variant: str) -> Any:
    stem, width_factor, depth_factor, _ = _SIZES[variant]
    stages = _STAGES.get(variant, _SMALL)
    width = _round_to_8(stem * width_factor)
    blocks, block_index = sum(stage[0] for stage in stages), 0
    x = _normalize(_conv(x, width, 3, "stem_conv", strides=2), "stem_bn", "stem_activation")
    for number, (repeats, out, factor, stride) in enumerate(stages):
        block = _fuse if number < _FUSED_STAGES else _separate
        for i in range(math.ceil(depth_factor * repeats)):
            before, width = width, _round_to_8(out * width_factor)
            start, step, name = x, 1 if i else stride, f"block{number + 1}{chr(ord('a') + i)}_"
            x = block(x, before, width, factor, step, name)
            if step == 1 and before == width:
                x = _with_shortcut(x, start, _DROP * block_index / blocks, name)
            block_index += 1
    x = _conv(x, _round_to_8(1280 * width_factor), 1, "top_conv")
    return _normalize(x, "top_bn", "top_activation")


def _efficientnet(spec: Wanted, variant: str, include_preprocessing: bool) -> Model:
    image = spec.image(_SIZES[variant][3], 32)
    x = spec.head(
        _features(_prepare(image, variant) if include_preprocessing else image, variant),
        names=("avg_pool", "max_pool"),
        dropout=_TOP_DROP,
        kernel_initializer=VarianceScaling(1.0 / 3.0, "fan_out", "uniform"),
    )
    file = f"efficientnetv2-{variant.removeprefix('-')}{'' if spec.include_top else '_notop'}.h5"
    digest = _HASHES[variant][not spec.include_top]
    return spec.model(image, x, WeightFile(f"{FOLDER}efficientnet_v2/{file}", digest))


def EfficientNetV2B0(
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    include_preprocessing: bool = True,
    name: str | None = "efficientnetv2-b0",
) -> Model:
    """The network B0, for images of 224 x 224 with values in [0, 255].

    Source: Tan and Le 2021, arXiv:2104.00298. The preprocessing is inside.

    Args:
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
        include_preprocessing: whether it takes values in [0, 255]; without, in [-1, 1].
        name: of the model.

    Returns:
        The model.

    Raises:
        InvalidArgumentError: arguments don't fit.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    return _efficientnet(spec, "b0", include_preprocessing)


def _like(pattern: Network, variant: str) -> Network:
    version, size = variant.removeprefix("-").upper(), _SIZES[variant][3]
    about = f"""The network {version}, for images of {size} x {size} with values in [0, 255].

    Source: Tan and Le 2021, arXiv:2104.00298. The preprocessing is inside.
    """
    name, model_name = f"EfficientNetV2{version}", f"efficientnetv2-{version.lower()}"
    return network_like(pattern, name, model_name, about, _efficientnet, variant=variant)


EfficientNetV2B1 = _like(EfficientNetV2B0, "b1")
EfficientNetV2B2 = _like(EfficientNetV2B0, "b2")
EfficientNetV2B3 = _like(EfficientNetV2B0, "b3")
EfficientNetV2S = _like(EfficientNetV2B0, "-s")
EfficientNetV2M = _like(EfficientNetV2B0, "-m")
EfficientNetV2L = _like(EfficientNetV2B0, "-l")
