"""Operations that join tensors or take one apart: concatenate, stack, split, unstack.

Concatenation and split are each other's gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import (
    ALONG_AXIS,
    ARRANGEMENT,
    COMMON,
    MOVED,
    TRACE,
    Direct,
    Tuned,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import ONLY_INTS, Dims, Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.concat import concat_tuned
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.shaping import as_tensor, known_sizes, rank_of, ravel, reshape
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.one_node import sizes_later

concat_cuda = DeferredModule("trainkit.kernels.concat.concat_cuda")

# ------------------------------------------------------------------ concatenate


def _concatenate_rule(*xs: Spec, axis: int) -> Spec:
    if not xs:
        raise ShapeError("concatenate: needs at least one tensor")
    first = xs[0].shape
    axis_index = shapes.canonical_axis(axis, len(first), "concatenate")
    total: int | None = 0
    dims = list(first)
    for x in xs:
        if len(x.shape) != len(first) or any(
            i != axis_index and None not in (a, b) and a != b
            for i, (a, b) in enumerate(zip(first, x.shape, strict=True))
        ):
            listed = "\n".join(f"  input {i}  {tuple(s.shape)}" for i, s in enumerate(xs))
            raise ShapeError(
                f"concatenate: all sizes but that of axis {axis} must be equal\n{listed}"
            )
        n = x.shape[axis_index]
        total = None if total is None or n is None else total + n
        dims = [b if a is None else a for a, b in zip(dims, x.shape, strict=True)]
    dims[axis_index] = total
    return Spec(dims, dtypes.result_type(*xs))


@primitive(
    _concatenate_rule,
    name="concatenate",
    sizes=MOVED,
    promotion=COMMON,
    semantics=ARRANGEMENT,
    text="alone",
    tuned=Tuned(concat_tuned.concatenate, exact=True, fewest=FEWEST_COPIED),
    direct=Direct("join", (False,)),
)
def _concatenate(xp: ArrayModule, *xs: Array, axis: int) -> Array:
    """Tensors one after the other along an axis."""
    if xp is np and xs and all(x.dtype is dtypes.bfloat16.dtype for x in xs):
        # by their bits: NumPy copies elements that it does not know one by one
        bits: Array = np.concatenate([x.view(np.uint16) for x in xs], axis)
        return bits.view(xs[0].dtype)
    if xp is np:
        return np.concatenate(xs, axis)
    joined = concat_cuda.concatenated(xp, *xs, axis=axis)
    return xp.concatenate(xs, axis) if joined is None else joined


def _concatenate_gradient(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Any:
    sizes = [x.shape[axis] for x in xs]
    if None in sizes:
        return split_like(g, *xs, axis=axis)
    return _split(g, parts=tuple(np.cumsum(sizes[:-1]).tolist()), axis=axis)


_concatenate.joint_gradient(_concatenate_gradient)
_concatenate.declare(batch=ALONG_AXIS, residuals=frozenset())


@primitive(lambda g, *xs, axis: tuple(Spec(x.shape, g.dtype) for x in xs), semantics=ARRANGEMENT)
def split_like(xp: ArrayModule, g: Array, *xs: Array, axis: int) -> Array:
    """`g` cut along an axis into pieces as long as `xs`, whose values are not looked at."""
    cuts = np.cumsum([x.shape[axis] for x in xs[:-1]]).tolist()
    return _pieces(g, cuts, axis)


split_like.joint_gradient(
    lambda gs, y, g, *xs, axis: (_concatenate(*gs, axis=axis), *[None] * len(xs))
)
split_like.declare(batch=ALONG_AXIS)


def concatenate(xs: Any, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis they have.

    Args:
        xs: tensors of the same rank, whose sizes are equal but for `axis`; dtypes promote.
        axis: where to join; `None` flattens the tensors first.

    Returns:
        A tensor whose size along `axis` is the sum of theirs.

    Raises:
        ShapeError: the other sizes differ, or there are no tensors.

    Example:
        >>> tk.ops.concatenate([[1, 2], [3]]).numpy()
        array([1, 2, 3], dtype=int32)
    """
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    result: Tensor = _concatenate(*xs, axis=axis)
    return result


