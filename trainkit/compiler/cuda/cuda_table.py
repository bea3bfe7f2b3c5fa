"""One launch for many arrays: a table says where they lie, and which blocks work on which.

The table is a kernel's argument and goes along by value, so nothing is copied to the GPU but the
launch itself. A block looks up its member: arrays on which the same is done as on those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

MOST_MEMBERS = 64
"""Members of a launch; with more the search of each block for its own takes longer."""
ARGUMENT_BYTES = 4096
"""Bytes that all arguments of a kernel may take."""

FIND = """\
  int k = 0, end = t.count;
  while (end - k > 1) {
    const int middle = (k + end) / 2;
    if (t.first[middle] <= (int)blockIdx.x) k = middle; else end = middle;
  }
"""
"""Lines that find the member `k` to which a block belongs in the table `t`."""


def most_members(buffers: int) -> int:
    """How many members, of so many arrays each, a table has room for."""
    members = MOST_MEMBERS
    # Padding is NumPy's business, so the size is asked for instead of being computed.
    while layout(buffers, members).itemsize > ARGUMENT_BYTES:
        members -= 1
    return members


def layout(buffers: int, members: int, *more: tuple[Any, ...]) -> np.dtype[Any]:
    """The fields of a table, as the compiler of CUDA lays them out.

    Args:
        buffers: arrays of a member.
        members: for how many there is room.
        more: fields of one's own, as NumPy takes them.
    """
    return np.dtype(
        [
            ("place", np.uint64, (buffers, members)),
            ("size", np.int64, (members,)),
            *more,
            ("first", np.int32, (members + 1,)),
            ("count", np.int32),
        ],
        align=True,
    )


def declaration(buffers: int, members: int, *more: str) -> str:
    """The same fields as a type of CUDA, `Table`."""
    fields = [
        f"unsigned long long place[{buffers}][{members}]",
        f"long long size[{members}]",
        *more,
        f"int first[{members} + 1]",
        "int count",
    ]
    return "struct Table {\n" + "".join(f"  {field};\n" for field in fields) + "};\n"


def filled(
    record: np.dtype[Any],
    addresses: Sequence[Sequence[int]],
    sizes: Sequence[int],
    blocks: Sequence[int],
) -> Any:
    """A table.

    Args:
        record: its fields.
        addresses: those of the arrays of each member.
        sizes: the elements of each member.
        blocks: how many blocks work on each.
    """
    table, count = np.zeros((), record), len(addresses)
    table["place"][:, :count] = np.array(addresses, np.uint64).T
    table["size"][:count] = sizes
    # Rising, so that a block finds its member by bisection; the last is the number of all blocks.
    table["first"][: count + 1] = list(accumulate(blocks, initial=0))
    table["count"] = count
    return table
