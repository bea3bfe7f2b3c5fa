"""Targets, predictions and weights brought together; what would broadcast unseen is stopped."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor

_FLOATS = frozenset(d.dtype for d in dtypes.ALL if d.is_floating)


def as_floats(x: Any) -> Tensor:
    """`x` as a tensor; integers and bools become the default float."""
    if type(x) is Tensor and x._array.dtype in _FLOATS:
        return x
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return x if x.dtype.is_floating else ops.cast(x, dtypes.floatx())


def same_rank(a: Tensor, b: Tensor, expand_rank_1: bool = True) -> tuple[Tensor, Tensor]:
    """Both with one rank, when they differ by a last axis of size 1.

    The one of lower rank gets that axis if it is a vector, else the other loses it.
    """
    a_rank, b_rank = len(a.shape), len(b.shape)
    if b_rank == a_rank + 1:
        b, a = same_rank(b, a, expand_rank_1)
    elif a_rank == b_rank + 1 and a.shape[-1] == 1:
        if b_rank == 1 and expand_rank_1:
            return a, ops.expand_dims(b, -1)
        return ops.squeeze(a, -1), b
    return a, b


def _stretches(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether shape `a` broadcasts to `b` of the same rank by axes of size 1 alone."""
    return all(m == n or m == 1 or m is None or n is None for m, n in zip(a, b, strict=True))


def check_fit(name: str, y_true: Tensor, y_pred: Tensor) -> None:
    """Raise unless the shapes are equal or one of them stretches to the other along axes of size 1.

    Raises:
        ShapeError: the ranks differ, sizes differ, or both would be broadcast: then the result
            would hold each pair of a target and another sample's prediction.
    """
    a, b = tuple(y_true.shape), tuple(y_pred.shape)
    if a == b or not a or not b:
        return
    if len(a) == len(b) and (_stretches(a, b) or _stretches(b, a)):
        return
    raise ShapeError(
        f"{name}: the shapes of targets and predictions do not fit.\n  y_true  {a}\n  y_pred  "
        f"{b}\n{_advice(a, b)}"
    )


def _advice(a: tuple[Any, ...], b: tuple[Any, ...]) -> str:
    if len(a) == 1 and len(b) == 2 and a[0] == b[0]:
        return (
            "Each target is one number and each prediction several. For class labels use "
            "SparseCategoricalCrossentropy, or one_hot(y_true, classes); for one number per sample "
            "give the last layer "
            "one unit."
        )
    return "Reshape one of them so that each target stands beside its own prediction."


def aligned(name: str, y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """(targets, predictions) as floats of the dtype of the predictions, in shapes that fit.

    A vector (batch,) fits a column (batch, 1). See `check_fit` for what does not.
    """
    y_pred = as_floats(y_pred)
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    if y_true.dtype is not y_pred.dtype:
        y_true = ops.cast(y_true, y_pred.dtype)
    if len(y_true.shape) != len(y_pred.shape):
        y_true, y_pred = same_rank(y_true, y_pred)
    check_fit(name, y_true, y_pred)
    return y_true, y_pred


def weights_like(name: str, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """(values, weights) in shapes that fit: weights of the leading axes get axes of size 1 behind.

    Raises:
        ShapeError: the weights fit neither all values nor their leading axes.
    """
    values, weights = same_rank(values, weights)
    missing = len(values.shape) - len(weights.shape)
    if missing > 0 and len(weights.shape):
        weights = ops.reshape(weights, _extend(weights, missing))
    a, b = tuple(weights.shape), tuple(values.shape)
    if not a or not b or (len(a) == len(b) and (_stretches(a, b) or _stretches(b, a))):
        return values, weights
    raise ShapeError(
        f"{name}: sample_weight does not fit the values it weighs.\n  values         {b}\n  "
        f"sample_weight  {a}\n"
        "Give one weight per sample, shape (batch,), or one per value."
    )


def _extend(weights: Tensor, missing: int) -> tuple[Any, ...]:
    """The shape of `weights` with axes of size 1 behind; an unknown size is -1 for reshape."""
    return tuple(-1 if n is None else n for n in weights.shape) + (1,) * missing
