"""`keras.backend` before Keras 3: mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.autodiff import graph_gradients
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.tf import control_flow
from trainkit.tf.control_flow import map_fn as _map_fn

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike, TensorLike
    from trainkit.core.variable import Variable


def argmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Where the largest element is along `axis`."""
    return ops.argmax(x, axis)


def argmin(x: TensorLike, axis: int = -1) -> Tensor:
    """Where the smallest element is along `axis`."""
    return ops.argmin(x, axis)


def cumsum(x: TensorLike, axis: int = 0) -> Tensor:
    """Sums of all elements so far along `axis`."""
    return ops.cumsum(x, axis)


def cumprod(x: TensorLike, axis: int = 0) -> Tensor:
    """Products of all elements so far along `axis`."""
    return ops.cumprod(x, axis)


def clip(x: TensorLike, min_value: Any, max_value: Any) -> Tensor:
    """`x` between two bounds; `None` for none. An upper bound below the lower one is the lower."""
    if isinstance(min_value, (int, float)) and isinstance(max_value, (int, float)):
        max_value = max_value if max_value > min_value else min_value
    return ops.clip(
        x,
        -math.inf if min_value is None else min_value,
        math.inf if max_value is None else max_value,
    )


def pow(x: TensorLike, a: TensorLike) -> Tensor:
    """`x` to the power `a`, element by element."""
    return ops.power(x, a)


def round(x: TensorLike) -> Tensor:
    """Each element rounded to a whole number, halves to the even one."""
    return ops.round(x)


def dot(x: TensorLike, y: TensorLike) -> Tensor:
    """The product of the last axis of `x` with the last but one of `y`.

    Args:
        x: `(..., n)`.
        y: `(..., n, m)`.

    Returns:
        The axes of `x` but its last, then those of `y` but its last but one.

    Example:
        >>> tk.keras.backend.dot(tk.ones((2, 3)), tk.ones((4, 3, 5))).shape
        TensorShape([2, 4, 5])
    """
    return ops.dot(x, y)


def batch_dot(x: Tensor | Variable, y: Tensor | Variable, axes: Any = None) -> Tensor:
    """The product over one axis of each, for each element of the batch.

    Args:
        x: `(batch, ...)` with at least two axes.
        y: the same.
        axes: an axis of both, or one of each; by default the last of `x`, and the last but one of
            `y`, the last if it has only two.

    Returns:
        The batch, the other axes of `x`, then those of `y`; one axis of size 1 where both have
        none.

    Raises:
        InvalidArgumentError: an axis is that of the batch, or the sizes differ.

    Example:
        >>> tk.keras.backend.batch_dot(tk.ones((8, 1, 20)), tk.ones((8, 30, 20)), axes=2).shape
        TensorShape([8, 1, 30])
    """
    x, y = convert_to_tensor(x), convert_to_tensor(y)
    n, m = len(x.shape), len(y.shape)
    if axes is None:
        axes = (n - 1, m - 1 if m == 2 else m - 2)
    a, b = (axes, axes) if isinstance(axes, int) else axes
    a, b = a % n, b % m
    if not a or not b:
        raise InvalidArgumentError("batch_dot: axis 0 is that of the batch; take another one")
    if x.shape[a] != y.shape[b] or x.shape[0] != y.shape[0]:
        raise InvalidArgumentError(
            "batch_dot: the sizes of the axes and of the batches must be equal\n"
            f"  x  {tuple(x.shape)}  axis {a}\n  y  {tuple(y.shape)}  axis {b}"
        )
    letters = "abcdefghijklmnopqrstuvw"
    of_x = "z" + letters[: n - 1]
    of_y = "z" + letters[n - 1 : n + m - 2]
    summed = of_x[a]
    of_y = of_y[:b] + summed + of_y[b + 1 :]
    free_letters = [letter for letter in of_x[1:] + of_y[1:] if letter != summed]
    product = ops.einsum(f"{of_x},{of_y}->z{''.join(free_letters)}", x, y)
    return product if free_letters else ops.expand_dims(product, 1)


def stop_gradient(variables: Any) -> Any:
    """The same values as constants for gradients; of a tensor, or of each in a list."""
    if isinstance(variables, (list, tuple)):
        return type(variables)(ops.stop_gradient(x) for x in variables)
    return ops.stop_gradient(variables)


def gradients(loss: Any, variables: Any) -> list[Any]:
    """The derivatives of the sum of `loss` by each of `variables`, in a graph; see `tk.gradients`.

    Args:
        loss: tensor of the graph being traced, or list of them.
        variables: list of variables and tensors of it.

    Raises:
        RuntimeError: operations run at once here, where a tape has to record them.
    """
    return graph_gradients.gradients(loss, variables)


def switch(condition: TensorLike, then_expression: Any, else_expression: Any) -> Any:
    """One of two values, by a condition for all or for each element.

    Args:
        condition: a boolean or number without axes, or with as many as the values or fewer.
        then_expression: a tensor, or a function that gives one.
        else_expression: the same.

    Raises:
        InvalidArgumentError: the condition has more axes than the values.

    Example:
        >>> tk.keras.backend.switch(tk.constant(True), lambda: tk.ones(2), tk.zeros(2)).numpy()
        array([1., 1.], dtype=float32)
    """
    condition = ops.cast(condition, "bool")

    def branch_value(x: Any) -> Any:
        return convert_to_tensor(x() if callable(x) else x)

    if not len(condition.shape):
        return control_flow.cond(
            condition, lambda: branch_value(then_expression), lambda: branch_value(else_expression)
        )
    first, other = branch_value(then_expression), branch_value(else_expression)
    missing = len(first.shape) - len(condition.shape)
    if missing < 0:
        raise InvalidArgumentError(
            "switch: the condition may not have more axes than the values\n"
            f"  condition  {tuple(condition.shape)}\n  values     {tuple(first.shape)}"
        )
    if len(condition.shape) > 1:
        condition = ops.reshape(condition, (*condition.shape, *[1] * missing))
    return ops.where(condition, first, other)


def map_fn(
    fn: Callable[..., Any], elems: Any, name: str | None = None, dtype: DTypeLike | None = None
) -> Any:
    """`fn` of each element of `elems` along the first axis."""
    return _map_fn(fn, elems, dtype=dtype, name=name)
