"""The gradient of a table by the rows that a batch looked up, as an optimizer's step reads it.

A dense gradient of a large table is written and read for a few rows that are not zero. Here it is
pieces for the compiled step (`compiler/llvm/flat_kernel.py`): of each row looked up its sum, and
between them one short run of zeros, again and again, which stays in the first cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, FIRST_FLOATS, PART_NANOSECONDS

Array = Any

PIECES = np.dtype("V16")
"""Of an array that holds a gradient in pieces: of each the element behind its last, and the address
of its first. No gradient can be mistaken for one: there is no number of this dtype."""
_F32 = np.dtype(np.float32)
_ZEROS = np.zeros(FIRST_FLOATS // 4, np.float32)
"""A quarter of the first cache: weights and slots go through the rest."""
_ID_NANOSECONDS = 200
"""What an id takes in all: it is sorted, its row summed, and it begins and ends two pieces."""


class RowGradient:
    """Rows (n, features) of float32 that add up by their ids, in a table that is zero otherwise.

    Args:
        rows: by lookups, in their order.
        ids: integers (n,) from 0 to below the number of the table's rows.
        shape: of the table. The table itself is not held, as a step writes to arrays that nobody
            else has.
        add_up: function of rows, their ids and a count to sums (count, features), each of them made
            in the order of the rows, from zero.
    """

    __slots__ = ("_add_up", "_ids", "_rows", "dtype", "shape")

    def __init__(
        self,
        rows: Array,
        ids: Array,
        shape: tuple[int, ...],
        add_up: Callable[[Array, Array, int], Array],
    ) -> None:
        self._rows = rows
        self._ids = ids
        self._add_up = add_up
        self.shape = shape
        self.dtype = rows.dtype

    def dense(self) -> Array:
        """The table of sums."""
        return self._add_up(self._rows, self._ids, self.shape[0]).reshape(self.shape)

    def pieces(self) -> tuple[Array, Any]:
        """The gradient as `PIECES`, and what has to live as long as these are read."""
        n, features = self._rows.shape
        # An id and its place in one number, as NumPy sorts numbers several times as fast as it
        # sorts places; equal ids stay in the order of the lookups.
        bits = n.bit_length()
        keys = (self._ids.astype(np.int64, copy=False) << bits) | np.arange(n)
        keys.sort()
        order, ordered = keys & ((1 << bits) - 1), keys >> bits
        is_first = np.empty(n, bool)
        is_first[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        positions = np.empty(n, np.int64)
        positions[order] = np.cumsum(is_first) - 1
        unique = ordered[is_first]
        sums = self._add_up(self._rows, positions, len(unique))
        return self._laid_out(unique * features, sums), sums

    def _laid_out(self, starts: Array, sums: Array) -> Array:
        """Pieces of the rows that begin at elements `starts`, and of zeros between them."""
        (count, features), size = sums.shape, math.prod(self.shape)
        # Zeros end where the next row begins, and after as many as there are; whole rows of these,
        # so that none of their ends lies within a row. Each end carries the number of its row, or
        # `count` for zeros: of a row's end and zeros' in one place the row's comes first.
        run = _ZEROS.size // features * features
        bits = count.bit_length()
        zero_ends = np.concatenate((np.arange(run, size, run), [size], starts))
        row_ends = ((starts + features) << bits) | np.arange(count)
        keys = np.concatenate(((zero_ends << bits) | count, row_ends))
        keys.sort()
        addresses = np.empty(count + 1, np.int64)
        addresses[:count] = sums.ctypes.data + sums.strides[0] * np.arange(count)
        addresses[count] = _ZEROS.ctypes.data
        pieces = np.empty((len(keys), 2), np.int64)
        pieces[:, 0] = keys >> bits
        pieces[:, 1] = addresses[keys & ((1 << bits) - 1)]
        return pieces.reshape(-1).view(PIECES)


def dense(gradient: Any) -> Any:
    """A gradient as an array, which all but a `RowGradient` are."""
    return gradient.dense() if type(gradient) is RowGradient else gradient


def pays(table: Array, n_ids: int) -> bool:
    """Whether rows for `n_ids` ids take less time than a dense gradient of a table of float32."""
    dense_nanoseconds = 2 * BYTE_NANOSECONDS * table.nbytes
    if table.dtype is not _F32 or dense_nanoseconds < PART_NANOSECONDS + _ID_NANOSECONDS * n_ids:
        return False
    # a row fits into the zeros, and an element beside the number of an id into 63 bits
    is_short = table.size // len(table) <= _ZEROS.size
    return is_short and n_ids > 0 and table.size.bit_length() + n_ids.bit_length() < 63
