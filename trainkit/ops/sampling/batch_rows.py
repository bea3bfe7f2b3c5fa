"""Draws that run along a batch, for a replica that has some of the rows of the global one."""

from __future__ import annotations

import functools
from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS
from trainkit.ops.sampling.philox import BY_ROWS


class AlongBatch:
    """A seed whose draws have a row for each row of the batch.

    Args:
        seed: whatever stands for a seed.
        rows: those of the global batch that are drawn, as `Replica.drawn_rows` gives them.
    """

    def __init__(self, seed: Any, rows: Any) -> None:
        self.seed, self.rows = seed, rows

    def draws_of(self, source: Any) -> RowDraws:
        """What draws these rows of the numbers of `source`."""
        return RowDraws(source, self.rows)


class RowDraws:
    """Draws the rows of a replica, and leaves its source where one process would.

    Draws that are no row by row, such as orders, are the same in all replicas.

    Args:
        source: what draws all rows.
        rows: which of them are wanted, the same.
    """

    def __init__(self, source: Any, rows: Any) -> None:
        self._source, self._rows = source, rows

    def draw(self, primitive: Any, shape: Any, **settings: Any) -> Any:
        """The rows of what a primitive of `ops.sampling.philox` gives for the global batch."""
        if primitive in BY_ROWS:
            primitive = functools.partial(primitive, rows=self._rows)
        return self._source.draw(primitive, shape, **settings)


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
    """`seed` for a draw that all rows share, undoing `along_batch`.

    Args:
        seed: what `along_batch` gave.
    """
    return seed.seed if isinstance(seed, AlongBatch) else seed
