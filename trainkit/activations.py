"""Activation functions of layers under their Keras names, and `get(name)`.

All work element by element and keep the shape, except that `softmax`, `log_softmax`, `sparsemax`
and `glu` look along an axis.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import Registry, serialize_object
from trainkit.core.tensor import Tensor
from trainkit.ops.neural.softmax import powers_share

ACTIVATIONS = Registry("activations", "activation")


def linear(x: Any) -> Any:
    """`x` itself."""
    return x


def relu(
    x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Any:
    """max(x, 0), or with a ceiling, a slope below the threshold, and a threshold.

    Args:
        x: tensor.
        negative_slope: slope below the threshold, 0 or more.
        max_value: greatest result, 0 or more; none by default.
        threshold: values up to it count as negative.

    Raises:
        InvalidArgumentError: the slope or the greatest result is negative.
    """
    if not negative_slope and not threshold:
        if max_value == 6:
            return ops.relu6(x)
        y = ops.relu(x)
        return y if max_value is None else ops.minimum(y, max_value)
    if negative_slope < 0 or (max_value is not None and max_value < 0):
        raise InvalidArgumentError(
            f"relu: negative_slope={negative_slope} and max_value={max_value} must be 0 or more"
        )
    if max_value is None and not threshold:
        return ops.leaky_relu(x, negative_slope)
    y = ops.where(ops.greater(x, threshold), x, ops.zeros_like(x))
    y = y if max_value is None else ops.minimum(y, max_value)
    if not negative_slope:
        return y
    return ops.subtract(y, ops.multiply(ops.relu(ops.subtract(threshold, x)), negative_slope))


def gelu(x: Any, approximate: bool = False) -> Any:
    """X times the probability that a standard normal draw is below x; by tanh if `approximate`.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.
    """
    return ops.gelu(x, approximate=approximate)


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """X where it is positive, `negative_slope * x` elsewhere."""
    return ops.leaky_relu(x, negative_slope)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """The value where it is positive, alpha * (exp(x) - 1) elsewhere.

    Source: Clevert et al. 2015, arXiv:1511.07289.
    """
    return ops.elu(x, alpha)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)). Source: Barron 2017, arXiv:1704.07483."""
    return ops.celu(x, alpha)


def selu(x: Any) -> Any:
    """`elu` scaled so that activations keep mean 0 and variance 1. Source: arXiv:1706.02515."""
    return ops.selu(x)


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6)."""
    return ops.relu6(x)


def exponential(x: Any) -> Any:
    """exp(x)."""
    return ops.exp(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return ops.sigmoid(x)


def hard_sigmoid(x: Any) -> Any:
    """X / 6 + 1 / 2, clipped to [0, 1]."""
    return ops.hard_sigmoid(x)


def sparse_sigmoid(x: Any) -> Any:
    """(x + 1) / 2, clipped to [0, 1]."""
    return ops.sparse_sigmoid(x)


def log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    return ops.log_sigmoid(x)


def silu(x: Any) -> Any:
    """X * sigmoid(x). Source: Ramachandran et al. 2017, arXiv:1710.05941."""
    return ops.silu(x)


def hard_silu(x: Any) -> Any:
    """X * hard_sigmoid(x). Source: Howard et al. 2019, arXiv:1905.02244."""
    return ops.hard_silu(x)


def mish(x: Any) -> Any:
    """X * tanh(softplus(x)). Source: Misra 2019, arXiv:1908.08681."""
    return ops.mish(x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return ops.tanh(x)


def hard_tanh(x: Any) -> Any:
    """X clipped to [-1, 1]."""
    return ops.hard_tanh(x)


def tanh_shrink(x: Any) -> Any:
    """X - tanh(x)."""
    return ops.tanh_shrink(x)


def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    """0 where abs(x) <= threshold, x elsewhere."""
    return ops.hard_shrink(x, threshold)


def soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    """X moved towards 0 by `threshold`, and no further than 0."""
    return ops.soft_shrink(x, threshold)


def threshold(x: Any, threshold: float, default_value: float) -> Any:
    """X where it is above `threshold`, `default_value` elsewhere."""
    return ops.threshold(x, threshold, default_value)


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return ops.softplus(x)


def squareplus(x: Any, b: float = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2. Source: Barron 2021, arXiv:2112.11687."""
    return ops.squareplus(x, b)


def sparse_plus(x: Any) -> Any:
    """0 below -1, x above 1, (x + 1)**2 / 4 between."""
    return ops.sparse_plus(x)


def softsign(x: Any) -> Any:
    """X / (1 + abs(x))."""
    return ops.softsign(x)


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, an int or several."""
    return powers_share(x, axis)


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """log(softmax(x)) along `axis`."""
    return ops.log_softmax(x, axis)


def sparsemax(x: Any, axis: int = -1) -> Tensor:
    """The probability vector nearest to x along `axis`. Source: Martins 2016, arXiv:1602.02068."""
    return ops.sparsemax(x, axis)


def glu(x: Any, axis: int = -1) -> Tensor:
    """First half times sigmoid of second half along `axis`.

    Source: Dauphin et al. 2016, arXiv:1612.08083.
    """
    return ops.glu(x, axis)


swish = silu
hard_swish = hard_silu

for _function, _aliases in {
    linear: (),
    relu: (),
    gelu: (),
    leaky_relu: (),
    elu: (),
    celu: (),
    selu: (),
    relu6: (),
    exponential: ("exp",),
    sigmoid: (),
    hard_sigmoid: (),
    sparse_sigmoid: (),
    log_sigmoid: (),
    silu: ("swish",),
    hard_silu: ("hard_swish",),
    mish: (),
    tanh: (),
    hard_tanh: (),
    tanh_shrink: (),
    hard_shrink: (),
    soft_shrink: (),
    threshold: (),
    softplus: (),
    squareplus: (),
    sparse_plus: (),
    softsign: (),
    softmax: (),
    log_softmax: (),
    sparsemax: (),
    glu: (),
}.items():
    ACTIVATIONS.add(_function, *_aliases)


def get(identifier: Any) -> Any:
    """An activation from its name, config, or itself; `None` means `linear`.

    Raises:
        ValueError: nothing goes by that name.
    """
    return linear if identifier is None else ACTIVATIONS.get(identifier)


def serialize(activation: Any) -> Any:
    """The name of an activation, or the config of an object."""
    return serialize_object(activation)


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The activation that `serialize` described."""
    return linear if config is None else ACTIVATIONS.deserialize(config, custom_objects)
