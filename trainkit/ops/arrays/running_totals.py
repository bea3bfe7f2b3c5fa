"""Running sums, products and log-sums along an axis, in either direction.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.arrays.creation import full_like
from trainkit.ops.arrays.pad_and_roll import flip
from trainkit.ops.arrays.shaping import as_tensor, refuse_bools
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import like, needs_values
from trainkit.ops.math.cumulative import cumprod as cumprod_
from trainkit.ops.math.cumulative import cumsum as cumsum_
from trainkit.ops.math.cumulative import cumulative_logsumexp as cumulative_logsumexp_
from trainkit.ops.math.cumulative import running_sum
from trainkit.ops.math.elementwise import cast


@needs_values("axis", gives=lambda a: like(a["x"]))
def cumsum(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Running sum along `axis`; `exclusive` leaves out each element, `reverse` goes backwards.

    Example:
        >>> tk.math.cumsum([1.0, 2.0, 3.0]).numpy()
        array([1., 3., 6.], dtype=float32)
        >>> tk.math.cumsum([1.0, 2.0, 3.0], exclusive=True, reverse=True).numpy()
        array([5., 3., 0.], dtype=float32)
    """
    if type(x) is Tensor and type(axis) is int and not exclusive:  # most calls
        if not x.dtype.is_bool:
            return running_sum(x, axis=axis, exclusive=False, reverse=bool(reverse))
    x = refuse_bools(as_tensor(x), "cumsum")
    return _cumulative(cumsum_, x, plain(axis), exclusive, reverse, 0)


@needs_values("axis", gives=lambda a: like(a["x"]))
def cumprod(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Running product along `axis`, without the element itself if `exclusive`, or backwards.

    Example:
        >>> tk.math.cumprod([1.0, 2.0, 3.0]).numpy()
        array([1., 2., 6.], dtype=float32)
    """
    x = refuse_bools(as_tensor(x), "cumprod")
    return _cumulative(cumprod_, x, plain(axis), exclusive, reverse, 1)


@needs_values("axis", gives=lambda a: like(a["x"]))
def cumulative_logsumexp(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Running log(sum(exp(x))) along `axis`.

    Example:
        >>> tk.math.cumulative_logsumexp([0.0, 0.0, 0.0]).numpy().round(4)
        array([0.    , 0.6931, 1.0986], dtype=float32)
    """
    x = as_tensor(x)
    lowest = float(x.dtype.min)
    return _cumulative(cumulative_logsumexp_, x, plain(axis), exclusive, reverse, lowest)


def _cumulative(
    running: Any, x: Tensor, axis: int, exclusive: bool, reverse: bool, neutral: Any
) -> Tensor:
    if reverse:
        x = flip(x, axis)
    if exclusive:
        size = x.shape[axis]
        first = full_like(_cut(x, axis, 0, 1), neutral)
        x = concatenate([first, _cut(x, axis, 0, size - 1)], axis=axis)
    y = running(x, axis=axis)
    if y.dtype is not x.dtype:
        y = cast(y, x.dtype)
    return flip(y, axis) if reverse else y


def _cut(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    index: list[Any] = [slice(None)] * len(x.shape)
    index[axis] = slice(start, stop)
    piece: Tensor = x[tuple(index)]
    return piece


describe_arguments(
    globals(),
    """
    x: tensor of numbers.
    axis: int, or a scalar tensor.
    exclusive: leave out the element itself.
    reverse: from the end to the start.
    """,
)
