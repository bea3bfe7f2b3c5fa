"""Whether nobody else holds an array, so that it may be written in place.

A tensor never changes after it is made, yet a step of training should not need new memory for each
weight. So a variable is written in place where nothing but the variable refers to its tensor and
nothing but that tensor to its array, and a sum of gradients where nothing but the record of the
backward pass does. CPython's counts of references tell; the numbers differ from version to version
(3.14 lends local names to a call where 3.13 counts them once more), so they are not written here:
each is found at import by the very expression that asks later, on objects that nobody else holds.

Then one holder more is tried, and two. Where that does not raise each count by one and two, where
threads count on their own (free threads), where a compiler may leave references out (CPython's
experimental one), or where nothing is counted at all (PyPy), nobody is ever said to be alone:
everything is right there, and writes to new memory.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dispatch import native


def _count_nothing(_: Any) -> int:
    """Where nothing is counted: no two answers differ, so `measure_counts` trusts none of them."""
    return 0


getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", _count_nothing)


class ReferenceCounts(NamedTuple):
    """What `getrefcount` gives where nobody else holds the object; `None`, no count, for never.

    Attributes:
        tensor: `variable._value`, asked for without a name.
        array: `variable._value._array`, asked for without a name.
        named_array: the same array in a local name, which is asked for.
        named: an object in a local name that has nothing else.
        entry: a value of a dict that a caller further out has in one local name.
    """

    tensor: int | None = None
    array: int | None = None
    named_array: int | None = None
    named: int | None = None
    entry: int | None = None


NEVER = ReferenceCounts()

NAMES: dict[str, Any] = {"getrefcount": getrefcount}
"""What the text of `condition` refers to."""


class _ProbeValue:
    """Holds an array as a tensor does, in a slot."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array


class _ProbeVariable:
    """Holds a value as a variable does, in its dictionary."""

    def __init__(self, array: Any) -> None:
        self._value = _ProbeValue(array)


def _counts_of_variable(variable: Any) -> tuple[int, int]:
    """In the words of `_sole_array`."""
    return getrefcount(variable._value), getrefcount(variable._value._array)


def _counts_of_names(variable: Any, make: Callable[[], Any]) -> tuple[int, int]:
    """In the words of `condition`."""
    x = variable._value._array
    y = make()
    return getrefcount(x), getrefcount(y)


def _count_of_entry(mapping: dict[Any, Any], key: Any) -> int:
    """In the words of `is_sole_entry`."""
    return getrefcount(mapping[key])


def _count_of_named_entry(mapping: dict[Any, Any], key: Any) -> int:
    # In place of the caller's own name for the value; it has to outlive the count.
    named = mapping.get(key)
    count = _count_of_entry(mapping, key)
    del named
    return count


def _counts_beside(others: int) -> ReferenceCounts:
    """The counts where so many other references to each object are held."""
    variable, mapping = _ProbeVariable(np.empty(1)), {0: np.empty(1)}
    # In lists, since versions differ in how they count the names of a frame.
    references: list[Any] = [
        [x] * others for x in (variable._value, variable._value._array, mapping[0])
    ]

    def make() -> Any:
        array = np.empty(1)
        references.append([array] * others)
        return array

    tensor, array = _counts_of_variable(variable)
    named_array, named = _counts_of_names(variable, make)
    return ReferenceCounts(tensor, array, named_array, named, _count_of_named_entry(mapping, 0))


def measure_counts() -> ReferenceCounts:
    """The counts on this interpreter, `NEVER` where they can't be trusted."""
    if not counts_references():
        return NEVER
    alone, one_more, two_more = map(_counts_beside, range(3))
    for others, counts in ((1, one_more), (2, two_more)):
        if counts != tuple(count + others for count in alone):  # type: ignore[operator]
            return NEVER
    # `array` stands for two references, the value's and that of the call. A debugger that keeps
    # the names of this frame would add its own, and later, without it, the sum would stand for
    # somebody else's.
    two: Any = alone.array
    limits = ReferenceCounts(two, two, two + 1, two, two + 1)
    is_exact = all(count <= limit for count, limit in zip(alone, limits, strict=True))  # type: ignore[operator]
    return alone if is_exact else NEVER


