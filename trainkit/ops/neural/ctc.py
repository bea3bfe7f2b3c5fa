"""Connectionist temporal classification: the loss of unaligned label sequences.

A path names one class for each time step; merging repeats and then leaving out blanks turns it into
labels.
Source: Graves, Fernandez, Gomez and Schmidhuber 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.eager import with_tuned
from trainkit.core.dispatch.facets import COMPOSITE, Absent, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.alignment import alignment_tuned
from trainkit.kernels.softmax import softmax_reference
from trainkit.ops.arrays.axes import squeeze
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.convolutional.pooling import as_floats
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.indexing.gathering import take_along_axis
from trainkit.ops.math.elementwise import add, cast, negative, where
from trainkit.ops.math.exponentials import logaddexp
from trainkit.ops.neural.softmax import log_softmax
from trainkit.ops.vmap_rules.shared_rules import folded

_FAR = -1e30
"""Stands for log(0): finite, so that sums and gradients of it stay numbers."""

# ------------------------------------------------------------------ states of a label sequence


class _States:
    """Blank, label, blank, label, ..., blank: the states that a path goes through.

    Attributes:
        classes: (batch, states), the class of each state.
        skips: (batch, states), whether a path may come from two states before.
        last: (batch,), index of the last state, a blank.
    """

    def __init__(self, xp: ArrayModule, target: Array, target_length: Array, blank: int) -> None:
        batch, length = target.shape
        self.classes = xp.full((batch, 2 * length + 1), blank, np.int64)
        self.classes[:, 1::2] = target
        self.skips = xp.zeros(self.classes.shape, bool)
        self.skips[:, 2:] = self.classes[:, 2:] != self.classes[:, :-2]
        self.skips[:, ::2] = False
        self.last = 2 * target_length.astype(np.int64)


def _shift(xp: ArrayModule, values: Array, by: int) -> Array:
    """`values` moved along the states, log(0) where nothing comes from."""
    result = xp.full(values.shape, _FAR, values.dtype)
    if by > 0:
        result[:, by:] = values[:, :-by]
    else:
        result[:, :by] = values[:, -by:]
    return result


def _forward_body(xp: ArrayModule, emitted: Array, skips: Array, lengths: Array) -> Array:
    """Log of the chance of all ways to each state at each time, (batch, time, states)."""
    batch, steps, count = emitted.shape
    alpha = xp.full((steps, batch, count), _FAR, emitted.dtype)
    alpha[0, :, :2] = emitted[:, 0, :2]
    for t in range(1, steps):
        before = alpha[t - 1]
        ways = xp.logaddexp(before, _shift(xp, before, 1))
        ways = xp.where(skips, xp.logaddexp(ways, _shift(xp, before, 2)), ways)
        alpha[t] = xp.where((t < lengths)[:, None], ways + emitted[:, t], before)
    return alpha.transpose(1, 0, 2)


forward = with_tuned(_forward_body, Tuned(alignment_tuned.forward))
"""`(xp, emitted, skips, lengths)`: the forward variables."""


def _backward_body(
    xp: ArrayModule, emitted: Array, skips: Array, last: Array, lengths: Array
) -> Array:
    """Log of the chance of all ways from each state at each time to the end."""
    batch, steps, count = emitted.shape
    positions = xp.arange(count)[None, :]
    final = (positions == last[:, None]) | (positions == last[:, None] - 1)
    end = xp.where(final, emitted.dtype.type(0), emitted.dtype.type(_FAR))
    beta = xp.full((steps, batch, count), _FAR, emitted.dtype)
    leaps = xp.zeros_like(skips)
    leaps[:, :-2] = skips[:, 2:]
    beta[steps - 1] = end
    for t in range(steps - 2, -1, -1):
        after = beta[t + 1] + emitted[:, t + 1]
        ways = xp.logaddexp(after, _shift(xp, after, -1))
        ways = xp.where(leaps, xp.logaddexp(ways, _shift(xp, after, -2)), ways)
        beta[t] = xp.where((t + 1 < lengths)[:, None], ways, end)
    return beta.transpose(1, 0, 2)


backward = with_tuned(_backward_body, Tuned(alignment_tuned.backward))
"""`(xp, emitted, skips, last, lengths)`: the backward variables."""


def _emissions(xp: ArrayModule, scores: Array, states: _States) -> Array:
    """What each state's class is scored with, (batch, time, states)."""
    return xp.take_along_axis(scores, states.classes[:, None, :], axis=2)


