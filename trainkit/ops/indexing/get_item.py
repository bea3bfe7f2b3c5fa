"""`x[...]` for tensors and variables: `get_item`.

The gradient of picking elements puts the gradient where they came from and zeros elsewhere;
elements that were picked more than once add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.facets import INDEXING, INTEGERS, MOVED, SHAPE, VIEW, Direct, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import PositionError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.core.variable import Reading, Variable
from trainkit.kernels.embedding.row_additions import add_rows
from trainkit.kernels.embedding.scatter_reference import scatter_at
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.indexing import index_keys
from trainkit.ops.indexing.index_keys import Key
from trainkit.ops.vmap_rules.shared_rules import with_settings

_TAPES = trace_state.TAPES
_PLAIN = frozenset((int, slice, type(None), type(...)))
_ROWS: Key = ("@0",)
"""The key of `x[ids]`."""

# ------------------------------------------------------------------ ints and slices


@primitive(
    lambda x, *, key: Spec(index_keys.indexed_dims(x.shape, key, ()), x.dtype),
    name="get_item",
    sizes=MOVED,
    semantics=VIEW,
    recompute="cheap",
    text="beside numbers",
)
def _get_item(xp: ArrayModule, x: Array, *, key: Key) -> Array:
    """Elements picked by ints and slices."""
    return x[index_keys.plain(key)]


@primitive(lambda g, x, *, key: Spec(x.shape, g.dtype), semantics=INDEXING, reads={1: SHAPE})
def put_item(xp: ArrayModule, g: Array, x: Array, *, key: Key) -> Array:
    """Zeros in the shape of `x`, whose values are not looked at, with `g` at `[key]`."""
    out = xp.zeros(x.shape, g.dtype)
    out[index_keys.plain(key)] = g
    return out


_get_item.gradients(lambda g, y, x, *, key: put_item(g, x, key=key))
put_item.gradients(lambda gg, y, g, x, *, key: _get_item(gg, key=key), None)
_get_item.batch_by(with_settings(lambda s, rank, count: {"key": (index_keys.ALL, *s["key"])}))
put_item.batch_by(_get_item.primitive.facets.batch)
put_item.declare(stackable=True)

# ------------------------------------------------------------------ index tensors


@primitive(
    lambda x, *parts, key: Spec(index_keys.indexed_dims(x.shape, key, parts), x.dtype),
    semantics=INDEXING,
    text="beside numbers",
    rows=lambda settings: "read" if settings["key"] == _ROWS else None,
)
def get_item_at(xp: ArrayModule, x: Array, *parts: Array, key: Key) -> Array:
    """Elements picked by index tensors, masks, ints and slices whose bounds may be tensors."""
    live = index_keys.with_parts(xp, x, key, parts)
    index_keys.checked(xp, x, live)
    return x[live]


@primitive(lambda g, x, *parts, key: Spec(x.shape, g.dtype), semantics=INDEXING, reads={1: SHAPE})
def put_item_at(xp: ArrayModule, g: Array, x: Array, *parts: Array, key: Key) -> Array:
    """Zeros in the shape of `x`, to which `g` is added at `[key]`."""
    out = xp.zeros(x.shape, g.dtype)
    live = index_keys.with_parts(xp, x, key, parts)
    if index_keys.distinct(key, parts):
        out[live] = g
    elif xp is np and key == _ROWS and out.size and g.size:
        ids = parts[0].reshape(-1)
        add_rows(np, out.reshape(len(out), -1), ids, g.reshape(ids.size, -1))
    else:
        scatter_at(xp, "add", out, live, g)
    return out


get_item_at.joint_gradient(
    lambda g, y, x, *parts, key: (put_item_at(g, x, *parts, key=key), *[None] * len(parts))
)
get_item_at.declare(stackable=True)


put_item_at.joint_gradient(
    lambda gg, y, g, x, *parts, key: (get_item_at(gg, *parts, key=key), None, *[None] * len(parts))
)


def get_item(x: Any, key: Any) -> Tensor:
    """`x[key]`.

    Args:
        x: tensor of any shape.
        key: ints, slices, `None` for a new axis, `...`, tensors or arrays of ints (their elements
            pick), masks of bools (their true elements pick), or a tuple of these, with NumPy's
            meaning. Negative ints count from the end; bounds of slices may be scalar tensors.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        PositionError: a position is outside its axis, or there are more indices than axes; an
            `IndexError`, too.
        InvalidArgumentError: an item is no index.

    Example:
        >>> int(tk.ops.get_item([[1, 2], [3, 4]], (1, 0)))
        3
    """
    if type(x) is not Tensor:
        x = as_tensor(x)
    kind = type(key)
    if type(x) is Tensor and (
        kind is int or kind is slice or (kind is tuple and _PLAIN.issuperset(map(type, key)))
    ):
        try:
            array = x._array[key]
        except IndexError:
            raise _why(x, key) from None
        except TypeError:  # a bound of a slice that has no value yet, or is no number
            return _general_item(x, key)
        y = Tensor()
        y._array = array
        if _TAPES:
            settings = {"key": index_keys.compiled(key)[0]}
            trace_state.record(_GET_ITEM, (x,), y, settings)
        return y
    return _general_item(x, key)


_GET_ITEM = _get_item.primitive


def _general_item(x: Any, key: Any) -> Tensor:
    items, parts = index_keys.compiled(key)
    result: Tensor = get_item_at(x, *parts, key=items) if parts else _get_item(x, key=items)
    return result


def _why(x: Tensor, key: Any) -> Exception:
    items, _ = index_keys.compiled(key)
    try:
        index_keys.indexed_dims(tuple(x.shape), items, ())
    except PositionError as error:
        return error
    return PositionError(f"get_item: {key!r} does not index a tensor of shape {x.shape}")


def _variable_item(self: Variable, key: Any) -> Tensor:
    """Elements of the value now; see `get_item`."""
    return get_item(self.value(), key)


Tensor.__getitem__ = get_item  # type: ignore[method-assign]
Variable.__getitem__ = _variable_item  # type: ignore[method-assign, assignment]
Reading.__getitem__ = _variable_item  # type: ignore[misc]

# ------------------------------------------------------------------ where something is true


@primitive(
    lambda x, *, dtype: tuple(Spec((None,), dtype) for _ in x.shape),
    name="nonzero",
    semantics=INDEXING,
    no_gradient=INTEGERS,
    direct=Direct("nonzero"),
)
def _nonzero(xp: ArrayModule, x: Array, *, dtype: str) -> Any:
    """Positions of the elements that are not 0, a vector for each axis, in row-major order."""
    return tuple(axis_positions.astype(dtype) for axis_positions in xp.nonzero(x))


_nonzero.declare(batch=one_by_one("items have different numbers of true elements"))


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """The positions of the elements of `x` that are not 0 or False, in row-major order.

    Args:
        x: tensor of rank 1 at least.

    Returns:
        A tuple with an int32 vector for each axis.

    Raises:
        ShapeError: `x` is a scalar.

    Example:
        >>> tk.ops.nonzero([0, 5, 7])[0].numpy()
        array([1, 2], dtype=int32)
    """
    tensor = as_tensor(x)
    if len(tensor.shape) == 0:
        raise ShapeError("nonzero: needs one axis at least, got a scalar")
    positions: Any = _nonzero(tensor, dtype="int32")
    return tuple(positions)
