"""NumPy arrays of Python numbers, nested lists and arrays, by the rules for types of elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import dtypes, nest
from trainkit.core.dtypes import DType
from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError
from trainkit.core.values.foreign_arrays import as_dense, require_room
from trainkit.core.values.table_columns import require_numbers
from trainkit.core.values.text_arrays import may_be_text, text_array

_FITS_INT32 = (np.iinfo(np.int32).min, np.iinfo(np.int32).max)


_PLAIN = frozenset({bool, int, float, complex, str, bytes, list, tuple, np.ndarray})


def array_of(value: Any, dtype: DType | None = None) -> Any:
    """A new NumPy array with the values of a Python number, nested list or array.

    Python floats become float32, ints int32 (int64 where they don't fit); arrays keep their type.

    Raises:
        InvalidArgumentError: the nested list is ragged, or holds something that is no number.
        TypeError: the values can't be had in `dtype`.
    """
    if type(value) not in _PLAIN:
        require_room(value)
        require_numbers(value)
        value = as_dense(value)
    try:
        array = np.array(value)
    except UnicodeDecodeError:  # texts and bytes side by side
        array = np.array(value, object)
    except MemoryError as error:
        raise ResourceExhaustedError(f"can't make a tensor of so many values: {error}") from error
    except (ValueError, TypeError, OverflowError, BufferError) as error:
        raise InvalidArgumentError(
            f"can't make a tensor of {short_text(value)}: {error}. All rows of a nested list must "
            "have the same length."
        ) from None
    # NumPy takes integers of more than 64 bits for floats or for objects.
    if dtype is not None and array.dtype.kind in "fO":
        excess = _integers_outside(value, dtype)
        if excess is not None:
            raise excess
    if may_be_text(array):
        return _texts(array, value, dtype)
    array = dtypes.native(array)
    if array.dtype not in dtypes.BY_NUMPY:
        dtypes.as_dtype(array.dtype)  # raises, and lists those that there are
    if dtype is dtypes.string and array.size:
        raise TypeError(f"{short_text(value)} is no text; tk.strings.as_string makes it of numbers")
    if dtype is None:
        return _weaken(array, value)
    if array.dtype.kind in "fc" and dtype.is_integer and array.size and not has_dtype(value):
        raise TypeError(
            f"{short_text(value)} can't be had as {dtype.name} without rounding; use tk.cast"
        )
    if array.dtype.kind in "iufc" and dtype.is_bool and array.size and not has_dtype(value):
        raise TypeError(
            f"{short_text(value)} can't be had as bool; use True and False, or tk.cast, by which "
            "what is not 0 is True"
        )
    # arrays are cast as TensorFlow casts them, with NumPy's warning
    is_array = isinstance(value, np.ndarray | np.generic)
    if array.dtype.kind == "c" and dtype.is_floating and array.size and not is_array:
        raise TypeError(
            f"{short_text(value)} can't be had as {dtype.name} without its imaginary parts; pass "
            "the real ones, or use tk.cast, which drops the others"
        )
    return _as(array, dtype)


def _texts(array: Any, value: Any, dtype: DType | None) -> Any:
    """`value`, which NumPy took for text or objects, as an array of bytes objects."""
    texts = text_array(value if isinstance(value, list | tuple | str | bytes) else array)
    if texts is None:
        if value is None:
            raise InvalidArgumentError(
                "can't make a tensor of None (NoneType): pass a number, an array, a list or a "
                "tensor; does the function that gave it end with `return`?"
            )
        kinds = sorted({type(x).__name__ for x in nest.flatten(np.array(value, object).tolist())})
        raise InvalidArgumentError(
            f"can't make a tensor of {short_text(value)}: it holds {', '.join(kinds)}; elements "
            "must be numbers, or texts alone"
        )
    if dtype is not None and dtype is not dtypes.string:
        raise TypeError(
            f"{short_text(value)} is text and can't be had as {dtype.name}; see "
            "tk.strings.to_number"
        )
    return texts


def _as(array: Any, dtype: DType) -> Any:
    if dtype.is_integer and array.dtype.kind in "iu" and array.size:
        low, high = dtype.limits
        if int(array.min()) < low or int(array.max()) > high:
            raise _out_of_range(int(array.min()), int(array.max()), dtype)
    return array if array.dtype == dtype.dtype else array.astype(dtype.dtype)


def _out_of_range(smallest: int, largest: int, dtype: DType) -> InvalidArgumentError:
    """The error of integers that a dtype does not hold."""
    low, high = dtype.limits
    values = f"values from {smallest} to {largest} don't fit"
    if smallest == largest:
        values = f"{smallest} doesn't fit"
    return InvalidArgumentError(f"{values} {dtype.name}, which holds {low} to {high}")


def _integers_outside(value: Any, dtype: DType) -> InvalidArgumentError | None:
    """The error of Python integers, alone or in nested lists, that a dtype does not hold."""
    if not dtype.is_integer:
        return None
    leaves = list(_leaves_of([value]))
    if not leaves or not all(type(leaf) is int for leaf in leaves):
        return None
    low, high = dtype.limits
    smallest, largest = min(leaves), max(leaves)
    return _out_of_range(smallest, largest, dtype) if smallest < low or largest > high else None


def require_integers_fit(value: Any, dtype: DType) -> None:
    """Refuse Python integers, alone or in nested lists, beside a tensor that can't hold them.

    Other values pass: what has a dtype of its own, or is no integer, promotes.

    Raises:
        InvalidArgumentError: `dtype` is one of integers that does not hold all of them.
    """
    error = _integers_outside(value, dtype)
    if error is not None:
        raise InvalidArgumentError(
            f"{error}; that is the dtype of the tensor beside it: cast the tensor to a wider one "
            "first, as in tk.cast(x, tk.int64)"
        )


def has_dtype(value: Any) -> bool:
    """Whether a value, or the first leaf of nested lists, has an element type of its own."""
    leaf = _first_leaf(value)
    return hasattr(leaf, "dtype") or hasattr(leaf, "__array__")  # a table of pandas has the second


def _first_leaf(value: Any) -> Any:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value


def _weaken(array: Any, value: Any) -> Any:
    """float64 and int64 of Python numbers as float32 and int32."""
    kind = array.dtype.kind
    if array.dtype.itemsize < 8 or kind not in "fic":
        return array
    if has_dtype(value):
        return _beside_typed(array, value) if isinstance(value, list | tuple) else array
    if kind == "f":
        return array.astype(np.float32)
    if kind == "c":
        return array.astype(np.complex128)
    if not array.size and isinstance(value, list | tuple):
        return array.astype(np.float32)
    return array.astype(np.int32) if _fits_int32(array) else array


def _beside_typed(array: Any, value: Any) -> Any:
    """float64 and int64 of a list of Python numbers beside narrower ones of NumPy's, as narrow."""
    floats = []
    for leaf in _leaves_of(value):
        if hasattr(leaf, "dtype") or hasattr(leaf, "__array__"):
            dtype: Any = getattr(leaf, "dtype", None)
            if getattr(dtype, "itemsize", 8) >= 8:  # a table of pandas has several, or none
                return array
            floats += [dtype] * (dtype.kind == "f")
    if array.dtype.kind == "f":
        return array.astype(np.result_type(*floats) if floats else np.float32)
    if array.dtype.kind == "i" and _fits_int32(array):
        return array.astype(np.int32)
    return array


def _leaves_of(value: Any) -> Iterator[Any]:
    for item in value:
        yield from _leaves_of(item) if isinstance(item, list | tuple) else (item,)


def _fits_int32(array: Any) -> bool:
    low, high = _FITS_INT32
    return array.size == 0 or bool(array.min() >= low and array.max() <= high)


def short_text(value: Any) -> str:
    """`repr(value)` on one line, cut where it grows long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
