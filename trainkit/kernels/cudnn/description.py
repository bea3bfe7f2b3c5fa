"""A computation as it is described to cuDNN: tensors by name, with sizes and strides of their own.

Sizes come in cuDNN's order (batch, channels, space...), whatever the order in memory is, which the
strides tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Dims = tuple[int, ...]


def channels_last(dims: Sequence[int]) -> Dims:
    """Strides of (batch, channels, space...) that lie in memory as (batch, space..., channels)."""
    batch_first = (dims[0], *dims[2:], dims[1])
    steps = packed(batch_first)
    return steps[0], steps[-1], *steps[1:-1]


def packed(dims: Sequence[int]) -> Dims:
    """Strides of an array in row-major order."""
    steps, step = [], 1
    for n in reversed(dims):
        steps.append(step)
        step *= n
    return tuple(reversed(steps))


class Description:
    """A graph of cuDNN's frontend, whose tensors are known by name.

    Args:
        cudnn: the frontend.
        **more: for `cudnn.pygraph`, such as `handle`.

    Attributes:
        graph: the frontend's own.
    """

    def __init__(self, cudnn: Any, **more: Any) -> None:
        self.cudnn = cudnn
        real = cudnn.data_type.FLOAT
        self.graph = cudnn.pygraph(
            io_data_type=real, intermediate_data_type=real, compute_data_type=real, **more
        )
        self._uids: dict[str, int] = {}
        self._by_value: set[str] = set()

    def kind(self, dtype: str) -> Any:
        """cuDNN's name of a dtype."""
        kinds = self.cudnn.data_type
        names = {"float32": kinds.FLOAT, "float16": kinds.HALF, "bfloat16": kinds.BFLOAT16}
        return names[dtype]

    def input(self, name: str, dims: Dims, strides: Dims, dtype: str) -> Any:
        """A tensor that a call gives."""
        return self.graph.tensor(
            name=name,
            dim=list(dims),
            stride=list(strides),
            data_type=self.kind(dtype),
            uid=self._new_uid(name),
        )

    def number(self, name: str, rank: int = 4) -> Any:
        """A float32 that a call gives by value."""
        self._by_value.add(name)
        return self.graph.tensor(
            name=name,
            dim=[1] * rank,
            stride=[1] * rank,
            data_type=self.cudnn.data_type.FLOAT,
            is_pass_by_value=True,
            uid=self._new_uid(name),
        )

    def output(self, tensor: Any, name: str, dims: Dims, strides: Dims, dtype: str) -> None:
        """Let a call hand out what the graph computes for `tensor`."""
        tensor.set_name(name)
        tensor.set_output(True)
        tensor.set_data_type(self.kind(dtype))
        tensor.set_dim(list(dims))
        tensor.set_stride(list(strides))
        tensor.set_uid(self._new_uid(name))

    def _new_uid(self, name: str) -> int:
        self._uids[name] = uid = len(self._uids) + 1
        return uid

    def pack(self, arrays: dict[str, Any]) -> tuple[dict[int, int], list[Any]]:
        """What a call hands over: addresses by number, and what has to live until it returns."""
        addresses, live_arrays = {}, []
        for name, uid in self._uids.items():
            x = arrays[name]
            if name in self._by_value:
                x = np.array([x], np.float32)
                addresses[uid] = x.ctypes.data
            else:
                addresses[uid] = x.data.ptr
            live_arrays.append(x)
        return addresses, live_arrays
