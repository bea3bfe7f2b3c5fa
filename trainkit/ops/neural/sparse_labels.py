"""Connectionist temporal classification under TensorFlow's names and layouts.

TensorFlow gives decoded labels as sparse tensors; `SparseLabels` holds the same three arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dtypes import int32, int64
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops import ctc_decode as _decode
from trainkit.ops import ctc_loss as _loss
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.core.dynamic_shapes import concrete, like, needs_values, unknown


class SparseLabels(NamedTuple):
    """Label sequences of different lengths.

    Attributes:
        indices: int64 (count, 2): row and position of each label.
        values: int64 (count,): the labels.
        dense_shape: int64 (2,): rows, and the length of the longest sequence.
    """

    indices: Tensor
    values: Tensor
    dense_shape: Tensor

    def to_dense(self, default_value: int = -1) -> Tensor:
        """The labels as (rows, length), filled up with `default_value`."""
        return _filled_rows(*self, default_value)


@needs_values("indices", "values", "dense_shape", gives=lambda a: Spec((None, None), int64))
def _filled_rows(indices: Any, values: Any, dense_shape: Any, default_value: int) -> Tensor:
    rows = np.full(dense_shape.numpy(), default_value, np.int64)
    rows[tuple(indices.numpy().T)] = values.numpy()
    return convert_to_tensor(rows)


def ctc_loss(
    labels: TensorLike,
    logits: TensorLike,
    label_length: TensorLike | None,
    logit_length: TensorLike,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Minus the log of the chance that a network gives a sequence of labels, however aligned.

    Source: Graves et al. 2006, "Connectionist temporal classification", equations 6 to 16.

    Args:
        labels: class numbers (batch, length), or `SparseLabels`.
        logits: (time, batch, classes), or (batch, time, classes).
        label_length: how many labels count in each row, (batch,); with `SparseLabels` None.
        logit_length: how many time steps count in each row, (batch,).
        logits_time_major: whether time is the first axis of `logits`.
        unique: only None: equal labels are found without it.
        blank_index: the class that stands for a blank, 0 by default; negative from the end.

    Returns:
        (batch,).

    Raises:
        ValueError: `unique` is given, or `SparseLabels` come with lengths, or without a blank.
        InvalidArgumentError: a label is no class, or a length out of range.

    Example:
        >>> tk.nn.ctc_loss([[1, 2]], tk.zeros((4, 1, 3)), [2], [4]).shape
        TensorShape([1])
    """
    if unique is not None:
        raise ValueError("ctc_loss: unique is not supported; leave it out")
    x = convert_to_tensor(logits)
    if len(x.shape) != 3:
        raise ShapeError(f"ctc_loss: logits must have three axes, got shape {tuple(x.shape)}")
    if isinstance(labels, SparseLabels):
        if label_length is not None or blank_index is None:
            raise ValueError("ctc_loss: SparseLabels need blank_index, and label_length=None")
        labels, label_length = _dense_labels(labels)
    blank = int(blank_index or 0)
    blank = blank + int(x.shape[-1]) if blank < 0 else blank
    x = transpose(x, (1, 0, 2)) if logits_time_major else x
    return _loss(labels, x, label_length, logit_length, blank)


def _dense_labels(labels: SparseLabels) -> tuple[Tensor, Tensor]:
    return labels.to_dense(0), _row_lengths(labels.indices, labels.dense_shape)


@needs_values("indices", "dense_shape", gives=lambda a: Spec((None,), int32))
def _row_lengths(indices: Any, dense_shape: Any) -> Tensor:
    rows, count = indices.numpy()[:, 0], int(dense_shape.numpy()[0])
    return convert_to_tensor(np.bincount(rows, minlength=count).astype(np.int32))


_SPARSE = SparseLabels(Spec((None, 2), int64), Spec((None,), int64), Spec((2,), int64))  # type: ignore[arg-type]


@needs_values("paths", gives=lambda a: [_SPARSE] * int(a["paths"].shape[0]))
def _sparse_paths(paths: Any) -> list[SparseLabels]:
    """Rows (paths, batch, time) filled up with -1, for each path as three arrays."""
    return [_sparse(labels) for labels in paths.numpy()]


