"""Element types: `DType`, the names of all of them, and the promotion rule.

Promotion is a lattice, as in Keras 3 and JAX (https://docs.jax.dev/en/latest/type_promotion.html):
Python numbers are weak, and int32 with float32 gives float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from trainkit.core.errors import InvalidArgumentError


class DType:
    """An element type, such as `tk.float32`.

    Equal to its name, to the NumPy dtype and to the NumPy scalar type, so `x.dtype == "float32"`
    and `x.dtype == tk.float32` both work. NumPy accepts it wherever it takes a dtype.

    Attributes:
        name: the name, such as `"float32"`.
        as_numpy_dtype: the NumPy scalar type.
        is_floating, is_integer, is_bool, is_complex, is_unsigned: the kind.
        size: bytes of one element.
        min, max, limits: the range of the type.

    Example:
        >>> tk.float32.name, tk.float32.size, tk.float32.is_floating
        ('float32', 4, True)
    """

    __slots__ = (
        "as_numpy_dtype",
        "dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_unsigned",
        "name",
        "size",
    )

    def __init__(self, name: str, scalar: Any) -> None:
        self.name = name
        self.as_numpy_dtype = scalar
        self.dtype = np.dtype(scalar)  # NumPy looks for this attribute
        kind = self.dtype.kind
        self.is_floating = kind == "f" or name == "bfloat16"
        self.is_integer = kind in "iu"
        self.is_unsigned = kind == "u"
        self.is_bool = kind == "b"
        self.is_complex = kind == "c"
        self.size = self.dtype.itemsize

    @property
    def is_differentiable(self) -> bool:
        """Whether gradients exist for values of this type."""
        return self.is_floating or self.is_complex

    @property
    def is_numpy_compatible(self) -> bool:
        """Whether NumPy can hold values of this type: True for all of them."""
        return True

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers: not bools, not texts."""
        return self.is_floating or self.is_integer or self.is_complex

    @property
    def is_quantized(self) -> bool:
        """Whether it is one of TensorFlow's quantized types: False, since there are none here."""
        return False

    @property
    def base_dtype(self) -> DType:
        """The type of values rather than of references to them: itself."""
        return self

    @property
    def as_datatype_enum(self) -> int:
        """TensorFlow's number for it, the same as in saved files."""
        return PROTO_NUMBERS[self.name]

    def is_compatible_with(self, other: Any) -> bool:
        """Whether values of type `other` can stand where this one is expected: only of the same.

        Raises:
            TypeError: `other` names no element type.
        """
        return self == as_dtype(other)

    @property
    def real_dtype(self) -> DType:
        """The type of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def min(self) -> Any:
        """The least value."""
        return self.limits[0]

    @property
    def max(self) -> Any:
        """The greatest finite value."""
        return self.limits[1]

    @property
    def limits(self) -> tuple[Any, Any]:
        """The least and the greatest finite value."""
        return _limits_of(self.name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return self.name == other.name
        if isinstance(other, str):
            return self.name == other
        if isinstance(other, type | np.dtype):
            try:
                return bool(self.dtype == other)
            except TypeError:
                return False
        return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


bool_ = DType("bool", np.bool_)
uint8 = DType("uint8", np.uint8)
uint16 = DType("uint16", np.uint16)
uint32 = DType("uint32", np.uint32)
uint64 = DType("uint64", np.uint64)
int8 = DType("int8", np.int8)
int16 = DType("int16", np.int16)
int32 = DType("int32", np.int32)
int64 = DType("int64", np.int64)
float16 = DType("float16", np.float16)
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16)
float32 = DType("float32", np.float32)
float64 = DType("float64", np.float64)
complex64 = DType("complex64", np.complex64)
complex128 = DType("complex128", np.complex128)
string = DType("string", np.object_)  # its arrays hold bytes objects

ALL = (
    bool_,
    uint8,
    uint16,
    uint32,
    uint64,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
    string,
)
HALVES = float16, bfloat16
"""Floats of 16 bits, which a CPU reads and writes, and computes with as float32."""
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
_BY_NAME |= {"half": float16, "double": float64, "float": float32, "int": int32}
BY_NUMPY: dict[Any, DType] = {d.dtype: d for d in ALL}

_TEXT_TYPES = (str, bytes, object, np.object_, np.str_, np.bytes_)

_FLOATX = "float32"


@cache
def _limits_of(name: str) -> tuple[Any, Any]:
    dtype = as_dtype(name)
    if dtype.is_bool:
        return False, True
    if dtype.is_integer:
        return int(np.iinfo(dtype.dtype).min), int(np.iinfo(dtype.dtype).max)
    if dtype.is_floating:
        info: Any = ml_dtypes.finfo(dtype.dtype)  # type: ignore[no-untyped-call]
        return float(info.min), float(info.max)
    raise TypeError(f"{name} has no least or greatest value")


def floatx() -> str:
    """The name of the default floating type: `"float32"` unless `set_floatx` changed it.

    Example:
        >>> tk.keras.config.floatx()
        'float32'
    """
    return _FLOATX


def set_floatx(value: str) -> None:
    """Set the default floating type of layers.

    Args:
        value: one of `"float16"`, `"bfloat16"`, `"float32"`, `"float64"`.

    Raises:
        ValueError: `value` is another type.

    Example:
        >>> tk.keras.config.set_floatx("float64")
        >>> tk.ops.ones((2,)).dtype.name
        'float64'
        >>> tk.keras.config.set_floatx("float32")
    """
    global _FLOATX
    allowed = ("float16", "bfloat16", "float32", "float64")
    if value not in allowed:
        raise ValueError(f"set_floatx: {value!r} is not a floating type; use one of {allowed}")
    _FLOATX = value


def as_dtype(type_value: Any) -> DType:
    """Turn a name, a NumPy dtype, a Python type or a `DType` into a `DType`.

    Python's `float` means float32, `int` int32, `bool` bool and `complex` complex64. An int is a
    number of TensorFlow's list of types (types.proto), in which 1 is float32.

    Args:
        type_value: what names it.

    Raises:
        TypeError: `type_value` names no known element type.

    >>> as_dtype("float64").name
    'float64'
    """
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, str) and type_value in _BY_NAME:
        return _BY_NAME[type_value]
    if type_value is float:
        return float32
    if type_value is int:
        return int32
    if type_value is bool:
        return bool_
    if type_value is complex:
        return complex64
    if type(type_value) is int and type_value in _BY_NUMBER:
        return _BY_NUMBER[type_value]
    try:
        numpy_type = np.dtype(type_value).newbyteorder("=")
        dtype = string if numpy_type.kind in "UST" else BY_NUMPY.get(numpy_type)
    except TypeError:
        dtype = None
    if dtype is string and isinstance(type_value, type) and type_value not in _TEXT_TYPES:
        dtype = None  # NumPy takes any class for a type of objects
    if dtype is None:
        names = ", ".join(d.name for d in ALL)
        raise TypeError(f"{type_value!r} is not an element type; there are {names}")
    return dtype


CASTS: list[Callable[[Any, Any], Any]] = []
"""What converts NumPy arrays between float32 and 16-bit floats, once kernels are there for it."""


def cast_array(array: Any, dtype: Any) -> Any:
    """`array.astype(dtype)`, by the compiled kernel if there is one; itself where it has that."""
    if array.dtype == dtype:
        return array
    if CASTS and type(array) is np.ndarray:
        return CASTS[0](array, dtype)
    return array.astype(dtype)


def widen_halves(x: Any) -> Any:
    """An array of 16-bit floats, or shorter ones, as float32; others and `None` as they are.

    Sums and exponentials of halves would overflow, and BLAS has no shorter type.
    """
    return cast_array(x, float32.dtype) if x is not None and x.dtype.itemsize < 4 else x


def refuse_complex(x: Any) -> Any:
    """The array `x`, for a function whose formula holds for real numbers alone.

    Raises:
        InvalidArgumentError: its numbers are complex.
    """
    if x.dtype.kind == "c":
        raise InvalidArgumentError(
            f"the function is one of real numbers, the input has dtype {x.dtype}; call it on "
            "tk.math.real(x) or tk.math.imag(x), or on tk.abs(x)"
        )
    return x


def real_floats(x: Any) -> Any:
    """`widen_halves` of an array for such a function."""
    return widen_halves(refuse_complex(x))


def sort_keys(x: Any) -> Any:
    """An array of bfloat16 as float32, others as they are: what NumPy can put in order.

    For its sorts a NaN of bfloat16 is equal to every number, so that they order nothing.
    """
    return cast_array(x, float32.dtype) if x.dtype == bfloat16.dtype else x


def native(array: Any) -> Any:
    """A NumPy array in the byte order of this machine, the only one that tensors have."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


