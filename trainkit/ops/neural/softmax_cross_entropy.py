"""Cross-entropy of softmax with labels, of chances or of class numbers, straight from logits.

Where a tape follows the logits, one operation gives losses and gradients, softmax(logits) less the
labels, in one pass; the backward pass only scales the gradients. Elsewhere, for sizes with which
that does not pay, and for 16-bit floats, whose gradients would be rounded before they are scaled,
there are operations for the loss and for its gradient, each with gradients of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.cpu.cost_model import CALL_FLOATS, THIRD_CACHE
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.facets import COMMON, COMPOSITE, LEADING_AXES, TRACE, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.softmax import softmax_reference, softmax_tuned
from trainkit.kernels.softmax.softmax_reference import shifted_powers
from trainkit.ops.arrays.axes import expand_dims, moveaxis
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.pooling import as_floats
from trainkit.ops.math.elementwise import add, cast, multiply, negative, subtract
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.softmax import log_softmax
from trainkit.ops.neural.softmax import powers_share as softmax

softmax_gpu = DeferredModule("trainkit.kernels.softmax.softmax_gpu")

FEWEST_KEPT = CALL_FLOATS // 4
"""For fewer logits two short entries on the tape are faster than one with two results."""
MOST_KEPT_BYTES = THIRD_CACHE
"""Writing more gradients and reading them again takes longer than another exponential, and memory.
Dense labels take as much themselves, so with them gradients of all sizes are kept."""


def _keeps_gradients(x: Tensor, most_bytes: float = math.inf) -> bool:
    """Whether gradients come with the losses of the logits `x`."""
    if not trace_state.TAPES or (type(x) is Tensor and x._array.size < FEWEST_KEPT):
        return False
    if not trace_state.follows(x):
        return False
    shape, itemsize = x.shape, x.dtype.dtype.itemsize
    if itemsize < 4:
        return False
    size = math.inf if None in shape else math.prod(shape)
    return size >= FEWEST_KEPT and (size == math.inf or size * itemsize <= most_bytes)


@primitive(
    lambda g, grads: Spec(grads.shape, grads.dtype),
    semantics=COMPOSITE,
    lowering=TRACE,
    tuned=softmax_tuned.scaled_rows.facet(of=1),
)
def scaled_rows(xp: ArrayModule, g: Array, grads: Array) -> Array:
    """Rows of gradients (..., classes) times the numbers g (...)."""
    return grads * xp.expand_dims(g, -1)


scaled_rows.gradients(
    lambda gg, y, g, grads: total(multiply(gg, grads), -1),
    lambda gg, y, g, grads: scaled_rows(g, gg),
)
scaled_rows.declare(batch=LEADING_AXES)

# ------------------------------------------------------------------ dense labels, last axis


def _dense_rule(labels: Spec, logits: Spec) -> Spec:
    if len(logits.shape) == 0 or not TensorShape(labels.shape).is_compatible_with(logits.shape):
        raise ShapeError(
            "softmax_cross_entropy_with_logits: labels and logits must have one shape of at least "
            "one axis.\n"
            f"  labels  {labels.shape}\n  logits  {logits.shape}"
        )
    return Spec(logits.shape[:-1], dtypes.result_type(labels, logits))


@primitive(
    _dense_rule,
    name="softmax_cross_entropy_with_logits",
    promotion=COMMON,
    semantics=COMPOSITE,
    lowering=TRACE,
    tuned=softmax_tuned.dense_loss.facet(of=1, on_gpu=(softmax_gpu.loss,)),
    direct=Direct("dense_loss", (np.maximum, np.subtract, np.exp, np.add, np.log)),
)
def _dense(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """Cross-entropy of softmax(logits) with `labels`, along the last axis."""
    _check_dense(labels, logits)
    shifted, powers = shifted_powers(xp, widen_halves(logits))
    losses = _dense_losses(xp, labels, shifted, powers.sum(axis=-1, keepdims=True))
    return losses.astype(logits.dtype, copy=False)


def _check_dense(labels: Array, logits: Array) -> None:
    if labels.shape != logits.shape or not logits.ndim:
        raise ValueError("shapes differ")  # the shape rule has the words


def _dense_losses(xp: ArrayModule, labels: Array, shifted: Array, sums: Array) -> Array:
    """The losses, for which `shifted` is used up."""
    shifted -= xp.log(sums)
    # A label of 0 counts nothing, even where the probability is 0.
    shifted = xp.where(labels == 0, shifted.dtype.type(0), shifted * widen_halves(labels))
    return -shifted.sum(axis=-1)


def _dense_pair_rule(labels: Spec, logits: Spec) -> Any:
    losses = _dense_rule(labels, logits)
    return losses, Spec(logits.shape, losses.dtype)


@primitive(
    _dense_pair_rule,
    name="softmax_cross_entropy_and_slopes",
    promotion=COMMON,
    semantics=COMPOSITE,
    lowering=TRACE,
    tuned=softmax_tuned.dense_loss_and_gradients.facet(
        of=1, on_gpu=(softmax_gpu.loss_and_gradients,)
    ),
)
def _dense_pair(xp: ArrayModule, labels: Array, logits: Array) -> Any:
    """The cross-entropy, and softmax(logits) * sum(labels) - labels."""
    _check_dense(labels, logits)
    shifted, powers = shifted_powers(xp, logits)
    sums = powers.sum(axis=-1, keepdims=True)
    losses = _dense_losses(xp, labels, shifted, sums)
    powers *= labels.sum(axis=-1, keepdims=True) / sums
    powers -= labels
    return losses.astype(logits.dtype, copy=False), powers


@primitive(
    lambda g, labels, logits: Spec(logits.shape, logits.dtype),
    name="softmax_cross_entropy_gradient",
    promotion=COMMON,
    semantics=COMPOSITE,
    lowering=TRACE,
    tuned=Tuned(on_gpu=(softmax_gpu.gradient,)),
)
def softmax_cross_entropy_gradient(
    xp: ArrayModule, g: Array, labels: Array, logits: Array
) -> Array:
    """Along the last axis, g * (softmax(logits) * sum(labels) - labels)."""
    _, powers = shifted_powers(xp, widen_halves(logits))
    floats = widen_halves(labels)
    powers *= floats.sum(axis=-1, keepdims=True) / powers.sum(axis=-1, keepdims=True)
    powers -= floats
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
    grad = subtract(multiply(chance, mass), labels)
    by_g = total(multiply(gg, grad), -1)
    by_labels = multiply(_row(g), subtract(total(multiply(gg, chance), -1, True), gg))
    by_logits = multiply(multiply(_row(g), mass), _softmax_back(gg, chance))
    return by_g, by_labels, by_logits


_dense.gradients(
    lambda g, y, labels, logits: negative(multiply(_row(g), log_softmax(logits))),
    lambda g, y, labels, logits: softmax_cross_entropy_gradient(g, labels, logits),
)
_dense.declare(batch=LEADING_AXES)
softmax_cross_entropy_gradient.joint_gradient(_dense_second)
softmax_cross_entropy_gradient.declare(batch=LEADING_AXES)


def _dense_pair_joint(
    g: Any, y: Any, labels: Tensor, logits: Tensor, *, needed: tuple[bool, bool]
) -> Any:
    by_labels: list[Tensor] = []
    by_logits: list[Tensor] = []
    by_losses, by_gradients = g
    if by_losses is not None:
        by_logits.append(scaled_rows(by_losses, y[1]))
        if needed[0]:
            by_labels.append(negative(scaled_rows(by_losses, log_softmax(logits))))
    if by_gradients is not None:
        chance = softmax(logits)
        mass = total(labels, -1, True)
        by_logits.append(multiply(mass, _softmax_back(by_gradients, chance)))
        level = total(multiply(by_gradients, chance), -1, True)
        by_labels.append(subtract(level, by_gradients))
    return _sum_of(by_labels), _sum_of(by_logits)


def _sum_of(parts: list[Tensor]) -> Tensor | None:
    """The sum of up to two tensors; `None` for none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    result: Tensor = add(*parts)
    return result


