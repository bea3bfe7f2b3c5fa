"""Axes and sizes as TensorFlow takes them: numbers, lists, arrays, or tensors.

In a graph a call whose axis is a tensor is a node that has the axis when the graph runs. The
result's sizes are not known before, but its rank is: a scalar is one axis, a tensor of known length
so many.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.errors import InvalidArgumentError, NoValueError, ShapeError
from trainkit.core.shapes import ONLY_INTS, Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.tensor_shape import ROW_TYPES
from trainkit.ops.core.dynamic_shapes import is_later, later


def whole_number(number: Any, op: str, name: str) -> int:
    """`number` as an int: what `int` would cut off, or read in a text, is refused.

    Args:
        number: int, or an array, tensor or variable that holds one.
        op: name of the operation, for errors.
        name: that of the argument.

    Raises:
        InvalidArgumentError: it is no whole number; a float is none, whatever its value.
    """
    if type(number) is int:
        return number
    try:
        return operator.index(number)
    except NoValueError:
        raise
    except TypeError:
        raise InvalidArgumentError(f"{op}: {name} must be a whole number, got {number!r}") from None


def plain(x: Any) -> Any:
    """An axis, size or list of them as Python ints; a symbolic tensor stays.

    Args:
        x: int, list, array or tensor; `None` stays. A variable has a value when a graph runs.
    """
    # What nearly all calls give comes first: each question here costs as much as a small kernel.
    if x is None or type(x) is int:
        return x
    if type(x) in ROW_TYPES:
        return tuple(x) if ONLY_INTS.issuperset(map(type, x)) else tuple(map(plain, x))
    if hasattr(type(x), "_is_variable"):
        x = x.value()
    if isinstance(x, int | SymbolicTensor):
        return x
    if is_tensor(x) or isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).tolist()
    if isinstance(x, list | tuple):
        return tuple(plain(item) for item in x)
    return x


def reduced(reduce: Callable[..., Tensor], x: Any, axis: Any, keepdims: bool) -> Tensor:
    """`reduce(x, axis, keepdims)`, with an axis as TensorFlow takes it.

    Args:
        reduce: an operation whose arguments have these names.
        x: tensor of any shape.
        axis: int, tensor of integers, or a list of them; `None` for all axes.
        keepdims: keep the reduced axes with size 1.

    Raises:
        InvalidArgumentError: the rank of the result is not known while tracing.
        ShapeError: there are more axes than `x` has.
    """
    if axis is None or type(axis) is int:
        return reduce(x, axis, keepdims)
    if not is_later(axis):
        return reduce(x, plain(axis), keepdims)
    x = convert_to_tensor(x)
    function = getattr(reduce, "func", reduce)  # a partial has no name
    name = function.__name__.lstrip("_").removesuffix("_in_dtype")
    rank = len(x.shape) - (0 if keepdims else count_of(axis, name))
    if rank < 0:
        raise ShapeError(
            f"{name}: there are more axes to reduce than a tensor of shape {tuple(x.shape)} has"
        )
    scalar_spec = result_specs(lambda t: reduce(t, None, False), Spec(x.shape, x.dtype))
    spec = Spec((None,) * rank, scalar_spec.dtype)
    bound = {"reduce": reduce, "x": x, "axis": axis, "keepdims": keepdims}
    result: Tensor = later(reduced, bound, spec, name)
    return result


def count_of(axis: Any, op: str) -> int:
    """How many axes `axis` names.

    Raises:
        InvalidArgumentError: only its values tell.
    """
    if not is_tensor(axis):
        return len(axis) if isinstance(axis, list | tuple) else 1
    dims = tuple(axis.shape)
    if None in dims:
        raise InvalidArgumentError(
            f"{op}: the number of axes must be known while a graph is traced, the axes are a "
            f"tensor of shape {dims}; give a tensor of known length, or keepdims=True"
        )
    return int(dims[0]) if dims else 1
