"""Losses between numbers: squared, absolute, relative and logarithmic errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.losses.alignment import aligned
from trainkit.losses.loss import FunctionLoss, LossFunctionWrapper
from trainkit.losses.registry import LOSSES
from trainkit.ops.math.norm_clipping import check_bound
from trainkit.ops.math.value_limits import huber_penalty
from trainkit.ops.neural.normalization import EPSILON

"""What keeps quotients and logarithms finite."""


@LOSSES.add
def mean_squared_error(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of (y_true - y_pred)**2 over the last axis.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.mean_squared_error([[0.0, 1.0]], [[2.0, 1.0]]).numpy()
        array([2.], dtype=float32)
    """
    y_true, y_pred = aligned("mean_squared_error", y_true, y_pred)
    return ops.mean(ops.square(y_true - y_pred), axis=-1)


@LOSSES.add
def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Mean of |y_true - y_pred| over the last axis.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.mean_absolute_error([[0.0, 1.0]], [[1.0, 1.0]]).numpy()
        array([0.5], dtype=float32)
    """
    y_true, y_pred = aligned("mean_absolute_error", y_true, y_pred)
    return ops.mean(ops.absolute(y_true - y_pred), axis=-1)


@LOSSES.add
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """100 times the mean of |y_true - y_pred| / max(|y_true|, 1e-7) over the last axis.

    Returns:
        A float tensor (...), in percent.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.mean_absolute_percentage_error([[2.0, 4.0]], [[1.0, 4.0]]).numpy()
        array([25.], dtype=float32)
    """
    y_true, y_pred = aligned("mean_absolute_percentage_error", y_true, y_pred)
    relative = ops.absolute((y_true - y_pred) / ops.maximum(ops.absolute(y_true), EPSILON))
    return 100.0 * ops.mean(relative, axis=-1)


@LOSSES.add
def mean_squared_logarithmic_error(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of (log(y_true + 1) - log(y_pred + 1))**2 over the last axis; values below 0 count as 0.

    Returns:
        A float tensor (...), float32 for float16 and bfloat16, as the logarithms are.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> loss = tk.losses.mean_squared_logarithmic_error([[0.0, 1.0]], [[1.0, 1.0]])
        >>> round(float(loss[0]), 4)
        0.2402
    """
    y_true, y_pred = aligned("mean_squared_logarithmic_error", y_true, y_pred)
    # a tensor of float32, which a number would not be: 16 bits hold few digits beside the 1
    smallest = ops.convert_to_tensor(EPSILON, dtype="float32")
    of_true = ops.log(ops.maximum(y_true, smallest) + 1)
    of_pred = ops.log(ops.maximum(y_pred, smallest) + 1)
    return ops.mean(ops.square(of_true - of_pred), axis=-1)


@LOSSES.add
def huber(y_true: TensorLike, y_pred: TensorLike, delta: float = 1.0) -> Tensor:
    """Squared error up to `delta`, a straight line beyond, averaged over the last axis.

    0.5 * e**2 where |e| <= delta, else delta * |e| - 0.5 * delta**2
    Source: Huber 1964, "Robust estimation of a location parameter".

    Args:
        delta: where the line begins, above 0.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.
        ValueError: `delta` is a number, and not above 0.

    Example:
        >>> tk.losses.huber([[0.0, 0.0]], [[0.5, 2.0]]).numpy()
        array([0.8125], dtype=float32)
    """
    check_bound("huber: delta", delta)
    y_true, y_pred = aligned("huber", y_true, y_pred)
    return ops.mean(huber_penalty(y_pred - y_true, delta), axis=-1)


