"""Several small integers in a byte: four of 2 bits, two of 4 bits, five of three values."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor

_TRITS = 5
_PLACES = (1, 3, 9, 27, 81)


def pack_int4(arr: Any, axis: int = 0, dtype: str = "int8") -> tuple[Tensor, tuple[int, ...], int]:
    """Two neighbours of 4 bits in a byte, the first in the low half.

    Args:
        arr: integers in [-8, 7] (or [0, 15] for uint8), of dtype `dtype`.
        axis: along which neighbours stand; one that is alone gets a 0 beside it.
        dtype: `"int8"` or `"uint8"`.

    Returns:
        The bytes, their shape, and the length of the axis before.

    Raises:
        ValueError: another dtype is asked for.
        TypeError: the integers have another.
    """
    return _pack(arr, axis, dtype, 4)


def pack_int2(arr: Any, axis: int = 0, dtype: str = "int8") -> tuple[Tensor, tuple[int, ...], int]:
    """Four neighbours of 2 bits in a byte, the first in the lowest bits.

    Args:
        arr: integers in [-2, 1] (or [0, 3] for uint8), of dtype `dtype`.
        axis: along which neighbours stand; its length is filled up to a multiple of 4 by zeros.
        dtype: `"int8"` or `"uint8"`.

    Returns:
        The bytes, their shape, and the length of the axis before.

    Raises:
        ValueError: another dtype is asked for.
        TypeError: the integers have another.
    """
    return _pack(arr, axis, dtype, 2)


def unpack_int4(packed: Any, orig_len: int, axis: int = 0, dtype: str = "int8") -> Tensor:
    """The integers that `pack_int4` packed.

    Args:
        packed: its bytes.
        orig_len: the length of the axis before.
        axis: along which they were packed.
        dtype: `"int8"` for integers in [-8, 7], `"uint8"` for [0, 15].

    Raises:
        ValueError: another dtype is asked for.
        TypeError: `packed` holds no bytes.
    """
    return _unpack(packed, orig_len, axis, dtype, 4)


def unpack_int2(packed: Any, orig_len: int, axis: int = 0, dtype: str = "int8") -> Tensor:
    """The integers that `pack_int2` packed.

    Args:
        packed: its bytes.
        orig_len: the length of the axis before.
        axis: along which they were packed.
        dtype: `"int8"` for integers in [-2, 1], `"uint8"` for [0, 3].

    Raises:
        ValueError: another dtype is asked for.
        TypeError: `packed` holds no bytes.
    """
    return _unpack(packed, orig_len, axis, dtype, 2)


def pack_ternary(arr: Any, axis: int = 0) -> tuple[Tensor, tuple[int, ...], int]:
    """Five neighbours out of -1, 0 and 1 in a byte, digits of a number to the base 3.

    Args:
        arr: numbers; they are rounded and clipped to [-1, 1].
        axis: along which neighbours stand; its length is filled up to a multiple of 5 by zeros.

    Returns:
        The bytes, uint8, their shape, and the length of the axis before.
    """
    array, length = _in_front(arr, axis, _TRITS)
    digits = (np.clip(np.rint(array), -1, 1) + 1).astype(np.uint8)
    packed = sum(digits[i::_TRITS] * np.uint8(power) for i, power in enumerate(_PLACES))
    return _pack_values(packed, axis, length)


def unpack_ternary(packed: Any, orig_len: int, axis: int = 0) -> Tensor:
    """The numbers that `pack_ternary` packed, int8.

    Args:
        packed: its bytes.
        orig_len: the length of the axis before.
        axis: along which they were packed.
    """
    codes = ops.cast(packed, "int32")
    codes = ops.where(codes < 0, codes + 256, codes)
    digits = [ops.subtract(ops.mod(ops.floor_divide(codes, p), 3), 1) for p in _PLACES]
    return _interleave([ops.cast(d, "int8") for d in digits], orig_len, axis)


def _check_dtype(dtype: str) -> None:
    if dtype not in ("int8", "uint8"):
        raise ValueError(f"dtype must be 'int8' or 'uint8', got {dtype!r}")


def _in_front(arr: Any, axis: int, multiple: int) -> tuple[np.ndarray, int]:
    """A NumPy array with `axis` in front, filled up by zeros, and the length that it had."""
    array = np.moveaxis(np.asarray(arr.numpy() if hasattr(arr, "numpy") else arr), axis, 0)
    length = array.shape[0]
    missing = -length % multiple
    if missing:
        array = np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
    return array, length


def _pack_values(array: Any, axis: int, length: int) -> tuple[Tensor, tuple[int, ...], int]:
    packed = np.ascontiguousarray(np.moveaxis(array, 0, axis))
    return convert_to_tensor(packed), packed.shape, length


def _pack(arr: Any, axis: int, dtype: str, bits: int) -> tuple[Tensor, tuple[int, ...], int]:
    _check_dtype(dtype)
    dtype_name = dtypes.as_dtype(arr.dtype).name
    if dtype_name != dtype:
        raise TypeError(f"the integers to pack must have dtype {dtype}, got {dtype_name}")
    count = 8 // bits
    array, length = _in_front(arr, axis, count)
    fields = array.view(np.uint8) & np.uint8(2**bits - 1)
    packed = np.zeros_like(fields[::count])
    for i in range(count):
        packed |= fields[i::count] << np.uint8(i * bits)
    return _pack_values(packed.view(dtype), axis, length)


def _unpack(packed: Any, orig_len: int, axis: int, dtype: str, bits: int) -> Tensor:
    _check_dtype(dtype)
    dtype_name = dtypes.as_dtype(packed.dtype).name
    if dtype_name not in ("int8", "uint8"):
        raise TypeError(f"packed integers must have dtype int8 or uint8, got {dtype_name}")
    unsigned = ops.cast(packed, "uint8") if dtype_name == "int8" else packed
    mask = convert_to_tensor(np.uint8(2**bits - 1))
    fields = [
        ops.bitwise_and(ops.right_shift(unsigned, convert_to_tensor(np.uint8(shift))), mask)
        for shift in range(0, 8, bits)
    ]
    if dtype == "int8":
        sign = convert_to_tensor(np.int8(2 ** (bits - 1)))
        fields = [ops.subtract(ops.bitwise_xor(ops.cast(f, "int8"), sign), sign) for f in fields]
    return _interleave(fields, orig_len, axis)


def _interleave(fields: list[Any], length: int, axis: int) -> Tensor:
    """One tensor in which the items of the fields take turns along `axis`, cut to `length`."""
    rank = len(fields[0].shape)
    axis %= rank
    stacked = ops.stack(fields, axis=axis + 1)
    shape = [-1 if n is None else int(n) for n in fields[0].shape]
    shape[axis] = -1 if shape[axis] == -1 else shape[axis] * len(fields)
    joined = ops.reshape(stacked, shape)
    return joined[(slice(None),) * axis + (slice(0, length),)]
