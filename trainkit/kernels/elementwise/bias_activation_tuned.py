"""When compiled activations of rows plus a bias pay."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.elementwise.elementwise_tuned import FEWEST
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32 = np.dtype(np.float32)
GELU = kernel_family.Family("biased_gelu", "elementwise.bias_activation_compiled", "gelu")
GELU_GRADIENT = kernel_family.Family(
    "biased_gelu_gradient", "elementwise.bias_activation_compiled", "gelu_gradient"
)

WORKERS = 16
"""How many parts sums over rows are made in; a fixed number, so that any machine gives the same."""
_PLAIN, _PLAIN_GRADIENT = 2.0, 3.3
"""Nanoseconds that the plain versions take for an element."""
_COMPILED, _COMPILED_GRADIENT = 0.22, 0.37
"""Nanoseconds that the compiled ones take."""


def _found(family: kernel_family.Family, nanoseconds: float, bias: Array, *arrays: Array) -> Any:
    if arrays[0].size < FEWEST or any(a.dtype is not _F32 for a in (bias, *arrays)):
        return None
    return family.find((), nanoseconds * 1e-9 * arrays[0].size)


def gelu(z: Array, bias: Array) -> Array | None:
    """GELU of z (..., features) + bias (features,), or `None` for the plain version."""
    run = _found(GELU, _PLAIN, bias, z)
    if run is None:
        return None
    y, features = np.empty(z.shape, np.float32), z.shape[-1]
    rows = (owned(z).reshape(-1, features), owned(bias), y.reshape(-1, features))
    run(*shared(_COMPILED * z.size), *rows)
    return y


def gelu_gradient(g: Array, z: Array, bias: Array) -> tuple[Array, Array] | None:
    """Its gradients by z and bias, or `None`."""
    run = _found(GELU_GRADIENT, _PLAIN_GRADIENT, bias, g, z)
    if run is None:
        return None
    result, features = np.empty(z.shape, np.float32), z.shape[-1]
    by_bias = np.empty((WORKERS, features), np.float32)
    given = (owned(g).reshape(-1, features), owned(z).reshape(-1, features), owned(bias))
    work = shared(_COMPILED_GRADIENT * z.size)
    run(*work, *given, result.reshape(-1, features), by_bias)
    return result, by_bias.sum(axis=0)
