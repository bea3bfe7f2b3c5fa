"""What a step gave in each replica, made that of the global batch: logs, and outputs in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.callbacks.callback import numbers
from trainkit.core.tensor import convert_to_tensor

if TYPE_CHECKING:
    from trainkit.collectives.process_group import ProcessGroup
    from trainkit.collectives.replica import GlobalRows


class JoinedLogs:
    """The logs of all replicas together.

    Those of the base's steps are results of metrics, whose variables are added up. Of the numbers
    in logs of a step of the user's, some are results of metrics; others are means of rows.

    Args:
        model: the model.
        mode: `"train"`, `"test"` or `"predict"`.
        count: how many replicas there are in all.
    """

    def __init__(self, model: Any, mode: str, count: int) -> None:
        self._model, self._count = model, count
        step = f"{mode}_step"
        kinds = [kind for kind in type(model).__mro__ if step in vars(kind)]
        self._are_of_user = kinds[0] is not kinds[-1]
        self._names: list[str] = []

    def terms(self, logs: Any, share: float) -> list[float]:
        """What a replica adds to the sums that `join` needs, two numbers for each in its logs.

        Args:
            logs: of the replica.
            share: which part of the rows of all it had.
        """
        self._names = []
        if not (self._are_of_user and isinstance(logs, dict)):
            return []
        values = numbers(logs)
        self._names = sorted(name for name, value in values.items() if isinstance(value, float))
        results = numbers(self._model.get_metrics_result()) if self._names else {}
        terms: list[float] = []
        for name in self._names:  # is it what a metric gives, or a number of this replica's rows?
            value = values[name]
            terms += [float(results.get(name) == value), value * share if share else 0.0]
        return terms

    def join(self, logs: Any, sums: Any) -> Any:
        """The logs of the last replica, with the numbers of all."""
        if not self._are_of_user and isinstance(logs, dict):
            return self._model.get_metrics_result()
        if not self._names:
            return logs
        results, logs = numbers(self._model.get_metrics_result()), dict(logs)
        for i, name in enumerate(self._names):
            is_of_metric = sums[2 * i] == self._count and name in results
            logs = _replace(logs, name, results[name] if is_of_metric else float(sums[2 * i + 1]))
        return logs


def _replace(logs: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The logs with another value for a name, which may stand in a dict inside."""
    if name in logs:
        return {**logs, name: value}
    return {
        key: _replace(inner, name, value) if isinstance(inner, dict) and name in inner else inner
        for key, inner in logs.items()
    }


def gather_outputs(outputs: Any, rows: Sequence[GlobalRows], group: ProcessGroup) -> Any:
    """The outputs for all rows of some global batches, in order.

    Args:
        outputs: of this replica, for its rows of all batches, and for one where it has none.
        rows: which it has of each batch.
        group: the replicas.
    """
    array = np.ascontiguousarray(convert_to_tensor(outputs).numpy())
    if array.ndim == 0:
        return outputs
    row_counts = [r.size for r in rows]
    array = drop_stand_ins(array, row_counts)
    parts = group.all_gather(array, "the outputs of predict")
    if len(rows) == 1:
        return np.concatenate(parts)
    ranks = group.exchange(row_counts, "the rows of predict")
    cuts = [np.split(x, np.cumsum(n)[:-1]) for x, n in zip(parts, ranks, strict=True)]
    return np.concatenate([cut[i] for i in range(len(rows)) for cut in cuts])


def drop_stand_ins(array: Any, row_counts: Sequence[int]) -> Any:
    """Rows without those that stood in for none.

    Args:
        array: of some batches or turns, one after the other, each with a row at least.
        row_counts: how many of them each has in truth.
    """
    if all(row_counts):
        return array
    pieces = np.split(array, np.cumsum(np.maximum(row_counts, 1))[:-1])
    return np.concatenate([x[:count] for x, count in zip(pieces, row_counts, strict=True)])
