"""Parts of tensors: slice, strided_slice, split, boolean_mask, where.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import builtins
import itertools
from typing import Any

import numpy as np

from trainkit.core.dispatch import late_ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import ONLY_INTS, Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.concat_and_split import equal_pieces, stack
from trainkit.ops.arrays.concat_and_split import split as split_
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.axis_numbers import plain, whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values, unknown
from trainkit.ops.indexing.gathering import take
from trainkit.ops.indexing.get_item import nonzero
from trainkit.ops.math.elementwise import cast, lists_as_tensors
from trainkit.ops.math.elementwise import where as where_


def _slice_spec(a: Bound) -> Spec:
    """What `slice` gives for a begin or sizes that have no values yet."""
    x = convert_to_tensor(a["input_"])
    later = [None] * len(x.shape)
    parts = [plain(a[name]) for name in ("begin", "size")]
    starts, sizes = [part if isinstance(part, list | tuple) else later for part in parts]
    return Spec(map(_slice_size, x.shape, starts, sizes), x.dtype)


def _is_row(numbers: Any) -> bool:
    is_usual = type(numbers) is tuple and ONLY_INTS.issuperset(map(type, numbers))
    return is_usual or len(np.shape(numbers)) == 1


def _slice_size(size: int | None, start: Any, length: Any) -> int | None:
    """How many positions of `size` a slice has, `None` where that is not known."""
    if not isinstance(length, int) or length >= 0:
        return length if isinstance(length, int) else None
    return size - start if isinstance(start, int) and size is not None else None


@needs_values("begin", "size", gives=_slice_spec)
def slice(input_: Any, begin: TensorLike, size: Any, name: str | None = None) -> Tensor:
    """The block that starts at `begin` and has the sizes `size`, -1 for all that is left.

    Args:
        input_: tensor of any shape.
        begin: first position along each axis.
        size: how many positions along each axis.

    Raises:
        InvalidArgumentError: a block does not lie inside of the tensor.

    Example:
        >>> tk.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [2, 2]).numpy()
        array([[2, 3],
               [5, 6]], dtype=int32)
    """
    x = convert_to_tensor(input_)
    starts, sizes, dims = plain(begin), plain(size), x.shape
    if not (_is_row(starts) and _is_row(sizes) and len(starts) == len(sizes) == len(dims)):
        raise InvalidArgumentError(
            f"slice: begin {starts} and size {sizes} need a number for each of the {len(dims)} axes"
        )
    for axis, (dim, b, n) in enumerate(zip(dims, starts, sizes, strict=True)):
        if b < 0 or n < -1 or (dim is not None and b + max(n, 0) > dim):
            raise InvalidArgumentError(
                f"slice: along axis {axis} begin is {b} and size is {n}, the tensor has {dim} "
                "positions there; a begin is 0 or more, a size -1 or more, and their sum no more "
                "than the positions"
            )
    index = tuple(
        builtins.slice(b, None if n == -1 else b + n) for b, n in zip(starts, sizes, strict=True)
    )
    piece: Tensor = x[index]
    if type(piece) is not Tensor:  # its sizes may come with the values, and have to be these
        needed_dims = tuple(map(_slice_size, dims, starts, sizes))
        if needed_dims != tuple(piece.shape):
            piece = late_ops.ensure_shape(piece, shape=needed_dims)
    return piece


def strided_slice(
    input_: Any,
    begin: TensorLike,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """`input_[begin:end:strides]` along the first axes.

    Args:
        input_: tensor of any shape.
        begin: first position along each axis.
        end: position after the last.
        strides: steps, 1 by default.
        begin_mask: bit i leaves `begin[i]` out.
        end_mask: bit i leaves `end[i]` out.
        ellipsis_mask: bit i makes entry i stand for all axes that are not named.
        new_axis_mask: bit i makes entry i a new axis.
        shrink_axis_mask: bit i takes the one position `begin[i]`, and its axis goes away.
        var: only `None`.

    Raises:
        ValueError: `var` is given.
        InvalidArgumentError: a position or the number of entries does not fit.

    Example:
        >>> tk.strided_slice([1, 2, 3, 4], [0], [4], [2]).numpy()
        array([1, 3], dtype=int32)
    """
    if var is not None:
        raise ValueError("strided_slice: only var=None is supported; assign to the variable")
    starts, stops = plain(begin), plain(end)
    steps = plain(strides) or (1,) * len(starts)
    key: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(start)
        else:
            first = None if begin_mask & bit else start
            key.append(builtins.slice(first, None if end_mask & bit else stop, step))
    piece: Tensor = convert_to_tensor(input_)[tuple(key)]
    return piece


def _masked_spec(a: Bound) -> Spec:
    x, mask = convert_to_tensor(a["tensor"]), convert_to_tensor(a["mask"])
    return Spec((None,) * (len(x.shape) - len(mask.shape) + 1), x.dtype)


@needs_values("axis", gives=_masked_spec)
def boolean_mask(
    tensor: TensorLike, mask: TensorLike, axis: int | None = None, name: str | None = None
) -> Tensor:
    """The items at which `mask` is True, in order.

    Args:
        tensor: of shape (..., m..., ...), m being the shape of `mask`.
        mask: bool tensor.
        axis: where the axes of the mask start, 0 by default.

    Raises:
        InvalidArgumentError: its shape is not that of the axes that it stands for.

    Example:
        >>> tk.boolean_mask([1, 2, 3], [True, False, True]).numpy()
        array([1, 3], dtype=int32)
    """
    tensor, mask = convert_to_tensor(tensor), convert_to_tensor(mask)
    start = 0 if axis is None else whole_number(axis, "boolean_mask", "axis")
    masked = mask.shape
    if len(masked) == 0:
        raise InvalidArgumentError("boolean_mask: the mask is a scalar, it needs an axis at least")
    if tuple(tensor.shape[start : start + len(masked)]) != tuple(masked):
        raise InvalidArgumentError(
            f"boolean_mask: the mask has shape {masked}, the tensor {tensor.shape} from axis "
            f"{start} on"
        )
    dims = tuple(tensor.shape)
    flat = reshape(tensor, (*dims[:start], -1, *dims[start + len(masked) :]))
    indices = nonzero(reshape(mask, (-1,)))[0]
    return take(flat, indices, axis=start)


def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`x` where `condition` holds, else `y`; without them the coordinates where it holds.

    Args:
        condition: bool tensor.
        x: tensor or number.
        y: tensor or number; all broadcast together.

    Returns:
        The values chosen, or an int64 tensor (count, rank) with a row of coordinates for each True.

    Raises:
        ValueError: only one of `x` and `y` is given.

    Example:
        >>> tk.where([True, False], [1, 1], [2, 2]).numpy()
        array([1, 2], dtype=int32)
    """
    if (x is None) != (y is None):
        raise ValueError("where: give both x and y, or neither")
    if x is None:
        rows = nonzero(condition)
        return cast(stack(list(rows), axis=1), "int64")
    if isinstance(x, _LISTS) or isinstance(y, _LISTS):
        x, y = lists_as_tensors(x, y)
    return where_(condition, x, y)


