"""DenseNet: each layer sees the features of all before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import layers
from trainkit.applications.network_parts import FOLDER, Wanted, WeightFile, channel_axis
from trainkit.core.errors import InvalidArgumentError

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


def _densenet(spec: Wanted, variant: str, depths: Sequence[int]) -> Any:
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


def DenseNet121(
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "densenet121",
) -> Any:
    """The densely connected network of 121 layers, for images of 224 x 224.

    Source: Huang et al. 2016, arXiv:1608.06993. Images: `densenet.preprocess_input`.

    The arguments are those of `VGG16`.

    Args:
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
        name: of the model.

    Returns:
        The model.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    return _densenet(spec, "densenet121", (6, 12, 24, 16))


def DenseNet169(
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "densenet169",
) -> Any:
    """The densely connected network of 169 layers, for images of 224 x 224.

    Source: Huang et al. 2016, arXiv:1608.06993. Images: `densenet.preprocess_input`.

    The arguments are those of `VGG16`.

    Args:
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
        name: of the model.

    Returns:
        The model.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    return _densenet(spec, "densenet169", (6, 12, 32, 32))


def DenseNet201(
    include_top: bool = True,
    weights: Any = "imagenet",
    input_tensor: Any = None,
    input_shape: Sequence[int | None] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = "densenet201",
) -> Any:
    """The densely connected network of 201 layers, for images of 224 x 224.

    Source: Huang et al. 2016, arXiv:1608.06993. Images: `densenet.preprocess_input`.

    The arguments are those of `VGG16`.

    Args:
        include_top: whether the classifier is part of it.
        weights: `"imagenet"`, the path of a file, or `None`.
        input_tensor: a symbolic tensor to start from.
        input_shape: of one image, 32 x 32 or more.
        pooling: `"avg"`, `"max"` or `None`, at the end of a network without classifier.
        classes: how many.
        classifier_activation: of the classifier, `None` for logits.
        name: of the model.

    Returns:
        The model.
    """
    spec = Wanted(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        name,
    )  # fmt: skip
    return _densenet(spec, "densenet201", (6, 12, 48, 32))
