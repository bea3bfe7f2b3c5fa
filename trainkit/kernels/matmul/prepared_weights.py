"""Weights that many calls read, laid out for a kernel once.

A kernel that multiplies by weights reads them in strips of columns, which it has to copy together
at each call. Where the rows of an input are few, as in an inference of one image, that takes longer
than the product. A program that does not assign a variable keeps the strips of its value.

Nobody tells when a value changes: a variable is written in place where nobody else holds its array.
So whoever keeps strips holds the array that they were made of. As long as the variable has that
very array, its numbers are the same; a write goes to new memory then, and the next call sees
another array. A write that another thread had begun before is not over yet: so who has written lets
go of the strips afterwards (`let_go`), and of those that are just being made.

What is trained meanwhile would pay for new memory at each step, so the array of a variable is held
only once it has come twice, later each time that it was held in vain; and a program that assigns
variables lets go of theirs first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import CACHE_LINE, MOST_BYTES
from trainkit.core.process import forks
from trainkit.core.variable import WATCHERS

Array = Any


class _Strips:
    """What was made of an array, which is held meanwhile.

    Attributes:
        owner: the array that has the memory, `None` once it was let go.
        array: the strips, `None` until they are made.
    """

    __slots__ = ("__weakref__", "array", "key", "owner")

    def __init__(self, owner: Array | None, key: Any, array: Array | None) -> None:
        self.owner, self.key, self.array = owner, key, array

    @property
    def owner_ids(self) -> tuple[int, ...]:
        """The ids of the arrays that are held."""
        return (id(self.owner),)

    @property
    def nbytes(self) -> int:
        """Bytes of the strips."""
        array = self.array
        return 0 if array is None else array.nbytes

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.owner = self.array = None

    def are_of(self, weights: Array) -> bool:
        """Whether they were made of all numbers of `weights`; ask after `array` was read."""
        owner = self.owner
        return owner is weights or (owner is not None and _is_whole(weights, owner))


def _is_whole(array: Array, owner: Array) -> bool:
    """Whether an array is another one, or shows all of it in the same order."""
    if array is owner:
        return True
    is_in_order: bool = array.flags.c_contiguous and owner.flags.c_contiguous
    return array.base is owner and array.nbytes == owner.nbytes and is_in_order


_ALL: list[tuple[weakref.ref[Any], ...]] = [()]
"""All there are, in a tuple that is replaced as a whole: threads may look at it meanwhile."""
_OWNERS: list[frozenset[int]] = [frozenset()]
"""The ids of their arrays, some of which may be gone: most variables have none of them."""
_ADDING = forks.make_lock()
_NO_LAYOUT = object()


def _all() -> list[_Strips | _WeightResults]:
    return [strips for strips in (reference() for reference in _ALL[0]) if strips is not None]


def _kept_bytes() -> int:
    return sum(x.nbytes for x in _all())


class _WeightResults:
    """What was computed of some arrays, which are held meanwhile.

    Attributes:
        owners: the arrays, `None` once they were let go.
        owner_ids: the ids of those that have their memory.
        results: `None` until they are computed.
    """

    __slots__ = ("__weakref__", "owner_ids", "owners", "results")

    def __init__(self, arrays: tuple[Array, ...]) -> None:
        self.owners: tuple[Array, ...] | None = arrays
        self.owner_ids = tuple(id(_owner_of(array)) for array in arrays)
        self.results: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of the results."""
        return sum(result.nbytes for result in self.results or ())

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.owners = self.results = None


class _Patience:
    """Counts calls with the same arrays, which are held only once they have come often enough."""

    __slots__ = ("_arrays", "_calls", "_needed")

    def __init__(self) -> None:
        self._arrays: tuple[weakref.ref[Array], ...] = ()
        self._calls, self._needed = 0, 1

    def prolong(self) -> None:
        """Wait for twice as many calls from now on: what was held has not come again."""
        self._needed *= 2

    def is_over(self, *arrays: Array) -> bool:
        """Count a call with these arrays, and say whether they are to be held."""
        last = [reference() for reference in self._arrays]
        if len(last) != len(arrays) or not all(map(is_, last, arrays)):
            self._arrays, self._calls = tuple(map(weakref.ref, arrays)), 0
            return False
        self._calls += 1
        return self._calls >= self._needed


