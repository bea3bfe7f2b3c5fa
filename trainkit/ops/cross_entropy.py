"""Cross-entropies, on logits in one pass and on probabilities, and the signal-to-noise ratio.

The gradient of each operation on logits is an operation with gradients of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Dims, Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels import softmax_cpu
from trainkit.ops.activations import sigmoid, softplus
from trainkit.ops.axis_activations import log_softmax, softmax
from trainkit.ops.creation import one_hot
from trainkit.ops.elementwise import (
    add,
    cast,
    clip,
    divide,
    log,
    multiply,
    negative,
    square,
    subtract,
)
from trainkit.ops.pooling import as_floats
from trainkit.ops.reductions import max as largest
from trainkit.ops.reductions import mean
from trainkit.ops.reductions import sum as total
from trainkit.ops.shaping import as_tensor, expand_dims, moveaxis, squeeze

EPSILON = 1e-7
"""Probabilities are kept this far from 0 and 1."""


def _wide(x: Array) -> Array:
    """16-bit floats as float32."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _shifted(xp: ArrayModule, logits: Array) -> tuple[Array, Array]:
    """(logits less their maximum, exp of that), along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted, xp.exp(shifted)


# ------------------------------------------------------------------ dense labels, last axis


def _dense_rule(labels: Spec, logits: Spec) -> Spec:
    if not logits.shape or not _compatible(labels.shape, logits.shape):
        raise ShapeError(
            "softmax_cross_entropy_with_logits: labels and logits must have one shape of at least "
            "one axis.\n"
            f"  labels  {labels.shape}\n  logits  {logits.shape}"
        )
    return Spec(logits.shape[:-1], dtypes.result_type(labels, logits))


def _compatible(a: Dims, b: Dims) -> bool:
    return len(a) == len(b) and all(None in (m, n) or m == n for m, n in zip(a, b, strict=True))


@primitive(_dense_rule, name="softmax_cross_entropy_with_logits", promotes=True)
def _dense(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """Cross-entropy of softmax(logits) with `labels`, along the last axis."""
    if labels.shape != logits.shape or not logits.ndim:
        raise ValueError("shapes differ")  # the shape rule has the words
    shifted, powers = _shifted(xp, _wide(logits))
    shifted -= xp.log(powers.sum(axis=-1, keepdims=True))
    # A label of 0 counts nothing, even where the probability is 0.
    shifted = xp.where(labels == 0, shifted.dtype.type(0), shifted * _wide(labels))
    return (-shifted.sum(axis=-1)).astype(logits.dtype, copy=False)


def _dense_gradient_rule(g: Spec, labels: Spec, logits: Spec) -> Spec:
    return Spec(logits.shape, logits.dtype)


@primitive(_dense_gradient_rule, name="softmax_cross_entropy_gradient", promotes=True)
def softmax_cross_entropy_gradient(
    xp: ArrayModule, g: Array, labels: Array, logits: Array
) -> Array:
    """Along the last axis, g * (softmax(logits) * sum(labels) - labels)."""
    _, powers = _shifted(xp, _wide(logits))
    wide = _wide(labels)
    powers *= wide.sum(axis=-1, keepdims=True) / powers.sum(axis=-1, keepdims=True)
    powers -= wide
    powers *= g[..., None]
    return powers.astype(logits.dtype, copy=False)


def _row(g: Tensor) -> Tensor:
    return expand_dims(g, -1)


def _softmax_back(g: Tensor, y: Tensor) -> Tensor:
    """What softmax with the result `y` sends back along the last axis."""
    result: Tensor = multiply(y, subtract(g, total(multiply(g, y), -1, True)))
    return result


def _dense_second(gg: Tensor, y: Tensor, g: Tensor, labels: Tensor, logits: Tensor) -> Any:
    chance, mass = softmax(logits), total(labels, -1, True)
    slope = subtract(multiply(chance, mass), labels)
    by_g = total(multiply(gg, slope), -1)
    by_labels = multiply(_row(g), subtract(total(multiply(gg, chance), -1, True), gg))
    by_logits = multiply(multiply(_row(g), mass), _softmax_back(gg, chance))
    return by_g, by_labels, by_logits


_dense.gradients(
    lambda g, y, labels, logits: negative(multiply(_row(g), log_softmax(logits))),
    lambda g, y, labels, logits: softmax_cross_entropy_gradient(g, labels, logits),
)
softmax_cross_entropy_gradient.joint_gradient(_dense_second)

# ------------------------------------------------------------------ integer labels, last axis


def _sparse_rule(labels: Spec, logits: Spec) -> Spec:
    if not logits.shape or not _compatible(labels.shape, logits.shape[:-1]):
        raise ShapeError(
            "sparse_softmax_cross_entropy_with_logits: the labels must have the shape of the "
            "logits less the last "
            f"axis.\n  labels  {labels.shape}\n  logits  {logits.shape}"
        )
    if not labels.dtype.is_integer:
        raise InvalidArgumentError(
            f"sparse_softmax_cross_entropy_with_logits: labels must be integers, not "
            f"{labels.dtype.name}"
        )
    return Spec(labels.shape, logits.dtype)


def check_labels(labels: Array, classes: int) -> None:
    """Raise unless all labels are in [0, classes).

    Raises:
        InvalidArgumentError: names the first label that is not, and its place.
    """
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        place = np.argwhere(np.asarray((labels < 0) | (labels >= classes)).reshape(labels.shape))[0]
        at = ", ".join(map(str, place))
        raise InvalidArgumentError(
            f"sparse_softmax_cross_entropy_with_logits: labels[{at}] = {labels[tuple(place)]} is "
            "not in "
            f"[0, {classes}): the logits have {classes} classes"
        )


def _picked(xp: ArrayModule, flat: Array, labels: Array) -> Any:
    """Index of the element of each row that its label names."""
    return xp.arange(flat.shape[0]), labels.reshape(-1)


@primitive(_sparse_rule, name="sparse_softmax_cross_entropy_with_logits")
def _sparse(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """Cross-entropy of softmax(logits), along the last axis, with one class for each row."""
    if labels.shape != logits.shape[:-1] or labels.dtype.kind not in "iu" or not logits.ndim:
        raise ValueError("labels do not fit")  # the shape rule has the words
    if xp is np:
        check_labels(labels, logits.shape[-1])
        found = softmax_cpu.loss(labels, logits)
        if found is not None:
            return found
    shifted, powers = _shifted(xp, _wide(logits))
    flat = shifted.reshape(-1, logits.shape[-1])
    loss = xp.log(powers.sum(axis=-1)) - flat[_picked(xp, flat, labels)].reshape(labels.shape)
    if xp is not np:
        loss = xp.where(_is_class(labels, logits), loss, math.nan)
    return loss.astype(logits.dtype, copy=False)


def _is_class(labels: Array, logits: Array) -> Array:
    """Which labels name a class; a GPU is not waited for to complain of the others."""
    return (labels >= 0) & (labels < logits.shape[-1])


def _sparse_gradient_rule(g: Spec, labels: Spec, logits: Spec) -> Spec:
    return Spec(logits.shape, logits.dtype)


@primitive(_sparse_gradient_rule, name="sparse_softmax_cross_entropy_gradient")
def sparse_softmax_cross_entropy_gradient(
    xp: ArrayModule, g: Array, labels: Array, logits: Array
) -> Array:
    """Along the last axis, g * (softmax(logits) - one_hot(labels))."""
    found = softmax_cpu.gradient(g, labels, logits) if xp is np else None
    if found is not None:
        return found
    _, powers = _shifted(xp, _wide(logits))
    powers /= powers.sum(axis=-1, keepdims=True)
    flat = powers.reshape(-1, logits.shape[-1])
    flat[_picked(xp, flat, labels)] -= 1
    powers *= g[..., None]
    if xp is not np:
        powers = xp.where(_is_class(labels, logits)[..., None], powers, math.nan)
    return powers.astype(logits.dtype, copy=False)


def _sparse_second(gg: Tensor, y: Tensor, g: Tensor, labels: Tensor, logits: Tensor) -> Any:
    unit = sparse_softmax_cross_entropy_gradient(add(multiply(g, 0.0), 1.0), labels, logits)
    by_logits = multiply(_row(g), _softmax_back(gg, softmax(logits)))
    return total(multiply(gg, unit), -1), None, by_logits


_sparse.gradients(
    None, lambda g, y, labels, logits: sparse_softmax_cross_entropy_gradient(g, labels, logits)
)
sparse_softmax_cross_entropy_gradient.joint_gradient(_sparse_second)

# ------------------------------------------------------------------ sigmoid


@primitive(shapes.floating_broadcast, name="sigmoid_cross_entropy_with_logits")
def _binary(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """max(x, 0) - x * z + log(1 + exp(-|x|)), element by element, for logits x and labels z."""
    loss = xp.log1p(xp.exp(-xp.abs(logits)))
    loss += xp.maximum(logits, 0)
    return loss - logits * labels


_binary.gradients(
    lambda g, y, labels, logits: negative(multiply(g, logits)),
    lambda g, y, labels, logits: multiply(g, subtract(sigmoid(logits), labels)),
)


def _named(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    if labels is None or logits is None:
        raise InvalidArgumentError(f"{op}: both labels and logits are needed")
    logits = as_floats(as_tensor(logits))
    return cast(as_tensor(labels), logits.dtype), logits


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None) -> Tensor:
    """Cross-entropy of independent yes-or-no questions, element by element.

    max(x, 0) - x * z + log(1 + exp(-|x|)) for logits x and labels z, which never overflows.

    Args:
        labels: chances in [0, 1], of the shape of `logits`.
        logits: tensor of any shape.

    Returns:
        A tensor like `logits`.

    Raises:
        ShapeError: the shapes differ.
    """
    z, x = _named("sigmoid_cross_entropy_with_logits", labels, logits)
    _check_alike("sigmoid_cross_entropy_with_logits", z, x)
    loss: Tensor = _binary(z, x)
    return loss


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None
) -> Tensor:
    """`sigmoid_cross_entropy_with_logits` with the yes part times `pos_weight`.

    (1 - z) * x + (1 + (q - 1) * z) * log(1 + exp(-x)) for logits x, labels z and weight q.

    Args:
        labels: chances in [0, 1], of the shape of `logits`.
        logits: tensor of any shape.
        pos_weight: number, or tensor that broadcasts against `logits`.

    Returns:
        A tensor like `logits`.

    Raises:
        ShapeError: the shapes differ.
    """
    if pos_weight is None:
        raise InvalidArgumentError("weighted_cross_entropy_with_logits: pos_weight is needed")
    z, x = _named("weighted_cross_entropy_with_logits", labels, logits)
    _check_alike("weighted_cross_entropy_with_logits", z, x)
    weight = add(multiply(subtract(pos_weight, 1.0), z), 1.0)
    loss: Tensor = add(multiply(subtract(1.0, z), x), multiply(weight, softplus(negative(x))))
    return loss


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: Any = None
) -> Tensor:
    """Cross-entropy of softmax(logits) with `labels`: sum of -label * log softmax(logits).

    Args:
        labels: tensor of the shape of `logits`; along `axis` the chance of each class.
        logits: tensor of any shape with at least one axis.
        axis: the axis of the classes.
        name: not kept.

    Returns:
        A tensor of the shape of `logits` less `axis`.

    Raises:
        ShapeError: the shapes differ.
    """
    z, x = _named("softmax_cross_entropy_with_logits", labels, logits)
    if axis not in (-1, len(x.shape) - 1):
        z, x = moveaxis(z, axis, -1), moveaxis(x, axis, -1)
    loss: Tensor = _dense(z, x)
    return loss


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: Any = None) -> Tensor:
    """Cross-entropy of softmax(logits), along the last axis, with one class for each row.

    Args:
        labels: integers in [0, classes), of shape (...).
        logits: (..., classes).
        name: not kept.

    Returns:
        log(sum(exp(logits))) - logits[label], of shape (...).

    Raises:
        InvalidArgumentError: a label is not in [0, classes) (a GPU gives NaN there), or labels are
            no integers.
        ShapeError: the shapes do not fit.
    """
    loss: Tensor = _sparse(as_tensor(labels), as_floats(as_tensor(logits)))
    return loss


# ------------------------------------------------------------------ names of keras.ops


def _check_alike(op: str, target: Tensor, output: Tensor) -> None:
    if not _compatible(tuple(target.shape), tuple(output.shape)):
        raise ShapeError(
            f"{op}: target and output must have one shape.\n"
            f"  target  {tuple(target.shape)}\n  output  {tuple(output.shape)}"
        )


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """Cross-entropy of independent yes-or-no questions, element by element.

    -(z * log(p) + (1 - z) * log(1 - p)) for targets z and chances p, kept in [1e-7, 1 - 1e-7].

    Args:
        target: chances in [0, 1].
        output: chances, or logits, of the shape of `target`.
        from_logits: whether `output` are logits, to which the sigmoid is still to be applied.

    Returns:
        A tensor like `output`.

    Raises:
        ShapeError: the shapes differ.
    """
    p = as_floats(as_tensor(output))
    z = cast(as_tensor(target), p.dtype)
    _check_alike("binary_crossentropy", z, p)
    if from_logits:
        return sigmoid_cross_entropy_with_logits(z, p)
    p = clip(p, EPSILON, 1 - EPSILON)
    yes = multiply(z, log(p))
    loss: Tensor = negative(add(yes, multiply(subtract(1.0, z), log(subtract(1.0, p)))))
    return loss


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Cross-entropy of one choice among classes: sum of -target * log(chance) along `axis`.

    Args:
        target: the chance of each class along `axis`; one-hot rows as a rule.
        output: chances, which are divided by their sum and kept in [1e-7, 1 - 1e-7], or logits.
        from_logits: whether `output` are logits, to which softmax is still to be applied.
        axis: the axis of the classes.

    Returns:
        A tensor of the shape of `output` less `axis`.

    Raises:
        ShapeError: the shapes differ, or have no axis.
    """
    p = as_floats(as_tensor(output))
    z = cast(as_tensor(target), p.dtype)
    along = _class_axis("categorical_crossentropy", p, axis)
    _check_alike("categorical_crossentropy", z, p)
    if from_logits:
        return softmax_cross_entropy_with_logits(z, p, along)
    p = clip(divide(p, total(p, along, True)), EPSILON, 1 - EPSILON)
    loss: Tensor = negative(total(multiply(z, log(p)), along))
    return loss


