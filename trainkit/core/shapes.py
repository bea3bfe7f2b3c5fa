"""Shape arithmetic on tuples in which `None` is a size that is not known yet.

Shape rules of primitives are made of these. They run while a graph is traced or a layer asked for
its output shape, never on the eager path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

from trainkit.core import dtypes
from trainkit.core.dtypes import DType
from trainkit.core.errors import ShapeError as ShapeError
from trainkit.core.tensor_shape import TensorShape as TensorShape

Dims = tuple[int | None, ...]
ONLY_INTS = frozenset((int,))
"""Contains the types of all items of a sequence of whole numbers that has no `bool`."""


class Spec:
    """Shape and dtype of a value that is not there yet; what shape rules take and give.

    Attributes:
        shape: sizes, `None` where not known.
        dtype: a `DType`.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Iterable[int | None], dtype: Any) -> None:
        self.shape: Dims = tuple(shape)
        self.dtype: DType = dtype if type(dtype) is DType else dtypes.as_dtype(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype.name})"


def size(shape: Sequence[int | None]) -> int | None:
    """The number of elements, `None` when a size is not known."""
    return None if None in shape else math.prod(shape)  # type: ignore[arg-type]


# A process addresses 2**47 bytes at most, so no tensor has more elements. NumPy counts in 64 bits,
# where sizes that are larger wrap around: it takes too little memory then and writes beyond it.
MOST_ELEMENTS = 2**47
CALLS = 4096
"""Calls of other sizes, or of other functions, of which what is known of each is kept."""


def bounded(op: str, *dims: int) -> None:
    """Refuse sizes, worked out from numbers that somebody gave, that no tensor can have.

    Raises:
        ShapeError: the sizes above 0 have a product of more than `MOST_ELEMENTS`.
    """
    total = 1
    for n in dims:
        total *= n or 1
    if total > MOST_ELEMENTS:
        raise ShapeError(
            f"{op}: a result of shape {dims} would have {total} elements, more than any memory "
            f"holds ({MOST_ELEMENTS}); give smaller sizes"
        )


def canonical_axis(axis: SupportsIndex, rank: int, op: str = "operation") -> int:
    """`axis` counted from the front.

    Raises:
        ShapeError: `axis` is not in [-rank, rank).
        TypeError: it is no integer.
    """
    try:
        number = axis.__index__()
    except AttributeError:
        raise TypeError(f"{op}: axis must be an integer, got {axis!r}") from None
    if not -rank <= number < rank:
        raise ShapeError(
            f"{op}: axis {number} is out of range for a tensor of rank {rank}; "
            f"valid axes are {-rank} to {rank - 1}"
        )
    return number % rank


def canonical_axes(axis: Any, rank: int, op: str = "operation") -> tuple[int, ...]:
    """All axes that `axis` (an int, a sequence, or `None` for all) names, counted from the front.

    Raises:
        ShapeError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(rank))
    if type(axis) is tuple and ONLY_INTS.issuperset(map(type, axis)):  # as nearly all calls have it
        usual = _axes_from_front(axis, rank)
        if usual is not None:
            return usual
    if hasattr(axis, "__index__") and not isinstance(axis, list | tuple):
        return (canonical_axis(axis, rank, op),)
    axes = tuple(canonical_axis(a, rank, op) for a in axis)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: axis {tuple(axis)} names an axis twice")
    return axes


@lru_cache(maxsize=CALLS)
def _axes_from_front(axes: tuple[int, ...], rank: int) -> tuple[int, ...] | None:
    """Axes counted from the front, `None` where one is out of range or named twice."""
    if not all(-rank <= axis < rank for axis in axes):
        return None
    from_front = tuple(axis % rank for axis in axes)
    return from_front if len({*from_front}) == len(axes) else None


def _broadcast_dim(a: int | None, b: int | None) -> Iterator[int | None]:
    if a == b or b == 1:
        yield a
    elif a == 1:
        yield b
    elif a is None or b is None:
        yield a if b is None else b


def broadcast_dims(*shapes: Sequence[int | None], op: str = "operation") -> Dims:
    """The shape that all of `shapes` broadcast to, by NumPy's rule.

    Raises:
        ShapeError: two sizes differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[int | None] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            joined = tuple(_broadcast_dim(result[i], n))
            if not joined:
                listed = ", ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(f"{op}: shapes {listed} do not broadcast")
            result[i] = joined[0]
    return tuple(result)


def reduced_dims(shape: Sequence[int | None], axis: Any, keepdims: bool) -> Dims:
    """The shape left when the axes `axis` (`None` for all) are reduced."""
    axes = canonical_axes(axis, len(shape))
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


# ------------------------------------------------------------------ rules for whole families


