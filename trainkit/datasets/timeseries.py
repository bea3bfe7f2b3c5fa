"""Windows of a series of time steps as a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import AUTOTUNE, Dataset, structure
from trainkit.data.node import DatasetOp, Leaves, Rows, RowStage, Stage


class _Windows(Rows):
    """Windows by the number of their first step, and the target of each."""

    def __init__(self, data: Any, targets: Any, starts: Any, steps: Any) -> None:
        self.data, self.targets, self.starts, self.steps = data, targets, starts, steps
        self.count = len(starts)

    def gather(self, indices: Any) -> Leaves:
        starts = self.starts[indices]
        windows = self.data[starts[:, None] + self.steps]
        return [windows] if self.targets is None else [windows, self.targets[starts]]


class WindowsNode(DatasetOp):
    """Windows of a series, and the target of each."""

    title = "Timeseries"
    _untracked = frozenset({"windows"})

    def __init__(self, windows: _Windows) -> None:
        self.windows = windows

    def spec(self) -> Any:
        data, targets = self.windows.data, self.windows.targets
        window = TensorSpec((len(self.windows.steps), *data.shape[1:]), data.dtype)
        return window if targets is None else (window, TensorSpec(targets.shape[1:], targets.dtype))

    def count(self) -> int:
        return self.windows.count

    def rows(self) -> Rows:
        return self.windows

    def stage(self) -> Stage:
        return RowStage(self.windows)


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
    format: str = "tf",
) -> Dataset:
    """Windows of a series, and the target of each.

    Args:
        data: (steps, ...), numbers in the order of time.
        targets: (steps, ...), the target of the window that begins at each step; `None` for windows
            alone.
        sequence_length: steps of a window.
        sequence_stride: from the start of a window to that of the next.
        sampling_rate: from one step of a window to its next.
        batch_size: windows of a batch; single windows for `None`.
        shuffle: whether the windows come in random order.
        seed: of the order.
        start_index: first step that is used.
        end_index: step behind the last that is used.
        format: `"tf"`, for a `Dataset`, is the only one.

    Returns:
        A data set of windows (batch, sequence_length, ...), or of (windows, targets).

    Raises:
        ValueError: a number does not fit the data.

    Example:
        >>> x = np.arange(6)
        >>> batches = tk.utils.timeseries_dataset_from_array(x, None, 3, batch_size=2)
        >>> next(iter(batches)).numpy()
        array([[0, 1, 2],
               [1, 2, 3]])
    """
    data = np.asarray(structure.leaf_array(data))
    targets = None if targets is None else np.asarray(structure.leaf_array(targets))
    length = len(data)
    bounds = {
        "start_index": (start_index or 0, 0, length - 1),
        "end_index": (length if end_index is None else end_index, (start_index or 0) + 1, length),
        "sampling_rate": (sampling_rate, 1, length - 1),
        "sequence_stride": (sequence_stride, 1, length - 1),
        "sequence_length": (sequence_length, 1, length),
    }
    for name, (value, low, high) in bounds.items():
        if not low <= value <= high:
            raise ValueError(
                f"timeseries_dataset_from_array: {name} is {value}; for {length} steps of data it "
                f"must be {low} to {high}"
            )
    if format != "tf":
        raise ValueError(f"timeseries_dataset_from_array: format {format!r}; it must be 'tf'")
    first, last = bounds["start_index"][0], bounds["end_index"][0]
    count = last - first - (sequence_length - 1) * sampling_rate
    if targets is not None:
        count = min(count, len(targets))
    starts = np.arange(0, count, sequence_stride)
    if shuffle:
        seed = int(np.random.randint(1_000_000)) if seed is None else seed
        np.random.RandomState(seed).shuffle(starts)
    steps = np.arange(sequence_length) * sampling_rate
    series = data[first:last]
    aims = None if targets is None else targets[first:last]
    dataset = Dataset(WindowsNode(_Windows(series, aims, starts, steps)))
    if shuffle:
        dataset = dataset.shuffle(1024 if batch_size is None else 8 * batch_size, seed)
    if batch_size is not None:
        dataset = dataset.batch(batch_size)
    return dataset.prefetch(AUTOTUNE)