@LOSSES.add
def log_cosh(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of log(cosh(y_pred - y_true)) over the last axis, as e + softplus(-2 e) - log 2.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> loss = tk.losses.log_cosh([[0.0, 0.0]], [[0.0, 2.0]])
        >>> round(float(loss[0]), 4)
        0.6625
    """
    y_true, y_pred = aligned("log_cosh", y_true, y_pred)
    error = y_pred - y_true
    return ops.mean(error + ops.softplus(-2.0 * error) - math.log(2.0), axis=-1)


@LOSSES.add
def poisson(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """Mean of y_pred - y_true * log(y_pred + 1e-7) over the last axis.

    Args:
        y_true: counts, (..., n).
        y_pred: expected counts, 0 or more, of the same shape.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> round(float(tk.losses.poisson([[0.0, 1.0]], [[1.0, 1.0]])[0]), 4)
        1.0
    """
    y_true, y_pred = aligned("poisson", y_true, y_pred)
    return ops.mean(y_pred - y_true * ops.log(y_pred + EPSILON), axis=-1)


@LOSSES.add
def cosine_similarity(y_true: TensorLike, y_pred: TensorLike, axis: int = -1) -> Tensor:
    """Minus the cosine of the angle between y_true and y_pred along `axis`; 0 where either is 0.

    Args:
        y_true: tensors of one shape.
        axis: axis of the vectors.

    Returns:
        A float tensor without `axis`, in [-1, 1]; -1 for vectors of one direction.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> tk.losses.cosine_similarity([[1.0, 0.0]], [[2.0, 0.0]]).numpy()
        array([-1.], dtype=float32)
    """
    y_true, y_pred = aligned("cosine_similarity", y_true, y_pred)
    return -ops.sum(ops.normalize(y_true, axis) * ops.normalize(y_pred, axis), axis=axis)


class MeanSquaredError(FunctionLoss):
    """Mean of (y_true - y_pred)**2; see `mean_squared_error`.

    Example:
        >>> loss = tk.losses.MeanSquaredError()
        >>> float(loss([[0.0], [1.0]], [[2.0], [1.0]]))
        2.0
        >>> float(loss([[0.0], [1.0]], [[2.0], [1.0]], sample_weight=[0.5, 1.0]))
        1.0
    """

    function = staticmethod(mean_squared_error)


class MeanAbsoluteError(FunctionLoss):
    """Mean of |y_true - y_pred|; see `mean_absolute_error`.

    Example:
        >>> float(tk.losses.MeanAbsoluteError()([[0.0, 1.0]], [[1.0, 1.0]]))
        0.5
    """

    function = staticmethod(mean_absolute_error)


class MeanAbsolutePercentageError(FunctionLoss):
    """Mean relative error in percent; see `mean_absolute_percentage_error`.

    Example:
        >>> float(tk.losses.MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]]))
        25.0
    """

    function = staticmethod(mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(FunctionLoss):
    """Mean squared difference of logarithms; see `mean_squared_logarithmic_error`.

    Example:
        >>> round(float(tk.losses.MeanSquaredLogarithmicError()([[0.0, 1.0]], [[1.0, 1.0]])), 4)
        0.2402
    """

    function = staticmethod(mean_squared_logarithmic_error)


class Huber(LossFunctionWrapper):
    """Squared error up to `delta`, a straight line beyond; see `huber`.

    Args:
        delta: where the line begins, above 0.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `delta` is 0 or less.

    Example:
        >>> float(tk.losses.Huber(delta=1.0)([[0.0, 0.0]], [[0.5, 2.0]]))
        0.8125
    """

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "huber_loss",
        dtype: DTypeLike | None = None,
    ) -> None:
        if not (isinstance(delta, int | float | np.number) and delta > 0):
            raise ValueError(f"Huber: delta must be above 0, got {delta!r}")
        super().__init__(huber, reduction, name, dtype, delta=delta)


class LogCosh(FunctionLoss):
    """Mean of log(cosh(error)); see `log_cosh`.

    Example:
        >>> round(float(tk.losses.LogCosh()([[0.0, 0.0]], [[0.0, 2.0]])), 4)
        0.6625
    """

    function = staticmethod(log_cosh)


class Poisson(FunctionLoss):
    """Likelihood of counts; see `poisson`.

    Example:
        >>> round(float(tk.losses.Poisson()([[0.0, 1.0]], [[1.0, 1.0]])), 4)
        1.0
    """

    function = staticmethod(poisson)


class CosineSimilarity(LossFunctionWrapper):
    """Minus the cosine between targets and predictions; see `cosine_similarity`.

    Args:
        axis: axis of the vectors.
        reduction, name, dtype: see `Loss`.

    Example:
        >>> float(tk.losses.CosineSimilarity()([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [3.0, 0.0]]))
        -0.5
    """

    def __init__(
        self,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "cosine_similarity",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(cosine_similarity, reduction, name, dtype, axis=axis)


describe_arguments(
    globals(),
    """
    y_true: tensors of one shape (..., n); (batch,) fits (batch, 1).
    y_pred: likewise.
    """,
)
