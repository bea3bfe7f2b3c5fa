"""Arithmetic, exponentials, and the choice between two tensors, element by element.

Two inputs broadcast against each other by NumPy's rule. Operands of different dtypes promote as in
Keras 3; Python numbers are weak. Integers become the default float where the result is no integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule, current, device_of, number_on
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.eager import WIDE
from trainkit.core.dispatch.facets import (
    BY_ELEMENT,
    ELEMENTWISE,
    IF_ALIKE,
    INVOLUTION,
    RESULT,
    UNCHANGED,
    VIEW,
    Direct,
    Tuned,
    Unit,
)
from trainkit.core.dispatch.native import cubes
from trainkit.core.dispatch.primitive import Operation, primitive, ufunc
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import (
    LARGE,
    ON_LARGE,
    Tensor,
    convert_to_tensor,
    is_tensor,
    tensor_beside,
    wrap,
)
from trainkit.core.values.python_values import require_integers_fit
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.kernels.elementwise import elementwise_reference, elementwise_tuned, half_casts_tuned
from trainkit.kernels.elementwise.parallel_ufuncs import begin
from trainkit.ops.indexing.get_item import nonzero
from trainkit.ops.math.comparisons import (
    equal,
    greater,
    greater_equal,
    isnan,
    less_equal,
    logical_not,
    logical_or,
    not_equal,
)

ON_LARGE.append(begin)
dtypes.CASTS.append(half_casts_tuned.cast_array)

# ------------------------------------------------------------------ dtype and identity


def _cast_rule(x: Spec, *, dtype: str) -> Spec:
    if dtype == "string" and x.dtype.name != dtype:
        raise InvalidArgumentError(
            f"cast: {x.dtype.name} can't be cast to string; tk.strings.as_string writes numbers"
        )
    return Spec(x.shape, dtype)


@primitive(
    _cast_rule,
    name="cast",
    semantics=ELEMENTWISE,
    recompute="cheap",
    simplify=IF_ALIKE,
    tuned=Tuned(half_casts_tuned.cast_between_floats, exact=True, fewest=half_casts_tuned.FEWEST),
)
def _cast(xp: ArrayModule, x: Array, *, dtype: str) -> Array:
    """Convert to the element type `dtype`."""
    target = as_dtype(dtype).dtype
    if target.kind == "O" and x.dtype != target:
        _cast_rule(Spec(x.shape, as_dtype(x.dtype)), dtype=dtype)
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    return x.astype(target)


def _cast_gradient(g: Tensor, y: Tensor, x: Tensor, *, dtype: str) -> Tensor | None:
    if not (x.dtype.is_differentiable and y.dtype.is_differentiable):
        return None
    return _cast(g, dtype=x.dtype.name)


_cast.gradients(_cast_gradient)


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """Convert `x` to the element type `dtype`; floats lose their fraction on the way to integers.

    Args:
        x: tensor of any shape, or anything that converts to one.
        dtype: a `DType` or its name.

    Returns:
        A tensor of the shape of `x`; `x` itself if it has this dtype.

    Raises:
        TypeError: `dtype` names no element type.

    Example:
        >>> tk.ops.cast([1.7, 2.2], "int32").numpy()
        array([1, 2], dtype=int32)
    """
    target = as_dtype(dtype)
    tensor = x if isinstance(x, Tensor) else convert_to_tensor(x)
    source = tensor.dtype
    if source is target or source == target:
        return tensor
    if trace_state.TAPES and not target.is_differentiable:
        trace_state.note_exit(f"cast to {target.name}", tensor)
    result: Tensor = _cast(tensor, dtype=target.name)
    return result


def tensor_of(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """`x` as a tensor of `dtype`; Python numbers are not rounded to float32 or int32 before."""
    return cast(x if isinstance(x, Tensor) else convert_to_tensor(x, dtype_hint=dtype), dtype)


@primitive(shapes.unchanged, semantics=VIEW, simplify=UNCHANGED, text="beside numbers")
def identity(xp: ArrayModule, x: Array) -> Array:
    """The same values as a new tensor."""
    return x


identity.gradients(lambda g, y, x: g)
identity.declare(batch=BY_ELEMENT)


# ------------------------------------------------------------------ arithmetic


def along(g: Tensor, slope: Any) -> Tensor:
    """`g` times the slope of a holomorphic function, conjugated if complex, as in TensorFlow."""
    return multiply(g, conjugated(slope))


def conjugated(x: Any) -> Any:
    """The complex conjugate; a real `x` comes back as it is."""
    if type(x) is Tensor:
        return x if x._array.dtype.kind != "c" else late_ops.conj(x)
    if isinstance(x, Tensor) and x.dtype.is_complex:
        return late_ops.conj(x)
    return x.conjugate() if type(x) is complex else x


add = ufunc(
    np.add,
    shapes.broadcast,
    "Sum x1 + x2, element by element.",
    ("tk.math.add([1.0, 2.0], 3.0).numpy()", "array([4., 5.], dtype=float32)"),
    recompute="cheap",
    simplify=Unit(0, (0, 1), integers=True),
    graph_name="AddV2",
    text="alone",
)
add.gradients(lambda g, y, a, b: g, lambda g, y, a, b: g)
add.declare(residuals=frozenset())

subtract = ufunc(
    np.subtract,
    shapes.broadcast,
    "Difference x1 - x2.",
    ("tk.math.subtract([5.0, 1.0], 2.0).numpy()", "array([ 3., -1.], dtype=float32)"),
    recompute="cheap",
    simplify=Unit(0, (1,)),
    graph_name="Sub",
)
subtract.gradients(lambda g, y, a, b: g, lambda g, y, a, b: negative(g))
subtract.declare(residuals=frozenset())

multiply = ufunc(
    np.multiply,
    shapes.broadcast,
    "Product x1 * x2.",
    ("tk.math.multiply([1.0, 2.0], 3.0).numpy()", "array([3., 6.], dtype=float32)"),
    recompute="cheap",
    simplify=Unit(1, (0, 1)),
    graph_name="Mul",
)
multiply.gradients(lambda g, y, a, b: along(g, b), lambda g, y, a, b: along(g, a))
multiply.declare(residuals=frozenset({0, 1}))

divide = ufunc(
    np.true_divide,
    shapes.floating_broadcast,
    "Quotient x1 / x2; integers give the default float.",
    ("tk.ops.divide([1.0, 3.0], 2.0).numpy()", "array([0.5, 1.5], dtype=float32)"),
    simplify=Unit(1, (1,)),
    graph_name="RealDiv",
)
divide.gradients(
    lambda g, y, a, b: divide(g, conjugated(b)), lambda g, y, a, b: negative(along(g, divide(y, b)))
)


@primitive(shapes.floating_broadcast, semantics=ELEMENTWISE)
def divide_no_nan(xp: ArrayModule, x1: Array, x2: Array) -> Array:
    """Quotient x1 / x2, and 0 where x2 is 0.

    Example:
        >>> tk.math.divide_no_nan([1.0, 1.0], [2.0, 0.0]).numpy()
        array([0.5, 0. ], dtype=float32)
    """
    return xp.where(x2 == 0, 0, x1 / xp.where(x2 == 0, 1, x2))


divide_no_nan.gradients(
    lambda g, y, a, b: divide_no_nan(g, conjugated(b)),
    lambda g, y, a, b: negative(along(g, divide_no_nan(y, b))),
)

negative: Operation[...] = ufunc(
    np.negative,
    shapes.unchanged,
    "The value with its sign changed.",
    ("tk.math.negative([1.0, -2.0]).numpy()", "array([-1.,  2.], dtype=float32)"),
    recompute="cheap",
    simplify=INVOLUTION,
    graph_name="Neg",
)
negative.gradients(lambda g, y, x: negative(g))
negative.declare(residuals=frozenset())


def number_like(x: Spec, **settings: Any) -> Spec:
    """Rule: like the input, bool becomes int32."""
    return Spec(x.shape, dtypes.int32 if x.dtype.is_bool else x.dtype)


square = ufunc(
    np.square,
    number_like,
    "Square x * x.",
    ("tk.math.square([2.0, -3.0]).numpy()", "array([4., 9.], dtype=float32)"),
    recompute="cheap",
)
square.gradients(lambda g, y, x: along(g, multiply(x, 2)))

_power = ufunc(
    np.power,
    shapes.broadcast,
    "x1 to the power x2.",
    ("tk.ops.power([2.0, 3.0], 2.0).numpy()", "array([4., 9.], dtype=float32)"),
)


def _power_rule(*inputs: Any) -> Spec:
    """`broadcast`, with an int32 for bools: NumPy makes an int8 of them."""
    promised = shapes.broadcast(*inputs)
    return Spec(promised.shape, dtypes.int32) if promised.dtype.is_bool else promised


_power.primitive.shape_rule = _power_rule


def _power_by_base(g: Tensor, y: Tensor, a: Any, b: Any) -> Tensor:
    if not isinstance(b, Tensor):
        return along(g, multiply(power(a, b - 1), b)) if b != 0 else multiply(g, 0)
    # At b = 0 the slope is 0 whatever a is, also where a or a**-1 is infinite.
    lower = power(a, where(equal(b, 0), 0, subtract(b, 1)))
    return along(g, multiply(b, lower))


def _power_by_exponent(g: Tensor, y: Tensor, a: Any, b: Any) -> Tensor:
    if y.dtype.is_complex:
        return along(g, multiply(y, log(where(equal(a, 0), 1, a))))
    # y is constant in b where a is 0, and has no real slope where a is negative.
    logarithm = log(where(greater(a, 0), cast(a, y.dtype), 1))
    return multiply(g, multiply(y, logarithm))


_power.gradients(_power_by_base, _power_by_exponent)


def power(x1: TensorLike, x2: TensorLike) -> Tensor:
    """`x1` to the power `x2`, element by element.

    Args:
        x1: tensor, the base.
        x2: tensor, the exponent; the shapes broadcast.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an integer has a negative exponent; cast it to a float first.
    """
    if (type(x2) is int or type(x2) is float) and x2 in _PRODUCTS and isinstance(x1, Tensor):
        if type(x2) is int or x1.dtype.is_floating or x1.dtype.is_complex:
            return _PRODUCTS[x2](x1)
    return _power(x1, x2)


def _cube(x: Any) -> Tensor:
    """x * x * x, in one pass over an array of which no tape hears."""
    if type(x) is Tensor and not trace_state.TAPES and not (WIDE and x._array.size >= LARGE):
        products = cubes(x._array)
        if products is not None:
            return wrap(products)
    return multiply(square(x), x)


_PRODUCTS: dict[float, Callable[[Any], Tensor]] = {2: square, 3: _cube}
"""Powers that are products, in a tenth of the time of others."""


@primitive(shapes.floating, semantics=ELEMENTWISE)
def reciprocal(xp: ArrayModule, x: Array) -> Array:
    """Reciprocal 1 / x; integers give the default float.

    Example:
        >>> tk.math.reciprocal([2.0, 4.0]).numpy()
        array([0.5 , 0.25], dtype=float32)
    """
    return 1 / x


reciprocal.gradients(lambda g, y, x: negative(along(g, square(y))))

sqrt = ufunc(
    np.sqrt,
    shapes.floating,
    "Square root; NaN for negative values.",
    ("tk.math.sqrt([4.0, 9.0]).numpy()", "array([2., 3.], dtype=float32)"),
)
# Where nothing comes from above nothing goes on, also where the slope is infinite or NaN: so a
# `where` around a root keeps its gradient.
sqrt.gradients(lambda g, y, x: _if_any(divide(multiply(g, 0.5), conjugated(y)), g))


@primitive(shapes.floating, semantics=ELEMENTWISE, tuned=elementwise_tuned.rsqrt.facet())
def rsqrt(xp: ArrayModule, x: Array) -> Array:
    """Reciprocal square root 1 / sqrt(x).

    Example:
        >>> tk.math.rsqrt([4.0, 0.25]).numpy()
        array([0.5, 2. ], dtype=float32)
    """
    return elementwise_reference.rsqrt(xp, x)


rsqrt.gradients(lambda g, y, x: _if_any(along(g, multiply(multiply(y, square(y)), -0.5)), g))


def magnitude_rule(x: Spec) -> Spec:
    """Shape rule: real numbers, one for each element."""
    return Spec(x.shape, x.dtype.real_dtype)


absolute = ufunc(
    np.absolute,
    magnitude_rule,
    "Magnitude |x|.",
    ("tk.math.abs([-1.0, 2.0]).numpy()", "array([1., 2.], dtype=float32)"),
)


def _absolute_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return multiply(cast(g, x.dtype), sign(x))
    return multiply(g, sign(x))


absolute.gradients(_absolute_gradient)


def fabs(x: TensorLike) -> Tensor:
    """Magnitude |x| as a float.

    Args:
        x: tensor of any shape.

    Returns:
        A float tensor of the shape of `x`.

    Example:
        >>> tk.ops.fabs([-1.5]).numpy()
        array([1.5], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return absolute(cast(x, shapes.float_dtype(x.dtype)))


sign = ufunc(
    np.sign,
    shapes.unchanged,
    "-1, 0 or 1 by the sign of x; x / |x| for complex values.",
    ("tk.math.sign([-2.0, 0.0, 3.0]).numpy()", "array([-1.,  0.,  1.], dtype=float32)"),
)


def _sign_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return multiply(g, 0)
    # d(x / |x|) turns dx by the part of it that is perpendicular to x, over |x|.
    size = cast(absolute(x), x.dtype)
    along_x = cast(late_ops.real(multiply(conjugated(y), g)), x.dtype)
    return divide(subtract(g, multiply(y, along_x)), size)


sign.gradients(_sign_gradient)

# ------------------------------------------------------------------ exponentials

exp = ufunc(
    np.exp,
    shapes.floating,
    "Exponential e**x.",
    ("tk.math.exp([0.0, 1.0]).numpy().round(4)", "array([1.    , 2.7183], dtype=float32)"),
)
exp.gradients(lambda g, y, x: along(g, y))

expm1 = ufunc(
    np.expm1,
    shapes.floating,
    "e**x - 1, exact for small x.",
    ("tk.math.expm1([0.0, 1.0]).numpy().round(4)", "array([0.    , 1.7183], dtype=float32)"),
)
expm1.gradients(lambda g, y, x: along(g, add(y, 1)))

log = ufunc(
    np.log,
    shapes.floating,
    "Natural logarithm.",
    ("tk.math.log([1.0, 10.0]).numpy().round(4)", "array([0.    , 2.3026], dtype=float32)"),
)
log.gradients(lambda g, y, x: divide(g, conjugated(x)))

log1p = ufunc(
    np.log1p,
    shapes.floating,
    "log(1 + x), exact for small x.",
    ("tk.math.log1p([0.0, 1.0]).numpy().round(4)", "array([0.    , 0.6931], dtype=float32)"),
)
log1p.gradients(lambda g, y, x: divide(g, conjugated(add(x, 1))))

tanh = ufunc(
    np.tanh,
    shapes.floating,
    "Hyperbolic tangent.",
    ("tk.math.tanh([0.0, 1.0]).numpy().round(4)", "array([0.    , 0.7616], dtype=float32)"),
)
tanh.gradients(lambda g, y, x: along(g, subtract(1, square(y))))
tanh.declare(residuals=frozenset({RESULT}))

# ------------------------------------------------------------------ choice


kept_by_kernel = elementwise_tuned.by_dtype(elementwise_tuned.keep_where)
"""Numbers where a mask, which comes first, is true, and 0 elsewhere; or `None`."""


def _kept_on_gpu(xp: ArrayModule, x: Array, mask: Array) -> Array:
    """CuPy chooses between float32 where bfloat16 is given."""
    return xp.where(mask, x, 0).astype(x.dtype, copy=False)


@primitive(
    shapes.unchanged_number,
    semantics=ELEMENTWISE,
    tuned=elementwise_tuned.keep_where.facet(
        lambda x, mask: kept_by_kernel(mask, x), on_gpu=(_kept_on_gpu,)
    ),
)
def keep_where(xp: ArrayModule, x: Array, mask: Array) -> Array:
    """`x` where `mask`, which has its shape, is true, and 0 elsewhere."""
    return xp.where(mask, x, 0)


keep_where.gradients(lambda g, y, x, mask: keep_where(g, mask), None)


def _if_any(slope: Any, g: Any) -> Any:
    """`slope`, and 0 in place of NaN where the gradient from above, `g`, is 0.

    Where `slope` is a number it stays, 0 as it is: its derivative by `g` is not 0.
    """
    return keep_where(slope, logical_or(not_equal(g, 0), logical_not(isnan(slope))))


maximum = ufunc(
    np.maximum,
    shapes.broadcast,
    "The greater of x1 and x2; NaN wins.",
    ("tk.math.maximum([1.0, 5.0], [2.0, 3.0]).numpy()", "array([2., 5.], dtype=float32)"),
)
maximum.gradients(
    lambda g, y, a, b: keep_where(g, greater_equal(a, b)),
    lambda g, y, a, b: keep_where(g, logical_not(greater_equal(a, b))),
)
minimum = ufunc(
    np.minimum,
    shapes.broadcast,
    "The lesser of x1 and x2; NaN wins.",
    ("tk.math.minimum([1.0, 5.0], [2.0, 3.0]).numpy()", "array([1., 3.], dtype=float32)"),
)
minimum.gradients(
    lambda g, y, a, b: keep_where(g, less_equal(a, b)),
    lambda g, y, a, b: keep_where(g, logical_not(less_equal(a, b))),
)


def _where_rule(condition: Spec, x1: Spec, x2: Spec) -> Spec:
    dims = shapes.broadcast_dims(condition.shape, x1.shape, x2.shape, op="where")
    return Spec(dims, dtypes.result_type(x1, x2))


def _where_on_gpu(xp: ArrayModule, condition: Array, x1: Array, x2: Array) -> Array:
    """CuPy chooses between float32 where bfloat16 is given."""
    y = xp.where(condition, x1, x2)
    return y.astype(x1.dtype, copy=False) if x1.dtype == x2.dtype else y


@primitive(
    _where_rule,
    name="where",
    semantics=ELEMENTWISE,
    text="beside numbers",
    direct=Direct("where"),
    tuned=elementwise_tuned.where.facet(elementwise_tuned.choose, on_gpu=(_where_on_gpu,)),
)
def _where(xp: ArrayModule, condition: Array, x1: Array, x2: Array) -> Array:
    """x1 where the condition is true, else x2."""
    return xp.where(condition, x1, x2)


_where.primitive.broadcasts = True
_where.gradients(
    None,
    lambda g, y, condition, a, b: _where(condition, g, zero_like(g)),
    lambda g, y, condition, a, b: _where(condition, zero_like(g), g),
)


def zero_like(x: Tensor) -> Tensor:
    """The scalar 0 in the dtype and place of `x`."""
    return scalar_like(0, x.dtype, x)


def scalar_like(value: Any, dtype: DType, like: Any) -> Tensor:
    """The Python number `value` as a scalar tensor of `dtype`, where `like` is.

    Raises:
        InvalidArgumentError: it is an integer that `dtype` does not hold.
    """
    require_integers_fit(value, dtype)
    where_it_is = device_of(like._array) if type(like) is Tensor else current()
    return wrap(number_on(where_it_is.xp, value, dtype.dtype))


def promoted(*values: Any) -> list[Tensor]:
    """Tensors of one dtype, the one that `values` promote to; Python numbers are weak."""
    common: Any = None
    for x in values:
        dtype = x._array.dtype if type(x) is Tensor else None
        if dtype is None or dtype is not (common or dtype):
            break
        common = dtype
    else:
        return list(values)
    ready = [
        x
        if type(x) in _WEAK or isinstance(x, Tensor)
        else convert_to_tensor(x, dtypes.beside(x, values))
        for x in values
    ]
    common_dtype = dtypes.result_type(*ready)
    like = next((x for x in ready if isinstance(x, Tensor)), None)
    return [
        cast(x, common_dtype) if isinstance(x, Tensor) else scalar_like(x, common_dtype, like)
        for x in ready
    ]


def lists_as_tensors(*values: Any) -> list[Any]:
    """`values`, the lists among them as tensors of the first tensor's dtype, as in TensorFlow.

    A list that has floats beside a tensor of integers keeps its own dtype.

    Raises:
        InvalidArgumentError: the dtype is one of integers that does not hold those of a list.
    """
    ready = list(values)
    if not any(isinstance(x, list | tuple) for x in values):
        return ready
    dtype = next((x.dtype for x in values if is_tensor(x)), None)
    if dtype is None or dtype.is_bool:
        return ready
    for i, x in enumerate(values):
        if isinstance(x, list | tuple):
            ready[i] = tensor_beside(x, dtype)
    return ready


_WEAK = (float, int, bool, complex)
_REAL = (float, int)
_BOOL = np.dtype(np.bool_)


def _is_of_floats(x: Tensor) -> bool:
    return type(x._array) is np.ndarray and x._array.dtype.kind == "f"


def _float_like(number: Any, x: Tensor) -> Tensor:
    """`scalar_like` in the dtype of floats, which numbers take beside them, without its tests."""
    return wrap(np.array(number, x._array.dtype))


@overload
def where(condition: Any) -> tuple[Tensor, ...]: ...


@overload
def where(condition: Any, x1: Any, x2: Any) -> Tensor: ...


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """Choose `x1` where `condition` is true, else `x2`.

    Args:
        condition: tensor of bools, or of numbers, of which all but 0 count as true.
        x1: tensor, taken where the condition is true; all three shapes broadcast.
        x2: tensor, taken elsewhere. Leave both out to ask where the condition is true.

    Returns:
        A tensor of the dtype to which `x1` and `x2` promote; with the condition alone, a tuple of
        one integer tensor of positions per axis.

    Raises:
        InvalidArgumentError: only one of `x1` and `x2` is given.

    Example:
        >>> tk.ops.where([True, False], [1, 1], [2, 2]).numpy()
        array([1, 2], dtype=int32)
    """
    if type(x1) is Tensor and type(condition) is Tensor and condition._array.dtype is _BOOL:
        if type(x2) is Tensor and x1._array.dtype is x2._array.dtype:
            return _where(condition, x1, x2)
        if type(x2) in _REAL and _is_of_floats(x1):
            return _where(condition, x1, _float_like(x2, x1))
    elif type(x2) is Tensor and type(condition) is Tensor and condition._array.dtype is _BOOL:
        if type(x1) in _REAL and _is_of_floats(x2):
            return _where(condition, _float_like(x1, x2), x2)
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise InvalidArgumentError("where: give both x1 and x2, or neither of them")
    one, two = promoted(x1, x2)
    return _where(cast(condition, "bool"), one, two)


fmax = ufunc(
    np.fmax,
    shapes.broadcast,
    "The greater of x1 and x2; NaN loses.",
    ('tk.ops.fmax([1.0, float("nan")], 2.0).numpy()', "array([2., 2.], dtype=float32)"),
)
fmax.gradients(
    lambda g, y, a, b: keep_where(g, _wins(greater_equal(a, b), a, b)),
    lambda g, y, a, b: keep_where(g, logical_not(_wins(greater_equal(a, b), a, b))),
)
fmin = ufunc(
    np.fmin,
    shapes.broadcast,
    "The lesser of x1 and x2; NaN loses.",
    ('tk.ops.fmin([1.0, float("nan")], 2.0).numpy()', "array([1., 2.], dtype=float32)"),
)
fmin.gradients(
    lambda g, y, a, b: keep_where(g, _wins(less_equal(a, b), a, b)),
    lambda g, y, a, b: keep_where(g, logical_not(_wins(less_equal(a, b), a, b))),
)


def _wins(ahead: Tensor, a: Any, b: Any) -> Tensor:
    """Whether `a` is the result: it is ahead, or `b` is NaN."""
    return logical_or(ahead, not_equal(b, b))
