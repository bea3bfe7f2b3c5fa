"""Activation functions of layers under their Keras names, and `get(name)`.

All work element by element and keep the shape, except that `softmax`, `log_softmax`, `sparsemax`
and `glu` look along an axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import Registry, serialize_setting
from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.ops import celu as celu
from trainkit.ops import elu as elu
from trainkit.ops import glu as glu
from trainkit.ops import hard_shrink as hard_shrink
from trainkit.ops import leaky_relu as leaky_relu
from trainkit.ops import log_softmax as log_softmax
from trainkit.ops import soft_shrink as soft_shrink
from trainkit.ops import sparsemax as sparsemax
from trainkit.ops import squareplus as squareplus
from trainkit.ops import threshold as threshold
from trainkit.ops.neural.softmax import powers_share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainkit.core.values.type_aliases import Axis, TensorLike

T = TypeVar("T")


ACTIVATIONS = Registry(
    "activations",
    "activation",
    {"exponential": ("exp",), "silu": ("swish",), "hard_silu": ("hard_swish",)},
)


@ACTIVATIONS.add
def linear(x: T) -> T:
    """`x` itself.

    Example:
        >>> tk.activations.linear(tk.constant([-1.0, 1.0])).numpy()
        array([-1.,  1.], dtype=float32)
    """
    return x


@ACTIVATIONS.add
def relu(
    x: TensorLike,
    negative_slope: float = 0.0,
    max_value: float | None = None,
    threshold: float = 0.0,
) -> Tensor:
    """max(x, 0), or with a ceiling, a slope below the threshold, and a threshold.

    Args:
        x: tensor.
        negative_slope: slope below the threshold, 0 or more.
        max_value: greatest result, 0 or more; none by default.
        threshold: values up to it count as negative.

    Raises:
        InvalidArgumentError: the slope or the greatest result is negative.

    Example:
        >>> tk.activations.relu(tk.constant([-1.0, 1.0])).numpy()
        array([0., 1.], dtype=float32)
        >>> tk.activations.relu(tk.constant([-1.0, 9.0]), max_value=6.0).numpy()
        array([0., 6.], dtype=float32)
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


@ACTIVATIONS.add
def gelu(x: TensorLike, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal draw is below x; by tanh if `approximate`.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.

    Args:
        approximate: take the tanh instead of the error function.

    Example:
        >>> tk.activations.gelu(tk.constant([-1.0, 1.0])).numpy().round(4)
        array([-0.1587,  0.8413], dtype=float32)
    """
    return ops.gelu(x, approximate=approximate)


@ACTIVATIONS.add
def selu(x: TensorLike) -> Tensor:
    """`elu` scaled so that activations keep mean 0 and variance 1. Source: arXiv:1706.02515.

    Example:
        >>> tk.activations.selu(tk.constant([-1.0, 1.0])).numpy().round(4)
        array([-1.1113,  1.0507], dtype=float32)
    """
    return ops.selu(x)


@ACTIVATIONS.add
def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6).

    Example:
        >>> tk.activations.relu6(tk.constant([-1.0, 9.0])).numpy()
        array([0., 6.], dtype=float32)
    """
    return ops.relu6(x)


@ACTIVATIONS.add
def exponential(x: TensorLike) -> Tensor:
    """exp(x).

    Example:
        >>> tk.activations.exponential(tk.constant([0.0])).numpy()
        array([1.], dtype=float32)
    """
    return ops.exp(x)


@ACTIVATIONS.add
def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)).

    Example:
        >>> tk.activations.sigmoid(tk.constant([0.0])).numpy()
        array([0.5], dtype=float32)
    """
    return ops.sigmoid(x)


@ACTIVATIONS.add
def hard_sigmoid(x: TensorLike) -> Tensor:
    """x / 6 + 1 / 2, clipped to [0, 1].

    Example:
        >>> tk.activations.hard_sigmoid(tk.constant([-9.0, 0.0, 9.0])).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return ops.hard_sigmoid(x)


@ACTIVATIONS.add
def sparse_sigmoid(x: TensorLike) -> Tensor:
    """(x + 1) / 2, clipped to [0, 1].

    Example:
        >>> tk.activations.sparse_sigmoid(tk.constant([-2.0, 0.0, 2.0])).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return ops.sparse_sigmoid(x)


@ACTIVATIONS.add
def log_sigmoid(x: TensorLike) -> Tensor:
    """log(1 / (1 + exp(-x))).

    Example:
        >>> tk.activations.log_sigmoid(tk.constant([0.0])).numpy().round(4)
        array([-0.6931], dtype=float32)
    """
    return ops.log_sigmoid(x)


@ACTIVATIONS.add
def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x). Source: Ramachandran et al. 2017, arXiv:1710.05941.

    Example:
        >>> tk.activations.silu(tk.constant([-1.0, 1.0])).numpy().round(4)
        array([-0.2689,  0.7311], dtype=float32)
    """
    return ops.silu(x)