# The lattice: each type and the types directly above it. "i*", "f*" and "c*" are Python's weak int,
# float and complex.
_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("uint8", "int8"),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": ("f*",),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("f*",),
    "f*": ("c*", "float16", "bfloat16"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "c*": ("complex64",),
    "complex64": ("complex128",),
    "complex128": (),
    "string": (),
}
_WEAK = {"i*": "int32", "f*": "float32", "c*": "complex64"}


@cache
def _reachable(name: str) -> frozenset[str]:
    """All types at or above `name`."""
    reached = {name}
    for above in _ABOVE[name]:
        reached |= _reachable(above)
    return frozenset(reached)


@cache
def _join(a: str, b: str) -> str:
    """The least type above both."""
    both = _reachable(a) & _reachable(b)
    if not both:
        raise TypeError(f"{a} and {b} have no common type: text and numbers don't mix")
    return next(n for n in both if both <= _reachable(n))


@cache
def _result_name(*names: str) -> str:
    result = names[0]
    for name in names[1:]:
        result = _join(result, name)
    if result == "f*":
        return _FLOATX if _FLOATX != "float64" else "float32"
    return _WEAK.get(result, result)


_WEAK_OF = {bool: "bool", int: "i*", float: "f*", complex: "c*"}


def node_of(x: Any) -> str:
    """The place in the lattice of a tensor, an array, a dtype or a Python number."""
    weak = _WEAK_OF.get(type(x))
    if weak is not None:
        return weak
    if isinstance(x, DType):
        return x.name
    if isinstance(x, type) and x in _WEAK_OF:
        return _WEAK_OF[x]
    if isinstance(x, str | np.dtype | type):
        return as_dtype(x).name
    if isinstance(x, int) and not hasattr(x, "dtype"):  # of a class such as `enum.IntEnum`
        return "i*"
    return as_dtype(x.dtype).name


