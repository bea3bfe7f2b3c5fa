"""Functions of TensorFlow 1 that version 2 has no longer, on values and in functions alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trainkit
from trainkit import ops
from trainkit import tf as _tf
from trainkit.core.tensor import Tensor, convert_to_tensor

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike


class _Conversion(Protocol):
    """A cast to one element type."""

    def __call__(self, x: TensorLike, name: str | None = None) -> Tensor: ...


def _conversion(name: str, dtype: str) -> _Conversion:
    """The function of version 1 that casts to one element type."""

    def convert(x: TensorLike, name: str | None = None) -> Tensor:
        return ops.cast(x, dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"`tk.cast(x, {dtype!r})`.\n\nArgs:\n    x: tensor.\n    name: not used.\n"
    return convert


to_bfloat16 = _conversion("to_bfloat16", "bfloat16")
to_complex128 = _conversion("to_complex128", "complex128")
to_complex64 = _conversion("to_complex64", "complex64")
to_double = _conversion("to_double", "float64")
to_float = _conversion("to_float", "float32")
to_int32 = _conversion("to_int32", "int32")
to_int64 = _conversion("to_int64", "int64")


def div(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The quotient; that of whole numbers is rounded down, as in Python 2.

    Args:
        x: dividend.
        y: divisor, of the same element type.
        name: not used.

    Example:
        >>> tk.compat.v1.div([-7, 7], 2).numpy(), float(tk.compat.v1.div(7.0, 2.0))
        (array([-4,  3], dtype=int32), 3.5)
    """
    x = convert_to_tensor(x, y.dtype) if isinstance(y, Tensor) else convert_to_tensor(x)
    divide = ops.floor_divide if x.dtype.is_integer else ops.divide
    quotient: Tensor = divide(x, convert_to_tensor(y, x.dtype))
    return quotient


def batch_gather(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """Slices of `params` along the last axis of `indices`, for each entry of the axes before it.

    Args:
        params: (batch..., n, ...).
        indices: (batch..., k) of integers in [0, n).
        name: not used.

    Example:
        >>> tk.compat.v1.batch_gather([[1, 2], [3, 4]], [[1], [0]]).numpy().tolist()
        [[2], [3]]
    """
    indices = convert_to_tensor(indices)
    return _tf.gather(params, indices, batch_dims=len(indices.shape) - 1)


def count_nonzero(
    input_tensor: TensorLike | None = None,
    axis: Axis | None = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
    reduction_indices: Axis | None = None,
    keep_dims: bool | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """`tk.math.count_nonzero`, with the older names of its arguments as well.

    Args:
        input_tensor: tensor of any shape.
        axis: int or ints, by default all.
        keepdims: keep the reduced axes with size 1.
        dtype: integer type of the result.
        name: not used.
        reduction_indices: `axis`.
        keep_dims: `keepdims`.
        input: `input_tensor`.

    Raises:
        ValueError: there is no tensor.

    Example:
        >>> int(tk.compat.v1.count_nonzero([[0, 1], [2, 3]]))
        3
    """
    counted = input if input_tensor is None else input_tensor
    if counted is None:
        raise ValueError("compat.v1.count_nonzero: give input_tensor")
    return trainkit.math.count_nonzero(
        counted,
        reduction_indices if axis is None else axis,
        bool(keep_dims if keepdims is None else keepdims),
        dtype,
    )


def py_func(
    func: Callable[..., Any],
    inp: Sequence[TensorLike],
    Tout: DTypeLike | Sequence[DTypeLike],
    stateful: bool = True,
    name: str | None = None,
) -> Tensor | list[Tensor]:
    """`tk.numpy_function`.

    Args:
        func: takes and gives NumPy arrays.
        inp: its arguments.
        Tout: element type of its result, or a list of them.
        stateful: whether equal arguments may give other results.
        name: not used.

    Example:
        >>> float(tk.compat.v1.py_func(lambda x: x + 1, [tk.constant(1.0)], tk.float32))
        2.0
    """
    result: Tensor | list[Tensor] = _tf.numpy_function(func, inp, Tout, stateful)
    return result


def set_random_seed(seed: int) -> None:
    """`tk.random.set_seed`.

    Args:
        seed: an integer.
    """
    trainkit.random.set_seed(seed)


def _switch(name: str) -> Callable[[], None]:
    """A switch of version 1 that stands as it is asked for in any case."""

    def switch() -> None: ...

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = "Nothing: it is so in any case."
    return switch


enable_control_flow_v2 = _switch("enable_control_flow_v2")
enable_resource_variables = _switch("enable_resource_variables")
enable_tensor_equality = _switch("enable_tensor_equality")
enable_v2_behavior = _switch("enable_v2_behavior")
enable_v2_tensorshape = _switch("enable_v2_tensorshape")


def resource_variables_enabled() -> bool:
    """True."""
    return True


def control_flow_v2_enabled() -> bool:
    """True."""
    return True
