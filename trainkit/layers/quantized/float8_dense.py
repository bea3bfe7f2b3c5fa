"""Dense layers that train with products of numbers rounded to floats of 8 bits.

Inputs and kernel go through `float8_e4m3fn`, the gradient of the output through `float8_e5m2`. What
they are divided by comes from the greatest magnitudes of the last steps; both are variables that
optimizers put the "gradient" into.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.autodiff.custom_vjp import custom_gradient
from trainkit.layers.quantized.quantized_policies import QuantizedFloat8DTypePolicy
from trainkit.layers.quantized.quantized_projection import Projection
from trainkit.layers.quantized.variants import become
from trainkit.ops.neural.fake_quant import FLOAT8
from trainkit.quantizers.float8_scaling import (
    compute_float8_amax_history,
    compute_float8_scale,
    quantize_and_dequantize,
)

_FORWARD, _BACKWARD = "float8_e4m3fn", "float8_e5m2"
_WHAT = ("inputs", "kernel", "outputs_grad")


class Float8(Projection):
    """A kernel of floats that is rounded for each product."""

    mode = "float8"
    keeps_floats = True
    stored = (
        "kernel",
        "bias",
        *(f"{operand}_{kind}" for operand in _WHAT for kind in ("scale", "amax_history")),
    )

    @classmethod
    def build(cls, layer: Any, shape: tuple[int, ...], config: Any) -> None:
        length = getattr(
            layer.dtype_policy.at(layer._path),
            "amax_history_length",
            QuantizedFloat8DTypePolicy.default_amax_history_length,
        )
        before = list(layer._own)
        for operand in _WHAT:
            cls._add_trained(layer, f"{operand}_scale", (), "ones")
            cls._add_trained(layer, f"{operand}_amax_history", (length,), "zeros")
        # A layer built in this mode has them in front; optimizers in files go by that order.
        layer._own[:] = [*layer._own[len(before) :], *before]
        become(layer, cls)

    @staticmethod
    def _add_trained(layer: Any, name: str, shape: Any, start: str) -> None:
        variable = layer.add_weight(
            name,
            shape,
            initializer=start,
            dtype="float32",
            autocast=False,
            overwrite_with_gradient=True,
        )
        setattr(layer, name, variable)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if self.lora_enabled:
            raise NotImplementedError(f"layer {self.name!r}: float8 does not go with LoRA")
        return super().call(inputs, training)

    def _state(self, operand: str) -> tuple[Any, Any]:
        return tuple(
            self.__dict__[f"{operand}_{kind}"].value() for kind in ("scale", "amax_history")
        )

    def _product(self, inputs: Any, training: Any) -> Any:
        dtype = self.compute_dtype
        x = _round(inputs, *self._state("inputs"), dtype, bool(training))
        kernel = self.__dict__["kernel"].value()
        kernel = _round(kernel, *self._state("kernel"), dtype, bool(training))
        return _rounding_gradient(self._project(x, kernel), *self._state("outputs_grad"), dtype)

    def _finish(self, y: Any) -> Any:
        bias = self.bias
        if bias is not None:
            bias = bias.value()
            if self.compute_dtype == "float32":
                bias = ops.cast(ops.cast(bias, "bfloat16"), bias.dtype)  # as Keras adds it
            y = ops.add(y, bias)
        return self.activation(y)


def _update_scale(x: Any, scale: Any, history: Any, kind: str) -> tuple[Any, Any]:
    """The next scale and history, after `x`."""
    greatest = FLOAT8[kind][2]
    new_scale = compute_float8_scale(ops.max(history, axis=0), scale, greatest)
    return new_scale, compute_float8_amax_history(x, history)


def _round(x: Any, scale: Any, history: Any, dtype: Any, training: bool) -> Any:
    """`x` through 8 bits; its gradient is passed on, those of the others are their next values."""

    @custom_gradient
    def rounded(x: Any, scale: Any, history: Any) -> Any:
        following = _update_scale(x, scale, history, _FORWARD) if training else (None, None)
        result = quantize_and_dequantize(x, scale, _FORWARD, dtype)
        return result, lambda g: (g, *following)

    return rounded(x, scale, history)


def _rounding_gradient(y: Any, scale: Any, history: Any, dtype: Any) -> Any:
    """`y` as it is, whose gradient goes through 8 bits."""

    @custom_gradient
    def passed(y: Any, scale: Any, history: Any) -> Any:
        def backward(g: Any) -> Any:
            following = _update_scale(g, scale, history, _BACKWARD)
            return quantize_and_dequantize(g, scale, _BACKWARD, dtype), *following

        return y, backward

    return passed(y, scale, history)
