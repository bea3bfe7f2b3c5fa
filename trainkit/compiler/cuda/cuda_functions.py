"""Element-wise functions as expressions of CUDA C++.

Arithmetic, comparison and selection are those of the CPU's code in `compiler.llvm.llvm_functions`;
functions are the device's own, which CuPy's kernels call too. Integers wrap around, so they are
worked on without a sign.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.compiler.ir import Operand

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
    "f": "float",
    "d": "double",
}
Text = Callable[..., str]
"""Function of the dtype of the operands and of their names to an expression."""


def type_of(dtype: np.dtype[Any]) -> str:
    """The type of an element."""
    return _NAMES[dtype.char]


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A number, exact to the last bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        short = dtype.itemsize == 4
        bits = struct.pack(">f" if short else ">d", float(value)).hex()
        return f"__int_as_float(0x{bits})" if short else f"__longlong_as_double(0x{bits}LL)"
    if int(value) == np.iinfo(np.int64).min:
        return "(-9223372036854775807LL - 1)"
    return f"(({type_of(dtype)}){int(value)}{'ULL' if dtype.kind == 'u' else 'LL'})"


def _unsigned(dtype: np.dtype[Any]) -> str:
    return "unsigned long long" if dtype.itemsize == 8 else "unsigned int"


def _arithmetic(sign: str) -> Text:
    def text(dtype: Any, x: str, y: str) -> str:
        if dtype.kind == "f":
            return f"{x} {sign} {y}"
        wide = _unsigned(dtype)
        return f"({type_of(dtype)})(({wide}){x} {sign} ({wide}){y})"

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
        unordered = f" || {x} != {x}" if dtype.kind == "f" else ""
        return f"{x} {sign} {y}{unordered} ? {x} : {y}"

    return text


def _sign(dtype: Any, x: str) -> str:
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
        for name in "cbrt ceil copysign cos cosh exp exp2 expm1 fmax fmin floor hypot log log10 "
        "log1p log2 nextafter rint sin sinh sqrt tan tanh trunc".split()
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


def _found(name: str, dtype: np.dtype[Any]) -> Text | None:
    tables = [_LOGICAL, _COMPARISONS]
    if dtype.kind == "f":
        tables += [_NUMBERS, _FLOATS]
    elif dtype.kind == "b":
        tables += [_BITS]
    else:
        tables += [_NUMBERS, _BITS]
    return next((table[name] for table in tables if name in table), None)


def is_known(name: str, given: tuple[Operand, ...]) -> bool:
    """Whether there is an expression for the ufunc `name` of these operands."""
    return _found(name, given[0].dtype) is not None


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
        return f"{x[0]} != 0" if out.kind == "b" else f"({type_of(out)}){x[0]}"
    if name == "where":
        return f"{x[0]} ? {x[1]} : {x[2]}"
    text = _found(name, dtype)
    assert text is not None
    return text(dtype, *x)