def _total(xp: ArrayModule, alpha: Array, states: _States) -> Array:
    """Log of the chance of all whole paths, (batch,)."""
    end = alpha[:, -1]
    last = xp.take_along_axis(end, states.last[:, None], axis=1)[:, 0]
    label = xp.take_along_axis(end, xp.maximum(states.last - 1, 0)[:, None], axis=1)[:, 0]
    return xp.where(states.last > 0, xp.logaddexp(last, label), last)


# ------------------------------------------------------------------ loss


def _loss_rule(
    logits: Spec, target: Spec, target_length: Spec, output_length: Spec, *, blank: int
) -> Spec:
    shape_lines = (
        f"  output         {logits.shape}   (batch, time, classes)\n"
        f"  target         {target.shape}   (batch, labels)\n"
        f"  target_length  {target_length.shape}\n  output_length  {output_length.shape}"
    )
    ranks = tuple(len(s.shape) for s in (logits, target, target_length, output_length))
    if ranks != (3, 2, 1, 1):
        raise ShapeError(f"ctc_loss: the inputs have the wrong number of axes.\n{shape_lines}")
    batches = {s.shape[0] for s in (logits, target, target_length, output_length)} - {None}
    if len(batches) > 1:
        raise ShapeError(f"ctc_loss: the batch sizes differ.\n{shape_lines}")
    return Spec(logits.shape[:1], logits.dtype)


def _check_values(xp: ArrayModule, logits: Array, target: Array, lengths: Any, blank: int) -> None:
    _, steps, classes = logits.shape
    target_length, output_length = lengths
    if not -classes <= blank < classes:
        raise InvalidArgumentError(f"ctc_loss: mask_index={blank} is not among {classes} classes")
    used = xp.arange(target.shape[1])[None, :] < target_length[:, None]
    if bool((used & ((target < 0) | (target >= classes))).any()):
        raise InvalidArgumentError(
            f"ctc_loss: a target is not in [0, {classes}): the output has {classes} classes"
        )
    for name, length, limit in (
        ("target_length", target_length, target.shape[1]),
        ("output_length", output_length, steps),
    ):
        if length.size and not (length.min() >= 0 and length.max() <= limit):
            raise InvalidArgumentError(f"ctc_loss: {name} must lie in [0, {limit}], got {length}")


def _prepare(
    xp: ArrayModule, logits: Array, target: Array, target_length: Array, blank: int
) -> tuple[Array, _States]:
    floats = logits.astype(np.float32) if logits.dtype.itemsize < 4 else logits
    inside = xp.clip(target, 0, logits.shape[-1] - 1)
    states = _States(xp, inside, target_length, blank % logits.shape[-1])
    return softmax_reference.log_softmax(xp, floats), states


@primitive(
    _loss_rule,
    name="ctc_loss",
    semantics=COMPOSITE,
    lowering=Absent("its loop goes over time steps"),
)
def _ctc(
    xp: ArrayModule,
    logits: Array,
    target: Array,
    target_length: Array,
    output_length: Array,
    *,
    blank: int,
) -> Array:
    """Minus the log of the chance of all paths that give the labels, (batch,)."""
    if logits.ndim != 3 or not len(logits) == len(target) == len(target_length):
        raise ValueError("shapes do not fit")  # the shape rule has the words
    _check_values(xp, logits, target, (target_length, output_length), blank)
    scores, states = _prepare(xp, logits, target, target_length, blank)
    alpha = forward(xp, _emissions(xp, scores, states), states.skips, output_length)
    chance = _total(xp, alpha, states)
    loss = xp.where(chance < _FAR / 2, np.inf, -chance)
    return loss.astype(logits.dtype)


@primitive(
    lambda g, logits, *labels, blank: Spec(logits.shape, logits.dtype),
    name="ctc_gradient",
    semantics=COMPOSITE,
    lowering=Absent("its loop goes over time steps"),
)
def ctc_gradient(
    xp: ArrayModule,
    g: Array,
    logits: Array,
    target: Array,
    target_length: Array,
    output_length: Array,
    *,
    blank: int,
) -> Array:
    """Chance of each class less its chance given the labels, at each time, times `g`."""
    scores, states = _prepare(xp, logits, target, target_length, blank)
    emitted = _emissions(xp, scores, states)
    alpha = forward(xp, emitted, states.skips, output_length)
    beta = backward(xp, emitted, states.skips, states.last, output_length)
    chance = _total(xp, alpha, states)
    posteriors = xp.exp(xp.minimum(alpha + beta - chance[:, None, None], 0))
    share = _by_class(xp, posteriors, states.classes, scores.shape[-1])
    times = xp.arange(scores.shape[1])[None, :]
    is_counted = times < output_length[:, None]
    gradient = xp.where(is_counted[..., None], xp.exp(scores) - share, 0)
    return (gradient * g[:, None, None]).astype(logits.dtype)


