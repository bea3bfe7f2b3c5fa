"""`TensorShape`: the sizes of a tensor, some or all of them not known."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from trainkit.core.errors import ShapeError

_SIZES = frozenset((int, type(None)))
"""The types of sizes that a shape holds as they are; numbers of other types become `int`."""


class TensorShape(tuple[Any, ...]):
    """The shape of a tensor: a tuple of sizes, `None` where a size is not known.

    Equal to tuples and lists of the same sizes.

    Args:
        dims: the sizes, or one size; `None` for a shape of which not even the rank is known.

    Raises:
        TypeError: a size is no whole number.
        ValueError: a size is negative.

    >>> TensorShape([2, 3]).as_list()
    [2, 3]
    >>> TensorShape(None).rank is None
    True
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> TensorShape:
        kind = type(dims)
        if (kind is tuple or kind is TensorShape) and _SIZES.issuperset(map(type, dims)):
            if kind is cls:  # was looked at when it was made, and never changes
                return dims  # type: ignore[no-any-return]
            shape = tuple.__new__(cls, dims)
        else:
            if dims is None or isinstance(dims, _UnknownShape):
                return tuple.__new__(_UnknownShape)
            if isinstance(dims, str):
                raise TypeError(f"a shape is made of whole numbers, given is {dims!r}")
            if not isinstance(dims, Iterable):
                dims = (dims,)
            shape = tuple.__new__(cls, (None if d is None else operator.index(d) for d in dims))
        for n in shape:
            if n is not None and n < 0:
                raise ValueError(f"the sizes of a shape are 0 or more, given are {list(shape)}")
        return shape

    @property
    def rank(self) -> int | None:
        """The number of axes, `None` where it is not known."""
        return len(self)

    @property
    def ndims(self) -> int | None:
        """The number of axes, `None` where it is not known."""
        return self.rank

    @property
    def dims(self) -> list[Any] | None:
        """The sizes as a list, `None` where the rank is not known."""
        return None if self.rank is None else list(self)

    def as_list(self) -> list[Any]:
        """The sizes as a list.

        Raises:
            ValueError: the rank is not known.
        """
        return list(self)

    def num_elements(self) -> int | None:
        """The number of elements, `None` when a size is not known."""
        return None if None in self else math.prod(self)

    def is_fully_defined(self) -> bool:
        """Whether all sizes are known."""
        return None not in self

    # ------------------------------------------------------------------ two shapes

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both could describe one tensor: same rank, sizes equal where both are known."""
        other_shape = TensorShape(other)
        if self.rank is None or other_shape.rank is None:
            return True
        return len(self) == len(other_shape) and all(
            a is None or b is None or a == b for a, b in zip(self, other_shape, strict=True)
        )

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every tensor of this shape has the shape `other` too."""
        other_shape = TensorShape(other)
        if other_shape.rank is None:
            return True
        return self.rank == other_shape.rank and all(
            b is None or a == b for a, b in zip(self, other_shape, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """What is known from both together.

        Raises:
            ShapeError: they are not compatible.
        """
        other_shape = TensorShape(other)
        self.assert_is_compatible_with(other_shape)
        if self.rank is None or other_shape.rank is None:
            return other_shape if self.rank is None else self
        return TensorShape(b if a is None else a for a, b in zip(self, other_shape, strict=True))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """The narrowest shape that both have."""
        other_shape = TensorShape(other)
        if self.rank is None or self.rank != other_shape.rank:
            return TensorShape(None)
        return TensorShape(a if a == b else None for a, b in zip(self, other_shape, strict=True))

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorShape:
        """The narrowest shape that this and all `others` have."""
        shape = self
        for other in others:
            shape = shape.most_specific_compatible_shape(other)
        return shape

    def concatenate(self, other: Any) -> TensorShape:
        """The sizes of both, one after the other; unknown where one of them is."""
        other_shape = TensorShape(other)
        if self.rank is None or other_shape.rank is None:
            return TensorShape(None)
        return TensorShape(tuple(self) + tuple(other_shape))

    # ------------------------------------------------------------------ ranks

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, known to have `rank` axes.

        Raises:
            ShapeError: it has another number.
        """
        if self.rank not in (None, rank):
            raise ShapeError(f"the shape {self} must have rank {rank}")
        return TensorShape([None] * rank) if self.rank is None else self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape.

        Raises:
            ShapeError: it has fewer than `rank` axes.
        """
        if self.rank is not None and self.rank < rank:
            raise ShapeError(f"the shape {self} must have at least rank {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """This shape.

        Raises:
            ShapeError: it has more than `rank` axes.
        """
        if self.rank is not None and self.rank > rank:
            raise ShapeError(f"the shape {self} must have at most rank {rank}")
        return self

    # ------------------------------------------------------------------ checks

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ShapeError` unless both could describe one tensor."""
        if not self.is_compatible_with(other):
            raise ShapeError(f"shapes {self} and {TensorShape(other)} are not compatible")

    def assert_has_rank(self, rank: int) -> None:
        """Raise `ShapeError` unless it could have `rank` axes."""
        self.with_rank(rank)

    def assert_same_rank(self, other: Any) -> None:
        """Raise `ShapeError` unless both could have one number of axes."""
        other_shape = TensorShape(other)
        if None not in (self.rank, other_shape.rank) and self.rank != other_shape.rank:
            raise ShapeError(f"shapes {self} and {other_shape} must have the same rank")

    def assert_is_fully_defined(self) -> None:
        """Raise `ShapeError` unless all sizes are known."""
        if not self.is_fully_defined():
            raise ShapeError(f"the shape {self} is not known in full")

    # ------------------------------------------------------------------ as a tuple

    def __bool__(self) -> bool:
        return True  # that of a scalar too, as in TensorFlow; `len` tells them apart

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        return tuple.__repr__(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            other = tuple(other)
        return tuple.__eq__(self, other) is True and not isinstance(other, _UnknownShape)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __getitem__(self, key: Any) -> Any:
        sizes = tuple.__getitem__(self, key)
        return TensorShape(sizes) if isinstance(key, slice) else sizes

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __reduce__(self) -> Any:
        return TensorShape, (self.dims,)


class _UnknownShape(TensorShape):
    """A shape of which not even the rank is known."""

    __slots__ = ()

    @property
    def rank(self) -> None:
        return None

    def num_elements(self) -> None:
        return None

    def is_fully_defined(self) -> bool:
        return False

    def _no_rank(self, property_text: str) -> ValueError:
        return ValueError(
            f"{property_text} of a shape of unknown rank; give the sizes, None for each"
        )

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        raise self._no_rank("len()")

    def __iter__(self) -> Iterator[Any]:
        raise self._no_rank("the sizes")

    def __contains__(self, item: object) -> bool:
        raise self._no_rank("the sizes")

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if not isinstance(key, slice):
            return None
        start, stop = key.start or 0, key.stop
        has_known_length = start >= 0 and stop is not None and stop >= 0 and key.step in (None, 1)
        return TensorShape([None] * max(stop - start, 0)) if has_known_length else self

    def __repr__(self) -> str:
        return "TensorShape(None)"

    def __str__(self) -> str:
        return "<unknown>"

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _UnknownShape)

    def __hash__(self) -> int:
        return hash(_UnknownShape)


UNKNOWN = TensorShape(None)

ROW_TYPES = frozenset((tuple, list, TensorShape))
"""Types of what may be a row of ints, which is looked at before all else that sizes may be."""
