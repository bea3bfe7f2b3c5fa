"""Numbers that the CPU works out for a CUDA graph: all of them go along with one launch.

They are an argument by value, so the host may work out the next ones while the launch waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.kernels.cuda.raw_kernel import RawKernel

_SLOT = 16
"""Bytes of a number, of the longest dtype."""
MOST = 64
"""Numbers of one launch."""
_WORDS = _SLOT // 8

_KERNEL = RawKernel(
    "store_numbers",
    f"""\
struct Numbers {{ unsigned long long word[{_WORDS * MOST}]; }};
extern "C" __global__ void store_numbers(const Numbers given, unsigned long long* to,
                                         const int count) {{
  if (threadIdx.x < count) to[threadIdx.x] = given.word[threadIdx.x];
}}
""",
)


class HostNumbers:
    """Scalars in memory of the GPU, to which numbers are sent again and again.

    Args:
        xp: CuPy.
        numbers: the first ones; those that come later have their dtypes.

    Attributes:
        arrays: the scalars.
    """

    def __init__(self, xp: Any, numbers: Sequence[Any]) -> None:
        dtypes = [np.asarray(x).dtype for x in numbers]
        self._memory = xp.empty(max(_WORDS * len(dtypes), 1), np.uint64)
        memory_bytes = self._memory.view(np.uint8)
        self.arrays = [_scalar(memory_bytes, k, dtype) for k, dtype in enumerate(dtypes)]
        self._launches = [
            _NumbersOfALaunch(self._memory, start, dtypes[start : start + MOST])
            for start in range(0, len(dtypes), MOST)
        ]
        self._is_by_value = len(dtypes) > 1 and _KERNEL.is_there(xp)

    def send(self, numbers: Sequence[Any]) -> None:
        """Give the scalars these values, on the current stream."""
        if self._is_by_value:
            for launch in self._launches:
                launch.send(numbers)
            return
        for array, number in zip(self.arrays, numbers, strict=True):
            array.fill(np.asarray(number)[()])


def _scalar(buffer: Any, k: int, dtype: np.dtype[Any]) -> Any:
    start = k * _SLOT
    return buffer[start : start + dtype.itemsize].view(dtype).reshape(())


class _NumbersOfALaunch:
    """The numbers of one launch."""

    def __init__(self, memory: Any, start: int, dtypes: Sequence[np.dtype[Any]]) -> None:
        self._record = np.zeros((), [("word", np.uint64, (_WORDS * MOST,))])
        record_bytes = self._record["word"].view(np.uint8)
        self._values = [_scalar(record_bytes, k, dtype) for k, dtype in enumerate(dtypes)]
        self._start = start
        self._count = np.int32(_WORDS * len(dtypes))
        self._to = memory[_WORDS * start :]

    def send(self, numbers: Sequence[Any]) -> None:
        for k, value in enumerate(self._values, self._start):
            value[...] = numbers[k]
        _KERNEL(1, (self._record, self._to, self._count), threads=_WORDS * MOST)