def result_type(*values: Any) -> DType:
    """The type that operands of these types promote to.

    Args:
        *values: tensors, arrays, dtypes, names of dtypes, or Python numbers (which are weak).

    Returns:
        The least type in the lattice that holds all of them.

    >>> result_type("int32", "float16").name
    'float16'
    >>> result_type("float32", 2.0).name
    'float32'
    """
    return _BY_NAME[_result_name(*map(node_of, values))]


def beside(value: Any, operands: Iterable[Any]) -> DType | None:
    """The type that NumPy's floats take beside tensors of floats, `None` for what keeps its own.

    As in TensorFlow it is the tensors' type: `scores / np.sqrt(width)` stays float32, although
    NumPy counts in float64.

    Args:
        value: what may be an array or a number of NumPy.
        operands: what it is combined with; the first tensor of floats counts.
    """
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind != "f":
        return None
    types = (getattr(x, "dtype", None) for x in operands)
    return next((t for t in types if isinstance(t, DType) and t.is_floating), None)


PROTO_NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7,
    "complex64": 8, "int64": 9, "bool": 10, "bfloat16": 14, "uint16": 17, "complex128": 18,
    "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
"""TensorFlow's numbers of element types in messages (DataType in types.proto)."""

_BY_NUMBER = {number: _BY_NAME[name] for name, number in PROTO_NUMBERS.items()}
