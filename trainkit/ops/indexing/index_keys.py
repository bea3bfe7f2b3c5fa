"""What stands between the brackets of `x[...]`, in a form that a graph can keep.

A key is a tuple of items: an int, `None` for a new axis, `"..."`, a tuple `(start, stop, step)`
for a slice, or `"@k"` for the k-th of the index tensors that go with the key. A bound of a slice
may be `"@k"` too.
"""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.errors import InvalidArgumentError, PositionError
from trainkit.core.shapes import Dims, Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor

Key = tuple[Any, ...]

ALL = (None, None, None)
"""A slice of a whole axis."""


# ------------------------------------------------------------------ from Python


def compiled(key: Any) -> tuple[Key, tuple[Tensor, ...]]:
    """The items of `key` and the tensors among them.

    Raises:
        InvalidArgumentError: an item is no index.
    """
    parts: list[Tensor] = []
    items = key if type(key) is tuple else (key,)
    return tuple(_item(k, parts) for k in items), tuple(parts)


def _item(k: Any, parts: list[Tensor]) -> Any:
    if k is None or type(k) is int:
        return k
    if k is Ellipsis:
        return "..."
    if isinstance(k, slice):
        return (_bound(k.start, parts), _bound(k.stop, parts), _bound(k.step, parts))
    if isinstance(k, np.integer):
        return int(k)
    if isinstance(k, str | float):
        raise InvalidArgumentError(
            f"get_item: {k!r} is no index; use ints, slices, None, ..., or tensors of ints or bools"
        )
    if isinstance(k, list) and not k:
        k = np.zeros(0, np.int32)
    tensor = k if isinstance(k, Tensor) else convert_to_tensor(k)
    dtype = tensor.dtype
    if not (dtype.is_integer or dtype.is_bool):
        raise InvalidArgumentError(
            f"get_item: an index tensor holds ints or bools, this one {dtype.name}; cast it"
        )
    if type(tensor) is Tensor and not tensor._array.ndim and dtype.is_integer:
        return int(tensor._array)
    return _part(tensor, parts)


def _part(tensor: Tensor, parts: list[Tensor]) -> str:
    parts.append(tensor)
    return f"@{len(parts) - 1}"


def _bound(b: Any, parts: list[Tensor]) -> Any:
    if b is None or type(b) is int:
        return b
    if hasattr(type(b), "_is_variable"):
        b = b.value()
    if isinstance(b, SymbolicTensor):
        return _part(b, parts)
    try:
        return index(b)
    except TypeError:
        raise InvalidArgumentError(
            f"get_item: the bound {b!r} of a slice is no whole number"
        ) from None


# ------------------------------------------------------------------ to NumPy


@lru_cache(maxsize=4096)
def plain(key: Key) -> Any:
    """The index that NumPy takes for a key without tensors."""
    return tuple(slice(*k) if type(k) is tuple else (... if k == "..." else k) for k in key)


def with_parts(xp: ArrayModule, x: Array, key: Key, parts: Any) -> Any:
    """The index that NumPy or CuPy takes for a key with tensors, on the device of `x`."""
    return tuple(_live(xp, k, parts) for k in key)


def _live(xp: ArrayModule, k: Any, parts: Any) -> Any:
    if type(k) is tuple:
        return slice(*(int(parts[int(b[1:])]) if type(b) is str else b for b in k))
    if type(k) is not str:
        return k
    if k == "...":
        return ...
    part = parts[int(k[1:])]
    if part.ndim == 0 and part.dtype.kind != "b":
        return int(part)
    if xp is np:
        return part if isinstance(part, np.ndarray | np.generic) else part.get()
    return xp.asarray(part)


def distinct(key: Key, parts: Any) -> bool:
    """Whether no element can be picked twice: there is at most a mask among the index arrays."""
    arrays = [p for p in parts if p.ndim or p.dtype.kind == "b"]
    return len(arrays) < 2 and all(p.dtype.kind == "b" for p in arrays)


