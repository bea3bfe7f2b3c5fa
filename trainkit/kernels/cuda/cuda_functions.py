"""Element-wise functions as expressions of CUDA C++.

Arithmetic, comparison and selection are those of the CPU's code in `compiler.llvm.llvm_functions`;
functions are the device's own, which CuPy's kernels call too. Integers wrap around, so they are
worked on without a sign. A float16 or bfloat16 is a float that has such a value: each result is
rounded to one, as it is where operations run one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16

_NAMES = {
    "?": "bool",
    "b": "signed char",
    "h": "short",
    "i": "int",
    "l": "long long",
    "q": "long long",
    "B": "unsigned char",
    "H": "unsigned short",
    "I": "unsigned int",
    "L": "unsigned long long",
    "Q": "unsigned long long",
    "e": "__half",
    "E": "__nv_bfloat16",
    "f": "float",
    "d": "double",
}
_TO_FLOAT = {"e": "__half2float", "E": "__bfloat162float"}
_FROM_FLOAT = {"e": "__float2half_rn", "E": "__float2bfloat16_rn"}
_HEADERS = {"e": "cuda_fp16.h", "E": "cuda_bf16.h"}
_FLOAT = np.dtype(np.float32)
Text = Callable[..., str]
"""Function of the dtype of the operands and of their names to an expression."""


def is_short(dtype: np.dtype[Any]) -> bool:
    """Whether elements are float16 or bfloat16."""
    return dtype == np.float16 or dtype == bfloat16.dtype


def type_of(dtype: np.dtype[Any]) -> str:
    """The type of an element in memory."""
    return _NAMES[dtype.char]


def value_type_of(dtype: np.dtype[Any]) -> str:
    """The type in which an element is worked on."""
    return "float" if is_short(dtype) else type_of(dtype)


def loaded(text: str, dtype: np.dtype[Any]) -> str:
    """An element from memory, ready to be worked on."""
    return f"{_TO_FLOAT[dtype.char]}({text})" if is_short(dtype) else text


def stored(text: str, dtype: np.dtype[Any]) -> str:
    """A value, or one that is to be rounded, as memory holds it."""
    return f"{_FROM_FLOAT[dtype.char]}({text})" if is_short(dtype) else text


def _round(text: str, dtype: np.dtype[Any]) -> str:
    return loaded(stored(text, dtype), dtype)


def headers_for(dtypes: Iterable[np.dtype[Any]]) -> str:
    """The lines in front of a kernel that has elements of these dtypes in memory."""
    headers = dict.fromkeys(_HEADERS[d.char] for d in dtypes if is_short(d))
    return "".join(f"#include <{header}>\n" for header in sorted(headers))


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A number, exact to the last bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f" or is_short(dtype):
        # By the bits, as decimals would be rounded once more by the compiler; infinities and NaN
        # have no spelling at all.
        short = dtype.itemsize <= 4
        bits = struct.pack(">f" if short else ">d", float(value)).hex()
        return f"__int_as_float(0x{bits})" if short else f"__longlong_as_double(0x{bits}LL)"
    # C++ takes the minus for an operator, and the number behind it is one too large.
    if int(value) == np.iinfo(np.int64).min:
        return "(-9223372036854775807LL - 1)"
    return f"(({type_of(dtype)}){int(value)}{'ULL' if dtype.kind == 'u' else 'LL'})"


def _find_unsigned(dtype: np.dtype[Any]) -> str:
    return "unsigned long long" if dtype.itemsize == 8 else "unsigned int"


def _arithmetic(sign: str) -> Text:
    def text(dtype: Any, x: str, y: str) -> str:
        if dtype.kind == "f":
            return f"{x} {sign} {y}"
        unsigned = _find_unsigned(dtype)
        return f"({type_of(dtype)})(({unsigned}){x} {sign} ({unsigned}){y})"

    return text


def _between(sign: str) -> Text:
    return lambda dtype, x, y: f"{x} {sign} {y}"


def _bits(sign: str) -> Text:
    return lambda dtype, x, y: f"({type_of(dtype)})({x} {sign} {y})"


def _function(name: str) -> Text:
    """A function of the device; that of floats has an `f` at the end of its name."""

    def text(dtype: Any, *x: str) -> str:
        return f"{name}{'f' if dtype.itemsize == 4 else ''}({', '.join(x)})"

    return text


def _one(dtype: Any) -> str:
    return literal(1, dtype)


def _zero(dtype: Any) -> str:
    return literal(0, dtype)


def _negative(dtype: Any, x: str) -> str:
    return f"-{x}" if dtype.kind == "f" else _arithmetic("-")(dtype, _zero(dtype), x)


def _absolute(dtype: Any, x: str) -> str:
    if dtype.kind == "f":
        return _function("fabs")(dtype, x)
    return x if dtype.kind == "u" else f"{x} < 0 ? {_negative(dtype, x)} : {x}"


def _extreme(sign: str) -> Text:
    """The better of two; a NaN wins, and of equal ones the second."""

    def text(dtype: Any, x: str, y: str) -> str:
        # Comparisons with NaN are false: one in `y` is chosen by that, one in `x` needs its own
        # test.
        unordered = f" || {x} != {x}" if dtype.kind == "f" else ""
        return f"{x} {sign} {y}{unordered} ? {x} : {y}"

    return text


def _sign(dtype: Any, x: str) -> str:
    # A NaN equals nothing and is no greater than 0, so it comes out itself; -0.0 gives 0.
    one, zero, minus = _one(dtype), _zero(dtype), literal(-1, dtype) if dtype.kind != "u" else ""
    below = f"{x} < {zero} ? {minus} : " if minus else ""
    equal = f"{x} == {zero} ? {zero} : {x}" if dtype.kind == "f" else zero
    return f"{x} > {zero} ? {one} : {below}{equal}"


def _logaddexp(dtype: Any, x: str, y: str) -> str:
    """Without overflow, and log(2) more where both are the same infinity."""
    log1p, exp, fabs = (_function(name) for name in ("log1p", "exp", "fabs"))
    apart = log1p(dtype, exp(dtype, f"-{fabs(dtype, f'{x} - {y}')}"))
    larger = f"({x} > {y} ? {x} : {y})"
    return f"{x} == {y} ? {x} + {literal(np.log(2.0), dtype)} : {larger} + {apart}"


def _isfinite(dtype: Any, x: str) -> str:
    return f"{_absolute(dtype, x)} < {literal(np.inf, dtype)}"


def _isinf(dtype: Any, x: str) -> str:
    return f"{_absolute(dtype, x)} == {literal(np.inf, dtype)}"


_DEVICE = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "fmod": "fmod",
    "power": "pow",
    **{
        name: name
        for name in "cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fmax fmin floor hypot log "
        "log10 log1p log2 nextafter rint sin sinh sqrt tan tanh trunc".split()
    },
}
_FLOATS: dict[str, Text] = {
    "divide": _between("/"),
    "reciprocal": lambda dtype, x: f"{_one(dtype)} / {x}",
    "isnan": lambda dtype, x: f"{x} != {x}",
    "isfinite": _isfinite,
    "isinf": _isinf,
    "logaddexp": _logaddexp,
    **{name: _function(device) for name, device in _DEVICE.items()},
}
_NUMBERS: dict[str, Text] = {
    "add": _arithmetic("+"),
    "subtract": _arithmetic("-"),
    "multiply": _arithmetic("*"),
    "square": lambda dtype, x: _arithmetic("*")(dtype, x, x),
    "negative": _negative,
    "absolute": _absolute,
    "sign": _sign,
    "maximum": _extreme(">"),
    "minimum": _extreme("<"),
}
_COMPARISONS: dict[str, Text] = {
    "equal": _between("=="),
    "not_equal": _between("!="),
    "less": _between("<"),
    "less_equal": _between("<="),
    "greater": _between(">"),
    "greater_equal": _between(">="),
}
_LOGICAL: dict[str, Text] = {
    "logical_and": lambda dtype, x, y: f"{x} != 0 && {y} != 0",
    "logical_or": lambda dtype, x, y: f"{x} != 0 || {y} != 0",
    "logical_xor": lambda dtype, x, y: f"({x} != 0) != ({y} != 0)",
    "logical_not": lambda dtype, x: f"{x} == 0",
}
_BITS: dict[str, Text] = {
    "bitwise_and": _bits("&"),
    "bitwise_or": _bits("|"),
    "bitwise_xor": _bits("^"),
    "invert": lambda dtype, x: f"({type_of(dtype)})({'!' if dtype.kind == 'b' else '~'}{x})",
}


def _look_up(name: str, dtype: np.dtype[Any]) -> Text | None:
    tables = [_LOGICAL, _COMPARISONS]
    if dtype.kind == "f":
        tables += [_NUMBERS, _FLOATS]
    elif dtype.kind == "b":
        tables += [_BITS]
    else:
        tables += [_NUMBERS, _BITS]
    return next((table[name] for table in tables if name in table), None)


def is_known(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether there is an expression for the ufunc `name` of operands of this dtype."""
    if is_short(dtype):
        # The float32 behind a short float rounds back to it.
        return name != "nextafter" and _look_up(name, _FLOAT) is not None
    return _look_up(name, dtype) is not None