_dense_pair.joint_gradient(_dense_pair_joint)
_dense_pair.declare(batch=LEADING_AXES)
_dense_pair.primitive.joint_sparse = True

# ------------------------------------------------------------------ integer labels, last axis


def _sparse_rule(labels: Spec, logits: Spec) -> Spec:
    if len(logits.shape) == 0 or not TensorShape(labels.shape).is_compatible_with(
        logits.shape[:-1]
    ):
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


_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def check_labels(labels: Array, classes: int) -> None:
    """Raise unless all labels are in [0, classes).

    Raises:
        InvalidArgumentError: names the first label that is not, and its place.
    """
    # As unsigned numbers, labels below 0 are greater than all classes.
    if labels.size and not labels.view(_UNSIGNED[labels.itemsize]).max() < classes:
        index = np.argwhere(np.asarray((labels < 0) | (labels >= classes)).reshape(labels.shape))[0]
        at = ", ".join(map(str, index))
        raise InvalidArgumentError(
            f"sparse_softmax_cross_entropy_with_logits: labels[{at}] = {labels[tuple(index)]} is "
            "not in "
            f"[0, {classes}): the logits have {classes} classes, and the last layer needs "
            "a unit for each class there is"
        )


def _pick(xp: ArrayModule, labels: Array) -> Any:
    """Index of the element of each row that its label names."""
    return xp.arange(labels.size), labels.reshape(-1)


