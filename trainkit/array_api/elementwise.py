"""Element-wise functions of the Array API standard, with its names and positional parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.type_limits import clip as clip

Unary = Callable[["TensorLike"], Tensor]
Binary = Callable[["TensorLike", "TensorLike"], Tensor]

_ONE = "x: an array, or what becomes one."
_TWO = "x1: an array, or what becomes one.\n    x2: the same; shapes broadcast, dtypes promote."


def _set_title(function: Any, name: str, op: Any, args: str) -> Any:
    function.__name__ = function.__qualname__ = name
    line = (op.__doc__ or name).strip().split("\n")[0]
    function.__doc__ = (
        f"{line}\n\nThe standard's `{name}`; see `trainkit.ops` for the details.\n\n"
        f"Args:\n    {args}\n"
    )
    return function


def _unary(name: str, op: Any) -> Unary:
    def function(x: TensorLike, /) -> Tensor:
        result: Tensor = op(x)
        return result

    return _set_title(function, name, op, _ONE)


def _binary(name: str, op: Any) -> Binary:
    def function(x1: TensorLike, x2: TensorLike, /) -> Tensor:
        result: Tensor = op(x1, x2)
        return result

    return _set_title(function, name, op, _TWO)


def _whole_kept(op: Any) -> Any:
    """`op`, that leaves integers as they are, as the standard wants of rounding."""

    def rounded(x: Any) -> Tensor:
        tensor = as_tensor(x)
        exact = tensor.dtype.is_integer or tensor.dtype.is_bool
        result: Tensor = tensor if exact else op(tensor)
        return result

    rounded.__doc__ = op.__doc__
    return rounded


def _conjugate(x: Any) -> Tensor:
    """The complex conjugate; real values as they are."""
    tensor = as_tensor(x)
    return ops.conj(tensor) if tensor.dtype.is_complex else tensor


abs = _unary("abs", ops.absolute)
acos = _unary("acos", ops.arccos)
acosh = _unary("acosh", ops.arccosh)
asin = _unary("asin", ops.arcsin)
asinh = _unary("asinh", ops.arcsinh)
atan = _unary("atan", ops.arctan)
atanh = _unary("atanh", ops.arctanh)
bitwise_invert = _unary("bitwise_invert", ops.bitwise_not)
ceil = _unary("ceil", _whole_kept(ops.ceil))
conj = _unary("conj", _conjugate)
cos = _unary("cos", ops.cos)
cosh = _unary("cosh", ops.cosh)
exp = _unary("exp", ops.exp)
expm1 = _unary("expm1", ops.expm1)
floor = _unary("floor", _whole_kept(ops.floor))
imag = _unary("imag", ops.imag)
isfinite = _unary("isfinite", ops.isfinite)
isinf = _unary("isinf", ops.isinf)
isnan = _unary("isnan", ops.isnan)
log = _unary("log", ops.log)
log10 = _unary("log10", ops.log10)
log1p = _unary("log1p", ops.log1p)
log2 = _unary("log2", ops.log2)
logical_not = _unary("logical_not", ops.logical_not)
negative = _unary("negative", ops.negative)
positive = _unary("positive", as_tensor)
real = _unary("real", ops.real)
reciprocal = _unary("reciprocal", ops.reciprocal)
round = _unary("round", _whole_kept(ops.round))
sign = _unary("sign", ops.sign)
signbit = _unary("signbit", ops.signbit)
sin = _unary("sin", ops.sin)
sinh = _unary("sinh", ops.sinh)
sqrt = _unary("sqrt", ops.sqrt)
square = _unary("square", ops.square)
tan = _unary("tan", ops.tan)
tanh = _unary("tanh", ops.tanh)
trunc = _unary("trunc", _whole_kept(ops.trunc))

add = _binary("add", ops.add)
atan2 = _binary("atan2", ops.arctan2)
bitwise_and = _binary("bitwise_and", ops.bitwise_and)
bitwise_left_shift = _binary("bitwise_left_shift", ops.left_shift)
bitwise_or = _binary("bitwise_or", ops.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", ops.right_shift)
bitwise_xor = _binary("bitwise_xor", ops.bitwise_xor)
copysign = _binary("copysign", ops.copysign)
divide = _binary("divide", ops.divide)
equal = _binary("equal", ops.equal)
floor_divide = _binary("floor_divide", ops.floor_divide)
greater = _binary("greater", ops.greater)
greater_equal = _binary("greater_equal", ops.greater_equal)
hypot = _binary("hypot", ops.hypot)
less = _binary("less", ops.less)
less_equal = _binary("less_equal", ops.less_equal)
logaddexp = _binary("logaddexp", ops.logaddexp)
logical_and = _binary("logical_and", ops.logical_and)
logical_or = _binary("logical_or", ops.logical_or)
logical_xor = _binary("logical_xor", ops.logical_xor)
maximum = _binary("maximum", ops.maximum)
minimum = _binary("minimum", ops.minimum)
multiply = _binary("multiply", ops.multiply)
nextafter = _binary("nextafter", ops.nextafter)
not_equal = _binary("not_equal", ops.not_equal)
pow = _binary("pow", ops.power)
remainder = _binary("remainder", ops.mod)
subtract = _binary("subtract", ops.subtract)
