"""Activations with one more argument than Keras's: both signs along an axis, a slope.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import needs_values, unknown
from trainkit.ops.math.elementwise import multiply, negative, tensor_of
from trainkit.ops.neural.activations import relu, sigmoid
from trainkit.ops.neural.gated_activations import silu as silu_


@needs_values("axis", gives=lambda a: unknown(a["features"]))
def crelu(features: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """relu(x) and relu(-x), one after the other along `axis`.

    Args:
        features: tensor of numbers.
        axis: int, or a scalar tensor.

    Example:
        >>> tk.nn.crelu([-1.0, 2.0]).numpy()
        array([0., 2., 1., 0.], dtype=float32)
    """
    x = convert_to_tensor(features)
    return concatenate([relu(x), relu(negative(x))], axis=plain(axis))


def silu(features: TensorLike, beta: TensorLike = 1.0) -> Tensor:
    """x * sigmoid(beta x).

    Args:
        features: tensor of floats.
        beta: factor of x in the sigmoid; cast to the dtype of `features`.

    Example:
        >>> tk.nn.silu([0.0, 1.0]).numpy().round(4)
        array([0.    , 0.7311], dtype=float32)
    """
    if isinstance(beta, float | int) and beta == 1:
        return silu_(features)
    x = convert_to_tensor(features)
    return multiply(x, sigmoid(multiply(tensor_of(beta, x.dtype), x)))


swish = silu