@ACTIVATIONS.add
def hard_silu(x: TensorLike) -> Tensor:
    """x * hard_sigmoid(x). Source: Howard et al. 2019, arXiv:1905.02244.

    Example:
        >>> tk.activations.hard_silu(tk.constant([-9.0, 0.0, 9.0])).numpy() + 0.0
        array([0., 0., 9.], dtype=float32)
    """
    return ops.hard_silu(x)


@ACTIVATIONS.add
def mish(x: TensorLike) -> Tensor:
    """x * tanh(softplus(x)). Source: Misra 2019, arXiv:1908.08681.

    Example:
        >>> tk.activations.mish(tk.constant([-1.0, 1.0])).numpy().round(4)
        array([-0.3034,  0.8651], dtype=float32)
    """
    return ops.mish(x)


@ACTIVATIONS.add
def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent.

    Example:
        >>> tk.activations.tanh(tk.constant([0.0])).numpy()
        array([0.], dtype=float32)
    """
    return ops.tanh(x)


@ACTIVATIONS.add
def hard_tanh(x: TensorLike) -> Tensor:
    """x clipped to [-1, 1].

    Example:
        >>> tk.activations.hard_tanh(tk.constant([-9.0, 0.5, 9.0])).numpy()
        array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return ops.hard_tanh(x)


@ACTIVATIONS.add
def tanh_shrink(x: TensorLike) -> Tensor:
    """x - tanh(x).

    Example:
        >>> tk.activations.tanh_shrink(tk.constant([0.0, 1.0])).numpy().round(4)
        array([0.    , 0.2384], dtype=float32)
    """
    return ops.tanh_shrink(x)


@ACTIVATIONS.add
def softplus(x: TensorLike) -> Tensor:
    """log(1 + exp(x)).

    Example:
        >>> tk.activations.softplus(tk.constant([0.0])).numpy().round(4)
        array([0.6931], dtype=float32)
    """
    return ops.softplus(x)


@ACTIVATIONS.add
def sparse_plus(x: TensorLike) -> Tensor:
    """0 below -1, x above 1, (x + 1)**2 / 4 between.

    Example:
        >>> tk.activations.sparse_plus(tk.constant([-2.0, 0.0, 2.0])).numpy()
        array([0.  , 0.25, 2.  ], dtype=float32)
    """
    return ops.sparse_plus(x)


@ACTIVATIONS.add
def softsign(x: TensorLike) -> Tensor:
    """x / (1 + abs(x)).

    Example:
        >>> tk.activations.softsign(tk.constant([-1.0, 1.0])).numpy()
        array([-0.5,  0.5], dtype=float32)
    """
    return ops.softsign(x)


@ACTIVATIONS.add
def softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, an int or several.

    Example:
        >>> tk.activations.softmax(tk.constant([[0.0, 0.0]])).numpy()
        array([[0.5, 0.5]], dtype=float32)
    """
    return powers_share(x, axis)


swish = silu
hard_swish = hard_silu

for _function in (
    celu,
    elu,
    glu,
    hard_shrink,
    leaky_relu,
    log_softmax,
    soft_shrink,
    sparsemax,
    squareplus,
    threshold,
):
    ACTIVATIONS.add(_function)


@overload
def get(identifier: None) -> Callable[..., Any]: ...
@overload
def get(identifier: str | Mapping[str, Any]) -> Callable[..., Any]: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """An activation from its name, config, or itself; `None` means `linear`.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Raises:
        ValueError: nothing goes by that name.

    Example:
        >>> tk.activations.get("relu").__name__
        'relu'
    """
    return linear if identifier is None else ACTIVATIONS.get(identifier)


def serialize(activation: Callable[..., Any]) -> str | dict[str, Any]:
    """The name of an activation, or the config of an object.

    Args:
        activation: a function or an object.

    Example:
        >>> tk.activations.serialize(tk.activations.relu)
        'relu'
    """
    return serialize_setting(activation)


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The activation that `serialize` described.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Example:
        >>> tk.activations.deserialize("relu").__name__
        'relu'
    """
    return linear if config is None else ACTIVATIONS.deserialize(config, custom_objects)


describe_arguments(
    globals(),
    """
    x: tensor of any shape.
    threshold: where the two parts meet.
    axis: axis that is looked along.
    """,
)

_explain_unknown_names(globals())
