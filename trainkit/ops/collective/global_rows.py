"""All rows of the global batch, for what mixes rows with each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS as REPLICAS
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.collective.all_reduce import all_reduce
from trainkit.ops.math.elementwise import cast


def rows_of_others() -> replicas.GlobalRows | None:
    """Where this replica's rows stand in the global batch, where there are others."""
    replica = replicas.among_others() if REPLICAS else None
    return None if replica is None else replica.rows


def weight_in_replica() -> float | None:
    """What a number that all replicas have counts in this one, so that it counts once in all."""
    replica = replicas.among_others()
    return None if replica is None else replica.weight


def global_batch(x: Any, what: str) -> Any:
    """The rows of all replicas, one after the other, in each of them.

    Returns:
        (rows of all, ...); `x` itself where there is one replica, or rows are not known.

    Raises:
        InvalidArgumentError: these are not the rows of the replica.
    """
    rows = rows_of_others()
    if rows is None:
        return x
    own = max(rows.size, 1)  # a replica without rows computes on a row that stands in for none
    if x.shape[0] is not None and int(x.shape[0]) != own:
        raise InvalidArgumentError(
            f"{what}: a replica has {own} rows of the global batch, and {int(x.shape[0])} are to "
            "be mixed with those of others: give it the whole batch of the replica, or call it in "
            "Dataset.map"
        )
    kind = x.dtype
    x = cast(x, "uint8") if kind.name == "bool" else x
    before, behind = rows.start, rows.total - rows.start - rows.size
    paddings = [[before, behind], *[[0, 0]] * (len(x.shape) - 1)]
    (batch,) = all_reduce([pad(x[: rows.size], paddings)])
    return cast(batch, "bool") if kind.name == "bool" else batch


def of_whole_batch(
    compute: Callable[[Any, Any], Any],
    y_true: Any,
    y_pred: Any,
    what: str,
    mixes_rows: bool = False,
) -> tuple[Any, bool]:
    """What a loss or a score gives for targets and predictions of a step's rows.

    One that gives a value for each row is computed on the rows of this replica. Any other one, such
    as an overlap of all regions or a sum, is one of the whole batch: all replicas compute it on the
    rows of all, and gradients reach those that the rows came from.

    Args:
        compute: function of targets and predictions.
        y_true: targets, a nest of tensors with a row for each of this replica.
        y_pred: predictions likewise.
        what: the name of the loss or score, for errors.
        mixes_rows: it is known that it is one of the whole batch, whatever its shape.

    Returns:
        What `compute` gave, and whether it is that of the whole batch.

    Raises:
        UnimplementedError: it is one of the whole batch, and the replicas run one after the other.
    """
    replica = replicas.among_others()
    if replica is None or not replica.averages or replica.rows is None:
        return compute(y_true, y_pred), False
    values = None if mixes_rows else compute(y_true, y_pred)
    own = max(replica.rows.size, 1)
    leaves = [x for x in nest.flatten((y_true, y_pred)) if x is not None]
    by_rows = all(isinstance(x, Tensor) and _rows_of(x) == own for x in leaves)
    is_of_rows = not isinstance(values, Tensor) or _rows_of(values) in (own, None)
    if not by_rows or (is_of_rows and not mixes_rows):
        return compute(y_true, y_pred) if mixes_rows else values, False
    replica.check_meets(f"{what!r}, which gives no value for each row of the batch,")

    def gather(x: Any) -> Any:
        return None if x is None else global_batch(x, what)

    return compute(*nest.map_structure(gather, (y_true, y_pred))), True


def _rows_of(x: Any) -> Any:
    """The size of the first axis, `None` where it is not known; 0 for a scalar."""
    sizes = tuple(x.shape)
    return sizes[0] if sizes else 0
