"""Summaries of numbers: `scalar` for curves, `histogram` for spreads, `write` for the rest."""

import math
import warnings
from typing import Any

import numpy as np

from trainkit.summary.protos import set_metadata, set_numbers
from trainkit.summary.recording import record

BUCKETS = 30
BLOCK = 1 << 16


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Record one number, a point of the curve that TensorBoard draws under `name`.

    Args:
        name: name of the curve; a `/` groups curves.
        data: one real number, or a tensor or array of one. It is stored as float32.
        step: place on the horizontal axis; None for the default step.
        description: shown beside the curve, in Markdown.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: data is not one real number, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.scalar("loss", 0.5, step=0))
        True
    """
    return record(_fill_scalar, name, data, step, description)


def _fill_scalar(value: Any, data: np.ndarray, description: str | None) -> None:
    if data.size != 1 or data.dtype.kind not in "fiubV":
        raise ValueError(
            f"summary {value.tag!r}: a scalar is one real number, data has shape {data.shape} "
            f"and dtype {data.dtype}. Reduce it first, with tk.reduce_mean for instance."
        )
    value.simple_value = float(data.item())
    if description is not None:
        set_metadata(value, "scalars", description=description)


def histogram(
    name: str,
    data: Any,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
) -> bool:
    """Record how numbers are distributed, as counts in buckets of equal width.

    NaN and infinite numbers are left out, with a warning that says how many.

    Args:
        name: name of the histogram; a `/` groups histograms.
        data: real numbers, of any shape.
        step: the step; None for the default step.
        buckets: number of buckets, 30 by default.
        description: shown beside the histogram, in Markdown.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: data is not of real numbers, `buckets` is below 1, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.histogram("weights", [0.1, 0.5, 0.9], step=0))
        True
    """
    count = BUCKETS if buckets is None else buckets
    return record(_fill_histogram, name, data, step, count, description)


def _fill_histogram(value: Any, data: np.ndarray, count: int, description: str | None) -> None:
    if count < 1:
        raise ValueError(f"summary {value.tag!r}: buckets is {count}, expected 1 or more.")
    if data.dtype.kind not in "fiubV":
        raise ValueError(
            f"summary {value.tag!r}: data has dtype {data.dtype}, expected real numbers."
        )
    numbers = data.ravel()
    if numbers.dtype.kind == "V":  # bfloat16 and its kin warn when they are compared with NaN
        numbers = numbers.astype(np.float32)
    finite = finite_only(numbers)
    if finite.size < numbers.size:
        warnings.warn(
            f"summary {value.tag!r}: {numbers.size - finite.size} of {numbers.size} numbers are "
            "NaN or infinite and are left out of the histogram.",
            stacklevel=6,
        )
    set_numbers(value, histogram_buckets(finite, count))
    set_metadata(value, "histograms", description=description)


def finite_only(numbers: np.ndarray) -> np.ndarray:
    """Numbers without NaN and infinities; the same array if it has none."""
    if numbers.dtype.kind in "iub" or not numbers.size:
        return numbers
    if math.isfinite(numbers.min()) and math.isfinite(numbers.max()):  # each passes NaN on
        return numbers
    return numbers[np.isfinite(numbers)]


def histogram_buckets(numbers: np.ndarray, count: int) -> np.ndarray:
    """Counts of finite numbers in buckets of equal width from the least to the greatest.

    The last bucket holds its right edge, the others do not. If all numbers are the same they are
    in the last bucket, and all edges are that number. Without numbers all is 0.

    Args:
        numbers: any real dtype, shape (numbers,).
        count: number of buckets.

    Returns:
        float64 of shape (count, 3): left edge, right edge, number of members.
    """
    table = np.zeros((count, 3))
    if not numbers.size:
        return table
    lowest, greatest = float(numbers.min()), float(numbers.max())
    table[:, :2] = greatest
    if lowest == greatest:
        table[-1, 2] = numbers.size
        return table
    scale = 0.5 if math.isinf(greatest - lowest) else 1.0  # so that the range does not overflow
    low, span = lowest * scale, greatest * scale - lowest * scale
    edges = np.linspace(low, greatest * scale, count + 1) / scale
    table[:, 0], table[:, 1] = edges[:-1], edges[1:]
    for start in range(0, numbers.size, BLOCK):  # blocks that stay in the cache
        positions = numbers[start : start + BLOCK].astype(np.float64)
        positions *= scale
        positions -= low
        positions /= span
        positions *= count
        bucket = positions.astype(np.intp)
        np.minimum(bucket, count - 1, out=bucket)
        table[:, 2] += np.bincount(bucket, minlength=count)
    return table


def write(
    tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None
) -> bool:
    """Record a tensor as it is, for a plugin of TensorBoard that knows what to do with it.

    Args:
        tag: name of the summary.
        tensor: numbers, of any shape.
        step: the step; None for the default step.
        metadata: a SummaryMetadata proto (or one serialized to bytes) that names the plugin.
        name: not kept.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: the dtype cannot be stored, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.write("raw", tk.constant([1.0, 2.0]), step=0))
        True
    """
    return record(_fill_tensor, tag, tensor, step, metadata)


def _fill_tensor(value: Any, data: np.ndarray, metadata: Any) -> None:
    set_numbers(value, data)
    if metadata is not None:
        content = metadata if isinstance(metadata, bytes) else metadata.SerializeToString()
        value.metadata.ParseFromString(content)
