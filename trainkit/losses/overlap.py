"""Losses of overlapping regions (Dice, Tversky) and of sequences (CTC)."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike
from trainkit.losses.alignment import aligned, as_floats
from trainkit.losses.loss import FunctionLoss, LossFunctionWrapper, of_class_numbers
from trainkit.losses.registry import LOSSES
from trainkit.ops.neural.normalization import EPSILON


@LOSSES.add
def dice(y_true: TensorLike, y_pred: TensorLike, axis: Axis | None = None) -> Tensor:
    """1 - 2 * sum(y_true * y_pred) / (sum(y_true) + sum(y_pred) + 1e-7).

    Source: Milletari, Navab and Ahmadi 2016, arXiv:1606.04797.

    Args:
        y_true: memberships in [0, 1], of one shape.
        y_pred: likewise.
        axis: axes of the sums; all of them by default.

    Returns:
        A float tensor without `axis`, in [0, 1].

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> float(tk.losses.dice([[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]))
        0.5
    """
    y_true, y_pred = aligned("dice", y_true, y_pred)
    both = ops.sum(y_true * y_pred, axis=axis)
    all_of_them = ops.sum(y_true, axis=axis) + ops.sum(y_pred, axis=axis)
    return 1 - 2.0 * both / (all_of_them + EPSILON)


@LOSSES.add
def tversky(
    y_true: TensorLike,
    y_pred: TensorLike,
    alpha: float = 0.5,
    beta: float = 0.5,
    axis: Axis | None = None,
) -> Tensor:
    """1 - tp / (tp + alpha * fp + beta * fn + 1e-7).

    tp = sum(y_true * y_pred), fp = sum((1 - y_true) * y_pred), fn = sum(y_true * (1 - y_pred))
    Source: Salehi, Erdogmus and Gholipour 2017, arXiv:1706.05721.

    Args:
        y_true: memberships in [0, 1], of one shape.
        y_pred: likewise.
        alpha: weight of false positives.
        beta: weight of false negatives.
        axis: axes of the sums; all of them by default.

    Returns:
        A float tensor without `axis`, in [0, 1].

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> round(float(tk.losses.tversky([[1.0, 1.0]], [[1.0, 0.0]])), 4)
        0.3333
    """
    y_true, y_pred = aligned("tversky", y_true, y_pred)
    tp = ops.sum(y_true * y_pred, axis=axis)
    fp = ops.sum((1 - y_true) * y_pred, axis=axis)
    fn = ops.sum(y_true * (1 - y_pred), axis=axis)
    return 1 - tp / (tp + alpha * fp + beta * fn + EPSILON)


@of_class_numbers
@LOSSES.add
def ctc(y_true: TensorLike, y_pred: TensorLike) -> Tensor:
    """-log of the probability of a label sequence, over all alignments with the predictions.

    Source: Graves et al. 2006, "Connectionist temporal classification".

    Args:
        y_true: label numbers from 1, (batch, labels), filled up with 0, which is the blank.
        y_pred: logits, (batch, time, classes).

    Returns:
        One value per sample, (batch,).

    Raises:
        ShapeError: a rank is not as above, or the batch sizes differ.

    Example:
        >>> tk.losses.ctc([[1, 2]], tk.zeros((1, 4, 3))).shape
        TensorShape([1])
    """
    y_pred = as_floats(y_pred)
    y_true = y_true if isinstance(y_true, Tensor) else convert_to_tensor(y_true)
    if len(y_true.shape) != 2 or len(y_pred.shape) != 3 or y_true.shape[0] != y_pred.shape[0]:
        raise ShapeError(
            "ctc: labels are (batch, labels) and logits (batch, time, classes), got "
            f"{tuple(y_true.shape)} and "
            f"{tuple(y_pred.shape)}"
        )
    labels = ops.cast(y_true, "int32")
    label_length = ops.sum(ops.cast(ops.not_equal(labels, 0), "int32"), axis=1)
    output_length = ops.cast(ops.sum(ops.ones_like(y_pred[:, :, 0]), axis=1), "int32")
    return ops.ctc_loss(labels, y_pred, label_length, output_length, mask_index=0)


def _sums_rows(axis: Any, y_pred: Any) -> bool:
    """Whether sums along `axis` go over the rows of a batch."""
    if axis is None:
        return True
    axes = axis if isinstance(axis, list | tuple) else (axis,)
    return any(int(n) % max(len(y_pred.shape), 1) == 0 for n in axes)


class Dice(LossFunctionWrapper):
    """Lack of overlap; see `dice`.

    Args:
        reduction, name, dtype: see `Loss`.
        axis: axes of the sums; all of them by default.

    Example:
        >>> float(tk.losses.Dice()([[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]))
        0.5
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "dice",
        axis: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(dice, reduction, name, dtype, axis=axis)

    def _mixes_rows(self, y_pred: Any) -> bool:
        return _sums_rows(self.fn_settings["axis"], y_pred)


class Tversky(LossFunctionWrapper):
    """Lack of overlap with weights for both kinds of error; see `tversky`.

    Args:
        alpha: weight of false positives.
        beta: weight of false negatives.
        reduction, name, dtype: see `Loss`.
        axis: axes of the sums; all of them by default.

    Example:
        >>> loss = tk.losses.Tversky(alpha=0.5, beta=0.5)
        >>> round(float(loss([[1.0, 1.0]], [[1.0, 0.0]])), 4)
        0.3333
    """

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "tversky",
        axis: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(tversky, reduction, name, dtype, alpha=alpha, beta=beta, axis=axis)

    def _mixes_rows(self, y_pred: Any) -> bool:
        return _sums_rows(self.fn_settings["axis"], y_pred)


class CTC(FunctionLoss):
    """Connectionist temporal classification; see `ctc`.

    Example:
        >>> logits = tk.zeros((1, 4, 3))
        >>> round(float(tk.losses.CTC()([[1, 2]], logits)), 4)
        1.6864
    """

    function = staticmethod(ctc)
