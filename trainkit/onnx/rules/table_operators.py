"""Linear models and scalers of scikit-learn, which are operators of the domain `ai.onnx.ml`.

Their coefficients are attributes in a file, and weights here: see `weights_of_attributes`.
Source: https://onnx.ai/onnx/operators, the operators of `ai.onnx.ml`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.onnx.imported_values import dtype_of, known_array, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, onnx_rule

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _floats(x: Any) -> Tensor:
    return ops.cast(tensor(x), "float32")


def _scores(call: NodeCall, x: Any, weights: tuple[Any, ...], rows: int) -> Tensor:
    """x W + b, with a row of `coefficients` for each score."""
    named = dict(zip(call.weight_names, weights, strict=True))
    if "coefficients" not in named:
        raise InvalidArgumentError("the attribute 'coefficients' is missing")
    if rank(x) == 1:
        x = ops.expand_dims(tensor(x), 0)
    kernel = ops.reshape(tensor(named["coefficients"]), (rows, -1))
    scores = ops.matmul(_floats(x), ops.transpose(kernel))
    if "intercepts" in named:
        scores = scores + tensor(named["intercepts"])
    return scores


def _apply_transform(call: NodeCall, scores: Tensor) -> Tensor:
    kind = call.one_of("post_transform", "NONE", _TRANSFORMS)
    if kind in ("SOFTMAX_ZERO", "PROBIT"):
        raise UnimplementedError(f"post_transform {kind!r} is not supported")
    if kind == "SOFTMAX":
        return ops.softmax(scores, axis=-1)
    return ops.sigmoid(scores) if kind == "LOGISTIC" else scores


@onnx_rule("ai.onnx.ml:LinearRegressor")
def _linear_regressor(call: NodeCall, x: Any, *weights: Any) -> Tensor:
    return _apply_transform(call, _scores(call, x, weights, call.int("targets", 1)))


@onnx_rule("ai.onnx.ml:LinearClassifier")
def _linear_classifier(call: NodeCall, x: Any, *weights: Any) -> tuple[Tensor, Tensor]:
    texts, numbers = call.list("classlabels_strings", ()), call.list("classlabels_ints", ())
    labels = np.array([t.encode() for t in texts], object) if texts else np.array(numbers, np.int64)
    if len(labels) < 2:
        raise UnimplementedError("a classifier of fewer than two labels is not supported")
    scores = _scores(call, x, weights, len(labels))
    best = ops.argmax(scores, axis=-1)
    return ops.take(convert_to_tensor(labels), best, axis=0), _apply_transform(call, scores)


@onnx_rule("ai.onnx.ml:Scaler")
def _scaler(call: NodeCall, x: Any, *weights: Any) -> Tensor:
    named = dict(zip(call.weight_names, weights, strict=True))
    y = _floats(x)
    if "offset" in named:
        y = y - tensor(named["offset"])
    return y * tensor(named["scale"]) if "scale" in named else y


@onnx_rule("ai.onnx.ml:Normalizer")
def _normalizer(call: NodeCall, x: Any) -> Tensor:
    """Each row divided by its norm; one of zeros stays."""
    y, kind = _floats(x), call.one_of("norm", "MAX", ("MAX", "L1", "L2"))
    if kind == "MAX":
        size = ops.max(y, axis=-1, keepdims=True)
    elif kind == "L1":
        size = ops.sum(ops.abs(y), axis=-1, keepdims=True)
    else:
        size = ops.sqrt(ops.sum(y * y, axis=-1, keepdims=True))
    return y / ops.where(ops.equal(size, 0.0), ops.ones_like(size), size)


@onnx_rule("ai.onnx.ml:Binarizer")
def _binarizer(call: NodeCall, x: Any) -> Tensor:
    return ops.cast(ops.greater(tensor(x), call.float("threshold", 0.0)), dtype_of(x))


@onnx_rule("ai.onnx.ml:Imputer")
def _imputer(call: NodeCall, x: Any) -> Tensor:
    """A number, or one for each column, in place of another number or NaN."""
    is_float = as_dtype(dtype_of(x)).is_floating
    kind = "float" if is_float else "int64"
    values = call.list(f"imputed_value_{kind}s", ())
    replaced = call.float("replaced_value_float", 0.0) if is_float else call.int(
        "replaced_value_int64", 0
    )  # fmt: skip
    if not values:
        raise InvalidArgumentError(f"the attribute 'imputed_value_{kind}s' is missing")
    y = tensor(x)
    is_missing = ops.isnan(y) if replaced != replaced else ops.equal(y, replaced)
    return ops.where(is_missing, convert_to_tensor(np.array(values, dtype_of(x))), y)


@onnx_rule("ai.onnx.ml:ArrayFeatureExtractor")
def _array_feature_extractor(call: NodeCall, x: Any, positions: Any) -> Tensor:
    """Elements along the last axis, for all rows."""
    array = known_array(positions)
    flat = ops.reshape(tensor(positions), (-1,)) if array is None else np.reshape(array, -1)
    y = ops.take(tensor(x), flat, axis=-1)
    return ops.expand_dims(y, 0) if rank(x) == 1 else y


@onnx_rule("ai.onnx.ml:ZipMap")
def _zip_map(call: NodeCall, x: Any) -> Tensor:
    """The probabilities as they are: maps from labels to numbers are no tensors."""
    return tensor(x)
