"""Cross-entropies by the names of `keras.ops`, those of yes and no, and `psnr`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eager import activation_of
from trainkit.core.dispatch.facets import CLASSES, ELEMENTWISE, YES_OR_NO
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.axes import moveaxis, squeeze
from trainkit.ops.arrays.creation import one_hot
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.pooling import as_floats
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    log,
    multiply,
    negative,
    square,
    subtract,
)
from trainkit.ops.math.max_and_argmax import max as largest
from trainkit.ops.math.reductions import mean
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.math.value_limits import clip
from trainkit.ops.neural.activations import sigmoid, softplus
from trainkit.ops.neural.normalization import EPSILON
from trainkit.ops.neural.softmax_cross_entropy import (
    pair_of_floats,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)

"""Probabilities are kept this far from 0 and 1."""


# ------------------------------------------------------------------ sigmoid


@primitive(
    shapes.floating_broadcast, name="sigmoid_cross_entropy_with_logits", semantics=ELEMENTWISE
)
def _binary(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """max(x, 0) - x * z + log(1 + exp(-|x|)), element by element, for logits x and labels z."""
    loss = xp.log1p(xp.exp(-xp.abs(logits)))
    loss += xp.maximum(logits, 0)
    return loss - logits * labels


_binary.gradients(
    lambda g, y, labels, logits: negative(multiply(g, logits)),
    lambda g, y, labels, logits: multiply(g, subtract(sigmoid(logits), labels)),
)


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
    z, x = pair_of_floats("sigmoid_cross_entropy_with_logits", labels, logits)
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
    z, x = pair_of_floats("weighted_cross_entropy_with_logits", labels, logits)
    _check_alike("weighted_cross_entropy_with_logits", z, x)
    weight = add(multiply(subtract(pos_weight, 1.0), z), 1.0)
    loss: Tensor = add(multiply(subtract(1.0, z), x), multiply(weight, softplus(negative(x))))
    return loss


# ------------------------------------------------------------------ names of keras.ops


def _check_alike(op: str, target: Tensor, output: Tensor) -> None:
    if not target.shape.is_compatible_with(output.shape):
        raise ShapeError(
            f"{op}: target and output must have one shape.\n"
            f"  target  {tuple(target.shape)}\n  output  {tuple(output.shape)}"
        )


def with_its_logits(
    output: Tensor, from_logits: bool, of: str, axis: int | None = None
) -> tuple[Tensor, bool]:
    """What a loss computes with, and whether these are logits.

    Where `output` is the very result of an activation that is its input. Chances next to 0 and 1
    are rounded, so that of a wrong one no gradient comes back; those losses that know the logits
    are exact for all of them. Keras does the same on TensorFlow. A tape that watches `output` has
    gradients by it, so then they count as the chances that they are.

    Args:
        output: a tensor.
        from_logits: what `output` is where no such activation gave it.
        of: what they have to be the logits of, `YES_OR_NO` or `CLASSES`.
        axis: that of the classes, not negative.
    """
    record = activation_of(output)
    if record is None:
        return output, from_logits
    logits: Tensor
    primitive, logits, settings = record
    along = settings.get("axis")
    is_along = isinstance(along, int) and along % len(logits.shape) == axis
    if primitive.facets.logits_of != of or not (axis is None or is_along):
        return output, from_logits
    return (logits, True) if trace_state.reaches_through(output, logits) else (output, False)


def binary_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False
) -> Tensor:
    """Cross-entropy of independent yes-or-no questions, element by element.

    -(z * log(p) + (1 - z) * log(1 - p)) for targets z and chances p, kept in [1e-7, 1 - 1e-7].
    Chances that come straight from a sigmoid are not limited: its input is taken for the logits.

    Args:
        target: chances in [0, 1].
        output: chances, or logits, of the shape of `target`.
        from_logits: whether `output` are logits, to which the sigmoid is still to be applied.

    Returns:
        A tensor like `output`.

    Raises:
        ShapeError: the shapes differ.

    Example:
        >>> tk.ops.binary_crossentropy([1.0, 0.0], [0.5, 0.5]).numpy().round(4)
        array([0.6931, 0.6931], dtype=float32)
    """
    p = as_floats(as_tensor(output))
    z = cast(as_tensor(target), p.dtype)
    _check_alike("binary_crossentropy", z, p)
    p, from_logits = with_its_logits(p, from_logits, YES_OR_NO)
    if from_logits:
        return sigmoid_cross_entropy_with_logits(z, p)
    p = clip(p, EPSILON, 1 - EPSILON)
    yes = multiply(z, log(p))
    loss: Tensor = negative(add(yes, multiply(subtract(1.0, z), log(subtract(1.0, p)))))
    return loss


def categorical_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Cross-entropy of one choice among classes: sum of -target * log(chance) along `axis`.

    Chances that come straight from a softmax along `axis` are not limited: its input is taken.

    Args:
        target: the chance of each class along `axis`; one-hot rows as a rule.
        output: chances, which are divided by their sum and kept in [1e-7, 1 - 1e-7], or logits.
        from_logits: whether `output` are logits, to which softmax is still to be applied.
        axis: the axis of the classes.

    Returns:
        A tensor of the shape of `output` less `axis`.

    Raises:
        ShapeError: the shapes differ, or have no axis.

    Example:
        >>> tk.ops.categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    p = as_floats(as_tensor(output))
    z = cast(as_tensor(target), p.dtype)
    along = _class_axis("categorical_crossentropy", p, axis)
    _check_alike("categorical_crossentropy", z, p)
    p, from_logits = with_its_logits(p, from_logits, CLASSES, along)
    if from_logits:
        return softmax_cross_entropy_with_logits(z, p, along)
    p = clip(divide(p, total(p, along, True)), EPSILON, 1 - EPSILON)
    loss: Tensor = negative(total(multiply(z, log(p)), along))
    return loss


def _class_axis(op: str, output: Tensor, axis: int) -> int:
    if len(output.shape) == 0:
        raise ShapeError(f"{op}: the output needs an axis of classes, it is a scalar")
    return shapes.canonical_axis(axis, len(output.shape), op)


def sparse_categorical_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Cross-entropy of one choice among classes, the right one given by its number.

    Chances that come straight from a softmax along `axis` are not limited: its input is taken.

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

    Example:
        >>> tk.ops.sparse_categorical_crossentropy([1], [[0.5, 0.5]]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    x = as_floats(as_tensor(output))
    labels = as_tensor(target)
    along = _class_axis("sparse_categorical_crossentropy", x, axis)
    if len(labels.shape) == len(x.shape) and labels.shape[-1] == 1:
        labels = squeeze(labels, -1)
    label_shape = tuple(n for i, n in enumerate(x.shape) if i != along)
    if not labels.shape.is_compatible_with(label_shape):
        raise ShapeError(
            "sparse_categorical_crossentropy: the target must have the shape of the output less "
            "its axis "
            f"{along}.\n  target  {tuple(labels.shape)}\n  output  {tuple(x.shape)}"
            + (
                "\nFlatten, or global pooling, before the last layer gives one row of scores for "
                "each sample."
                if len(labels.shape) == 1 and len(x.shape) > 2
                else ""
            )
        )
    if not labels.dtype.is_integer:
        labels = cast(labels, "int32")
    x, from_logits = with_its_logits(x, from_logits, CLASSES, along)
    if not from_logits:
        x = log(clip(x, EPSILON, 1 - EPSILON))
    if along != len(x.shape) - 1:
        x = moveaxis(x, along, -1)
    return sparse_softmax_cross_entropy_with_logits(labels, x)


def multi_hot(
    inputs: TensorLike,
    num_classes: int | None = None,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    sparse: bool = False,
    **kwargs: Any,
) -> Tensor:
    """1 for each class that occurs in a row of class numbers, else 0.

    Args:
        inputs: class numbers, (count,) or (batch, count, ...); those not in [0, num_classes) are
            left out.
        num_classes: size of the new axis.
        axis: where the new axis stands before the axis of the numbers is reduced.
        dtype: of the result; the default float by default.
        sparse: must be `False`: there are no sparse tensors.
        **kwargs: `num_tokens`, an older name of `num_classes`.

    Returns:
        (num_classes,) or (batch, num_classes, ...).

    Raises:
        InvalidArgumentError: `sparse` is true.
        TypeError: there is no `num_classes`, or an argument by keyword is unknown.

    Example:
        >>> tk.ops.multi_hot([0, 2], 4).numpy()
        array([1., 0., 1., 0.], dtype=float32)
    """
    num_classes = kwargs.pop("num_tokens", num_classes)
    if kwargs or num_classes is None:
        raise TypeError(f"multi_hot: give num_classes; unknown arguments: {sorted(kwargs)}")
    if sparse:
        raise InvalidArgumentError("multi_hot: sparse=True is not supported; use False")
    numbers = as_tensor(inputs)
    hot = one_hot(cast(numbers, "int32"), num_classes, axis=axis, dtype=dtype)
    return largest(hot, 1 if len(numbers.shape) > 1 else 0)


def psnr(x1: TensorLike, x2: TensorLike, max_val: float) -> Tensor:
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

    Example:
        >>> float(tk.ops.psnr(tk.ones((4,)), tk.zeros((4,)), 10.0))
        20.0
    """
    a, b = as_floats(as_tensor(x1)), as_floats(as_tensor(x2))
    _check_alike("psnr", a, b)
    noise = mean(square(subtract(a, b)))
    decibels = 10.0 / float(np.log(10.0))
    peak = 2 * decibels * float(np.log(max_val))
    ratio: Tensor = subtract(peak, multiply(log(noise), decibels))
    return ratio
