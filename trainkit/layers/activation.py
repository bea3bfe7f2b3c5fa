"""Activation functions as layers."""

from __future__ import annotations

from typing import Any

from trainkit import activations, ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
)
from trainkit.layers.base.arguments import keep, weight_of
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.ops.neural.softmax import powers_share


class Activation(Layer):
    """A function, element by element.

    Args:
        activation: function or its name.

    Example:
        >>> tk.layers.Activation("relu")(tk.constant([-1.0, 2.0])).numpy()
        array([0., 2.], dtype=float32)
    """

    _without_state = True

    def __init__(self, activation: ActivationLike, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return self.activation(inputs)


class ReLU(Layer):
    """max(x, 0); with settings a ceiling, a slope below the threshold, and a threshold.

    Args:
        max_value: greatest output, none by default.
        negative_slope: slope below the threshold.
        threshold: values below it count as negative.

    Raises:
        InvalidArgumentError: a setting is negative.

    Example:
        >>> tk.layers.ReLU(max_value=6.0)(tk.constant([-1.0, 3.0, 9.0])).numpy()
        array([0., 3., 6.], dtype=float32)
    """

    _without_state = True

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for name, value in (
            ("max_value", 0 if max_value is None else max_value),
            ("negative_slope", negative_slope),
            ("threshold", threshold),
        ):
            if value is None or value < 0:
                raise InvalidArgumentError(f"ReLU: {name} must be 0 or more, got {value}")
        self.max_value = max_value
        self.negative_slope = negative_slope
        self.threshold = threshold
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    """x where it is positive, `negative_slope * x` elsewhere.

    Args:
        negative_slope: 0 or more.

    Raises:
        InvalidArgumentError: it is negative.

    Example:
        >>> tk.layers.LeakyReLU(negative_slope=0.5)(tk.constant([-1.0, 1.0])).numpy()
        array([-0.5,  1. ], dtype=float32)
    """

    _without_state = True

    def __init__(self, negative_slope: float = 0.3, **kwargs: Any) -> None:
        if "alpha" in kwargs:  # the old name
            negative_slope = kwargs.pop("alpha")
        super().__init__(**kwargs)
        if negative_slope is None or negative_slope < 0:
            raise InvalidArgumentError(
                f"LeakyReLU: negative_slope must be 0 or more, got {negative_slope}"
            )
        self.negative_slope = negative_slope
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return ops.leaky_relu(inputs, self.negative_slope)


class ThresholdedReLU(Layer):
    """x where it is greater than `theta`, 0 elsewhere.

    Source: Konda, Memisevic and Krueger 2014, arXiv:1402.3337.

    Args:
        theta: 0 or more.

    Raises:
        InvalidArgumentError: it is negative.

    Example:
        >>> tk.layers.ThresholdedReLU(theta=1.0)(tk.constant([0.5, 1.0, 2.0])).numpy()
        array([0., 0., 2.], dtype=float32)
    """

    _without_state = True

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if theta is None or theta < 0:
            raise InvalidArgumentError(f"ThresholdedReLU: theta must be 0 or more, got {theta}")
        self.theta = float(theta)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs * ops.cast(ops.greater(inputs, self.theta), inputs.dtype)


class PReLU(Layer):
    """x where it is positive, alpha * x elsewhere, alpha being learned.

    Source: He et al. 2015, arXiv:1502.01852.
    Shapes: input and output (batch, ...), alpha the input's without the batch.

    Args:
        alpha_initializer: what alpha starts with.
        alpha_regularizer: penalty on it.
        alpha_constraint: bounds on it.
        shared_axes: axes along which one alpha serves, counted from 1.

    Example:
        >>> layer = tk.layers.PReLU(alpha_initializer=tk.initializers.Constant(0.5))
        >>> layer(tk.constant([[-1.0, 1.0]])).numpy()
        array([[-0.5,  1. ]], dtype=float32)
    """

    alpha_initializer: Any
    alpha_regularizer: Any
    alpha_constraint: Any
    shared_axes: Any

    def __init__(
        self,
        alpha_initializer: InitializerLike = "Zeros",
        alpha_regularizer: RegularizerLike | None = None,
        alpha_constraint: ConstraintLike | None = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        if shared_axes is not None:
            axes = shared_axes if isinstance(shared_axes, list | tuple) else [shared_axes]
            self.shared_axes = tuple(axes)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        shape = list(input_shape[1:])
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self.alpha = weight_of(self, "alpha", shape)
        fixed = {i: n for i, n in enumerate(input_shape) if i and i not in (self.shared_axes or ())}
        self.input_spec = InputSpec(ndim=len(input_shape), axes=fixed)

    def call(self, inputs: Any) -> Any:
        below = ops.negative(ops.relu(ops.negative(inputs)))
        return ops.add(ops.relu(inputs), ops.multiply(self.alpha.value(), below))


class ELU(Layer):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    Source: Clevert et al. 2015, arXiv:1511.07289.

    Args:
        alpha: factor.

    Example:
        >>> tk.layers.ELU()(tk.constant([-1.0, 1.0])).numpy().round(4)
        array([-0.6321,  1.    ], dtype=float32)
    """

    _without_state = True

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        return ops.elu(inputs, self.alpha)


class Softmax(Layer):
    """exp(x) / sum(exp(x)).

    Args:
        axis: the axis or axes along which the outputs add up to 1.

    Example:
        >>> tk.layers.Softmax()(tk.constant([[0.0, 0.0]])).numpy()
        array([[0.5, 0.5]], dtype=float32)
    """

    _without_state = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = tuple(axis) if isinstance(axis, list | tuple) else axis
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Softmax of the inputs; where `mask`, of their shape, is false the result is 0."""
        if mask is None:
            return powers_share(inputs, self.axis)
        mask = self._validate(mask, inputs)
        y = powers_share(ops.where(mask, inputs, _far_below(inputs)), self.axis)
        return ops.where(mask, y, ops.zeros((), y.dtype))

    def _validate(self, mask: Any, inputs: Any) -> Any:
        """The mask as bools; numbers count from above 0.5.

        Raises:
            ShapeError: it does not broadcast to the inputs.
        """
        have, want = tuple(mask.shape), tuple(inputs.shape)
        pairs = zip(reversed(have), reversed(want), strict=False)
        if len(have) > len(want) or any(m not in (1, None, n) and n is not None for m, n in pairs):
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: the mask must broadcast to the input.\n"
                f"  mask   {have}\n  input  {want}"
            )
        return mask if mask.dtype.is_bool else ops.greater(mask, 0.5)


def _far_below(x: Any) -> float:
    """A number that softmax makes 0 of, within the range of the dtype of `x`."""
    return -3e4 if x.dtype.name == "float16" else -1e9
