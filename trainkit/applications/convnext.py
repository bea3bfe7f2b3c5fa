"""ConvNeXt: convolutional networks built like transformers, in five sizes."""

from __future__ import annotations

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
    network_like,
)
from trainkit.layers.residual_branches import LayerScale
from trainkit.models import Model, Sequential

# blocks of each stage, widths of each stage
_SIZES = {
    "tiny": ((3, 3, 9, 3), (96, 192, 384, 768)),
    "small": ((3, 3, 27, 3), (96, 192, 384, 768)),
    "base": ((3, 3, 27, 3), (128, 256, 512, 1024)),
    "large": ((3, 3, 27, 3), (192, 384, 768, 1536)),
    "xlarge": ((3, 3, 27, 3), (256, 512, 1024, 2048)),
}
_HASHES = {
    "tiny": (
        "8ae6e78ce2933352b1ef4008e6dd2f17bc40771563877d156bc6426c7cf503ff",
        "d547c096cabd03329d7be5562c5e14798aa39ed24b474157cef5e85ab9e49ef1",
    ),
    "small": (
        "ce1277d8f1ee5a0ef0e171469089c18f5233860ceaf9b168049cb9263fd7483c",
        "6fc8009faa2f00c1c1dfce59feea9b0745eb260a7dd11bee65c8e20843da6eab",
    ),
    "base": (
        "52cbb006d3dadd03f6e095a8ca1aca47aecdd75acb4bc74bce1f5c695d0086e6",
        "40a20c5548a5e9202f69735ecc06c990e6b7c9d2de39f0361e27baeb24cb7c45",
    ),
    "large": (
        "070c5ed9ed289581e477741d3b34beffa920db8cf590899d6d2c67fba2a198a6",
        "96f02b6f0753d4f543261bc9d09bed650f24dd6bc02ddde3066135b63d23a1cd",
    ),
    "xlarge": (
        "c1f5ccab661354fc3a79a10fa99af82f0fbf10ec65cb894a3ae0815f17a889ee",
        "de3f8a54174130e0cecdc71583354753d557fcf1f4487331558e2a16ba0cfe05",
    ),
}
_INITIAL_SCALE = 1e-6


def _normalize(x: Any, name: str | None = None) -> Any:
    return layers.LayerNormalization(epsilon=1e-6, name=name)(x)


def _smaller(width: int, window: int, name: str, part: str, last: str, first: bool) -> Any:
    """A model of a convolution whose windows touch, and a normalization after or before it."""
    conv = layers.Conv2D(width, window, strides=window, name=f"{name}_{part}_conv{last}")
    norm = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_{part}_layernorm{last}")
    block = f"{name}_{part}" if first else f"{name}_{part}_block{last}"
    return Sequential([conv, norm] if first else [norm, conv], name=block)


def _block(x: Any, width: int, name: str) -> Any:
    """A large window for each feature, then a dense layer to 4 times the width and back."""
    y = layers.Conv2D(width, 7, padding="same", groups=width, name=f"{name}_depthwise_conv")(x)
    y = _normalize(y, f"{name}_layernorm")
    y = layers.Dense(4 * width, name=f"{name}_pointwise_conv_1")(y)
    y = layers.Activation("gelu", name=f"{name}_gelu")(y)
    y = layers.Dense(width, name=f"{name}_pointwise_conv_2")(y)
    y = LayerScale(_INITIAL_SCALE, width, name=f"{name}_layer_scale")(y)
    return x + layers.Activation("linear", name=f"{name}_identity")(y)


def _features(image: Any, variant: str, name: str, preprocessed: bool) -> Any:
    x = image
    if preprocessed:
        means = [255 * mean for mean in MEANS]
        variances = [(255 * deviation) ** 2 for deviation in DEVIATIONS]
        x = layers.Normalization(
            mean=means, variance=variances, name=f"{name}_prestem_normalization"
        )(x)
    depths, widths = _SIZES[variant]
    between = [_smaller(widths[0], 4, name, "stem", "", first=True)]
    for i, width in enumerate(widths[1:]):
        between.append(_smaller(width, 2, name, "downsampling", f"_{i}", first=False))
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        x = between[stage](x)
        for i in range(depth):
            x = _block(x, width, f"{name}_stage_{stage}_block_{i}")
    return x


def _convnext(spec: Wanted, variant: str, include_preprocessing: bool) -> Model:
    spec.check_channels_last()
    image = spec.image(224, 32)
    name = spec.name or f"convnext_{variant}"
    x = _features(image, variant, name, include_preprocessing and spec.colors(image) == 3)
    if spec.include_top:
        x = layers.GlobalAveragePooling2D(name=f"{name}_head_gap")(x)
        x = _normalize(x, f"{name}_head_layernorm")
        x = spec.classified(x, name=f"{name}_head_dense")
    else:
        x = _normalize(spec.pooled(x))
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}convnext/convnext_{variant}{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[variant][not spec.include_top]), name)


def ConvNeXtTiny(
    include_top: bool = True,
    include_preprocessing: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "convnext_tiny",
) -> Model:
    """The tiny network, for images of 224 x 224 with values in [0, 255].

    Source: Liu et al. 2022, arXiv:2201.03545. The preprocessing is inside.

    Args:
        include_top: whether the classifier is part of it.
        include_preprocessing: whether it takes values in [0, 255]; without, normalized ones.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more.
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
    return _convnext(spec, "tiny", include_preprocessing)


def _like(pattern: Network, version: str, size: str) -> Network:
    about = f"""The {size} network, for images of 224 x 224 with values in [0, 255].

    Source: Liu et al. 2022, arXiv:2201.03545. The preprocessing is inside.
    """
    name, variant = f"ConvNeXt{version}", version.lower()
    return network_like(pattern, name, f"convnext_{variant}", about, _convnext, variant=variant)


ConvNeXtSmall = _like(ConvNeXtTiny, "Small", "small")
ConvNeXtBase = _like(ConvNeXtTiny, "Base", "basic")
ConvNeXtLarge = _like(ConvNeXtTiny, "Large", "large")
ConvNeXtXLarge = _like(ConvNeXtTiny, "XLarge", "extra large")