_LISTS = (list, tuple)


def _split_specs(a: Bound) -> list[Spec]:
    number = a["num_or_size_splits"]
    if isinstance(number, int):
        return [unknown(a["value"])] * number
    counts = convert_to_tensor(a["num_or_size_splits"]).shape
    if len(counts) != 1 or counts[0] is None:
        raise InvalidArgumentError(
            "split: the number of pieces must be known while a graph is traced; give a Python int, "
            "or a tensor of sizes of known length"
        )
    return [unknown(a["value"])] * counts[0]


@needs_values("num_or_size_splits", "axis", gives=_split_specs)
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str | None = None
) -> list[Tensor]:
    """Pieces along `axis`: a number of equal ones, or pieces of the sizes given (one may be -1).

    Args:
        value: tensor.
        num_or_size_splits: a number of pieces, or their sizes.
        axis: int, or a scalar tensor.
        num: how many sizes there are, where `num_or_size_splits` has them; it is not needed.

    Raises:
        InvalidArgumentError: the axis can't be cut so, or `num` is not the number of sizes.

    Example:
        >>> a, b = tk.split([1, 2, 3, 4, 5], [2, 3])
        >>> a.numpy(), b.numpy()
        (array([1, 2], dtype=int32), array([3, 4, 5], dtype=int32))
    """
    axis = plain(axis)
    sizes = plain(num_or_size_splits)
    if isinstance(sizes, int):
        return equal_pieces(value, sizes, axis)
    total = convert_to_tensor(value).shape[axis]
    sizes = list(sizes)
    if num is not None and plain(num) != len(sizes):
        raise InvalidArgumentError(f"split: num={plain(num)}, but there are {len(sizes)} sizes")
    if total is None and -1 in sizes:  # the cuts behind it are counted from the end
        inferred_index = sizes.index(-1)
        back = -np.cumsum(sizes[:inferred_index:-1])[::-1]
        cuts = [*np.cumsum(sizes[:inferred_index]).tolist(), *back.tolist()]
        return list(split_(value, cuts, axis=axis))
    if -1 in sizes:
        sizes[sizes.index(-1)] = total - sum(n for n in sizes if n != -1)
    if (total is not None and sum(sizes) != total) or min(sizes, default=0) < 0:
        raise InvalidArgumentError(
            f"split: sizes {sizes} do not add up to {total}, the size of axis {axis}"
        )
    cuts = list(itertools.accumulate(sizes[:-1]))
    return list(split_(value, cuts, axis=axis))