def _compiled_loss(labels: Array, logits: Array) -> Array | None:
    _check_sparse(np, labels, logits)
    return softmax_tuned.loss(labels, logits)


def _compiled_pair(labels: Array, logits: Array) -> Any:
    _check_sparse(np, labels, logits)
    return softmax_tuned.loss_and_gradients(labels, logits)


@primitive(
    _sparse_rule,
    name="sparse_softmax_cross_entropy_with_logits",
    semantics=COMPOSITE,
    tuned=softmax_tuned.loss.facet(_compiled_loss, of=1, on_gpu=(softmax_gpu.loss,)),
    direct=Direct(
        "sparse_loss",
        (np.maximum, np.subtract, np.exp, np.add, np.log, softmax_tuned.loss.fewest - 1),
    ),
)
def sparse_loss(xp: ArrayModule, labels: Array, logits: Array) -> Array:
    """Cross-entropy of softmax(logits), along the last axis, with one class for each row."""
    _check_sparse(xp, labels, logits)
    shifted, powers = shifted_powers(xp, widen_halves(logits))
    losses = _sparse_losses(xp, _pick(xp, labels), shifted, powers.sum(axis=-1))
    if xp is not np:
        losses = xp.where(_is_class(labels, logits), losses, math.nan)
    return losses.astype(logits.dtype, copy=False)


def _check_sparse(xp: ArrayModule, labels: Array, logits: Array) -> None:
    if labels.shape != logits.shape[:-1] or labels.dtype.kind not in "iu" or not logits.ndim:
        raise ValueError("labels do not fit")  # the shape rule has the words
    if xp is np:
        check_labels(labels, logits.shape[-1])


def _is_class(labels: Array, logits: Array) -> Array:
    """Which labels name a class; a GPU is not waited for to complain of the others."""
    return (labels >= 0) & (labels < logits.shape[-1])


def _sparse_losses(xp: ArrayModule, label_index: Any, shifted: Array, sums: Array) -> Array:
    return xp.log(sums) - shifted.reshape(-1, shifted.shape[-1])[label_index].reshape(sums.shape)


@primitive(
    lambda labels, logits: (_sparse_rule(labels, logits), Spec(logits.shape, logits.dtype)),
    name="sparse_softmax_cross_entropy_and_slopes",
    semantics=COMPOSITE,
    tuned=softmax_tuned.loss_and_gradients.facet(
        _compiled_pair, of=1, on_gpu=(softmax_gpu.loss_and_gradients,)
    ),
)
def sparse_pair(xp: ArrayModule, labels: Array, logits: Array) -> Any:
    """The cross-entropy, and softmax(logits) - one_hot(labels)."""
    _check_sparse(xp, labels, logits)
    logits = xp.ascontiguousarray(logits)  # as the flat rows below have to be views
    shifted, powers = shifted_powers(xp, logits)
    sums = powers.sum(axis=-1, keepdims=True)
    label_index = _pick(xp, labels)
    losses = _sparse_losses(xp, label_index, shifted, sums[..., 0])
    powers /= sums
    powers.reshape(-1, logits.shape[-1])[label_index] -= 1
    if xp is not np:
        valid = _is_class(labels, logits)
        losses = xp.where(valid, losses, math.nan)
        powers = xp.where(valid[..., None], powers, math.nan)
    return losses.astype(logits.dtype, copy=False), powers.astype(logits.dtype, copy=False)


