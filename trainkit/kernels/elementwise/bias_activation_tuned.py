"""Compiled activations of rows plus a bias, and what they and the plain versions cost."""

from __future__ import annotations

from trainkit.kernels.jit.array_kernel import ArrayKernel

gelu = ArrayKernel("biased_gelu", "elementwise.bias_activation_compiled", "gelu", "rows each")
"""GELU of z (..., features) + bias (features,), or `None` for the plain version."""

gelu_gradient = ArrayKernel(
    "biased_gelu_gradient", "elementwise.bias_activation_compiled", "gelu_gradient",
    "rows rows each", "rows shares",
)  # fmt: skip
"""Gradients of (g, z, bias) by z and bias, or `None`."""
