"""EfficientNet: one network in eight sizes."""

from __future__ import annotations

import math
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import (
    DEVIATIONS,
    Network,
    Wanted,
    WeightFile,
    channel_axis,
    divisible,
    halving_pad,
    network_like,
)
from trainkit.applications.vgg import VGG16
from trainkit.initializers import VarianceScaling
from trainkit.models import Model

# window, repeats, width, factor by which features are expanded, stride; of the smallest network
_STAGES = (
    (3, 1, 16, 1, 1), (3, 2, 24, 6, 2), (5, 2, 40, 6, 2), (3, 3, 80, 6, 2), (5, 3, 112, 6, 1),
    (5, 4, 192, 6, 2), (3, 1, 320, 6, 1),
)  # fmt: skip
# factor of widths, factor of repeats, size of images, dropout before the classifier
_SIZES = {
    "b0": (1.0, 1.0, 224, 0.2), "b1": (1.0, 1.1, 240, 0.2), "b2": (1.1, 1.2, 260, 0.3),
    "b3": (1.2, 1.4, 300, 0.3), "b4": (1.4, 1.8, 380, 0.4), "b5": (1.6, 2.2, 456, 0.4),
    "b6": (1.8, 2.6, 528, 0.5), "b7": (2.0, 3.1, 600, 0.5),
}  # fmt: skip
_HASHES = {
    "b0": ("902e53a9f72be733fc0bcb005b3ebbac", "50bc09e76180e00e4465e1a485ddc09d"),
    "b1": ("1d254153d4ab51201f1646940f018540", "74c4e6b3e1f6a1eea24c589628592432"),
    "b2": ("b15cce36ff4dcbd00b6dd88e7857a6ad", "111f8e2ac8aa800a7a99e3239f7bfb39"),
    "b3": ("ffd1fdc53d0ce67064dc6a9c7960ede0", "af6d107764bb5b1abb91932881670226"),
    "b4": ("18c95ad55216b8f92d7e70b3a046e2fc", "ebc24e6d6c33eaebbd558eafbeedf1ba"),
    "b5": ("ace28f2a6363774853a83a0b21b9421a", "38879255a25d3c92d5e44e04ae6cec6f"),
    "b6": ("165f6e37dce68623721b423839de8be5", "9ecce42647a20130c1f39a5d4cb75743"),
    "b7": ("8c03f828fec3ef71311cd463b6759d99", "cbcfe4450ddf6f3ad90b1b398090fe4a"),
}
_WEIGHTS = "https://storage.googleapis.com/keras-applications/"
_DROP = 0.2


def _kernels() -> Any:
    return VarianceScaling(2.0, "fan_out", "truncated_normal")


def _conv(x: Any, width: int, name: str, window: int = 1, **settings: Any) -> Any:
    settings = {"padding": "same", "use_bias": False, **settings}
    return layers.Conv2D(width, window, kernel_initializer=_kernels(), name=name, **settings)(x)


def _normalize(x: Any, name: str, activation: str | None = None) -> Any:
    x = layers.BatchNormalization(axis=channel_axis(), name=name)(x)
    return x if activation is None else layers.Activation("swish", name=activation)(x)


def _weight(x: Any, inner: int, width: int, name: str) -> Any:
    """Each feature times a number that depends on the means of all: squeeze and excitation."""
    shape = (width, 1, 1) if channel_axis() == 1 else (1, 1, width)
    y = layers.GlobalAveragePooling2D(name=f"{name}se_squeeze")(x)
    y = layers.Reshape(shape, name=f"{name}se_reshape")(y)
    y = _conv(y, inner, f"{name}se_reduce", activation="swish", use_bias=True)
    y = _conv(y, width, f"{name}se_expand", activation="sigmoid", use_bias=True)
    return layers.multiply([x, y], name=f"{name}se_excite")


