"""Python operators of tensors and variables, with TensorFlow's meaning.

Each operator is an operation set as a class attribute, so that `a + b` costs no more than `add(a,
b)`. The quotient of two integers is float64 (float32 for 8 and 16 bits), where `ops.divide` gives
the default float.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch.eager import answers_itself, as_method
from trainkit.core.dtypes import DType
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.variable import Reading, Variable
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math import bitwise, comparisons, rounding
from trainkit.ops.math import elementwise as ew

_FLOAT_KINDS = "fV"  # "V" is that of bfloat16

# ------------------------------------------------------------------ arithmetic


def true_divide(x1: Any, x2: Any) -> Tensor:
    """Quotient x1 / x2 of Python's `/`.

    Args:
        x1: tensor, the dividend.
        x2: tensor, the divisor; the shapes broadcast.

    Returns:
        float64 for two integers, float32 if both have 8 or 16 bits; else the promoted dtype.
    """
    if type(x1) is Tensor and x1._array.dtype.kind in _FLOAT_KINDS:
        return ew.divide(x1, x2)
    x1, x2 = ew.promoted(*ew.lists_as_tensors(x1, x2))
    if x1.dtype.is_integer:
        quotient_dtype = "float32" if x1.dtype.size < 4 else "float64"
        x1, x2 = ew.cast(x1, quotient_dtype), ew.cast(x2, quotient_dtype)
    return ew.divide(x1, x2)


def _matmul(a: Any, b: Any) -> Any:
    return matmul(a, b)


# `/` and `@` of tensors ask for what is left to the other operand by themselves, as a function
# around another one would cost a tenth of the call.


def _quotient(self: Any, other: Any) -> Any:
    """Quotient of Python's `/`, see `true_divide`."""
    try:
        if type(self) is Tensor and self._array.dtype.kind in _FLOAT_KINDS:
            return ew.divide(self, other)
        return true_divide(self, other)
    except (TypeError, ValueError):
        if answers_itself(other, "__rtruediv__"):
            return NotImplemented
        raise


def _product(self: Any, other: Any) -> Any:
    """Matrix product of Python's `@`."""
    try:
        return matmul(self, other)
    except (TypeError, ValueError):
        if answers_itself(other, "__rmatmul__"):
            return NotImplemented
        raise


def _reflect(op: Any) -> Any:
    def reflect(self: Any, other: Any) -> Any:
        return op(other, self)

    reflect.__name__ = reflect.__qualname__ = f"reflected_{op.__name__}"
    reflect.__doc__ = f"`{op.__name__}` with this tensor on the right."
    return reflect


# ------------------------------------------------------------------ comparison and logic


def _equals(self: Any, other: Any) -> Any:
    """Whether elements are equal; one False for what is no number or does not broadcast."""
    comparison = _compare(comparisons.equal, self, other)
    return _of_foreign(other, "__eq__", False) if comparison is None else comparison


def _differs(self: Any, other: Any) -> Any:
    """Whether elements differ; one True for what is no number or does not broadcast."""
    comparison = _compare(comparisons.not_equal, self, other)
    return _of_foreign(other, "__ne__", True) if comparison is None else comparison


def _of_foreign(other: Any, name: str, result: bool) -> Any:
    """`result`, unless the other object compares in a way of its own: then Python asks it."""
    compares = getattr(type(other), name) is not getattr(object, name)
    return NotImplemented if compares and answers_itself(other, name) else result


def _compare(op: Any, a: Any, b: Any) -> Any:
    if b is None:
        return None
    try:
        return op(a, b)
    except (ValueError, TypeError):
        return None


def _by_kind(logical: Any, bitwise_op: Any) -> Any:
    def op(self: Any, other: Any) -> Any:
        is_bool = _is_bool(self)
        if is_bool and not _is_bool(other):
            raise InvalidArgumentError(
                f"{bitwise_op.__name__}: bools meet {_dtype_of(other).name}, for which it is "
                "another operation; cast one of them"
            )
        return (logical if is_bool else bitwise_op)(self, other)

    op.__name__ = op.__qualname__ = bitwise_op.__name__
    op.__doc__ = f"`{logical.__name__}` of bools, `{bitwise_op.__name__}` of integers."
    return op


def _is_bool(x: Any) -> bool:
    return bool(_dtype_of(x).is_bool)


def _dtype_of(x: Any) -> DType:
    return (x if is_tensor(x) else convert_to_tensor(x)).dtype


def _invert(self: Any) -> Any:
    """`logical_not` of bools, `bitwise_not` of integers."""
    return comparisons.logical_not(self) if self.dtype.is_bool else bitwise.bitwise_not(self)


def _positive(self: Any) -> Any:
    """The tensor itself."""
    return self if isinstance(self, Tensor) else self.value()


def _round(self: Any, decimals: int | None = None) -> Any:
    """The nearest number with `decimals` places; halves go to the even neighbour."""
    return rounding.round(self, decimals or 0)


_BINARY = {
    "add": ew.add,
    "sub": ew.subtract,
    "mul": ew.multiply,
    "truediv": true_divide,
    "floordiv": rounding.floor_divide,
    "mod": rounding.mod,
    "pow": ew.power,
    "matmul": _matmul,
    "and": _by_kind(comparisons.logical_and, bitwise.bitwise_and),
    "or": _by_kind(comparisons.logical_or, bitwise.bitwise_or),
    "xor": _by_kind(comparisons.logical_xor, bitwise.bitwise_xor),
    "lshift": bitwise.left_shift,
    "rshift": bitwise.right_shift,
}
_METHODS = {"truediv": _quotient, "matmul": _product}
_OTHERS = {
    "__eq__": _equals,
    "__ne__": _differs,
    "__lt__": comparisons.less,
    "__le__": comparisons.less_equal,
    "__gt__": comparisons.greater,
    "__ge__": comparisons.greater_equal,
    "__neg__": ew.negative,
    "__pos__": _positive,
    "__abs__": ew.absolute,
    "__invert__": _invert,
    "__round__": _round,
}


def _install() -> None:
    for kind in (Tensor, Variable, Reading):
        for name, op in _BINARY.items():
            setattr(kind, f"__{name}__", _METHODS.get(name) or as_method(op, f"__r{name}__"))
            setattr(kind, f"__r{name}__", _reflect(op))
        for name, op in _OTHERS.items():
            setattr(kind, name, op)


_install()
