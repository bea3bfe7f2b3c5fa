"""Element-wise functions that are rounded exactly, in LLVM's language.

Each entry gives the lines that compute one element. Only what has one right result is here:
arithmetic, comparison, selection, square roots, conversions that can't fail. Other functions call
NumPy's loops.

An element of bfloat16 or float16 is in a register as the float32 that it equals. What is computed
is rounded to the nearest of its kind behind each operation, as `ml_dtypes` and NumPy do, so that
what one operation hands to the next in a register is what the next would have read from memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.compiler.ir import Number, is_bfloat16, is_half, kind_of
from trainkit.core.process.later_imports import DeferredModule

rounding_text = DeferredModule("trainkit.compiler.llvm.rounding_text")

_FLOATS = {4: "float", 8: "double"}
_F32 = np.dtype(np.float32)
_INFINITY = int(np.float32(np.inf).view(np.int32))
"""The bits of a float32, and how many such are below it and above 0."""
_UNROUNDED = frozenset({"negative", "absolute", "maximum", "minimum", "floor", "ceil", "trunc"})
"""What gives a 16-bit float of such without rounding."""
Emit = Callable[..., str]
"""Function of `line` (adds an instruction, gives its name), operands and the dtype to a name."""


def type_of(dtype: np.dtype[Any]) -> str:
    """LLVM's type of an element in a register."""
    if dtype.kind == "b":
        return "i1"
    if is_half(dtype):
        return "float"
    return _FLOATS[dtype.itemsize] if dtype.kind == "f" else f"i{8 * dtype.itemsize}"


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A number in LLVM's language, exact to the last bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if kind_of(dtype) == "f":
        # LLVM spells a float32 by the bits of the double that it equals; decimals might be rounded.
        return f"0x{struct.pack('>d', float(value)).hex().upper()}"
    return str(int(value))


def _plain(floating: str, integer: str) -> Emit:
    def emit(line: Any, dtype: Any, *x: str) -> str:
        word = floating if dtype.kind == "f" else integer
        return str(line(f"{word} {type_of(dtype)} {', '.join(x)}"))

    return emit


def _intrinsic(name: str) -> Emit:
    def emit(line: Any, dtype: Any, x: str) -> str:
        kind = type_of(dtype)
        bits = 8 * dtype.itemsize
        return str(line(f"call {kind} @llvm.{name}.f{bits}({kind} {x})"))

    return emit


def _compare(floating: str, signed: str, unsigned: str) -> Emit:
    def emit(line: Any, dtype: Any, x: str, y: str) -> str:
        if dtype.kind == "f":
            return str(line(f"fcmp {floating} {type_of(dtype)} {x}, {y}"))
        word = signed if dtype.kind == "i" else unsigned
        return str(line(f"icmp {word} {type_of(dtype)} {x}, {y}"))

    return emit


_greater = _compare("ogt", "sgt", "ugt")
_less = _compare("olt", "slt", "ult")
_differs = _compare("une", "ne", "ne")


def _select(line: Any, dtype: Any, condition: str, x: str, y: str) -> str:
    kind = type_of(dtype)
    return str(line(f"select i1 {condition}, {kind} {x}, {kind} {y}"))


def _zero(dtype: Any) -> str:
    return literal(0, dtype)


def _negative(line: Any, dtype: Any, x: str) -> str:
    kind = type_of(dtype)
    return str(line(f"fneg {kind} {x}" if dtype.kind == "f" else f"sub {kind} 0, {x}"))


def _square(line: Any, dtype: Any, x: str) -> str:
    return _plain("fmul", "mul")(line, dtype, x, x)


def _absolute(line: Any, dtype: Any, x: str) -> str:
    if dtype.kind == "f":
        return _intrinsic("fabs")(line, dtype, x)
    # It has no sign to lose, and every comparison with 0 would be one that is always false.
    if dtype.kind == "u":
        return x
    return _select(line, dtype, _less(line, dtype, x, "0"), _negative(line, dtype, x), x)


def _extreme(better: Emit) -> Emit:
    """The better of two; a NaN wins, and of equal ones the second."""

    def emit(line: Any, dtype: Any, x: str, y: str) -> str:
        # Comparisons with NaN are false, so a NaN in `y` is chosen here already; one in `x` is not.
        extreme = _select(line, dtype, better(line, dtype, x, y), x, y)
        if dtype.kind != "f":
            return extreme
        unordered = str(line(f"fcmp uno {type_of(dtype)} {x}, {x}"))
        return _select(line, dtype, unordered, x, extreme)

    return emit


