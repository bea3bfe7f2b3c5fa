"""Positions that count from the start of an axis alone, as those of TensorFlow's names do.

NumPy and Keras count negative positions from the end. To `tk.gather_nd`, `tk.scatter_nd` and their
like they are outside: -1, with which many mark what is missing, would be the last row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import INDEXING, INTEGERS, SHAPE, Direct
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.ops.core.vmap import ItemStack, stacked
from trainkit.ops.indexing.gathering import check_range, depth_of, has_rows_inside


def _wide(indices: Spec, x: Spec, *, operation: str, axis: int = 0, rows: bool = True) -> Spec:
    return Spec(indices.shape, "int32" if indices.dtype.name == "int32" else "int64")


@primitive(
    _wide,
    semantics=INDEXING,
    no_gradient=INTEGERS,
    reads={1: SHAPE},
    name="positions_from_start",
    direct=Direct("positions"),
)
def positions_from_start(
    xp: ArrayModule, indices: Array, x: Array, *, operation: str, axis: int = 0, rows: bool = True
) -> Array:
    """`indices` as int32 or int64, if all count from the start of their axes.

    Rows of `indices` (..., k) name the k axes of `x` from `axis` on; where `rows` is false all of
    them name `axis`. Raises `InvalidArgumentError`, which names `operation` and the first that is
    outside; a GPU is not waited for, there negative ones become too large for any axis.
    """
    integers = indices.astype(np.int32 if indices.dtype == np.int32 else np.int64, copy=False)
    if xp is not np:
        # without a sign the negative ones are the largest: one kernel
        bits = integers.view(f"u{integers.dtype.itemsize}")
        return xp.minimum(bits, bits.dtype.type(np.iinfo(integers.dtype).max)).view(integers.dtype)
    if not rows:
        check_range(np, integers, x.shape[axis], 0, operation, "GatherV2")
        return integers
    dims = x.shape[axis:]
    depth = depth_of(Spec(dims, "float32"), Spec(integers.shape, "int64"), operation)
    if depth and not has_rows_inside(integers, dims[:depth]):
        outside = ((integers < 0) | (integers >= np.asarray(dims[:depth]))).any(axis=-1)
        row_index = tuple(np.argwhere(outside)[0].tolist())
        at = ",".join(map(str, row_index))
        raise InvalidArgumentError(
            f"{operation}: indices[{at}] = {integers[row_index].tolist()} does not index into "
            f"shape {list(dims)}"
        )
    return integers


@positions_from_start.batch_by
def _from_start_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    indices, x = inputs
    if isinstance(x, ItemStack):
        return primitive.op(
            stacked(indices, count), x.stacked, **{**settings, "axis": settings.get("axis", 0) + 1}
        )
    return primitive.op(indices.stacked, x, **settings)
