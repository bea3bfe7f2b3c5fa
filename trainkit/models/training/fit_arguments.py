"""What `fit` and its like make of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.tensor import is_tensor, wrap
from trainkit.models.training import batch_sources, data_adapters
from trainkit.models.training.compile_metrics import CompiledMetrics


def shape_of_any_batch(x: Any) -> Any:
    """The shape of a tensor with an unknown size of the batch; `None` for other things."""
    return (None, *tuple(x.shape)[1:]) if hasattr(x, "shape") else None


def split(x: Any, y: Any, sample_weight: Any, share: float) -> tuple[Any, Any, Any, Any]:
    """Arrays without their last `share`, and that share as data to validate with.

    Raises:
        ValueError: `x` is no arrays.
    """
    if not data_adapters.is_arrays(x):
        raise ValueError(
            f"fit: validation_split needs arrays, x is a {type(x).__name__}; give validation_data"
        )
    parts = (
        data_adapters.as_arrays(x),
        data_adapters.as_arrays(y),
        data_adapters.as_arrays(sample_weight),
    )
    training, validation = data_adapters.split_arrays(parts, share)
    return (*training, validation)


def validation_feed(data: Any, batch_size: int | None, steps: int | None) -> Any:
    """The batches of `validation_data`, `None` without any."""
    if data is None:
        return None
    if isinstance(data, tuple | list):
        x, y, weight = data_adapters.unpack(data)
        return batch_sources.feed(x, y, weight, batch_size=batch_size, steps=steps)
    size = batch_size if data_adapters.is_arrays(data) else None
    return batch_sources.feed(data, batch_size=size, steps=steps)


def due_epochs(freq: Any) -> Callable[[int], bool]:
    """Whether an epoch, from 0, has a validation."""
    if isinstance(freq, int):
        if freq < 1:
            raise ValueError(f"fit: validation_freq must be at least 1, got {freq}")
        return lambda epoch: (epoch + 1) % freq == 0
    if isinstance(freq, Iterable):
        epochs = set(freq)
        return lambda epoch: epoch + 1 in epochs
    raise ValueError(f"fit: validation_freq must be a number or a list of epochs, got {freq!r}")


def verbosity(verbose: Any) -> int:
    """0, 1 or 2.

    Raises:
        ValueError: `verbose` is none of these, nor `"auto"`.
    """
    if verbose == "auto":
        return 1
    if verbose not in (0, 1, 2):
        raise ValueError(f"verbose must be 0, 1, 2 or 'auto', got {verbose!r}")
    return int(verbose)


def as_batch(x: Any, y: Any, sample_weight: Any) -> Any:
    """The three as a batch of tensors."""
    if type(x) is np.ndarray and y is None and sample_weight is None:
        return _tensor(data_adapters.as_arrays(x))
    parts = [
        data_adapters.as_arrays(part) if not is_tensor(part) else part
        for part in (x, y, sample_weight)
    ]
    return data_adapters.pack_given(*(nest.map_structure(_tensor, part) for part in parts))


def _tensor(value: Any) -> Any:
    if value is None or is_tensor(value):
        return value
    return wrap(devices.to_device(np.array(value), devices.current()))


def in_order(values: dict[str, Any], metrics: list[Any]) -> Any:
    """Values by the order of metrics, those of other names last; one alone as it is.

    As in Keras a name that two metrics have, one of them weighted, stands twice.
    """
    names: list[str] = []
    for metric in metrics:
        inner = metric.metrics if isinstance(metric, CompiledMetrics) else [metric]
        names += [part.name for part in inner]
    metric_names = [name for name in names if name in values]
    other_names = [name for name in sorted(values) if name not in metric_names]
    ordered = [values[name] for name in (*metric_names, *other_names)]
    return ordered[0] if len(ordered) == 1 else ordered