def _first_of_equals(second_is_better: str, first_such_bits: int) -> Emit:
    """The better of two as NumPy's loops of float16 have it: the first NaN, or of equal ones.

    Args:
        second_is_better: LLVM's comparison of the first with the second; true of NaNs.
        first_such_bits: of the float32 next to 0, among those that a 0 is better than.
    """

    def emit(line: Any, dtype: Any, x: str, y: str) -> str:
        kind = type_of(dtype)
        if y in (literal(0.0, dtype), literal(-0.0, dtype)):
            # By bits: of a comparison LLVM would make a maximum of float16 with any of two zeros.
            beyond = line(f"sub i32 {line(f'bitcast {kind} {x} to i32')}, {first_such_bits}")
            return _select(line, dtype, str(line(f"icmp ult i32 {beyond}, {_INFINITY}")), y, x)
        is_number = line(f"fcmp ord {kind} {x}, {x}")
        is_better = line(f"fcmp {second_is_better} {kind} {x}, {y}")
        return _select(line, dtype, str(line(f"and i1 {is_number}, {is_better}")), y, x)

    return emit


def _sign(line: Any, dtype: Any, x: str) -> str:
    one, minus = literal(1, dtype), literal(-1, dtype)
    # Of an unsigned type nothing is less than 0, so that its -1 wraps around does no harm.
    below = _select(line, dtype, _less(line, dtype, x, _zero(dtype)), minus, x)
    if dtype.kind == "f":  # 0 of either sign gives 0, a NaN itself
        none = str(line(f"fcmp oeq {type_of(dtype)} {x}, {_zero(dtype)}"))
        below = _select(line, dtype, none, _zero(dtype), below)
    return _select(line, dtype, _greater(line, dtype, x, _zero(dtype)), one, below)


def _truth(line: Any, dtype: Any, x: str) -> str:
    return x if dtype.kind == "b" else _differs(line, dtype, x, _zero(dtype))


def _logical(word: str) -> Emit:
    def emit(line: Any, dtype: Any, x: str, y: str) -> str:
        return str(line(f"{word} i1 {_truth(line, dtype, x)}, {_truth(line, dtype, y)}"))

    return emit


def _isfinite(line: Any, dtype: Any, x: str) -> str:
    # Below infinity without its sign: neither an infinity nor a NaN is, as `olt` is ordered.
    size = _absolute(line, dtype, x)
    return str(line(f"fcmp olt {type_of(dtype)} {size}, {literal(np.inf, dtype)}"))


def _isinf(line: Any, dtype: Any, x: str) -> str:
    size = _absolute(line, dtype, x)
    return str(line(f"fcmp oeq {type_of(dtype)} {size}, {literal(np.inf, dtype)}"))


_FLOAT_ONLY: dict[str, Emit] = {
    "divide": _plain("fdiv", ""),
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("rint"),
    "reciprocal": lambda line, dtype, x: str(
        line(f"fdiv {type_of(dtype)} {literal(1, dtype)}, {x}")
    ),
    "isnan": lambda line, dtype, x: str(line(f"fcmp uno {type_of(dtype)} {x}, {x}")),
    "isfinite": _isfinite,
    "isinf": _isinf,
}
_NUMBERS: dict[str, Emit] = {
    "add": _plain("fadd", "add"),
    "subtract": _plain("fsub", "sub"),
    "multiply": _plain("fmul", "mul"),
    "negative": _negative,
    "square": _square,
    "absolute": _absolute,
    "sign": _sign,
}
_COMPARISONS: dict[str, Emit] = {
    "equal": _compare("oeq", "eq", "eq"),
    "not_equal": _differs,
    "less": _less,
    "less_equal": _compare("ole", "sle", "ule"),
    "greater": _greater,
    "greater_equal": _compare("oge", "sge", "uge"),
}
_LOGICAL: dict[str, Emit] = {
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": lambda line, dtype, x: str(line(f"xor i1 {_truth(line, dtype, x)}, true")),
}
_BETTER_OF_TWO: dict[str, Emit] = {"maximum": _extreme(_greater), "minimum": _extreme(_less)}
_BETTER_OF_TWO_HALVES: dict[str, Emit] = {
    "maximum": _first_of_equals("ult", 0x80000001),
    "minimum": _first_of_equals("ugt", 0x00000001),
}
_BITS: dict[str, Emit] = {
    "bitwise_and": _plain("", "and"),
    "bitwise_or": _plain("", "or"),
    "bitwise_xor": _plain("", "xor"),
}


def _table(name: str, kind: str) -> Emit | None:
    if name in _LOGICAL:
        return _LOGICAL[name]
    if name in _BETTER_OF_TWO and kind != "b":
        return _BETTER_OF_TWO[name]
    if kind == "b":
        return _BITS.get(name) or {k: _COMPARISONS[k] for k in ("equal", "not_equal")}.get(name)
    if name in _NUMBERS or name in _COMPARISONS:
        return _NUMBERS.get(name) or _COMPARISONS[name]
    return _FLOAT_ONLY.get(name) if kind == "f" else _BITS.get(name)


def is_exact(name: str, operands: tuple[Any, ...]) -> bool:
    """Whether the ufunc `name` of these operands has one right result, to be compiled here."""
    dtype = operands[0].dtype
    if is_bfloat16(dtype):
        # One text of C++ on all processors, which keeps the sign of a zero only here.
        return name != "sign" and _table(name, "f") is not None
    if name in _BETTER_OF_TWO and dtype.kind == "f":
        if is_half(dtype):
            return _takes_first_of_equals()
        bound = operands[1]
        return isinstance(bound, Number) and _is_clear(name, bound.value)
    return _table(name, dtype.kind) is not None


