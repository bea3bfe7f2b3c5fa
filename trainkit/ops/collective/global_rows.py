"""All rows of the global batch, for what mixes rows with each other."""

from __future__ import annotations

from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS
from trainkit.core.errors import InvalidArgumentError
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.collective.all_reduce import all_reduce
from trainkit.ops.math.elementwise import cast


def rows_of_others() -> replicas.GlobalRows | None:
    """Where this replica's rows stand in the global batch, where there are others."""
    replica = replicas.among_others() if REPLICAS else None
    return None if replica is None else replica.rows


def global_batch(x: Any, what: str) -> Any:
    """The rows of all replicas, one after the other, in each of them.

    Args:
        x: (rows, ...) of this replica.
        what: who asks for it, for the error.

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
    (whole,) = all_reduce([pad(x[: rows.size], paddings)])
    return cast(whole, "bool") if kind.name == "bool" else whole
