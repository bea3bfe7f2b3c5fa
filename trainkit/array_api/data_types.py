"""Data types, constants and what the namespace can do, as the Array API standard names them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import devices, dtypes
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.type_limits import FloatLimits as FloatLimits
from trainkit.ops.core.type_limits import IntegerLimits as IntegerLimits
from trainkit.ops.core.type_limits import dtype_of
from trainkit.ops.core.type_limits import finfo as finfo
from trainkit.ops.core.type_limits import iinfo as iinfo

__array_api_version__ = "2025.12"

e = float(np.e)
inf = float("inf")
nan = float("nan")
newaxis = None
pi = float(np.pi)

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_KINDS = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether `dtype` is of a kind.

    Args:
        dtype: a `DType` or its name.
        kind: a dtype, one of `"bool"`, `"signed integer"`, `"unsigned integer"`, `"integral"`,
            `"real floating"`, `"complex floating"` and `"numeric"`, or a tuple of such.

    Raises:
        ValueError: there is no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    element_type = as_dtype(dtype)
    if not isinstance(kind, str):
        return element_type == as_dtype(kind)
    if kind not in _KINDS:
        raise ValueError(f"isdtype: kind {kind!r} is none of {', '.join(_KINDS)}")
    short = element_type.name in ("float16", "bfloat16") and kind in ("real floating", "numeric")
    return element_type.name in _KINDS[kind] or short


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether values of a dtype (or of a tensor) promote to another without leaving their kind."""
    one, two = dtype_of(from_), as_dtype(to)
    if one == two:
        return True
    kinds = ("integral", ("real floating", "complex floating"))
    together = any(isdtype(one, kind) and isdtype(two, kind) for kind in kinds)
    return together and dtypes.result_type(one, two) == two


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype to which tensors, dtypes and Python numbers promote together.

    Raises:
        ValueError: there is no tensor and no dtype among them.
    """
    if all(isinstance(x, bool | int | float | complex) for x in arrays_and_dtypes):
        raise ValueError("result_type: at least one tensor or dtype is needed")
    return dtypes.result_type(*arrays_and_dtypes)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype; tensors never change, so a copy is made only where one is needed."""
    y: Any = ops.cast(as_tensor(x), dtype)
    return y if device is None else y.to_device(device)


# ------------------------------------------------------------------ inspection


class NamespaceInfo:
    """What the namespace can do, as `__array_namespace_info__()` gives it."""

    def capabilities(self) -> dict[str, Any]:
        """Masks as indices and shapes that depend on values work; arrays have up to 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Name of the device on which new tensors are made."""
        return devices.current().name

    def devices(self) -> tuple[str, ...]:
        """Names of all devices."""
        return tuple(device.name for device in devices.all_devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of Python floats, complex numbers and ints, and of positions."""
        real = as_dtype(dtypes.floatx())
        double = real.name == "float64"
        return {
            "real floating": real,
            "complex floating": dtypes.complex128 if double else dtypes.complex64,
            "integral": dtypes.int32,
            "indexing": dtypes.int32,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes of a kind, by name; all without one."""
        names = ("bool", *_KINDS["numeric"])
        by_name = {name: as_dtype(name) for name in names}
        return {n: d for n, d in by_name.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What the namespace can do: default dtypes and devices, and all dtypes and devices."""
    return NamespaceInfo()
