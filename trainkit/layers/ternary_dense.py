"""`TernaryDense`: a dense layer that trains with weights out of -1, 0 and 1."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
)
from trainkit.layers.base.arguments import keep, weight_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.quantized import quantization
from trainkit.layers.quantized.variants import HeldWeight


class TernaryDense(Layer):
    """activation(scale * inputs @ sign(kernel where |kernel| > threshold) + bias).

    The gradient of the signs is that of the identity. `quantize("ternary")` keeps the signs alone,
    five in a byte; the outputs stay what they are.

    Source: BitNet b1.58, arXiv:2402.17764, section 3.1.
    Shapes: input (batch, ..., features), output (batch, ..., units), kernel (features, units), bias
    (units,).

    Args:
        units: number of outputs.
        threshold: weights up to it count as 0, and the scale is 1; `None` for half of the mean
            magnitude, which the scale is then.
        activation: function or its name; none by default.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, bias_constraint: bounds on the weights.

    Raises:
        ValueError: units is no int above 0, or threshold below 0.

    Example:
        >>> layer = tk.layers.TernaryDense(4)
        >>> layer(tk.ones((2, 3))).shape
        TensorShape([2, 4])
    """

    units: Any
    threshold: float | None
    activation: Any
    use_bias: bool
    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any

    _quantization = quantization.LayerQuantization("trainkit.layers.quantized.dense_variants")
    enable_lora = quantization.enable_lora
    lora_enabled = False
    variable_serialization_spec = quantization.serialization_spec
    _kernel = HeldWeight("kernel")
    quantization_config = None

    def __init__(
        self,
        units: int,
        threshold: float | None = None,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.units = whole(self, "units", units)
        if threshold is not None and (not isinstance(threshold, int | float) or threshold < 0):
            raise InvalidArgumentError(
                f"TernaryDense {self.name!r}: threshold must be None or a float of 0 or more, got "
                f"{threshold!r}"
            )
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        features = input_shape[-1]
        if self._quantization.builds_floats(self, (features, self.units)):
            self.kernel = weight_of(self, "kernel", (features, self.units))
        self.bias = None
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.units,))
        self.input_spec = InputSpec(min_ndim=2, axes={-1: features})

    def _ternary_kernel(self) -> Any:
        """The signs, whose gradient is that of the kernel."""
        kernel = self.kernel.value()
        signs, _ = ternary_kernel(kernel, self.threshold)
        return ops.add(kernel, ops.stop_gradient(ops.subtract(signs, kernel)))

    def call(self, inputs: Any) -> Any:
        y = ops.matmul(inputs, self._ternary_kernel())
        if self.threshold is None:
            y = ops.multiply(y, ops.mean(ops.abs(self.kernel.value())))
        return self.activation(y if self.bias is None else ops.add(y, self.bias.value()))


def ternary_kernel(kernel: Any, threshold: float | None) -> tuple[Any, Any]:
    """Signs of the weights above the threshold, 0 for others, and the scale.

    Args:
        kernel: floats.
        threshold: `None` for half of the mean magnitude; the scale is that mean then, else 1.
    """
    size = ops.abs(kernel)
    mean = ops.mean(size)
    bound = ops.multiply(mean, 0.5) if threshold is None else threshold
    signs = ops.multiply(ops.sign(kernel), ops.cast(ops.greater(size, bound), kernel.dtype))
    return signs, (mean if threshold is None else ops.ones_like(mean))