@primitive(
    lambda g, labels, logits: Spec(logits.shape, logits.dtype),
    name="sparse_softmax_cross_entropy_gradient",
    semantics=COMPOSITE,
    tuned=softmax_tuned.gradient.facet(of=2, on_gpu=(softmax_gpu.gradient,)),
)
def sparse_softmax_cross_entropy_gradient(
    xp: ArrayModule, g: Array, labels: Array, logits: Array
) -> Array:
    """Along the last axis, g * (softmax(logits) - one_hot(labels))."""
    # Contiguous, or the flat rows were a copy, from which the labels would be taken in vain.
    powers = softmax_reference.softmax(xp, xp.ascontiguousarray(widen_halves(logits)))
    flat = powers.reshape(-1, logits.shape[-1])
    flat[_pick(xp, labels)] -= 1
    powers *= g[..., None]
    if xp is not np:
        powers = xp.where(_is_class(labels, logits)[..., None], powers, math.nan)
    return powers.astype(logits.dtype, copy=False)


def _sparse_second(gg: Tensor, y: Tensor, g: Tensor, labels: Tensor, logits: Tensor) -> Any:
    unit = sparse_softmax_cross_entropy_gradient(add(multiply(g, 0.0), 1.0), labels, logits)
    by_logits = multiply(_row(g), _softmax_back(gg, softmax(logits)))
    return total(multiply(gg, unit), -1), None, by_logits


sparse_loss.gradients(
    None, lambda g, y, labels, logits: sparse_softmax_cross_entropy_gradient(g, labels, logits)
)
sparse_loss.array_gradients(
    None,
    lambda g, y, labels, logits: (
        _sparse_back(np, g, labels, logits) if logits.dtype is g.dtype else NotImplemented
    ),
)
sparse_loss.declare(batch=LEADING_AXES)
_sparse_back: Any = sparse_softmax_cross_entropy_gradient.primitive.kernel
sparse_softmax_cross_entropy_gradient.joint_gradient(_sparse_second)
sparse_softmax_cross_entropy_gradient.declare(batch=LEADING_AXES)


def _sparse_pair_joint(g: Any, y: Any, labels: Tensor, logits: Tensor) -> Any:
    by_losses, by_gradients = g
    parts = [] if by_losses is None else [scaled_rows(by_losses, y[1])]
    if by_gradients is not None:
        parts.append(_softmax_back(by_gradients, softmax(logits)))
    return None, _sum_of(parts)


sparse_pair.joint_gradient(_sparse_pair_joint)
sparse_pair.declare(batch=LEADING_AXES)
sparse_pair.primitive.joint_sparse = True

# ------------------------------------------------------------------ the functions


def pair_of_floats(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Labels and logits as tensors of the logits' floating type.

    Raises:
        InvalidArgumentError: one of them is `None`.
    """
    if labels is None or logits is None:
        raise InvalidArgumentError(f"{op}: both labels and logits are needed")
    logits = as_floats(as_tensor(logits))
    return cast(as_tensor(labels), logits.dtype), logits


def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: str | None = None
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

    Example:
        >>> tk.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[0.0, 0.0]]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    z, x = pair_of_floats("softmax_cross_entropy_with_logits", labels, logits)
    if axis not in (-1, len(x.shape) - 1):
        z, x = moveaxis(z, axis, -1), moveaxis(x, axis, -1)
    loss: Tensor = _dense_pair(z, x)[0] if _keeps_gradients(x) else _dense(z, x)
    return loss


def sparse_softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
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

    Example:
        >>> tk.nn.sparse_softmax_cross_entropy_with_logits([1], [[0.0, 0.0]]).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    z = labels if isinstance(labels, Tensor) else as_tensor(labels)
    x = logits if isinstance(logits, Tensor) else as_tensor(logits)
    if type(x) is not Tensor or x._array.dtype.kind != "f":
        x = as_floats(x)
    with_gradients = _keeps_gradients(x, MOST_KEPT_BYTES)
    loss: Tensor = sparse_pair(z, x)[0] if with_gradients else sparse_loss(z, x)
    return loss