def _class_axis(op: str, output: Tensor, axis: int) -> int:
    if not output.shape:
        raise ShapeError(f"{op}: the output needs an axis of classes, it is a scalar")
    return shapes.canonical_axis(axis, len(output.shape), op)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Cross-entropy of one choice among classes, the right one given by its number.

    Args:
        target: class numbers in [0, classes), of the shape of `output` less `axis`; it may keep
            that axis with size 1.
        output: chances, kept in [1e-7, 1 - 1e-7] and divided by their sum, or logits.
        from_logits: whether `output` are logits, to which softmax is still to be applied.
        axis: the axis of the classes.

    Returns:
        A tensor of the shape of `output` less `axis`.

    Raises:
        InvalidArgumentError: a target is not in [0, classes).
        ShapeError: the shapes do not fit.
    """
    x = as_floats(as_tensor(output))
    labels = as_tensor(target)
    along = _class_axis("sparse_categorical_crossentropy", x, axis)
    if len(labels.shape) == len(x.shape) and labels.shape[-1] == 1:
        labels = squeeze(labels, -1)
    rest = tuple(n for i, n in enumerate(x.shape) if i != along)
    if not _compatible(tuple(labels.shape), rest):
        raise ShapeError(
            "sparse_categorical_crossentropy: the target must have the shape of the output less "
            "its axis "
            f"{along}.\n  target  {tuple(labels.shape)}\n  output  {tuple(x.shape)}"
        )
    if not labels.dtype.is_integer:
        labels = cast(labels, "int32")
    if not from_logits:
        x = log(clip(x, EPSILON, 1 - EPSILON))
    if along != len(x.shape) - 1:
        x = moveaxis(x, along, -1)
    return sparse_softmax_cross_entropy_with_logits(labels, x)


def multi_hot(
    inputs: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """1 for each class that occurs in a row of class numbers, else 0.

    Args:
        inputs: class numbers, (count,) or (batch, count, ...); those not in [0, num_classes) are
            left out.
        num_classes: size of the new axis.
        axis: where the new axis stands before the axis of the numbers is reduced.
        dtype: of the result; the default float by default.
        sparse: must be `False`: there are no sparse tensors.

    Returns:
        (num_classes,) or (batch, num_classes, ...).

    Raises:
        InvalidArgumentError: `sparse` is true.
    """
    if sparse:
        raise InvalidArgumentError("multi_hot: sparse=True is not supported; use False")
    numbers = as_tensor(inputs)
    hot = one_hot(cast(numbers, "int32"), num_classes, axis=axis, dtype=dtype)
    return largest(hot, 1 if len(numbers.shape) > 1 else 0)


def psnr(x1: Any, x2: Any, max_val: float) -> Tensor:
    """Peak signal-to-noise ratio of two signals in decibels.

    10 * log10(max_val**2 / mean((x1 - x2)**2))

    Args:
        x1: tensors of one shape.
        x2: tensors of one shape.
        max_val: the largest value that the signal can have.

    Returns:
        A scalar.

    Raises:
        ShapeError: the shapes differ.
    """
    a, b = as_floats(as_tensor(x1)), as_floats(as_tensor(x2))
    _check_alike("psnr", a, b)
    noise = mean(square(subtract(a, b)))
    decibels = 10.0 / float(np.log(10.0))
    peak = 2 * decibels * float(np.log(max_val))
    ratio: Tensor = subtract(peak, multiply(log(noise), decibels))
    return ratio
