"""Elements of a `TensorArray` as operations: read and written at a position, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import INDEXING, SHAPE
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, OutOfRangeError
from trainkit.core.shapes import Spec


def _write_rule(buffer: Any, index: Any, value: Any, grows: bool) -> Spec:
    # Behind a write that may grow the array nobody knows its size before the graph runs.
    first = None if grows else buffer.shape[0]
    dims = tuple(value.shape)
    if len(buffer.shape) != len(dims) + 1:
        raise InvalidArgumentError(
            f"TensorArray.write: elements have shape {tuple(buffer.shape)[1:]}, the value has "
            f"{dims}; all have one shape, with infer_shape=False as well"
        )
    return Spec((first, *dims), buffer.dtype)


def blanks(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """What positions hold that were never written: zeros, or empty texts."""
    return np.full(shape, b"", object) if dtype == "O" else xp.zeros(shape, dtype)


@primitive(
    _write_rule,
    name="tensor_array_write",
    semantics=INDEXING,
    rows=lambda settings: "written",
    text="beside numbers",
)
def written(xp: Any, buffer: Any, index: Any, value: Any, *, grows: bool) -> Any:
    """`buffer` with `value` at the position `index`; with `grows` it becomes as long as needed.

    A buffer without elements takes their sizes from `value`.
    """
    i, n = int(index), buffer.shape[0]
    # NumPy takes -1 for the last row; here it is an error, as in TensorFlow.
    if i < 0 or (i >= n and not grows):
        raise OutOfRangeError(
            f"TensorArray.write: index {i} is not in [0, {n}); make the array longer, or with "
            "dynamic_size=True"
        )
    if buffer.size and buffer.shape[1:] != value.shape:
        raise InvalidArgumentError(
            f"TensorArray.write: elements have shape {buffer.shape[1:]}, the value at {i} has "
            f"{value.shape}; all have one shape, with infer_shape=False as well"
        )
    # A copy, as the array before the write stays in use: tapes hold it, and so may the user. Loops
    # over `range` that write row i are rewritten without it, by `loop_to_scan`.
    out = blanks(xp, (max(n, i + 1), *value.shape), buffer.dtype)
    if buffer.size:
        out[:n] = buffer
    out[i, ...] = value  # without the dots a text would be stored as an array of one
    return out


# The element that was written over has no gradient by the old buffer; the value takes it all.
written.gradients(
    lambda g, y, buffer, index, value, grows: without(  # type: ignore[has-type]
        g, index, buffer
    ),
    None,
    lambda g, y, buffer, index, value, grows: late_ops.tensor_array_read(g, index),
)


@primitive(
    lambda g, index, like: Spec(like.shape, g.dtype),
    name="tensor_array_without",
    semantics=INDEXING,
    reads={2: SHAPE},
)
def without(xp: Any, g: Any, index: Any, like: Any) -> Any:
    """The first rows of `g`, as many as `like` has, with zeros at the position `index`."""
    # The buffer before the first write had sizes of 0, so it has nothing to give a gradient for.
    if not like.size:
        return xp.zeros(like.shape, g.dtype)
    # A growing array was shorter before. A copy, as others may add up the same gradient.
    out = g[: like.shape[0]].copy()
    if int(index) < len(out):
        out[int(index)] = 0
    return out


without.gradients(lambda g, y, gy, index, like: padded(g, index, gy), None, None)  # type: ignore[has-type]


@primitive(
    lambda g, index, like: Spec(like.shape, g.dtype),
    name="tensor_array_padded",
    semantics=INDEXING,
    reads={2: SHAPE},
)
def padded(xp: Any, g: Any, index: Any, like: Any) -> Any:
    """The rows of `g` in the shape of `like`, with zeros at `index` and after the last."""
    out = xp.zeros(like.shape, g.dtype)
    if g.size:
        out[: len(g)] = g
        if int(index) < len(out):
            out[int(index)] = 0
    return out


padded.gradients(lambda g, y, gy, index, like: without(g, index, gy), None, None)


@primitive(
    lambda buffer, index: Spec(tuple(buffer.shape)[1:], buffer.dtype),
    name="tensor_array_read",
    semantics=INDEXING,
    text="beside numbers",
)
def element_at(xp: Any, buffer: Any, index: Any) -> Any:
    """The value at the position `index`."""
    i = int(index)
    if not 0 <= i < buffer.shape[0]:
        raise OutOfRangeError(f"TensorArray.read: index {i} is not in [0, {buffer.shape[0]})")
    # With the dots an element of rank 0 is an array, not a NumPy scalar.
    return buffer[i, ...]


element_at.gradients(lambda g, y, buffer, index: placed(g, index, buffer), None)  # type: ignore[has-type]


@primitive(
    lambda g, index, like: Spec(like.shape, g.dtype),
    name="tensor_array_placed",
    semantics=INDEXING,
    reads={2: SHAPE},
)
def placed(xp: Any, g: Any, index: Any, like: Any) -> Any:
    """Zeros in the shape of `like` with `g` at the position `index`."""
    out = xp.zeros(like.shape, g.dtype)
    out[int(index)] = g
    return out


placed.gradients(lambda g, y, value, index, like: element_at(g, index), None, None)