def counts_references() -> bool:
    """Whether each reference is in one count that all threads share and every instruction keeps."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    compiler = getattr(sys, "_jit", None)
    return (
        sys.implementation.name == "cpython"
        and has_gil
        and "free-threading" not in sys.version  # a build that may let its lock go later
        and not (compiler is not None and compiler.is_enabled())
    )


COUNTS = measure_counts()
_TENSOR, _ARRAY, _ENTRY = COUNTS.tensor, COUNTS.array, COUNTS.entry


def _sole_array(variable: Any) -> Any:
    # No local names before the counts: what a name adds differs by version and by tracer.
    if getrefcount(variable._value) == _TENSOR and getrefcount(variable._value._array) == _ARRAY:
        array = variable._value._array
        if array.base is None:  # a view shares its memory with others
            return array
    return None


def is_sole_entry(mapping: dict[Any, Any], key: Any) -> bool:
    """Whether nothing holds `mapping[key]` but the mapping and one local name of a caller."""
    return getrefcount(mapping[key]) == _ENTRY


class _TensorHolder:
    """Holds a tensor as what asks `count_other_holders` does, in a slot."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _count_of_tensor(holder: Any) -> int:
    """In the words of `count_other_holders`."""
    return getrefcount(holder.tensor)


def _count_of_sole_tensor() -> int | None:
    holder = _TensorHolder(np.empty(1))
    alone = _count_of_tensor(holder)
    others = [holder.tensor]
    is_right = COUNTS != NEVER and _count_of_tensor(holder) == alone + len(others)
    return alone if is_right else None


_SOLE_TENSOR = _count_of_sole_tensor()


def count_other_holders(holder: Any) -> int:
    """How many references to `holder.tensor`, a slot, there are besides; -1 if that's not known."""
    return -1 if _SOLE_TENSOR is None else _count_of_tensor(holder) - _SOLE_TENSOR


def condition(local: str, variable: str | None = None) -> str:
    """The text of a condition in a generated function: nobody else holds the array in a local name.

    Args:
        local: the name of the array.
        variable: the name of the variable whose array it is, `None` where it is a new one.

    Returns:
        An expression of these names and `NAMES`; "False" where counts can't be trusted.

    Example:
        >>> from trainkit.core.dispatch import ownership
        >>> ownership.condition("x") != "False" or ownership.COUNTS == ownership.NEVER
        True
    """
    if COUNTS == NEVER:
        return "False"
    if variable is None:
        return f"getrefcount({local}) == {COUNTS.named}"
    of_array = f"getrefcount({local}) == {COUNTS.named_array}"
    return f"{of_array} and getrefcount({variable}._value) == {COUNTS.tensor}"


def tells_holders(ask: Callable[[Any], Any]) -> bool:
    """Whether `ask`, a function like `sole_array`, gives an array only if nobody else holds it."""
    array: Any = np.empty(2)
    variable = _ProbeVariable(array)
    # This name would be a holder, too.
    del array
    if ask(variable) is None:
        return False
    # The ways in which somebody else would see a write: the tensor, its array, a view whose base
    # that is, and a buffer.
    for hold in (
        lambda: variable._value,
        lambda: variable._value._array,
        lambda: variable._value._array[:1],
        lambda: memoryview(variable._value._array),
    ):
        reference = hold()
        if ask(variable) is not None:
            return False
        # The next way has to be noticed alone, and the last question expects nobody.
        del reference
    return ask(variable) is not None


def _best_sole_array() -> Callable[[Any], Any]:
    """The compiled function where there is one and it tells holders, else the one in Python."""
    # C has no frames that lend names, so the compiled function counts otherwise than the one above:
    # it is trusted for a trial, and stays so only if it tells holders.
    native.call_if_built("trust_counts", COUNTS != NEVER)
    is_right = tells_holders(functools.partial(native.call_if_built, "sole_array"))
    # After the trial, since a compiled function that raises ends the use of all of them.
    if native.NATIVE is None:
        return _sole_array
    native.call_if_built("trust_counts", is_right)
    compiled: Callable[[Any], Any] = native.NATIVE.sole_array
    return compiled if is_right else _sole_array


sole_array = _best_sole_array()
"""`sole_array(variable)`: the array of a variable's value if nobody but the variable holds the
value, nobody but the value the array, and the memory is the array's; else `None`."""
