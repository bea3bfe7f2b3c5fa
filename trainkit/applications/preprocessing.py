"""Images as networks trained on ImageNet want them, and the names of what they see."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.applications.network_parts import CLASSES, DEVIATIONS, MEANS
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.ops.convolutional.window_arguments import is_channels_first

get_file = DeferredModule("trainkit.datasets.downloads").get_file

_NAMES = (
    "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json",
    "c2c37ea517e94d9795004a39431a14cb",
)
_CAFFE_MEANS = (103.939, 116.779, 123.68)


def preprocess_input(x: Any, data_format: str | None = None, mode: str = "caffe") -> Any:
    """Pixels as a network was trained on them.

    `"tf"`: x / 127.5 - 1. `"torch"`: x / 255, less the means of ImageNet's colors, divided by their
    deviations. `"caffe"`: colors from RGB to BGR, less their means.

    Args:
        x: one image or a batch of them, with colors in the order RGB and values in [0, 255]. An
            array of floats is written to, as in Keras; a tensor is not.
        data_format: `"channels_last"` or `"channels_first"`; by default the one in force.
        mode: `"caffe"`, `"tf"` or `"torch"`.

    Returns:
        The pixels, of the shape of `x`, floats.

    Raises:
        InvalidArgumentError: `mode` or `data_format` is none of these.
    """
    if mode not in ("caffe", "tf", "torch"):
        raise InvalidArgumentError(f"preprocess_input: mode {mode!r}; use caffe, tf or torch")
    axis = -3 if is_channels_first(data_format, "preprocess_input") else -1
    if isinstance(x, np.ndarray):
        if not np.issubdtype(x.dtype, np.floating):
            x = x.astype("float32")
        return _in_place(x, axis, mode)
    x = ops.convert_to_tensor(x)
    if not x.dtype.is_floating:
        x = ops.cast(x, "float32")
    return _of_tensor(x, axis, mode)


def _colors(values: Any, axis: int) -> Any:
    """Values of the three colors, shaped to broadcast along their axis."""
    array = np.asarray(values)
    return array if axis == -1 else array.reshape(3, 1, 1)


def _in_place(x: Any, axis: int, mode: str) -> Any:
    if mode == "tf":
        x /= 127.5
        x -= 1.0
        return x
    if mode == "caffe":
        x = np.flip(x, axis)
        x -= _colors(_CAFFE_MEANS, axis)
        return x
    x /= 255.0
    x -= _colors(MEANS, axis)
    x /= _colors(DEVIATIONS, axis)
    return x


def _of_tensor(x: Any, axis: int, mode: str) -> Any:
    if mode == "tf":
        return x / 127.5 - 1.0
    if mode == "caffe":
        return ops.flip(x, axis=axis) - ops.cast(_colors(_CAFFE_MEANS, axis), x.dtype)
    means, deviations = (ops.cast(_colors(v, axis), x.dtype) for v in (MEANS, DEVIATIONS))
    return (x / 255.0 - means) / deviations


def decode_predictions(preds: Any, top: int = 5) -> list[list[tuple[str, str, Any]]]:
    """The likeliest classes of ImageNet.

    Their names are downloaded at the first call.

    Args:
        preds: scores of the 1000 classes, (batch, 1000), an array or a tensor.
        top: how many.

    Returns:
        For each row its best classes, best first: WordNet's number, the name, the score.

    Raises:
        InvalidArgumentError: `preds` has another shape.
    """
    scores = np.asarray(preds)
    if scores.ndim != 2 or scores.shape[1] != CLASSES:
        raise InvalidArgumentError(
            f"decode_predictions: takes scores of shape (batch, {CLASSES}), got {scores.shape}"
        )
    names = _class_names()
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [[(*names[i], row[i]) for i in order] for row, order in zip(scores, best, strict=True)]


@functools.cache
def _class_names() -> list[tuple[str, str]]:
    url, md5 = _NAMES
    path = get_file("imagenet_class_index.json", url, cache_subdir="models", file_hash=md5)
    with open(path, encoding="utf-8") as file:
        listed = json.load(file)
    return [(str(listed[str(i)][0]), str(listed[str(i)][1])) for i in range(CLASSES)]


def scaled(x: Any, data_format: str | None = None) -> Any:
    """`preprocess_input` with mode="tf": pixels from [0, 255] to [-1, 1]."""
    return preprocess_input(x, data_format, "tf")


def centered(x: Any, data_format: str | None = None) -> Any:
    """`preprocess_input` with mode="caffe": colors to BGR, less the means of ImageNet."""
    return preprocess_input(x, data_format, "caffe")


def standardized(x: Any, data_format: str | None = None) -> Any:
    """`preprocess_input` with mode="torch": by means and deviations of ImageNet's colors."""
    return preprocess_input(x, data_format, "torch")


def unchanged(x: Any, data_format: str | None = None) -> Any:
    """`x` itself: the network has its preprocessing inside."""
    is_channels_first(data_format, "preprocess_input")
    return x