def _block(
    x: Any, before: int, width: int, window: int, factor: int, stride: int, drop: float, name: str
) -> Any:
    start, filters = x, before * factor
    if factor != 1:
        x = _conv(x, filters, f"{name}expand_conv")
        x = _normalize(x, f"{name}expand_bn", f"{name}expand_activation")
    if stride == 2:
        x = layers.ZeroPadding2D(halving_pad(x, window), name=f"{name}dwconv_pad")(x)
    x = layers.DepthwiseConv2D(
        window,
        strides=stride,
        padding="valid" if stride == 2 else "same",
        use_bias=False,
        depthwise_initializer=_kernels(),
        name=f"{name}dwconv",
    )(x)
    x = _normalize(x, f"{name}bn", f"{name}activation")
    x = _weight(x, max(1, before // 4), filters, name)
    x = _normalize(_conv(x, width, f"{name}project_conv"), f"{name}project_bn")
    if stride != 1 or before != width:
        return x
    if drop:
        x = layers.Dropout(drop, noise_shape=(None, 1, 1, 1), name=f"{name}drop")(x)
    return layers.add([x, start], name=f"{name}add")


def _features(image: Any, width_factor: float, depth_factor: float, pretrained: bool) -> Any:
    x = layers.Rescaling(1.0 / 255.0)(image)
    x = layers.Normalization(axis=channel_axis())(x)
    if pretrained:  # the trained weights expect this
        x = layers.Rescaling([1.0 / math.sqrt(d) for d in DEVIATIONS])(x)
    x = layers.ZeroPadding2D(halving_pad(x, 3), name="stem_conv_pad")(x)
    width = divisible(32 * width_factor)
    x = _conv(x, width, "stem_conv", 3, strides=2, padding="valid")
    x = _normalize(x, "stem_bn", "stem_activation")
    depths = [math.ceil(depth_factor * stage[1]) for stage in _STAGES]
    block_index = 0
    for number, (window, _, out, factor, stride) in enumerate(_STAGES, 1):
        for i in range(depths[number - 1]):
            before, width = width, divisible(out * width_factor)
            name, drop = f"block{number}{chr(ord('a') + i)}_", _DROP * block_index / sum(depths)
            x = _block(x, before, width, window, factor, 1 if i else stride, drop, name)
            block_index += 1
    return _normalize(
        _conv(x, divisible(1280 * width_factor), "top_conv"), "top_bn", "top_activation"
    )


def _efficientnet(spec: Wanted, variant: str) -> Model:
    width_factor, depth_factor, size, dropout = _SIZES[variant]
    image = spec.image(size, 32)
    x = spec.head(
        _features(image, width_factor, depth_factor, spec.weights == "imagenet"),
        names=("avg_pool", "max_pool"),
        dropout=dropout,
        kernel_initializer=VarianceScaling(1.0 / 3.0, "fan_out", "uniform"),
    )
    url = f"{_WEIGHTS}efficientnet{variant}{'' if spec.include_top else '_notop'}.h5"
    return spec.model(image, x, WeightFile(url, _HASHES[variant][not spec.include_top]))


def _like(pattern: Network, variant: str) -> Network:
    version, size = variant.upper(), _SIZES[variant][2]
    about = f"""The network {version}, for images of {size} x {size} with values in [0, 255].

    Source: Tan and Le 2019, arXiv:1905.11946. The preprocessing is inside.
    """
    name = f"EfficientNet{version}"
    return network_like(pattern, name, name.lower(), about, _efficientnet, variant=variant)


EfficientNetB0 = _like(VGG16, "b0")
EfficientNetB1 = _like(VGG16, "b1")
EfficientNetB2 = _like(VGG16, "b2")
EfficientNetB3 = _like(VGG16, "b3")
EfficientNetB4 = _like(VGG16, "b4")
EfficientNetB5 = _like(VGG16, "b5")
EfficientNetB6 = _like(VGG16, "b6")
EfficientNetB7 = _like(VGG16, "b7")
