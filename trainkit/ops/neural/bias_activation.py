"""Activations of features plus a bias in one operation, which saves the pass that adds it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, WHOLE_KERNEL
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.elementwise import bias_activation_tuned
from trainkit.kernels.reductions.reductions_tuned import leading_sum
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.core.vmap import ItemStack
from trainkit.ops.math.elementwise import add
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.gated_activations import gelu_erf, gelu_erf_gradient
from trainkit.ops.vmap_rules.shared_rules import by_formula


def _check(z: Any, bias: Any) -> None:
    if not z or len(bias) != 1 or (None not in (z[-1], bias[0]) and z[-1] != bias[0]):
        raise ShapeError(
            "biased_gelu: the bias needs one number for each feature.\n"
            f"  input  {tuple(z)}\n  bias   {tuple(bias)}"
        )


def _biased_rule(z: Spec, bias: Spec) -> Spec:
    _check(z.shape, bias.shape)
    return Spec(z.shape, shapes.float_dtype(z.dtype))


def _run_compiled(z: Array, bias: Array) -> Array | None:
    _check(z.shape, bias.shape)
    return bias_activation_tuned.gelu(z, bias)


@primitive(
    _biased_rule,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=bias_activation_tuned.gelu.facet(_run_compiled),
)
def biased_gelu(xp: ArrayModule, z: Array, bias: Array) -> Array:
    """Gaussian error linear unit of z (..., features) + bias (features,)."""
    _check(z.shape, bias.shape)
    return gelu_erf.primitive.run((shapes.as_float_array(z + bias),), {})


def _gradient_rule(g: Spec, z: Spec, bias: Spec) -> Any:
    return Spec(z.shape, z.dtype), Spec(bias.shape, bias.dtype)


def _sent_back(g: Array, z: Array, bias: Array, summed: Any) -> Any:
    """The gradients by a function that sums columns."""
    result = gelu_erf_gradient.primitive.run((g, z + bias), {})
    floats = result.astype(np.float32) if result.dtype.itemsize < 4 else result
    by_bias = summed(floats.reshape(-1, z.shape[-1]))
    return result, by_bias.astype(bias.dtype, copy=False)


def _compiled_gradient(g: Array, z: Array, bias: Array) -> Any:
    gradients = bias_activation_tuned.gelu_gradient(g, z, bias)
    return (
        _sent_back(g, z, bias, lambda flat: leading_sum(flat, 1))
        if gradients is None
        else gradients
    )


@primitive(
    _gradient_rule,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=bias_activation_tuned.gelu_gradient.facet(_compiled_gradient),
)
def biased_gelu_gradient(xp: ArrayModule, g: Array, z: Array, bias: Array) -> Any:
    """What `biased_gelu` sends back to z and bias."""
    return _sent_back(g, z, bias, lambda flat: flat.sum(axis=0))


def _second(gg: Any, out: Any, g: Tensor, z: Tensor, bias: Tensor) -> Any:
    by_g, by_inputs = replayed_second_gradient(
        lambda z, bias: gelu_erf(add(z, bias)), g, (z, bias), gg
    )
    return by_g, *by_inputs


biased_gelu.joint_gradient(lambda g, y, z, bias: biased_gelu_gradient(g, z, bias))
biased_gelu_gradient.joint_gradient(_second)


@biased_gelu.batch_by
def _gelu_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    z, bias = inputs
    if isinstance(bias, ItemStack):
        return _gelu_by_steps(primitive, inputs, settings, count)
    return primitive.op(z.stacked, bias)


_gelu_by_steps = by_formula(lambda z, bias: gelu_erf(add(z, bias)))


@biased_gelu_gradient.batch_by
@by_formula
def _gradient_by_steps(g: Any, z: Any, bias: Any) -> Any:
    by_z = gelu_erf_gradient(g, add(z, bias))
    return by_z, total(by_z, tuple(range(len(z.shape) - 1)))
