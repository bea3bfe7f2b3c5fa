"""`TimeseriesGenerator`: batches of windows of a series, the older tool of Keras."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from trainkit.models.training.py_dataset import PyDataset


class TimeseriesGenerator(PyDataset):
    """Batches of windows of a series, each with the target right after it.

    The window of target i has steps i - length, i - length + sampling_rate ... before i.
    `timeseries_dataset_from_array` makes a data set of windows, and is faster.

    Args:
        data: the series (steps, ...), an array or a list.
        targets: as many; the target of a window is the one of the step after it.
        length: steps that a window spans.
        sampling_rate: every how many steps one is taken into the window.
        stride: steps between the ends of two windows.
        start_index: first step that is used.
        end_index: last step that is used, as a target; by default the last one there is.
        shuffle: whether windows are drawn by chance, from NumPy's global generator, and with
            repetitions, as in Keras.
        reverse: whether steps in a window go back in time.
        batch_size: windows in a batch; the last one may have fewer.
        **kwargs: of `PyDataset`: `workers`, `use_multiprocessing`, `max_queue_size`.

    Raises:
        ValueError: `data` and `targets` differ in length, or no window fits.

    >>> batches = TimeseriesGenerator(np.arange(6), np.arange(6), length=2, batch_size=3)
    >>> len(batches)
    2
    >>> [part.tolist() for part in batches[0]]
    [[[0, 1], [1, 2], [2, 3]], [2, 3, 4]]
    """

    def __init__(
        self,
        data: Any,
        targets: Any,
        length: int,
        sampling_rate: int = 1,
        stride: int = 1,
        start_index: int = 0,
        end_index: int | None = None,
        shuffle: bool = False,
        reverse: bool = False,
        batch_size: int = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(data) != len(targets):
            raise ValueError(
                f"TimeseriesGenerator: data has {len(data)} steps and targets has {len(targets)}; "
                "give one target for each step"
            )
        for name, value in (
            ("length", length),
            ("sampling_rate", sampling_rate),
            ("stride", stride),
            ("batch_size", batch_size),
        ):
            if value < 1:
                raise ValueError(f"TimeseriesGenerator: {name} must be at least 1, got {value}")
        self.data = data
        self.targets = targets
        self.length = length
        self.sampling_rate = sampling_rate
        self.stride = stride
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle = shuffle
        self.reverse = reverse
        self.batch_size = batch_size
        if not self.start_index <= self.end_index < len(data):
            raise ValueError(
                f"TimeseriesGenerator: the first target would be step {self.start_index} "
                f"(start_index {start_index} and length {length}), the last one {self.end_index}, "
                f"of {len(data)} steps; take a shorter length, or other steps"
            )

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return -(-(self.end_index - self.start_index + 1) // (self.batch_size * self.stride))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The windows (windows, steps, ...) of batch `index`, and their targets (windows, ...)."""
        if self.shuffle:
            ends = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            first = self.start_index + self.batch_size * self.stride * index
            last = min(first + self.batch_size * self.stride, self.end_index + 1)
            ends = np.arange(first, last, self.stride)
        windows = np.array([self.data[i - self.length : i : self.sampling_rate] for i in ends])
        targets = np.array([self.targets[i] for i in ends])
        return (windows[:, ::-1] if self.reverse else windows), targets

    def get_config(self) -> dict[str, Any]:
        """The settings, with the series as JSON texts.

        Raises:
            TypeError: the series cannot be written as JSON.
        """
        names = (
            "length",
            "sampling_rate",
            "stride",
            "start_index",
            "end_index",
            "shuffle",
            "reverse",
        )
        return {
            "data": json.dumps(np.asarray(self.data).tolist()),
            "targets": json.dumps(np.asarray(self.targets).tolist()),
            **{name: getattr(self, name) for name in (*names, "batch_size")},
        }

    def to_json(self, **kwargs: Any) -> str:
        """The settings and the series as one JSON text.

        Args:
            **kwargs: of `json.dumps`.

        Raises:
            TypeError: the series cannot be written as JSON.
        """
        return json.dumps(
            {"class_name": "TimeseriesGenerator", "config": self.get_config()}, **kwargs
        )
