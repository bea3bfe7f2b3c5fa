"""VGG16 and VGG19: blocks of small convolutions, and two wide dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import FOLDER, Wanted, WeightFile, network_like
from trainkit.models import Model

_WIDTHS = (64, 128, 256, 512, 512)
_HASHES = {
    "vgg16": ("64373286793e3c8b2b4e3219cbf3544b", "6d6bbae143d832006294945121d1f1fc"),
    "vgg19": ("cbe5617147190e668d6c5d5026f83318", "253f8cb515780f3b799900260a226db6"),
}


def _vgg(spec: Wanted, variant: str, depths: Sequence[int]) -> Model:
    image = x = spec.image(224, 32)
    for block, (depth, width) in enumerate(zip(depths, _WIDTHS, strict=True), 1):
        for i in range(1, depth + 1):
            name = f"block{block}_conv{i}"
            x = layers.Conv2D(width, 3, activation="relu", padding="same", name=name)(x)
        x = layers.MaxPooling2D(2, strides=2, name=f"block{block}_pool")(x)
    if spec.include_top:
        x = layers.Flatten(name="flatten")(x)
        for name in ("fc1", "fc2"):
            x = layers.Dense(4096, activation="relu", name=name)(x)
        x = spec.classified(x)
    else:
        x = spec.pooled(x)
    ending = ".h5" if spec.include_top else "_notop.h5"
    url = f"{FOLDER}{variant}/{variant}_weights_tf_dim_ordering_tf_kernels{ending}"
    return spec.model(image, x, WeightFile(url, _HASHES[variant][not spec.include_top]))


def VGG16(
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "vgg16",
) -> Model:
    """The network of 13 convolutions and 3 dense layers, for images of 224 x 224.

    Source: Simonyan and Zisserman 2014, arXiv:1409.1556. Images: `vgg16.preprocess_input`.

    Args:
        include_top: whether the classifier is part of it.
        weights: `"imagenet"` for trained ones, which are downloaded, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more; free without the classifier.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
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
    return _vgg(spec, "vgg16", (2, 2, 3, 3, 3))


VGG19 = network_like(
    VGG16,
    "VGG19",
    "vgg19",
    """The network of 16 convolutions and 3 dense layers, for images of 224 x 224.

    Source: Simonyan and Zisserman 2014, arXiv:1409.1556. Images: `vgg19.preprocess_input`.
    """,
    _vgg,
    variant="vgg19",
    depths=(2, 2, 4, 4, 4),
)
