"""Draws that run along a batch, for a replica that has some of the rows of the global one."""

from __future__ import annotations

import functools
from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS
from trainkit.core.dispatch import trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import is_tensor
from trainkit.core.values.batch_size import BatchSize
from trainkit.ops.sampling.philox import BY_ROWS, InBlocks


class AlongBatch:
    """A seed whose draws have a row for each row of the batch.

    Args:
        seed: whatever stands for a seed.
        rows: those of the global batch that are drawn, as `Replica.drawn_rows` gives them; `None`
            for draws that all rows share.
    """

    def __init__(self, seed: Any, rows: Any) -> None:
        self.seed, self.rows = seed, rows

    def draws_of(self, source: Any) -> RowDraws:
        """What draws these rows of the numbers of `source`."""
        return RowDraws(source, self.rows)


class RowDraws:
    """Draws the rows of a replica, and leaves its source where one process would.

    Draws that are no row by row, such as orders, are the same in all replicas.
    """

    def __init__(self, source: Any, rows: Any) -> None:
        self._source, self._rows = source, rows

    def draw(self, primitive: Any, shape: Any, **settings: Any) -> Any:
        """The rows of what a primitive of `ops.sampling.philox` gives for the global batch."""
        if primitive in BY_ROWS:
            primitive = functools.partial(primitive, rows=self._rows)
        return self._source.draw(primitive, shape, **settings)


def rows_for(shape: Any) -> InBlocks | None:
    """The rows of the global batch that a draw of `shape` is for, `None` where it is for no batch.

    A draw is for the batch if its first size comes from a tensor with the rows of this replica, or
    from a tensor of sizes: `keras.random.normal((ops.shape(x)[0], 8))`. Written sizes are no batch:
    one process would draw as many.
    """
    replica = replicas.among_others() if REPLICAS else None
    if replica is None or replica.rows is None:
        return None
    own = max(replica.rows.size, 1)
    return InBlocks(replica.drawn_rows) if _is_of_batch(shape, own) else None


def _is_of_batch(shape: Any, own: int) -> bool:
    if is_tensor(shape):
        first = shape[0] if len(tuple(shape.shape)) else shape
    else:
        first = next(iter(shape), 0) if hasattr(shape, "__iter__") else shape
    if not is_tensor(first):
        return type(first) is BatchSize and first % own == 0
    if hasattr(type(first), "_is_variable"):
        return False
    return isinstance(first, SymbolicTensor) or int(first) in (own, 2 * own)


def by_rows(primitive: Any, shape: Any) -> Any:
    """`primitive` as it draws what a replica needs of `shape`; see `rows_for`."""
    rows = rows_for(shape) if primitive in BY_ROWS else None
    return primitive if rows is None else functools.partial(primitive, rows=rows)


def in_shared_graph(state: Any) -> Any:
    """`state` so that draws from it are made anew for each replica that shares the graph traced.

    Otherwise the numbers of a fixed seed would be those of the replica that the graph was made in.
    """
    replica = replicas.among_others()
    graph = trace_state.current_trace()
    if replica is None or not replica.shares_graphs or not hasattr(graph, "constant"):
        return state
    return state if isinstance(state, SymbolicTensor) else graph.constant(state)


def along_batch(seed: Any) -> Any:
    """`seed` for a draw whose first axis is that of the batch, or has it outermost.

    In a replica that knows its rows it gives these of the numbers that one process would draw for
    the whole batch, so that results do not depend on how many processes there are. Elsewhere it is
    `seed` itself.

    Args:
        seed: an int, a generator, two integers, or `None`.
    """
    if not REPLICAS:
        return seed
    replica = replicas.among_others()
    if replica is None or replica.rows is None or isinstance(seed, AlongBatch):
        return seed
    return AlongBatch(seed, replica.drawn_rows)


def at_once(seed: Any) -> Any:
    """`seed` for a draw that all rows share, undoing `along_batch`."""
    return AlongBatch(seed.seed, None) if isinstance(seed, AlongBatch) else seed