def _by_class(xp: ArrayModule, posteriors: Array, classes: Array, count: int) -> Array:
    """The chances of states added up for each class, (batch, time, count)."""
    batch, steps, states = posteriors.shape
    rows, times = xp.arange(batch)[:, None], xp.arange(steps)[None, :]
    if xp is np:
        bins = ((rows * steps + times) * count)[:, :, None] + classes[:, None, :]
        sums = np.bincount(bins.ravel(), posteriors.ravel(), batch * steps * count)
        return sums.astype(posteriors.dtype).reshape(batch, steps, count)
    share = xp.zeros((batch, steps, count), posteriors.dtype)
    for s in range(states):
        share[rows, times, classes[:, s : s + 1]] += posteriors[..., s]
    return share


_ctc.batch_by(folded(0, 1, 2, 3))
ctc_gradient.batch_by(folded(0, 1, 2, 3, 4))


def _formula(
    logits: Tensor, target: Tensor, target_length: Tensor, output_length: Tensor, blank: int
) -> Tensor:
    """The loss in plain operations."""
    steps, classes = int(logits.shape[1]), int(logits.shape[2])
    states = _States(
        np, np.clip(target.numpy(), 0, classes - 1), target_length.numpy(), blank % classes
    )
    lengths = output_length.numpy()
    scores = take_along_axis(log_softmax(logits), states.classes[:, None, :], axis=2)
    batch, count = states.classes.shape

    def wall(width: int) -> Tensor:
        return cast(as_tensor(np.full((batch, width), _FAR, np.float32)), logits.dtype)

    def at(t: int) -> Tensor:
        return squeeze(take_along_axis(scores, np.full((batch, 1, count), t), axis=1), 1)

    first = np.arange(count)[None, :] < 2
    alpha = where(first, at(0), wall(count))
    for t in range(1, steps):
        ways = alpha
        for by in (1, 2)[: count - 1]:
            earlier = take_along_axis(alpha, _indices(batch, count - by), axis=1)
            joined = logaddexp(ways, concatenate([wall(by), earlier], axis=1))
            ways = joined if by == 1 else where(states.skips, joined, ways)
        alpha = where((t < lengths)[:, None], add(ways, at(t)), alpha)
    ends = [states.last, np.maximum(states.last - 1, 0)]
    last, label = (squeeze(take_along_axis(alpha, e[:, None], axis=1), 1) for e in ends)
    both = logaddexp(last, label)
    loss: Tensor = negative(where(states.last > 0, both, last))
    return loss


def _indices(batch: int, count: int) -> Any:
    return np.broadcast_to(np.arange(count)[None, :], (batch, count))


def _second(gg: Tensor, y: Tensor, g: Tensor, logits: Tensor, *labels: Tensor, blank: int) -> Any:
    target, target_length, output_length = labels
    by_g, (by_logits,) = replayed_second_gradient(
        lambda x: _formula(x, target, target_length, output_length, blank), g, (logits,), (gg,)
    )
    return by_g, by_logits, *(None for _ in labels)


_ctc.gradients(
    lambda g, y, logits, *labels, blank: ctc_gradient(g, logits, *labels, blank=blank),
    None,
    None,
    None,
)
ctc_gradient.joint_gradient(_second)


def ctc_loss(
    target: TensorLike,
    output: TensorLike,
    target_length: Any,
    output_length: Any,
    mask_index: int = 0,
) -> Tensor:
    """Minus the log of the chance that a network gives a sequence of labels, however aligned.

    Source: Graves et al. 2006, "Connectionist temporal classification", equations 6 to 16.

    Args:
        target: class numbers, (batch, labels); what lies beyond `target_length` is not looked at.
        output: logits, (batch, time, classes).
        target_length: how many labels count in each row, (batch,).
        output_length: how many time steps count in each row, (batch,).
        mask_index: the class that stands for a blank.

    Returns:
        (batch,); inf where there are too few time steps for the labels.

    Raises:
        ShapeError: ranks or batch sizes do not fit.
        InvalidArgumentError: a target is no class, or a length out of range.

    Example:
        >>> tk.ops.ctc_loss([[1, 2]], tk.zeros((1, 4, 3)), [2], [4]).shape
        TensorShape([1])
    """
    labels = [as_tensor(x) for x in (target, target_length, output_length)]
    integer_labels = [x if x.dtype.is_integer else cast(x, "int32") for x in labels]
    logits = as_floats(as_tensor(output))
    if logits.dtype.size < 4:  # Keras gives float32
        logits = cast(logits, "float32")
    loss: Tensor = _ctc(logits, *integer_labels, blank=int(mask_index))
    return loss
