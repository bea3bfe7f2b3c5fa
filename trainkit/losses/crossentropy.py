"""Cross-entropies of labels and predicted classes: plain, focal and generalized."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dispatch.eager import activation_of
from trainkit.core.errors import ShapeError
from trainkit.core.masks import set_mask
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.losses.alignment import aligned, as_floats
from trainkit.losses.loss import LossFunctionWrapper, of_class_numbers
from trainkit.losses.registry import LOSSES
from trainkit.ops.neural import cross_entropy
from trainkit.ops.neural.normalization import EPSILON
from trainkit.ops.neural.softmax import powers_share
from trainkit.ops.neural.softmax_cross_entropy import (
    check_labels,
    sparse_softmax_cross_entropy_with_logits,
)


def _check_smoothing(name: str, value: float) -> None:
    if not (isinstance(value, int | float | np.number) and 0 <= value <= 1):
        raise ValueError(f"{name}: label_smoothing must be in [0, 1], got {value!r}")


@LOSSES.add
def binary_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Mean over `axis` of -(y * log(p) + (1 - y) * log(1 - p)).

    Args:
        y_true: labels in [0, 1], of the shape of `y_pred`; (batch,) fits (batch, 1).
        y_pred: probabilities, or logits with `from_logits`.
        from_logits: whether the sigmoid is still to be taken.
        label_smoothing: share by which labels move towards 1/2, in [0, 1].
        axis: axis of the mean.

    Returns:
        A float tensor without `axis`.

    Raises:
        ShapeError: the shapes do not fit.
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.binary_crossentropy([[1.0, 0.0]], [[0.5, 0.5]])
        >>> round(float(loss[0]), 4)
        0.6931
    """
    _check_smoothing("binary_crossentropy", label_smoothing)
    y_true, y_pred = aligned("binary_crossentropy", y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return ops.mean(
        cross_entropy.binary_crossentropy(y_true, y_pred, from_logits=from_logits), axis=axis
    )


@LOSSES.add
def binary_focal_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Binary cross-entropy times (1 - p_t)**gamma, where p_t is the probability of the true label.

    Source: Lin et al. 2017, arXiv:1708.02002.

    Args:
        y_true: labels in [0, 1], of the shape of `y_pred`.
        y_pred: probabilities, or logits with `from_logits`.
        apply_class_balancing: weigh label 1 by `alpha` and label 0 by 1 - `alpha`.
        alpha: weight of label 1.
        gamma: how much well predicted labels are played down.
        from_logits: whether the sigmoid is still to be taken.
        label_smoothing: share by which labels move towards 1/2, in [0, 1].
        axis: axis of the mean.

    Returns:
        A float tensor without `axis`.

    Raises:
        ShapeError: the shapes do not fit.
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.binary_focal_crossentropy([[1.0, 0.0]], [[0.5, 0.5]], gamma=2.0)
        >>> round(float(loss[0]), 4)
        0.1733
    """
    _check_smoothing("binary_focal_crossentropy", label_smoothing)
    y_true, y_pred = aligned("binary_focal_crossentropy", y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    chance = ops.sigmoid(y_pred) if from_logits else y_pred
    entropy = cross_entropy.binary_crossentropy(y_true, chance, from_logits=False)
    of_truth = y_true * chance + (1 - y_true) * (1 - chance)
    focal = ops.power(1.0 - of_truth, gamma) * entropy
    if apply_class_balancing:
        focal = (y_true * alpha + (1 - y_true) * (1 - alpha)) * focal
    return ops.mean(focal, axis=axis)


def _smooth(y_true: Tensor, label_smoothing: float, axis: int) -> Tensor:
    if not label_smoothing:
        return y_true
    return y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[axis]


@LOSSES.add
def categorical_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """-sum over `axis` of y * log(p).

    Args:
        y_true: one-hot labels or probabilities, of the shape of `y_pred`.
        y_pred: probabilities (they are divided by their sum), or logits with `from_logits`.
        from_logits: whether the softmax is still to be taken.
        label_smoothing: share by which labels move towards 1 / classes, in [0, 1].
        axis: axis of the classes.

    Returns:
        A float tensor without `axis`.

    Raises:
        ShapeError: the shapes differ; integer labels go to `sparse_categorical_crossentropy`.
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])
        >>> round(float(loss[0]), 4)
        0.6931
    """
    _check_smoothing("categorical_crossentropy", label_smoothing)
    y_true, y_pred = _one_hot_pair("categorical_crossentropy", y_true, y_pred, axis)
    y_true = _smooth(y_true, label_smoothing, axis)
    return cross_entropy.categorical_crossentropy(
        y_true, y_pred, from_logits=from_logits, axis=axis
    )


def _one_hot_pair(name: str, y_true: Any, y_pred: Any, axis: int) -> tuple[Tensor, Tensor]:
    """Both as floats of one shape, classes included."""
    y_pred = as_floats(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    a, b = tuple(y_true.shape), tuple(y_pred.shape)
    fits = len(a) == len(b) and all(None in (m, n) or m == n for m, n in zip(a, b, strict=True))
    if not fits:
        raise ShapeError(
            f"{name}: labels must have one entry per class, the shape of the predictions.\n  "
            f"y_true  {a}\n"
            f"  y_pred  {b}\nFor integer labels use SparseCategoricalCrossentropy, or "
            "one_hot(y_true, classes)."
        )
    if b and b[axis] == 1:
        warnings.warn(
            f"{name}: expected y_pred.shape to be (batch_size, num_classes) with more than one "
            f"class, got {b}: the chance of one class alone is always 1. For two classes with one "
            "output use binary_crossentropy.",
            SyntaxWarning,
            stacklevel=3,
        )
    return y_true, y_pred


@LOSSES.add
def categorical_focal_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """-sum over `axis` of alpha * (1 - p)**gamma * y * log(p).

    Source: Lin et al. 2017, arXiv:1708.02002.

    Args:
        y_true: one-hot labels, of the shape of `y_pred`.
        y_pred: probabilities (they are divided by their sum), or logits with `from_logits`.
        alpha: weight of all classes, or a sequence of one weight per class.
        gamma: how much well predicted labels are played down.
        from_logits: whether the softmax is still to be taken.
        label_smoothing: share by which labels move towards 1 / classes, in [0, 1].
        axis: axis of the classes.

    Returns:
        A float tensor without `axis`.

    Raises:
        ShapeError: the shapes differ.
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.categorical_focal_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])
        >>> round(float(loss[0]), 4)
        0.0433
    """
    _check_smoothing("categorical_focal_crossentropy", label_smoothing)
    y_true, y_pred = _one_hot_pair("categorical_focal_crossentropy", y_true, y_pred, axis)
    y_true = _smooth(y_true, label_smoothing, axis)
    chance = powers_share(y_pred, axis=axis) if from_logits else y_pred
    chance = chance / ops.sum(chance, axis=axis, keepdims=True)
    chance = ops.clip(chance, EPSILON, 1.0 - EPSILON)
    weight = ops.power(1.0 - chance, gamma) * (
        ops.cast(alpha, chance.dtype) if _is_many(alpha) else alpha
    )
    return ops.sum(weight * (-y_true * ops.log(chance)), axis=axis)


def _is_many(alpha: Any) -> bool:
    return not isinstance(alpha, int | float)


@of_class_numbers
@LOSSES.add
def sparse_categorical_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    ignore_class: int | None = None,
    axis: int = -1,
) -> Tensor:
    """-log of the probability of the true class.

    Args:
        y_true: class numbers in [0, classes), of the shape of `y_pred` without `axis` or with size
            1 there.
        y_pred: probabilities (they are divided by their sum), or logits with `from_logits`.
        from_logits: whether the softmax is still to be taken.
        ignore_class: samples with this label give 0.
        axis: axis of the classes.

    Returns:
        A float tensor without `axis`.

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: a label is out of range; names it.

    Example:
        >>> loss = tk.losses.sparse_categorical_crossentropy([1], [[0.5, 0.5]])
        >>> round(float(loss[0]), 4)
        0.6931
    """
    y_pred = as_floats(y_pred)
    labels = _class_numbers(y_true, y_pred, axis)
    if ignore_class is None:
        is_activated = activation_of(y_pred) is not None
        if from_logits and not is_activated and (axis == -1 or axis == len(y_pred.shape) - 1):
            return sparse_softmax_cross_entropy_with_logits(labels, y_pred)
        return cross_entropy.sparse_categorical_crossentropy(labels, y_pred, from_logits, axis)
    counts = ops.not_equal(labels, ignore_class)
    labels = ops.where(counts, labels, ops.zeros_like(labels))
    values = cross_entropy.sparse_categorical_crossentropy(labels, y_pred, from_logits, axis)
    values = ops.where(counts, values, ops.zeros_like(values))
    set_mask(values, counts)
    return values


def _class_numbers(y_true: Any, y_pred: Tensor, axis: int) -> Tensor:
    """Integer labels without the axis of the classes."""
    if type(y_true) is type(y_pred) is Tensor:  # the usual case, at the least cost
        array = y_true._array
        if array.ndim == y_pred._array.ndim - 1 and array.dtype.kind in "iu":
            return y_true
    labels = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    a, b = labels.shape, y_pred.shape
    if len(a) == len(b) and len(a):
        if a[axis] == 1:
            labels = ops.squeeze(labels, axis)
        elif a[axis] is not None and a[axis] == b[axis]:
            raise ShapeError(
                "sparse_categorical_crossentropy: labels are class numbers, without the axis of "
                f"the classes.\n  y_true  {tuple(a)}\n  y_pred  {tuple(b)}\n"
                "For one-hot labels use CategoricalCrossentropy, or argmax(y_true, axis=-1)."
            )
    return labels if labels.dtype.is_integer else ops.cast(labels, "int64")


@of_class_numbers
@LOSSES.add
def categorical_generalized_cross_entropy(
    y_true: TensorLike, y_pred: TensorLike, q: float = 0.5
) -> Tensor:
    """(1 - p**q) / q, where p is the probability of the true class; bears wrong labels.

    Source: Zhang and Sabuncu 2018, arXiv:1805.07836.

    Args:
        y_true: class numbers in [0, classes), (...) or (..., 1), or one-hot labels, (..., classes).
        y_pred: probabilities, (..., classes).
        q: in (0, 1); near 0 it is cross-entropy, at 1 mean absolute error.

    Returns:
        A float tensor (...).

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: a class number is out of range; names it.
        ValueError: `q` is out of range.

    Example:
        >>> loss = tk.losses.categorical_generalized_cross_entropy([1], [[0.75, 0.25]], q=0.5)
        >>> round(float(loss[0]), 4)
        1.0
    """
    if not 0 < q < 1:
        raise ValueError(f"categorical_generalized_cross_entropy: q must be in (0, 1), got {q!r}")
    y_pred = as_floats(y_pred)
    labels = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    classes = y_pred.shape[-1]
    if len(labels.shape) == len(y_pred.shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, -1)
    if len(labels.shape) == len(y_pred.shape) - 1:
        labels = ops.cast(labels, "int64")
        if type(labels) is Tensor:
            check_labels(labels._array, classes)
        labels = ops.one_hot(labels, classes)
    y_true, y_pred = _one_hot_pair("categorical_generalized_cross_entropy", labels, y_pred, -1)
    of_truth = ops.sum(y_true * y_pred, axis=-1)
    return (1.0 - ops.power(of_truth, q)) / q


class BinaryCrossentropy(LossFunctionWrapper):
    """Cross-entropy of labels that are true or false; see `binary_crossentropy`.

    Args:
        from_logits, label_smoothing, axis: see `binary_crossentropy`.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.BinaryCrossentropy(from_logits=True)
        >>> round(float(loss([[1.0], [0.0]], [[0.0], [0.0]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "binary_crossentropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        _check_smoothing("BinaryCrossentropy", label_smoothing)
        self._wrap(binary_crossentropy, locals())


class BinaryFocalCrossentropy(LossFunctionWrapper):
    """Binary cross-entropy that plays down what is predicted well; see `binary_focal_crossentropy`.

    Args:
        apply_class_balancing, alpha, gamma, from_logits, label_smoothing, axis: see the function.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.BinaryFocalCrossentropy(gamma=2.0)
        >>> round(float(loss([[1.0], [0.0]], [[0.5], [0.5]])), 4)
        0.1733
    """

    def __init__(
        self,
        apply_class_balancing: bool = False,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "binary_focal_crossentropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        _check_smoothing("BinaryFocalCrossentropy", label_smoothing)
        self._wrap(binary_focal_crossentropy, locals())


class CategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of one-hot labels; see `categorical_crossentropy`.

    Args:
        from_logits, label_smoothing, axis: see `categorical_crossentropy`.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.CategoricalCrossentropy(from_logits=True)
        >>> round(float(loss([[0.0, 1.0]], [[0.0, 0.0]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_crossentropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        _check_smoothing("CategoricalCrossentropy", label_smoothing)
        self._wrap(categorical_crossentropy, locals())


class CategoricalFocalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of one-hot labels that plays down what is predicted well.

    Args:
        alpha, gamma, from_logits, label_smoothing, axis: see `categorical_focal_crossentropy`.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `label_smoothing` is out of range.

    Example:
        >>> loss = tk.losses.CategoricalFocalCrossentropy(alpha=0.25, gamma=2.0)
        >>> round(float(loss([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.0433
    """

    def __init__(
        self,
        alpha: Any = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_focal_crossentropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        _check_smoothing("CategoricalFocalCrossentropy", label_smoothing)
        self._wrap(categorical_focal_crossentropy, locals())


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of integer labels; see `sparse_categorical_crossentropy`.

    Args:
        from_logits, ignore_class, axis: see `sparse_categorical_crossentropy`. Samples that are
            ignored do not count in a mean either.
        reduction, name, dtype: see `Loss`.

    Example:
        >>> loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        >>> round(float(loss([0, 1], [[0.0, 0.0], [0.0, 0.0]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        axis: int = -1,
        name: str | None = "sparse_categorical_crossentropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        self._wrap(sparse_categorical_crossentropy, locals())


class CategoricalGeneralizedCrossEntropy(LossFunctionWrapper):
    """Cross-entropy that bears wrong labels; see `categorical_generalized_cross_entropy`.

    Args:
        q: in (0, 1); near 0 it is cross-entropy, at 1 mean absolute error.
        reduction, name, dtype: see `Loss`.

    Raises:
        ValueError: `q` is out of range.

    Example:
        >>> loss = tk.losses.CategoricalGeneralizedCrossEntropy(q=0.5)
        >>> round(float(loss([1], [[0.75, 0.25]])), 4)
        1.0
    """

    def __init__(
        self,
        q: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_generalized_cross_entropy",
        dtype: DTypeLike | None = None,
    ) -> None:
        if not 0 < q < 1:
            raise ValueError(f"CategoricalGeneralizedCrossEntropy: q must be in (0, 1), got {q!r}")
        super().__init__(categorical_generalized_cross_entropy, reduction, name, dtype, q=q)
