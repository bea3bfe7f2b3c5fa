"""TensorFlow 2's spellings: aliases of the operations, and small functions where TF means something else.

Where TensorFlow and Keras give one name two meanings (`argmax`'s axis and dtype, means of integers,
division of integers ...), the functions here mean what TensorFlow means.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.graph.effects import print_ as print
from trainkit.graph.function import function as function
from trainkit.graph.graph import Graph as Graph


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor of the values given.

    Args:
        value: number, nested list, or array.
        dtype: element type; by default float32 for Python floats, int32 for ints, that of an array.
        shape: shape of the result; a single value is repeated.
        name: not kept.

    Raises:
        InvalidArgumentError: the list is ragged, or the values don't fill `shape`.
    """
    if is_tensor(value) and dtype is not None:
        tensor = ops.cast(value, dtype)
    else:
        wanted = None if dtype is None else dtypes.as_dtype(dtype)
        if wanted is not None and hasattr(value, "dtype"):
            tensor = ops.cast(convert_to_tensor(value), wanted)
        else:
            tensor = convert_to_tensor(value, dtype=wanted)
    if shape is None:
        return tensor
    dims = tuple(int(n) for n in shape)
    if tensor.size == 1:
        return ops.broadcast_to(ops.reshape(tensor, ()), dims)
    return ops.reshape(tensor, dims)


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same values as a new tensor."""
    result: Tensor = ops.elementwise.identity(input)
    return result


# ------------------------------------------------------------------ reductions


def _axis(axis: Any) -> Any:
    if axis is None or isinstance(axis, int):
        return axis
    if is_tensor(axis):
        axis = axis.numpy().tolist()
        return axis if isinstance(axis, int) else tuple(axis)
    return tuple(int(a) for a in axis)


def reduce_sum(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Tensor:
    """Sum over the axes `axis`, all by default; the dtype stays."""
    x = convert_to_tensor(input_tensor)
    total: Tensor = ops.sum(x, axis=_axis(axis), keepdims=keepdims)
    return ops.cast(total, x.dtype)


def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Tensor:
    """Mean over the axes `axis`, all by default; the mean of integers is an integer, rounded to zero."""
    x = convert_to_tensor(input_tensor)
    if not x.dtype.is_integer:
        mean: Tensor = ops.mean(x, axis=_axis(axis), keepdims=keepdims)
        return mean
    total = reduce_sum(x, axis, keepdims)
    count = ops.cast(ops.divide(ops.size(x), ops.maximum(ops.size(total), 1)), x.dtype)
    return ops.cast(
        ops.trunc(ops.divide(ops.cast(total, "float64"), ops.cast(count, "float64"))), x.dtype
    )


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None) -> Tensor:
    """Numbers from `start` (0 when `limit` is left out) up to, not including, `limit`."""
    if limit is None:
        start, limit = 0, start
    result: Tensor = ops.arange(start, limit, delta, dtype=dtype)
    return result


def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: Any = None,
) -> Any:
    """Run `body` while `cond` holds; sizes that change in the loop become unknown by themselves."""
    return ops.while_loop(cond, body, loop_vars, maximum_iterations)


_RENAMED = {
    "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_all": "all", "reduce_any": "any",
    "pow": "power", "concat": "concatenate", "gather": "take",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("math", "nn", "linalg", "image", "debugging", "config", "train", "dtypes", "nest", "autograph"):
        return importlib.import_module(f"trainkit.tf.{name}")
    try:
        return getattr(ops, _RENAMED.get(name, name))
    except AttributeError:
        raise AttributeError(name) from None
