"""Kernels that go over many arrays at once: a table of where these lie is an argument by value.

Nothing is copied to the GPU but the launch itself, so a CUDA graph takes it. A block looks up which
array it works on, and takes a piece of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

MOST = 128
"""Arrays of one launch; the table has to fit into the 4 KiB of a kernel's arguments."""
PIECE = 16384
"""Units of an array that one block works on."""

TEXT = f"""\
struct Table {{
  unsigned long long place[{MOST}];
  long long size[{MOST}];
  long long extra[{MOST}];
  int first[{MOST} + 1];
  int count;
}};
static __device__ int array_of(const Table& t) {{
  int k = 0, end = t.count;
  while (end - k > 1) {{
    const int middle = (k + end) / 2;
    if (t.first[middle] <= (int)blockIdx.x) k = middle; else end = middle;
  }}
  return k;
}}
"""
"""The table, and which array the present block works on; `size` counts units."""

_RECORD = np.dtype(
    [
        ("place", np.uint64, (MOST,)),
        ("size", np.int64, (MOST,)),
        ("extra", np.int64, (MOST,)),
        ("first", np.int32, (MOST + 1,)),
        ("count", np.int32),
    ],
    align=True,
)


def tables(
    arrays: Sequence[Any], sizes: Sequence[int], extra: Sequence[int] | None = None
) -> Iterator[tuple[Any, int]]:
    """The argument of each launch, with its number of blocks.

    Args:
        arrays: of the current GPU; they have to live until the launch.
        sizes: their units, as the kernel counts them. Arrays of 0 are left out.
        extra: another number for each.
    """
    filled = [k for k, size in enumerate(sizes) if size]
    for start in range(0, len(filled), MOST):
        some = filled[start : start + MOST]
        table = np.zeros((), _RECORD)
        table["place"][: len(some)] = [arrays[k].data.ptr for k in some]
        table["size"][: len(some)] = [sizes[k] for k in some]
        if extra is not None:
            table["extra"][: len(some)] = [extra[k] for k in some]
        ends = np.cumsum([-(-sizes[k] // PIECE) for k in some])
        table["first"][1 : len(some) + 1] = ends
        table["count"] = len(some)
        yield table, int(ends[-1])
