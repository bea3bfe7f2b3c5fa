"""`keras.backend` before Keras 3: activations, losses and normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import losses, ops
from trainkit.activations import relu as _relu
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.keras.config import epsilon
from trainkit.tf import nn as tf_nn

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import TensorLike
    from trainkit.core.variable import Variable


def relu(
    x: TensorLike, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Tensor:
    """`x` where it is above `threshold`, at most `max_value`; `alpha * (x - threshold)` below."""
    return _relu(x, negative_slope=alpha, max_value=max_value, threshold=threshold)


def hard_sigmoid(x: Tensor | Variable) -> Tensor:
    """`0.2 * x + 0.5` between 0 and 1, as before Keras 3, whose own divides by 6.

    Example:
        >>> tk.keras.backend.hard_sigmoid(tk.constant([-3.0, 1.0])).numpy()
        array([0. , 0.7], dtype=float32)
    """
    return ops.clip(x * 0.2 + 0.5, 0.0, 1.0)


def batch_normalization(
    x: Tensor | Variable,
    mean: Tensor | Variable,
    var: Any,
    beta: Tensor | Variable,
    gamma: Tensor | Variable,
    axis: int = -1,
    epsilon: float = 1e-3,
) -> Tensor:
    """`gamma * (x - mean) / sqrt(var + epsilon) + beta`, over the last axis.

    Args:
        x: any tensor.
        mean: of `x`; it and the following three fit `x` as in any sum.
        var: variance of `x`.
        beta: what is added.
        gamma: what the result is multiplied by.
        axis: that of the channels, the last one.
        epsilon: added to the variance.

    Raises:
        InvalidArgumentError: `axis` is another one.
    """
    if axis not in (-1, len(x.shape) - 1):
        raise InvalidArgumentError(
            f"batch_normalization: axis must be the last one, got {axis}; reshape mean, var, beta "
            "and gamma to fit x instead"
        )
    return tf_nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


def in_top_k(predictions: TensorLike, targets: TensorLike, k: int) -> Tensor:
    """Whether the target of each row is among its `k` highest predictions."""
    return ops.in_top_k(targets, predictions, k)


def sparse_categorical_crossentropy(
    target: TensorLike,
    output: TensorLike,
    from_logits: bool = False,
    axis: int = -1,
    ignore_class: int | None = None,
) -> Tensor:
    """The cross-entropy of each row with the class of this number, 0 where that is ignored."""
    if ignore_class is None:
        return ops.sparse_categorical_crossentropy(target, output, from_logits, axis)
    target = convert_to_tensor(target)
    counts = ops.not_equal(target, ignore_class)
    safe = ops.where(counts, target, ops.zeros_like(target))
    each = ops.sparse_categorical_crossentropy(safe, output, from_logits, axis)
    return ops.where(counts, each, ops.zeros_like(each))


def ctc_batch_cost(
    y_true: Tensor | Variable,
    y_pred: Tensor | Variable,
    input_length: Tensor | Variable,
    label_length: Tensor | Variable,
) -> Tensor:
    """The loss of connectionist temporal classification of each row, `(batch, 1)`.

    Args:
        y_true: `(batch, longest label)` classes.
        y_pred: `(batch, steps, classes)` probabilities; the last class is the blank.
        input_length: `(batch, 1)` how many steps each row has.
        label_length: `(batch, 1)` how many classes each label has.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.
    """
    losses = ops.ctc_loss(
        ops.cast(y_true, "int32"),
        ops.log(convert_to_tensor(y_pred) + epsilon()),
        ops.cast(ops.squeeze(label_length, -1), "int32"),
        ops.cast(ops.squeeze(input_length, -1), "int32"),
        mask_index=y_pred.shape[-1] - 1,
    )
    return ops.expand_dims(losses, 1)


def binary_focal_crossentropy(
    target: TensorLike,
    output: TensorLike,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
) -> Tensor:
    """`tk.losses.binary_focal_crossentropy` of each element, without the mean over the last axis.

    Args:
        target: labels 0 or 1.
        output: probabilities, or logits with `from_logits`.
        apply_class_balancing: weigh label 1 by `alpha` and label 0 by `1 - alpha`.
        alpha: weight of label 1.
        gamma: how much well predicted labels are played down.
        from_logits: whether the sigmoid is still to be taken.
    """
    each = losses.binary_focal_crossentropy(
        ops.expand_dims(target, -1),
        ops.expand_dims(output, -1),
        apply_class_balancing,
        alpha,
        gamma,
        from_logits,
    )
    return each


def categorical_focal_crossentropy(
    target: TensorLike,
    output: TensorLike,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    axis: int = -1,
) -> Tensor:
    """`tk.losses.categorical_focal_crossentropy`, without smoothed labels.

    Args:
        target: the probability of each class.
        output: what is predicted for each, or logits with `from_logits`.
        alpha: weight of a class, or of all.
        gamma: how much well predicted classes are played down.
        from_logits: whether the softmax is still to be taken.
        axis: that of the classes.
    """
    return losses.categorical_focal_crossentropy(
        target, output, alpha, gamma, from_logits, axis=axis
    )


def ctc_decode(
    y_pred: Tensor | Variable,
    input_length: Tensor | Variable,
    greedy: bool = True,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[list[Tensor], Tensor]:
    """The labels that probabilities of a network stand for, as programs that read text use it.

    Args:
        y_pred: `(batch, steps, classes)` probabilities; the last class is the blank.
        input_length: `(batch,)` how many steps each row has.
        greedy: take the best class of each step; otherwise search among `beam_width` prefixes.
        beam_width: how many prefixes are kept.
        top_paths: how many label sequences to give; 1 with `greedy`.

    Returns:
        A list with `(batch, steps)` labels for each path, -1 behind their ends, and their scores.

    Example:
        >>> paths, scores = tk.keras.backend.ctc_decode(tk.ones((1, 4, 3)) / 3.0, [4])
        >>> paths[0].shape
        TensorShape([1, 4])
    """
    paths, scores = ops.ctc_decode(
        ops.log(convert_to_tensor(y_pred) + epsilon()),
        ops.cast(input_length, "int32"),
        "greedy" if greedy else "beam_search",
        beam_width,
        top_paths if not greedy else 1,
        mask_index=y_pred.shape[-1] - 1,
    )
    return [paths[k] for k in range(len(paths))], scores