def append(x1: TensorLike, x2: TensorLike, axis: int | None = None) -> Tensor:
    """`x1` with `x2` behind it along `axis`; without an axis both are flattened first.

    Raises:
        ShapeError: sizes other than that of `axis` differ.

    Example:
        >>> tk.ops.append([1, 2], [3]).numpy()
        array([1, 2, 3], dtype=int32)
    """
    return concatenate([x1, x2], axis=axis)


# ------------------------------------------------------------------ split


def _cuts(n: int, parts: Any) -> list[int]:
    if isinstance(parts, tuple):
        return list(parts)
    return [n // parts * i for i in range(1, parts)]


def _pieces(x: Array, cuts: Sequence[int], axis: int) -> Any:
    """Views of `x` between the cuts, as `numpy.split` gives them."""
    before = (slice(None),) * (axis % x.ndim)
    ends = [*cuts, x.shape[axis]]
    starts = [0, *cuts]
    return tuple(x[(*before, slice(a, b))] for a, b in zip(starts, ends, strict=True))


def _split_rule(x: Spec, *, parts: Any, axis: int) -> Any:
    axis_index = shapes.canonical_axis(axis, len(x.shape), "split")
    n = x.shape[axis_index]
    _check_parts(n, parts, x.shape, axis_index)

    def with_size(k: int | None) -> Spec:
        return Spec((*x.shape[:axis_index], k, *x.shape[axis_index + 1 :]), x.dtype)

    if not isinstance(parts, tuple):
        return tuple(with_size(None if n is None else n // parts) for _ in range(parts))
    starts, ends = (0, *parts), (*parts, n)
    return tuple(with_size(_length(a, b, n)) for a, b in zip(starts, ends, strict=True))


def _length(start: int, end: int | None, n: int | None) -> int | None:
    if n is not None:
        return len(range(*slice(start, end).indices(n)))
    if end is None or min(start, end) < 0:
        return None
    return max(end - start, 0)


def _check_parts(n: int | None, parts: Any, dims: Dims, axis: int) -> None:
    if isinstance(parts, tuple):
        cuts = [p for p in parts if p >= 0]
        if cuts != sorted(cuts) or (n is not None and cuts and cuts[-1] > n):
            raise ShapeError(
                f"split: the cuts {parts} are no rising positions within axis {axis} of a tensor "
                f"of shape {tuple(dims)}"
            )
        return
    if parts < 1 or (n is not None and n % parts):
        raise ShapeError(
            f"split: axis {axis} of a tensor of shape {tuple(dims)} has size {n}, which {parts} "
            "does not "
            "divide; give the cut positions, or use array_split"
        )


def _pieces_on_pool(x: Array, *, parts: Any, axis: int) -> Any:
    return concat_tuned.pieces(x, _cuts(x.shape[axis], parts), axis)


@primitive(
    _split_rule,
    name="split",
    semantics=ARRANGEMENT,
    lowering=TRACE,
    text="beside numbers",
    tuned=Tuned(_pieces_on_pool, exact=True, fewest=FEWEST_COPIED),
)
def _split(xp: ArrayModule, x: Array, *, parts: Any, axis: int) -> Array:
    """Equal parts (an int) or the pieces between cut positions (a tuple) along an axis."""
    if parts != ():
        shapes.canonical_axis(axis, x.ndim, "split")
        _check_parts(x.shape[axis], parts, x.shape, axis)
    if type(parts) is int and axis == 0:
        size = len(x) // parts
        return tuple([x[i : i + size] for i in range(0, len(x), size)] if size else [x] * parts)
    return _pieces(x, _cuts(x.shape[axis], parts), axis)


def _split_gradient(g: Any, y: Any, x: Tensor, *, parts: Any, axis: int) -> Tensor:
    if isinstance(parts, tuple) and any(
        b < a or a < 0 for a, b in zip((0, *parts), parts, strict=False)
    ):
        raise InvalidArgumentError(f"split: the gradient needs rising cut positions, got {parts}")
    result: Tensor = _concatenate(*g, axis=axis)
    return result


_split.gradients(_split_gradient)
_split.declare(batch=ALONG_AXIS)


def equal_pieces(x: TensorLike, count: int, axis: int) -> list[Tensor]:
    """`count` pieces of one size along an axis."""
    return list(_split(x, parts=count, axis=axis))


def _cut_specs(a: Bound) -> Any:
    x, cuts = as_tensor(a["x"]), a["indices_or_sections"]
    count = len(cuts) if isinstance(cuts, list | tuple) else (tuple(cuts.shape) or (None,))[0]
    if count is None:
        raise InvalidArgumentError(
            "split: how many pieces there are must be known while a graph is traced; give a Python "
            "int, or the positions of the cuts"
        )
    dims: list[int | None] = list(x.shape)
    dims[shapes.canonical_axis(a["axis"], len(dims), "split")] = None
    return [Spec(dims, x.dtype)] * (count + 1)


@needs_values("indices_or_sections", gives=_cut_specs)
def split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut `x` into pieces along an axis.

    Args:
        x: tensor with at least one axis.
        indices_or_sections: an int, the number of equal pieces, or the positions of the cuts.
        axis: along which to cut.

    Returns:
        A list of tensors.

    Raises:
        ShapeError: the axis does not divide into that many pieces, or is out of range.

    >>> [float(piece[0]) for piece in split([1.0, 2.0, 3.0], [1])]
    [1.0, 2.0]
    """
    if type(indices_or_sections) is int:
        return equal_pieces(x, indices_or_sections, axis)
    if type(indices_or_sections) is list and ONLY_INTS.issuperset(map(type, indices_or_sections)):
        parts: Any = tuple(indices_or_sections)
    elif is_tensor(indices_or_sections) or np.ndim(indices_or_sections):
        parts = known_sizes(indices_or_sections, "split", "the cuts")
        if is_tensor(indices_or_sections) and not len(indices_or_sections.shape):
            parts = whole_number(indices_or_sections, "split", "the number of pieces")
    else:
        parts = whole_number(indices_or_sections, "split", "the number of pieces")
    pieces = _split(x, parts=parts, axis=axis)
    return list(pieces)


def _pieces_spec(a: Bound) -> Any:
    x, pieces = as_tensor(a["x"]), a["indices_or_sections"]
    dims = list(x.shape)
    axis = shapes.canonical_axis(a["axis"], len(dims), "array_split")
    if np.ndim(pieces) or dims[axis] is not None or int(pieces) < 1:
        return None
    return [Spec(dims, x.dtype)] * int(pieces)


@sizes_later("numpy.array_split", _pieces_spec)
def array_split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut `x` along an axis into pieces whose sizes may differ by one, the longer ones first.

    Args:
        x: tensor with at least one axis.
        indices_or_sections: an int, the number of pieces, or the positions of the cuts.
        axis: along which to cut.

    Returns:
        A list of tensors.

    Raises:
        ShapeError: fewer than one piece, or `axis` is out of range.

    Example:
        >>> [x.numpy() for x in tk.ops.array_split([1, 2, 3], 2)]
        [array([1, 2], dtype=int32), array([3], dtype=int32)]
    """
    x = as_tensor(x)
    if np.ndim(indices_or_sections):
        return split(x, indices_or_sections, axis)
    n = x.shape[shapes.canonical_axis(axis, len(x.shape), "array_split")]
    count = int(indices_or_sections)
    if count < 1 or n is None:
        raise ShapeError(f"array_split: can't cut an axis of size {n} into {count} pieces")
    longer, size = n % count, n // count
    sizes = [size + 1] * longer + [size] * (count - longer)
    return split(x, list(itertools.accumulate(sizes[:-1])), axis)


# ------------------------------------------------------------------ stack and unstack


def _stack_rule(*xs: Spec, axis: int) -> Spec:
    if not xs:
        raise ShapeError("stack: needs at least one tensor")
    dims = list(xs[0].shape)
    for x in xs:
        if len(x.shape) != len(dims) or any(
            None not in (a, b) and a != b for a, b in zip(dims, x.shape, strict=True)
        ):
            listed = "\n".join(f"  input {i}  {tuple(s.shape)}" for i, s in enumerate(xs))
            raise ShapeError(f"stack: all shapes must be equal\n{listed}")
        dims = [b if a is None else a for a, b in zip(dims, x.shape, strict=True)]
    dims.insert(shapes.canonical_axis(axis, len(dims) + 1, "stack"), len(xs))
    return Spec(dims, dtypes.result_type(*xs))


@primitive(
    _stack_rule,
    name="stack",
    sizes=MOVED,
    promotion=COMMON,
    semantics=ARRANGEMENT,
    text="alone",
    direct=Direct("join", (True,)),
)
def _stack(xp: ArrayModule, *xs: Array, axis: int) -> Array:
    """Tensors of one shape along a new axis."""
    if xp is np:
        dims = xs[0].shape
        if axis == 0 and dims and all(x.shape == dims for x in xs):
            # What `np.stack` gives, without its loops in Python, which take longer than small rows.
            return np.concatenate(xs).reshape((len(xs), *dims))
        return np.stack(xs, axis)
    stacked = concat_cuda.stacked(xp, *xs, axis=axis)
    return xp.stack(xs, axis) if stacked is None else stacked


def _stack_gradient(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Any:
    return _unstack(g, axis=axis, num=len(xs))


_stack.joint_gradient(_stack_gradient)
_stack.declare(batch=ALONG_AXIS)


def stack(x: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis.

    Args:
        x: sequence of tensors; dtypes promote. A tensor counts as the sequence of its rows.
        axis: place of the new axis in the result.

    Raises:
        ShapeError: shapes differ, there are no tensors, or `axis` is out of range.

    Example:
        >>> tk.ops.stack([[1, 2], [3, 4]]).numpy()
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    items = unstack(x) if is_tensor(x) else x
    result: Tensor = _stack(*items, axis=axis)
    return result


def _unstack_rule(x: Spec, *, axis: int, num: int) -> Any:
    axis_index = shapes.canonical_axis(axis, len(x.shape), "unstack")
    if x.shape[axis_index] not in (None, num):
        raise ShapeError(
            f"unstack: axis {axis} of a tensor of shape {tuple(x.shape)} has size "
            f"{x.shape[axis_index]}, num={num}"
        )
    piece = Spec((*x.shape[:axis_index], *x.shape[axis_index + 1 :]), x.dtype)
    return (piece,) * num


@primitive(_unstack_rule, name="unstack", sizes=MOVED, semantics=ARRANGEMENT, text="beside numbers")
def _unstack(xp: ArrayModule, x: Array, *, axis: int, num: int) -> Array:
    """The slices along an axis, which goes away."""
    if x.shape[axis] != num:
        raise ValueError(f"axis {axis} has size {x.shape[axis]}, num={num}")
    before = (slice(None),) * (axis % x.ndim)
    return tuple(x[(*before, i)] for i in range(num))


_unstack.gradients(lambda g, y, x, *, axis, num: _stack(*g, axis=axis))
_unstack.declare(batch=ALONG_AXIS)


def unstack(x: TensorLike, num: int | None = None, axis: int = 0) -> list[Tensor]:
    """The slices of `x` along an axis, which goes away.

    Args:
        x: tensor with at least one axis.
        num: size of the axis; needed only where a graph does not know it.
        axis: along which to take apart.

    Returns:
        A list of tensors.

    Raises:
        ShapeError: `num` is not the size of the axis, or the size is unknown and `num` not given.

    Example:
        >>> [x.numpy() for x in tk.ops.unstack([[1, 2], [3, 4]])]
        [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    x = as_tensor(x)
    if num is None:
        num = x.shape[shapes.canonical_axis(axis, len(x.shape), "unstack")]
        if num is None:
            raise ShapeError(
                f"unstack: the size of axis {axis} of {tuple(x.shape)} is not known; give num"
            )
    if num == 0 and not isinstance(x, SymbolicTensor):
        return []
    pieces = _unstack(x, axis=axis, num=num)
    return list(pieces)


# ------------------------------------------------------------------ by direction


def _at_least(xs: Any, rank: int) -> list[Tensor]:
    items = list(_items(xs))
    if all(type(x) is Tensor and x._array.ndim >= rank for x in items):
        return items
    return [{1: atleast_1d, 2: atleast_2d, 3: atleast_3d}[rank](x) for x in items]


def _items(xs: Any) -> Any:
    return unstack(xs) if is_tensor(xs) else xs


def atleast_1d(x: TensorLike) -> Tensor:
    """`x`, a scalar as a vector of one element.

    Example:
        >>> tk.ops.atleast_1d(3.0).shape
        TensorShape([1])
    """
    x = as_tensor(x)
    return x if rank_of(x) else reshape(x, (1,))


def atleast_2d(x: TensorLike) -> Tensor:
    """`x`, a scalar or vector as a matrix of one row.

    Example:
        >>> tk.ops.atleast_2d([1.0, 2.0]).shape
        TensorShape([1, 2])
    """
    x = atleast_1d(x)
    return expand_dims(x, 0) if len(x.shape) == 1 else x


def atleast_3d(x: TensorLike) -> Tensor:
    """`x` with three axes at least: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1).

    Example:
        >>> tk.ops.atleast_3d([1.0, 2.0]).shape
        TensorShape([1, 2, 1])
    """
    x = atleast_2d(x)
    return expand_dims(x, 2) if len(x.shape) == 2 else x


def hstack(xs: Any) -> Tensor:
    """Tensors side by side: along axis 1, vectors along axis 0.

    Raises:
        ShapeError: the other sizes differ.

    Example:
        >>> tk.ops.hstack([[1, 2], [3]]).numpy()
        array([1, 2, 3], dtype=int32)
    """
    items = _at_least(xs, 1)
    return concatenate(items, axis=0 if items and rank_of(items[0]) == 1 else 1)


def column_stack(xs: Any) -> Tensor:
    """Tensors side by side: along axis 1, vectors as columns.

    Raises:
        ShapeError: the other sizes differ.

    Example:
        >>> tk.ops.column_stack([[1, 2], [3, 4]]).numpy()
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    columns = [x if rank_of(x) > 1 else reshape(x, (-1, 1)) for x in map(as_tensor, xs)]
    return concatenate(columns, axis=1)


def vstack(xs: Any) -> Tensor:
    """Tensors on top of each other: along axis 0, vectors as rows.

    Raises:
        ShapeError: the other sizes differ.

    Example:
        >>> tk.ops.vstack([[1, 2], [3, 4]]).numpy()
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return concatenate(_at_least(xs, 2), axis=0)


def dstack(xs: Any) -> Tensor:
    """Tensors behind each other: along axis 2, after `atleast_3d`.

    Raises:
        ShapeError: the other sizes differ.

    Example:
        >>> tk.ops.dstack([[1, 2], [3, 4]]).shape
        TensorShape([1, 2, 2])
    """
    return concatenate(_at_least(xs, 3), axis=2)


def hsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Cut `x` into columns: along axis 1, a vector along axis 0.

    Raises:
        ShapeError: `x` is a scalar, or the axis does not divide into that many pieces.

    Example:
        >>> [x.shape for x in tk.ops.hsplit(tk.ones((2, 4)), 2)]
        [TensorShape([2, 2]), TensorShape([2, 2])]
    """
    x = as_tensor(x)
    return split(x, indices_or_sections, axis=0 if len(x.shape) == 1 else 1)


def vsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Cut `x`, of rank 2 at least, along axis 0.

    Raises:
        ShapeError: the rank is less, or the axis does not divide into that many pieces.

    Example:
        >>> [x.shape for x in tk.ops.vsplit(tk.ones((4, 2)), 2)]
        [TensorShape([2, 2]), TensorShape([2, 2])]
    """
    return split(_of_rank(x, 2, "vsplit"), indices_or_sections, axis=0)


def dsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Cut `x`, of rank 3 at least, along axis 2.

    Raises:
        ShapeError: the rank is less, or the axis does not divide into that many pieces.

    Example:
        >>> [x.shape for x in tk.ops.dsplit(tk.ones((1, 2, 4)), 2)]
        [TensorShape([1, 2, 2]), TensorShape([1, 2, 2])]
    """
    return split(_of_rank(x, 3, "dsplit"), indices_or_sections, axis=2)


def _of_rank(x: Any, rank: int, op: str) -> Tensor:
    tensor: Tensor = as_tensor(x)
    if len(tensor.shape) < rank:
        raise ShapeError(f"{op}: needs {rank} axes at least, got shape {tuple(tensor.shape)}")
    return tensor