def shape_of(x: Any) -> Dims:
    """The shape of a `Spec`, an array or a Python number."""
    return tuple(getattr(x, "shape", ()))


def unchanged(x: Spec, *rest: Any, **settings: Any) -> Spec:
    """Rule: the result is like the first input."""
    return Spec(x.shape, x.dtype)


def unchanged_number(x: Spec, *rest: Any, **settings: Any) -> Spec:
    """Rule: the result is like the first input, that of bools an int64: a number beside 0 or 1."""
    return Spec(x.shape, dtypes.int64 if x.dtype.is_bool else x.dtype)


def broadcast(*inputs: Any, **settings: Any) -> Spec:
    """Rule: inputs broadcast and promote together."""
    return Spec(broadcast_dims(*map(shape_of, inputs)), dtypes.result_type(*inputs))


def broadcast_bool(*inputs: Any, **settings: Any) -> Spec:
    """Rule: inputs broadcast; the result is bool."""
    return Spec(broadcast_dims(*map(shape_of, inputs)), dtypes.bool_)


def unchanged_bool(x: Spec, **settings: Any) -> Spec:
    """Rule: one bool for each element of the input."""
    return Spec(x.shape, dtypes.bool_)


def floating(x: Spec, **settings: Any) -> Spec:
    """Rule: like the input, integers become the default float."""
    return Spec(x.shape, float_dtype(x.dtype))


def floating_broadcast(*inputs: Any, **settings: Any) -> Spec:
    """Rule: inputs broadcast and promote, integers become the default float."""
    dims = broadcast_dims(*map(shape_of, inputs))
    return Spec(dims, float_dtype(dtypes.result_type(*inputs)))


def wide_floating(x: Spec, **settings: Any) -> Spec:
    """Rule: like the input, int64 becomes float64, other integers the default float."""
    return Spec(x.shape, wide_float_dtype(x.dtype))


def wide_floating_broadcast(*inputs: Any, **settings: Any) -> Spec:
    """Rule: inputs broadcast and promote, int64 becomes float64, other integers the default float.

    So it is in Keras for a few operations, and not for the others.
    """
    dims = broadcast_dims(*map(shape_of, inputs))
    return Spec(dims, wide_float_dtype(dtypes.result_type(*inputs)))


def reduced(x: Spec, *, axis: Any = None, keepdims: bool = False, **settings: Any) -> Spec:
    """Rule: the axes `axis` go away; dtype stays."""
    return Spec(reduced_dims(x.shape, axis, keepdims), x.dtype)


def float_dtype(dtype: DType) -> DType:
    """`dtype` if it is floating or complex, else the default float."""
    if dtype.is_floating or dtype.is_complex:
        return dtype
    return dtypes.as_dtype(dtypes.floatx())


def wide_float_dtype(dtype: DType) -> DType:
    """`float_dtype`, but float64 for int64, whose numbers the default float does not hold."""
    return dtypes.float64 if dtype == dtypes.int64 else float_dtype(dtype)


NUMBERS_BROADCAST = (broadcast, floating_broadcast, wide_floating_broadcast)
"""The rules of numbers from numbers by element; the promoted dtype, or its float, is promised."""

FLOAT_DTYPES: dict[Any, Callable[[DType], DType]] = {
    floating: float_dtype,
    floating_broadcast: float_dtype,
    wide_floating: wide_float_dtype,
    wide_floating_broadcast: wide_float_dtype,
}
"""In which float an operation computes on a dtype, by the rule that promises floats."""


def as_float_array(x: Any) -> Any:
    """The array `x`, in the default float if its elements are whole numbers or bools."""
    return x.astype(dtypes.as_dtype(dtypes.floatx()).dtype) if x.dtype.kind in "iub" else x


def matmul_dims(a: Dims, b: Dims, op: str = "matmul") -> Dims:
    """The shape of the product of (..., n, m) and (..., m, p), with vectors as NumPy has them.

    Raises:
        ShapeError: the inner sizes differ, or an input is a scalar.
    """
    if not a or not b:
        raise ShapeError(f"{op}: both inputs need at least one axis, got shapes {a} and {b}")
    inner_a, inner_b = a[-1], b[-2] if len(b) > 1 else b[0]
    if inner_a is not None and inner_b is not None and inner_a != inner_b:
        raise ShapeError(
            f"{op}: the inner sizes differ, {inner_a} and {inner_b}.\n  a  {a}\n  b  {b}\n"
            "The last axis of a and the second to last of b must be equal; transpose one of them, "
            "or reshape it."
        )
    batch = broadcast_dims(a[:-2], b[:-2], op=op)
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return batch + rows + columns


def matmul(a: Spec, b: Spec, **settings: Any) -> Spec:
    """Rule: matrix product of the last two axes."""
    return Spec(matmul_dims(a.shape, b.shape), dtypes.result_type(a, b))
