"""Losses that are sums: of squares, of Poisson's likelihood, over the examples of a batch.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core import dtypes
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.creation import ones_like, zeros_like
from trainkit.ops.collective.denominators import summing_replicas
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.math.comparisons import greater_equal, less_equal, logical_and
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    exp,
    log,
    multiply,
    square,
    subtract,
    where,
)
from trainkit.ops.math.reductions import sum as sum_


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """sum(t**2) / 2.

    Args:
        t: tensor of floats.

    Example:
        >>> float(tk.nn.l2_loss([3.0, 4.0]))
        12.5
    """
    return divide(sum_(square(t)), 2)


def log_poisson_loss(
    targets: TensorLike, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """exp(log_input) - log_input * targets, plus Stirling's log(targets!) if asked for.

    Args:
        targets: counts, 0 or above.
        log_input: logs of the predicted means.
        compute_full_loss: add an approximation of log(targets!).

    Example:
        >>> tk.nn.log_poisson_loss([1.0], [0.0]).numpy()
        array([1.], dtype=float32)
    """
    c, z = convert_to_tensor(log_input), convert_to_tensor(targets)
    loss = subtract(exp(c), multiply(c, z))
    if not compute_full_loss:
        return loss
    stirling = z * log(z) - z + 0.5 * log(2 * 3.141592653589793 * z)
    inside = logical_and(greater_equal(z, 0), less_equal(z, 1))
    return add(loss, where(inside, zeros_like(z), stirling))


def compute_average_loss(
    per_example_loss: Any, sample_weight: TensorLike | None = None, global_batch_size: Any = None
) -> Tensor:
    """The sum of weighted losses divided by the size of the batch.

    Args:
        per_example_loss: (batch, ...).
        sample_weight: tensor that broadcasts with the losses.
        global_batch_size: the size of the batch; by default that of the first axis, times the
            number of replicas whose gradients are added up (`tk.distribute.Strategy.run`).

    Example:
        >>> float(tk.nn.compute_average_loss([1.0, 3.0], global_batch_size=4))
        1.0
    """
    loss = convert_to_tensor(per_example_loss)
    if sample_weight is not None:
        loss = multiply(loss, cast(sample_weight, loss.dtype))
    if global_batch_size is None:
        if loss.shape[0] is None:  # known when the graph runs
            rows = divide(sum_(ones_like(loss)), float(math.prod(loss.shape[1:])))
            return divide(sum_(loss), multiply(rows, float(summing_replicas())))
        size = loss.shape[0] * summing_replicas()
    else:
        size = plain(global_batch_size)
    return divide(sum_(loss), dtypes.as_dtype(loss.dtype).as_numpy_dtype(size))