@lru_cache(maxsize=1)
def _takes_first_of_equals() -> bool:
    """Whether this NumPy compares float16 number by number; vectors might take another zero."""
    zeros = np.repeat(np.array([-0.0, 0.0, -0.0], np.float16), 64)
    first, second = zeros[:128], zeros[64:]
    return all(f(first, second).tobytes() == first.tobytes() for f in (np.maximum, np.minimum))


def _is_clear(name: str, bound: Any) -> bool:
    """Whether the extreme of anything and `bound` is one on all processors.

    Of 0.0 and -0.0 some take the first, some the larger; with 0.0 second, `maximum` is 0.0 on all.
    """
    # A bound that is no zero leaves only a single right answer.
    return bool(bound != 0) or (name == "maximum" and not np.signbit(bound))


def emitted(line: Any, name: str, dtype: np.dtype[Any], x: list[str], out: np.dtype[Any]) -> str:
    """The register that holds `name` of the registers `x` of dtype `dtype`.

    Args:
        line: adds an instruction and gives the name of its result.
        name: a ufunc's, `"copy"`, `"cast"` or `"where"`.
        dtype: of the operands; of those that are chosen from, for `"where"`.
        x: registers or literals.
        out: dtype of the result.
    """
    if name == "copy":
        return x[0]
    if name == "cast":
        return cast(line, x[0], dtype, out)
    worked = _F32 if is_half(dtype) else dtype
    if name == "where":
        return _select(line, worked, *x)
    emit = _table(name, worked.kind)
    if dtype == np.float16 and name in _BETTER_OF_TWO_HALVES:
        emit = _BETTER_OF_TWO_HALVES[name]
    assert emit is not None
    result = emit(line, worked, *x)
    return result if name in _UNROUNDED or not is_half(out) else round_to_half(line, out, result)


def round_to_half(line: Any, dtype: np.dtype[Any], x: str) -> str:
    """The float32 `x` rounded to the nearest 16-bit float, of two as near to the even one."""
    if is_bfloat16(dtype):
        return str(line(f"call float @{_ROUNDING}(float {x})"))
    return str(line(f"fpext half {line(f'fptrunc float {x} to half')} to float"))


def widen(line: Any, dtype: np.dtype[Any], x: str) -> str:
    """The bits `x` of a 16-bit float, an i16, as a float32."""
    if is_bfloat16(dtype):
        high = line(f"shl i32 {line(f'zext i16 {x} to i32')}, 16")
        return str(line(f"bitcast i32 {high} to float"))
    return str(line(f"fpext half {line(f'bitcast i16 {x} to half')} to float"))


def narrow(line: Any, dtype: np.dtype[Any], x: str) -> str:
    """The bits of a 16-bit float, an i16, of the float32 `x` that equals it."""
    if is_bfloat16(dtype):
        high = line(f"lshr i32 {line(f'bitcast float {x} to i32')}, 16")
        return str(line(f"trunc i32 {high} to i16"))
    # of what was widened LLVM takes the half that it was
    return str(line(f"bitcast half {line(f'fptrunc float {x} to half')} to i16"))


def cast(line: Any, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """`x` of dtype `source` converted to `target` as C does."""
    if is_half(source):
        source = _F32
    if is_half(target):
        # By way of float32, as `ml_dtypes` converts float64 and integers, and NumPy integers, too.
        return round_to_half(line, target, cast(line, x, source, _F32))
    before, after = type_of(source), type_of(target)
    if target.kind == "b":
        return _truth(line, source, x)
    # LLVM's integers have no sign, so int32 to uint32 is no instruction.
    if before == after:
        return x
    if source.kind == "f":
        word = "fpext" if target.itemsize > source.itemsize else "fptrunc"
    elif target.kind == "f":
        word = "sitofp" if source.kind == "i" else "uitofp"
    elif source.kind != "b" and target.itemsize < source.itemsize:
        word = "trunc"
    else:
        # C widens by the sign of what it comes from, whatever it goes to; a bool's one bit is no
        # sign.
        word = "sext" if source.kind == "i" else "zext"
    return str(line(f"{word} {before} {x} to {after}"))


_ROUNDING = "nearest_bfloat16"


def declarations() -> str:
    """The functions of LLVM that expressions call."""
    names = ("sqrt", "fabs", "floor", "ceil", "trunc", "rint")
    kinds = (("float", 32), ("double", 64))
    lines = [f"declare {t} @llvm.{n}.f{b}({t})" for n in names for t, b in kinds]
    return "\n".join(lines)


def definitions(lines: list[str]) -> list[str]:
    """The functions that these instructions call: what rounds to bfloat16, where they do."""
    is_called = any(f"@{_ROUNDING}(" in line for line in lines)
    return [rounding_text.rounding_function(_ROUNDING)] if is_called else []