def checked(xp: ArrayModule, x: Array, key: Any) -> None:
    """Raise IndexError for positions outside of `x`, which CuPy would wrap around."""
    if xp is np:
        return
    axis = 0
    for position, k in enumerate(key):
        if k is ...:
            axis = x.ndim - sum(_axes_of(later) for later in key[position + 1 :])
        elif k is not None:
            if hasattr(k, "dtype") and k.dtype.kind != "b" and k.size:
                low, high = int(k.min()), int(k.max())
                n = x.shape[axis]
                if low < -n or high >= n:
                    wrong = high if high >= n else low
                    raise IndexError(
                        f"index {wrong} is out of bounds for axis {axis} with size {n}"
                    )
            axis += _axes_of(k)


def _axes_of(k: Any) -> int:
    """How many axes an item of NumPy's index uses up."""
    if k is None:
        return 0
    return int(k.ndim) if hasattr(k, "dtype") and k.dtype.kind == "b" else 1


# ------------------------------------------------------------------ shapes


def indexed_dims(dims: Dims, key: Key, parts: tuple[Spec, ...]) -> Dims:
    """The shape of `x[key]` for an `x` of shape `dims`.

    Raises:
        PositionError: too many indices, or an int outside its axis.
    """
    key = without_ellipsis(key, parts, dims)
    has_arrays = any(is_array(k, parts) for k in key)
    out: list[int | None] = []
    arrays: list[Dims] = []
    array_positions: list[int] = []
    axis = 0
    for position, k in enumerate(key):
        if k is None:
            out.append(1)
        elif type(k) is tuple:
            out.append(slice_length(dims[axis], *k))
            axis += 1
        else:
            axis = _check_position(k, parts, dims, axis)
            if has_arrays:
                array_positions.append(position)
                arrays.append(_array_dims(k, parts))
    if has_arrays:
        joined = shapes.broadcast_dims(*arrays, op="get_item")
        adjacent = array_positions[-1] - array_positions[0] == len(array_positions) - 1
        at = (
            sum(1 for k in key[: array_positions[0]] if k is None or type(k) is tuple)
            if adjacent
            else 0
        )
        out[at:at] = joined
    return tuple(out)


def without_ellipsis(key: Key, parts: Any, dims: Dims) -> Key:
    """An item for each axis of a tensor of shape `dims`: `ALL` for the ellipsis, or at the end.

    Raises:
        PositionError: there are too many.
    """
    if key.count("...") > 1:
        raise PositionError("get_item: only one ellipsis is allowed between the brackets")
    rank = len(dims)
    used = sum(_axes_used(k, parts) for k in key)
    if used > rank:
        raise PositionError(f"get_item: {used} indices for a tensor of shape {tuple(dims)}")
    fill = (ALL,) * (rank - used)
    if "..." not in key:
        return key + fill
    i = key.index("...")
    return key[:i] + fill + key[i + 1 :]


def _axes_used(k: Any, parts: Any) -> int:
    if k is None or k == "...":
        return 0
    if type(k) is str:
        spec = parts[int(k[1:])]
        return len(spec.shape) if spec.dtype.is_bool else 1
    return 1


def is_array(k: Any, parts: Any) -> bool:
    """Whether an item of a key is an index tensor with axes, or a mask."""
    if type(k) is not str or k == "...":
        return False
    spec = parts[int(k[1:])]
    return bool(spec.dtype.is_bool or len(spec.shape))


def _array_dims(k: Any, parts: Any) -> Dims:
    if type(k) is int:
        return ()
    spec = parts[int(k[1:])]
    return (None,) if spec.dtype.is_bool else tuple(spec.shape)


def _check_position(k: Any, parts: Any, dims: Dims, axis: int) -> int:
    """The axis after the ones that `k` picks from."""
    if type(k) is int:
        n = dims[axis]
        if n is not None and not -n <= k < n:
            raise PositionError(out_of_bounds(k, axis, dims))
        return axis + 1
    return axis + _axes_used(k, parts)


def out_of_bounds(position: int, axis: int, dims: Any) -> str:
    """What to say of an int between the brackets that is outside its axis."""
    return (
        f"slice index {position} of dimension {axis} out of bounds: the tensor has shape "
        f"{tuple(dims)} [Op:StridedSlice]"
    )


def slice_length(n: int | None, start: Any, stop: Any, step: Any) -> int | None:
    """How many elements a slice picks from an axis of size `n`, `None` if that is not known."""
    if any(type(b) is str for b in (start, stop, step)):
        return None
    if n is not None:
        return len(range(*slice(start, stop, step).indices(n)))
    if stop == 0 and (step is None or step > 0):
        return 0
    return None