def _sparse(labels: Any) -> SparseLabels:
    is_label = labels >= 0
    indices = np.argwhere(is_label).astype(np.int64)
    longest = int(is_label.sum(axis=1).max(initial=0))
    shape = np.array([len(labels), longest], np.int64)
    values = labels[is_label].astype(np.int64)
    return SparseLabels(*(convert_to_tensor(a) for a in (indices, values, shape)))


def _by_batch(inputs: Any, op: str) -> Tensor:
    x = convert_to_tensor(inputs)
    if len(x.shape) != 3 or x.shape[2] is None:
        raise ShapeError(
            f"{op}: inputs must be (time, batch, classes) with the classes known, got "
            f"{tuple(x.shape)}"
        )
    return transpose(x, (1, 0, 2))


def ctc_greedy_decoder(
    inputs: TensorLike,
    sequence_length: TensorLike,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseLabels], Tensor]:
    """The labels of the best class at each time.

    Args:
        inputs: logits (time, batch, classes).
        sequence_length: how many time steps count, (batch,).
        merge_repeated: take a class that repeats itself for one label.
        blank_index: the class that stands for a blank, the last by default.

    Returns:
        A list of one `SparseLabels`, and minus the sum of the best logits, (batch, 1).

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: a length is beyond the time steps.

    Example:
        >>> logits = tk.constant([[[9.0, 0.0, 0.0]], [[0.0, 0.0, 9.0]], [[0.0, 9.0, 0.0]]])
        >>> (path,), scores = tk.nn.ctc_greedy_decoder(logits, [3])
        >>> path.values.numpy()
        array([0, 1])
    """
    x = _by_batch(inputs, "ctc_greedy_decoder")
    blank = -1 if blank_index is None else int(blank_index)
    labels, scores = _decode(
        x, sequence_length, merge_repeated=merge_repeated, mask_index=blank % x.shape[-1]
    )
    return _sparse_paths(labels), scores


def ctc_beam_search_decoder(
    inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseLabels], Tensor]:
    """The most likely label sequences, by a beam search; the blank is the last class.

    Args:
        inputs: logits (time, batch, classes).
        sequence_length: how many time steps count, (batch,).
        beam_width: how many prefixes are kept.
        top_paths: how many sequences to give.

    Returns:
        A list of `SparseLabels`, the best first, and their log chances, (batch, top_paths).

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: `top_paths` is above `beam_width`, or a length beyond the time steps.

    Example:
        >>> (path,), scores = tk.nn.ctc_beam_search_decoder(tk.zeros((4, 1, 3)), [4], beam_width=2)
        >>> scores.shape
        TensorShape([1, 1])
    """
    x = _by_batch(inputs, "ctc_beam_search_decoder")
    labels, scores = _decode(
        x, sequence_length, "beam_search", beam_width, top_paths, mask_index=x.shape[-1] - 1
    )
    return _sparse_paths(labels), scores


@needs_values("labels", "seq_length", gives=lambda a: (unknown(a["labels"]), like(a["seq_length"])))
def collapse_repeated(
    labels: TensorLike, seq_length: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of labels with runs of equal ones made single, filled up with 0, and their lengths.

    Args:
        labels: (batch, length).
        seq_length: how many labels count in each row, (batch,).

    Returns:
        (batch, longest) of the dtype of `labels`, and the lengths (batch,).

    Example:
        >>> labels, lengths = tk.nn.collapse_repeated([[1, 1, 2, 2]], [4])
        >>> labels.numpy(), lengths.numpy()
        (array([[1, 2]], dtype=int32), array([2], dtype=int32))
    """
    rows = concrete(labels, "collapse_repeated")
    lengths = concrete(seq_length, "collapse_repeated")
    run_starts = np.arange(rows.shape[1])[None, :] < lengths[:, None]
    run_starts[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    counts = run_starts.sum(axis=1)
    collapsed = np.zeros((len(rows), int(counts.max(initial=0))), rows.dtype)
    collapsed[np.arange(collapsed.shape[1])[None, :] < counts[:, None]] = rows[run_starts]
    return convert_to_tensor(collapsed), convert_to_tensor(counts.astype(lengths.dtype))