def expression(name: str, dtype: np.dtype[Any], x: list[str], out: np.dtype[Any]) -> str:
    """`name` of the names or literals `x`.

    Args:
        name: a ufunc's, `"copy"`, `"cast"` or `"where"`.
        dtype: of the operands; of those that are chosen from, for `"where"`.
        x: the operands.
        out: dtype of the result.
    """
    if name == "copy":
        return x[0]
    if name == "cast":
        return _cast(dtype, x[0], out)
    if name == "where":
        return f"{x[0]} ? {x[1]} : {x[2]}"
    # Each result is rounded on its own, so that a graph gives the bits of single operations.
    compute_dtype = _FLOAT if is_short(dtype) else dtype
    text = _look_up(name, compute_dtype)
    assert text is not None
    code = text(compute_dtype, *x)
    return _round(code, out) if is_short(out) and name not in _EXACT else code


_EXACT = frozenset(
    "negative absolute sign maximum minimum fmax fmin copysign floor ceil trunc rint fmod".split()
)
"""Functions whose result has no more digits than their operands."""


def _cast(dtype: np.dtype[Any], x: str, out: np.dtype[Any]) -> str:
    if out.kind == "b":
        return f"{x} != 0"
    if not is_short(out):
        return f"({type_of(out)}){x}"
    # By way of float32 it would be rounded twice.
    if dtype == np.float64 and out == np.float16:
        return f"__half2float(__double2half({x}))"
    return _round(f"(float){x}", out)