class PreparedResults:
    """What a function gives of arrays of weights, as long as these are the same.

    Args:
        compute: function of a tuple of arrays to one of results.
    """

    __slots__ = ("_compute", "_memory", "_patience")

    def __init__(self, compute: Callable[[tuple[Array, ...]], tuple[Array, ...]]) -> None:
        self._compute = compute
        self._memory: _WeightResults | None = None
        self._patience = _Patience()

    def __reduce__(self) -> Any:
        return PreparedResults, (self._compute,)  # a copy begins anew

    def __call__(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """The results, which nobody may write to."""
        memory = self._memory
        if memory is not None:
            # read first: results that are let go in between are those of these arrays still
            results, owners = memory.results, memory.owners
            if owners is not None and all(map(is_, owners, arrays)):
                return results  # type: ignore[no-any-return]
            self._memory = None
            if owners is not None:
                self._patience.prolong()
        if not self._patience.is_over(*arrays):
            return self._compute(arrays)
        # in the list before they are computed: a writer that ends meanwhile lets go of them
        memory = _WeightResults(arrays)
        _hold(memory)
        memory.results = results = self._compute(arrays)
        if _kept_bytes() > MOST_BYTES:
            memory.let_go()
            self._patience.prolong()
        if memory.owners is not None:
            self._memory = memory
        return results


class PreparedWeights:
    """The weights of one operation of a program, in strips once they have come often enough."""

    __slots__ = ("_layout", "_patience", "_strips")

    def __init__(self) -> None:
        self._strips: _Strips | None = None
        # of strips of a whole array, which then tells by itself whether they are current
        self._layout: Any = _NO_LAYOUT
        self._patience = _Patience()

    def __reduce__(self) -> Any:
        return PreparedWeights, ()  # a copy begins anew

    def current(self, weights: Array, layout: Any) -> _Strips | None:
        """What holds the strips of a whole array as long as they are its own, if they are made.

        They are those of `weights` until they are let go, as `are_of` says.
        """
        strips = self._strips
        is_current = strips is not None and self._layout == layout and strips.are_of(weights)
        return strips if is_current else None

    def strips(
        self, weights: Array, prepare: Callable[[Array], Array], layout: Any = None
    ) -> Array | None:
        """What `prepare` makes of `weights`, `None` where it is not to be kept yet.

        Args:
            weights: an array, or a view of one.
            prepare: a function of them.
            layout: what it makes, in values that can be compared.
        """
        strips = self._strips
        if strips is not None and self._layout == layout:
            # read first: strips that are let go in between are those of this array still
            array = strips.array
            if strips.owner is weights:
                return array
        owner = _owner_of(weights)
        key = weights.ctypes.data, weights.shape, weights.strides, layout
        if strips is not None:
            # in this order: strips that are let go in between are those of this owner still
            array, is_current = strips.array, strips.owner is owner and strips.key == key
            if is_current:
                return array
            self._strips = None
            if strips.owner is not None:
                self._patience.prolong()
        if not self._patience.is_over(owner):
            return None
        self._strips = _strips_of(owner, key, weights, prepare)
        self._layout = layout if _is_whole(weights, owner) else _NO_LAYOUT
        return None if self._strips is None else self._strips.array


def prepare_weights(
    store: PreparedWeights | None,
    weights: Array,
    prepare: Callable[[Array, Any], Array],
    layout: Any,
) -> Array:
    """`prepare(weights, layout)`, from `store` if that keeps it for further calls."""
    strips = None
    if store is not None:
        strips = store.strips(weights, lambda array: prepare(array, layout), (prepare, layout))
    return prepare(weights, layout) if strips is None else strips


def _owner_of(array: Array) -> Array:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _strips_of(
    owner: Array, key: Any, weights: Array, prepare: Callable[[Array], Array]
) -> _Strips | None:
    """The strips that another operation keeps, or new ones; `None` where there are too many."""
    for strips in _all():
        if isinstance(strips, _Strips) and strips.owner is owner and strips.key == key:
            return strips
    if _kept_bytes() + weights.nbytes > MOST_BYTES:
        return None
    # In the list before they are made: a writer that ends meanwhile lets go of them.
    strips = _Strips(owner, key, None)
    _hold(strips)
    array = _aligned_copy(prepare(weights))
    strips.array = array
    if strips.owner is None:  # in this order: let go between the two lines, they are dropped here
        strips.array = None
        return None
    return strips


def _hold(strips: _Strips | _WeightResults) -> None:
    """Let those who write to variables look at what is held."""
    with _ADDING:
        everything = [*(x for x in _all() if x is not strips), strips]
        _OWNERS[0] = frozenset(owner for x in everything for owner in x.owner_ids)
        _ALL[0] = tuple(map(weakref.ref, everything))
    if let_go not in WATCHERS:
        WATCHERS.append(let_go)


_PIECE_BYTES = 1 << 22
"""NumPy asks the system for large pages for arrays from this size on."""


class _LargePages:
    """Memory for strips, side by side in pieces of large pages.

    A network reads all its weights one after the other: in pages of 4 KB these are more than a
    processor remembers the addresses of. A piece is freed when the last strips on it are.
    """

    def __init__(self) -> None:
        self._piece: weakref.ref[Array] | None = None
        self._used = 0

    def room(self, size: int) -> Array:
        """So many bytes, which begin at a line of a cache."""
        if size + CACHE_LINE > _PIECE_BYTES:
            return _from_a_line(np.empty(size + CACHE_LINE, np.uint8), 0, size)
        with _ADDING:
            piece = None if self._piece is None else self._piece()
            if piece is None or self._used + size + CACHE_LINE > len(piece):
                piece, self._used = np.empty(_PIECE_BYTES, np.uint8), 0
                self._piece = weakref.ref(piece)
            room = _from_a_line(piece, self._used, size)
            self._used = room.ctypes.data + size - piece.ctypes.data
        return room


_LARGE_PAGES = _LargePages()


def _from_a_line(piece: Array, first: int, size: int) -> Array:
    """So many bytes of a piece, from the first line of a cache at or behind `first`."""
    first += -(piece.ctypes.data + first) % CACHE_LINE
    return piece[first : first + size]


def _aligned_copy(array: Array) -> Array:
    """A copy that begins at a line of a cache: a vector across two of them takes longer to read."""
    copy: Array = _LARGE_PAGES.room(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def let_go(variables: Iterable[Any]) -> None:
    """Hold the arrays of variables no longer, as they are about to be written or just were."""
    if not _ALL[0]:
        return
    owners = {id(_owner_of(v._value._array)) for v in variables if hasattr(v._value, "_array")}
    if owners.isdisjoint(_OWNERS[0]):
        return
    for strips in _all():
        if not owners.isdisjoint(strips.owner_ids):
            strips.let_go()
