"""Charts made of several numbers: `pr_curve`, and `custom_scalars`, which lays charts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.summary.defaults import DEFAULTS, current_writer, whole_number
from trainkit.summary.protos import set_metadata, set_numbers, set_strings, varint
from trainkit.summary.recording import record

THRESHOLDS = 201
LAYOUT_TAG = "custom_scalars__config__"
_SMALLEST_COUNT = 1e-7
_KINDS = ("Multiline", "Margin")

Layout = Mapping[str, Mapping[str, Sequence[Any]]]


def pr_curve(
    name: str,
    labels: Any,
    predictions: Any,
    num_thresholds: int | None = None,
    weights: Any = None,
    step: Any = None,
    description: str | None = None,
) -> Any:
    """Record precision and recall over thresholds, which TensorBoard draws as a curve.

    A sample counts as positive at a threshold t if floor(prediction * (n - 1)) >= t * (n - 1);
    precision = tp / (tp + fp), recall = tp / (tp + fn).
    Source: TensorBoard's own plugin `pr_curves`.

    Args:
        name: name of the curve; a `/` groups curves.
        labels: whether each sample is positive: bools, or 0 and 1, of any shape.
        predictions: scores from 0 to 1, of the same shape.
        num_thresholds: how many thresholds from 0 to 1, 201 by default.
        weights: what each sample counts, a number or an array of that shape; 1 by default.
        step: the step; None for the default step.
        description: shown beside the curve, in Markdown.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: the shapes differ, a prediction is not from 0 to 1, there are fewer than 2
            thresholds, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.pr_curve("digits", [0, 1, 1], [0.2, 0.4, 0.9], step=0))
        True
    """
    if DEFAULTS.writer is None:
        return False
    count = THRESHOLDS if num_thresholds is None else num_thresholds
    if count < 2:
        raise ValueError(f"summary {name!r}: num_thresholds is {count}, expected 2 or more.")
    parts = [ops.convert_to_tensor(x) for x in (labels, predictions)]
    if tuple(parts[0].shape) != tuple(parts[1].shape):
        raise ValueError(
            f"summary {name!r}: labels have shape {tuple(parts[0].shape)}, predictions "
            f"{tuple(parts[1].shape)}, expected the same."
        )
    first = [ops.cast(x, "float32") for x in parts]
    row_weights = ops.cast(ops.convert_to_tensor(1.0 if weights is None else weights), "float32")
    table = ops.stack([*first, ops.broadcast_to(row_weights, ops.shape(first[0]))])
    return record(_fill_pr_curve, name, table, step, count, description)


def _fill_pr_curve(value: Any, data: np.ndarray, count: int, description: str | None) -> None:
    labels, predictions, weights = (part.ravel() for part in np.asarray(data, np.float32))
    if predictions.size and not (predictions.min() >= 0 and predictions.max() <= 1):
        raise ValueError(
            f"summary {value.tag!r}: predictions go from {predictions.min()} to "
            f"{predictions.max()}, expected numbers from 0 to 1. Use a sigmoid or softmax first."
        )
    set_numbers(value, pr_table(labels, predictions, weights, count).astype(np.float32))
    set_metadata(value, "pr_curves", b"\x10" + varint(count), description)


def pr_table(
    labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray, count: int
) -> np.ndarray:
    """True and false positives, true and false negatives, precision and recall by threshold.

    Args:
        labels: 0 or 1, shape (samples,).
        predictions: from 0 to 1, shape (samples,).
        weights: shape (samples,).
        count: number of thresholds.

    Returns:
        float64 of shape (6, count).
    """
    bucket = np.floor(predictions * np.float32(count - 1)).astype(np.intp)
    at_most = [
        np.bincount(bucket, share * weights.astype(np.float64), count)
        for share in (labels.astype(np.float64), 1.0 - labels)
    ]
    tp, fp = (np.cumsum(part[::-1])[::-1] for part in at_most)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(_SMALLEST_COUNT, tp + fp)
    recall = tp / np.maximum(_SMALLEST_COUNT, tp + fn)
    return np.stack([tp, fp, tn, fn, precision, recall])


def custom_scalars(layout: Layout, step: Any = 0) -> bool:
    """Record how the page Custom Scalars shows the scalars of all runs.

    Args:
        layout: by category, then by title of the chart: a pair of `"Multiline"` and a list of
            patterns of names, all drawn into one chart; or of `"Margin"` and three names, of a
            value and of its lower and upper bounds.
        step: the step.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: the layout has another form.

    >>> import tempfile
    >>> with tk.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     tk.summary.custom_scalars({"losses": {"all": ["Multiline", ["loss/.*"]]}})
    True
    """
    writer = current_writer()
    if writer is None:
        return False
    content = _layout_proto(layout)
    writer.add(_fill_layout, LAYOUT_TAG, whole_number(LAYOUT_TAG, step), content)
    return True


def _fill_layout(value: Any, content: bytes) -> None:
    set_strings(value, [content], [])
    set_metadata(value, "custom_scalars")


def _layout_proto(layout: Layout) -> bytes:
    from tensorboardX.proto import layout_pb2

    proto = layout_pb2.Layout()
    for title, charts in layout.items():
        category = proto.category.add(title=title)
        for name, (kind, tags) in charts.items():
            if kind not in _KINDS or isinstance(tags, str):
                raise ValueError(
                    f"summary custom_scalars: chart {name!r} is {[kind, tags]!r}, expected "
                    "['Multiline', [patterns of names]] or ['Margin', [value, lower, upper]]."
                )
            chart = category.chart.add(title=name)
            if kind == "Multiline":
                chart.multiline.tag.extend(tags)
                continue
            if len(tags) != 3:
                raise ValueError(
                    f"summary custom_scalars: chart {name!r} has {len(tags)} names, expected "
                    "those of the value, its lower and its upper bound."
                )
            chart.margin.series.add(value=tags[0], lower=tags[1], upper=tags[2])
    return bytes(proto.SerializeToString())
